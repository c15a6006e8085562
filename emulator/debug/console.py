"""The debugger's prompt, and the same commands from a list."""

from __future__ import annotations

import argparse
import cmd
import contextlib
import inspect
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import numpy as np

from ..engine.effects import Effect
from ..engine.registers import UNSET
from ..machine.formats import cute_layouts
from ..machine.launch.shared_names import shared_variables, source_name
from ..machine.launch.source import source_place
from ..machine.topology import Cta, Warp
from ..ptx.flow import EXIT
from ..ptx.syntax import Reg
from ..tensors import numbers, register_text, shown, width_of
from .places import (
    barrier_name,
    brief,
    integers,
    is_named,
    line_of,
    mbarriers,
    shared_range,
    shortened,
    sliced,
    triple,
    variable_named,
    warp_name,
    where,
)
from .session import Session
from .stops import ArrivalStop, Breakpoint, RegisterWatch, Watch, Who, barrier_line, phases
from .views import Matrix, array_views, boxes, global_tensor, shared, tensor_memory

HISTORY: Final = Path.home() / ".ptx-emulator-history"
HISTORY_LINES: Final = 1000
SHOWN_REGISTERS: Final = 64
WATCHED: Final = ("smem", "tmem", "global", "mbarrier", "reg")


class Arguments(argparse.ArgumentParser):
    """A parser of one command's arguments that raises ValueError."""

    def error(self, message: str) -> NoReturn:
        """Raise ValueError with the usage."""
        raise ValueError(f"{message}\n{self.format_usage().strip()}")


class Console(cmd.Cmd):
    """Commands on a stopped launch.

    commands: executed one after another in place of a prompt; where they end, the launch runs to its end without stops.
    None for a prompt. out: where answers go.
    """

    prompt = "(emulator) "
    intro = ""
    ruler = ""
    doc_header = "Commands (help NAME describes one):"

    def __init__(self, commands: Iterable[str] | None = None, out: IO[str] | None = None) -> None:
        super().__init__(stdout=out or sys.stdout)
        self._commands = None if commands is None else list(commands)
        self._session: Session
        self._again = ""

    def stopped(self, session: Session, reason: str) -> None:
        """Say why the launch stopped, and execute commands until one goes on."""
        self._session = session
        if session.count == 0 and session.running is not None:
            launch = session.launch
            self._say(f"launch {session.launches}: {launch.kernel.name}, grid {launch.grid}, block {launch.block}")
        self._say(f"[{session.count}] {reason}")
        if self._commands is None:
            with _history():
                self._ask()
            return
        while self._commands:
            line = self._commands.pop(0)
            self._say(f"{self.prompt}{line}")
            if self.onecmd(line):
                return
        session.detached = True

    def _ask(self) -> None:
        """Execute commands from the prompt until one goes on. Ctrl-C drops the line."""
        while True:
            self._session.asking(True)
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                self._say("^C")
            else:
                return

    def precmd(self, line: str) -> str:
        """Tell the session that a line was read."""
        self._session.asking(False)
        return line

    def postcmd(self, stop: bool, line: str) -> bool:
        """Tell the session that the next line is read, unless the launch goes on."""
        self._session.asking(not stop)
        return stop

    def onecmd(self, line: str) -> bool:
        """Execute a command or print its error. Return whether the launch goes on."""
        if line == "EOF":  # Ctrl-D
            self._say("quit")
            return self.do_quit("")
        try:
            return bool(super().onecmd(line))
        except (ValueError, OSError) as why:
            self._say(f"error: {why}")
            return False

    def emptyline(self) -> bool:
        """Repeat the last step."""
        return self.onecmd(self._again) if self._again else False

    def default(self, line: str) -> None:
        """Name the known commands."""
        known = ", ".join(name[3:] for name in self.get_names() if name.startswith("do_"))
        raise ValueError(f"unknown command {line.split()[0]!r}; known: {known}")

    # going on ------------------------------------------------------------------------------------------------------

    def do_continue(self, _: str) -> bool:
        """continue: go on to the next stop."""
        return True

    def do_step(self, text: str) -> bool:
        """step [N]: go on until this warp comes to another source line, N times."""
        self._session.step_lines(_count(text))
        self._again = f"step {text}"
        return True

    def do_stepi(self, text: str) -> bool:
        """stepi [N]: execute N instructions of this warp."""
        self._session.step_instructions(_count(text))
        self._again = f"stepi {text}"
        return True

    def do_block(self, _: str) -> bool:
        """block: go on until another warp has to wait."""
        self._session.until_another_blocks()
        return True

    def do_back(self, text: str) -> bool:
        """back [N]: run again to where this warp was N instructions ago."""
        self._session.back(_count(text))
        return True

    def do_goto(self, text: str) -> bool:
        """goto N: run to the moment before the launch's instruction N, the number that a stop shows in brackets."""
        if not text.isdecimal():
            raise ValueError(f"goto {text!r}; allowed: the number of an instruction, from 0")
        self._session.go_to(int(text))
        return True

    def do_help(self, arg: str) -> None:
        """help [NAME]: list the commands, or describe one."""
        described = getattr(self, f"do_{arg}", None) if arg else None
        if described is None:
            super().do_help(arg)
        else:
            self._say(inspect.cleandoc(described.__doc__))

    def do_quit(self, _: str) -> bool:
        """quit: run the script to its end without stops."""
        self._session.detached = True
        return True

    def do_kill(self, _: str) -> bool:
        """kill: end the script here."""
        raise SystemExit(0)

    # stops ---------------------------------------------------------------------------------------------------------

    def do_break(self, text: str) -> None:
        """break LINE|FILE:LINE|ptx:LINE [-w WARPS] [-c CTA] [--after N]: stop before a line; --after passes N hits.

        break mbarrier NAME [N] [-c CTA]: stop at the N-th arrival at an mbarrier, counted from its initialisation.
        """
        words = shlex.split(text)
        number = self._session.next_number()
        if words[:1] == ["mbarrier"]:
            parser = Arguments("break mbarrier", add_help=False)
            parser.add_argument("name")
            parser.add_argument("arrival", nargs="?", type=int, default=1)
            options = _parsed(parser, words[1:], warps=False)
            text = f"arrival {options.arrival} at mbarrier {options.name}"
            self._add(ArrivalStop(number, text, options.who, options.name, options.arrival))
            return
        parser = Arguments("break", add_help=False)
        parser.add_argument("line")
        parser.add_argument("--after", type=int, default=0)
        options = _parsed(parser, words)
        kernel = self._session.launch.kernel
        line = line_of(options.line, kernel)
        self._add(Breakpoint(number, str(line), options.who, line.instructions(kernel), options.after))

    def do_watch(self, text: str) -> None:
        """watch smem NAME|ADDRESS[+BYTES] [-c CTA]: stop when shared memory changes.

        watch tmem COLUMNS [LANES] [-c CTA]: stop when tensor memory changes; ranges are FIRST:END.
        watch global NAME[INDEX]: stop when elements of a tensor of the program change.
        watch mbarrier NAME [-c CTA]: stop when an mbarrier's phase ends.
        watch reg %NAME [-w WARPS] [-c CTA]: stop when a register changes.
        """
        parser = Arguments("watch", add_help=False)
        parser.add_argument("what", choices=WATCHED)
        parser.add_argument("where", nargs="+")
        options = _parsed(parser, shlex.split(text))
        making: dict[str, Callable[..., Any]] = {
            "smem": self._watch_shared, "tmem": self._watch_tensor_memory, "global": self._watch_global,
            "mbarrier": self._watch_phase, "reg": self._watch_register,
        }  # fmt: skip
        self._add(making[options.what](self._session.next_number(), options.who, *options.where))

    def do_delete(self, text: str) -> None:
        """delete [N]: delete stop N, or all."""
        session = self._session
        if text and text not in [str(stop.number) for stop in session.stops]:
            raise ValueError(
                f"stop {text}; there are {', '.join(str(stop.number) for stop in session.stops) or 'none'}"
            )
        session.stops = [stop for stop in session.stops if text and str(stop.number) != text]

    def do_stops(self, _: str) -> None:
        """List the breakpoints and watches."""
        self._say(*map(str, self._session.stops))

    # looking -------------------------------------------------------------------------------------------------------

    def do_where(self, text: str) -> None:
        """where: the warp, its active lanes, its instruction and what it waits for."""
        warp, kernel = self._session.focus, self._session.launch.kernel
        self._say(
            f"[{self._session.count}] {warp_name(warp)}, lanes {warp.bits & ~warp.ended:#010x}: {self._doing(warp)}"
        )
        if not warp.done and warp.pc != EXIT:
            self._say(where(kernel, warp.pc))

    def do_warps(self, _: str) -> None:
        """warps: the position of every warp, and the barrier or operation that it waits for."""
        for warp in self._session.warps:
            mark = ">" if warp is self._session.warp else " "
            self._say(f"{mark} {warp_name(warp)}: {self._doing(warp)}")

    def do_warp(self, text: str) -> None:
        """warp N [X,Y,Z]: make another warp the one that commands are about, of this CTA or of CTA X,Y,Z."""
        words = text.split()
        if not words or not words[0].isdecimal():
            raise ValueError(f"warp {text!r}; allowed: WARP [X,Y,Z]")
        cta = triple(words[1]) if len(words) > 1 else self._session.focus.cta.ctaid
        found = [w for w in self._session.warps if w.index == int(words[0]) and w.cta.ctaid == cta]
        if not found:
            raise ValueError(f"warp {words[0]} of CTA {cta} is not running")
        self._session.warp = found[0]
        self.do_where("")

    def do_barriers(self, _: str) -> None:
        """barriers: mbarriers with phase, arrivals and bytes, and the named barriers at which warps have arrived."""
        for cta in self._ctas():
            self._say(f"CTA {cta.name}")
            self._say(*(f"  mbarrier {barrier_line(barrier)}" for barrier in mbarriers([cta])))
            self._say(*(f"  {named.state()}" for named in cta.barriers.values() if named.generation.arrived))

    def do_pending(self, _: str) -> None:
        """pending: asynchronous operations in flight, and the last that completed."""
        session = self._session
        for issued in session.pending.values():
            self._say(
                f"in flight since {issued.count}: {warp_name(issued.warp)}, {brief(session.launch.kernel, issued.at)}"
            )
        for count, issued in session.finished:
            self._say(f"completed at {count}: {warp_name(issued.warp)}, {brief(session.launch.kernel, issued.at)}")

    def do_regs(self, text: str) -> None:
        """regs [PATTERN]: the warp's registers that are still needed, or all whose names contain PATTERN.

        Each has the source line that writes it.
        """
        session, warp = self._session, self._session.focus
        live, writers = session.program.live(warp), _writers(session.program.effects, warp.pc)
        chosen = [r for r in writers if (text in r.name if text else r in live)]
        lines = []
        for register in sorted(chosen, key=lambda r: (r.type, len(r.name), r.name)):
            value = session.program.value(warp, register)
            if value is not None and not _never_written(value):
                place = source_place(session.launch.kernel, writers[register])
                line = f"  # {place.text}" if place is not None else ""
                lines.append(f"{register.name:<8} .{register.type:<4} {_lanes_text(value)}{line}")
        left = len(lines) - SHOWN_REGISTERS
        self._say(*lines[:SHOWN_REGISTERS], *([f"  {left} more; give a PATTERN"] if left > 0 else []))

    def do_print(self, text: str) -> None:
        """print %REGISTER [TYPE]: a register in every lane, as a PTX type (b32, s32, f32, bf16, f16, e4m3, ...)."""
        words = text.split()
        if not 1 <= len(words) <= 2:
            raise ValueError(f"print {text!r}; allowed: %REGISTER [TYPE]")
        register = self._register(words[0])
        value = self._session.program.value(self._session.focus, register)
        if value is None:
            raise ValueError(f"{register.name}: nothing reads this register, so it has no place")
        if _never_written(value):
            self._say(f"{register.name}: nothing has written it yet")
            return
        kind = words[1] if len(words) > 1 else register.type
        if register.type == "pred":
            self._say(f"{register.name}: lanes {int(np.packbits(value, bitorder='little').view(np.uint32)[0]):#010x}")
            return
        parts = numbers(value.reshape(32, -1).view(f"u{min(width_of(kind), value.itemsize)}"), kind)
        for first in range(0, 32, 8):
            row = (" ".join(shown(part, kind) for part in lane) for lane in parts[first : first + 8])
            self._say(f"  lanes {first:>2} to {first + 7:>2}: {'  '.join(row)}")

    def do_list(self, text: str) -> None:
        """list [N]: N PTX lines around the warp's instruction, each with its source line."""
        kernel, at = self._session.launch.kernel, self._session.focus.pc
        count = _count(text) if text else 8
        last = None
        for i in range(max(at - count // 2, 0), min(at + count // 2 + 1, len(kernel.instrs))):
            place = source_place(kernel, i)
            if place is not None and place != last:
                self._say(f"  {place}")
            last = place
            self._say(f"{'>' if i == at else ' '} {kernel.instrs[i].line:>5}: {shortened(kernel.instrs[i].text)}")

    def do_smem(self, text: str) -> None:
        """smem NAME|ADDRESS[+BYTES] [LAYOUT] [-t TYPE] [--swizzle 32|64|128] [-c CTA] [--diff FILE.npy]: shared memory.

        NAME is an array or variable in shared memory, NAME[STAGE] a stage of it, or a tensor that TMA copies: then its
        boxes are shown in the tensor's coordinates. An array of CuTeDSL has the layout that the source gives it.
        LAYOUT is a CuTe layout, like '(8,64):(64,1)' or 'S<3,4,3> o 0 o (8,64):(64,1)', in elements.
        --swizzle applies TMA's swizzle to byte addresses. Unwritten elements are shown as ?.
        """
        parser = _matrix_parser("smem")
        parser.add_argument("name")
        parser.add_argument("layout", nargs="?")
        parser.add_argument("--swizzle", type=int, default=0)
        options = _parsed(parser, shlex.split(text), warps=False)
        found = False
        for cta in self._ctas(options.who):
            for matrix in self._shared(cta, options):
                found = True
                self._show(matrix, options)
        if not found:
            raise ValueError(self._unknown_shared(options.name))

    def do_tmem(self, text: str) -> None:
        """tmem COLUMNS [LANES] [-t TYPE] [-c CTA] [--diff FILE.npy]: tensor memory, like `tmem 0:64 0:32 -t f32`.

        A row is a lane. TYPE is f32, or a narrower one that is packed in columns, like bf16 or e4m3.
        """
        parser = _matrix_parser("tmem", "f32")
        parser.add_argument("columns")
        parser.add_argument("lanes", nargs="?", default="0:128")
        options = _parsed(parser, shlex.split(text), warps=False)
        for cta in self._ctas(options.who):
            self._show(tensor_memory(cta, integers(options.columns), integers(options.lanes), options.type), options)

    def do_global(self, text: str) -> None:
        """global NAME[INDEX] [--diff FILE.npy]: a tensor of the program, like `global o[3, 0:8]`."""
        parser = _matrix_parser("global")
        parser.add_argument("element", nargs="+")
        options = _parsed(parser, shlex.split(text), warps=False)
        self._show(global_tensor(*sliced(" ".join(options.element), self._session.tensors)), options)

    def do_tensors(self, _: str) -> None:
        """tensors: the tensors of the program that launches, which `global` and `watch global` name."""
        for tensor in self._session.tensors.values():
            self._say(f"{tensor.name}: {tensor.kind} {list(tensor.shape)} at {tensor.address:#x}")

    def do_findings(self, _: str) -> None:
        """Print the findings of this launch so far."""
        found = self._session.launch.findings
        self._say(*(f"{type(fault).__name__}: {fault}" for fault in found) if found else ("none",))

    do_b, do_c, do_s, do_si, do_p, do_l, do_w = do_break, do_continue, do_step, do_stepi, do_print, do_list, do_where
    do_bt, do_q = do_where, do_quit

    def get_names(self) -> list[str]:
        """Return the names of the commands without their abbreviations, for `help`."""
        return [name for name in super().get_names() if not name.startswith("do_") or len(name) > 5]

    def completenames(self, text: str, *_ignored: Any) -> list[str]:
        """Complete a command."""
        found = [name[3:] for name in self.get_names() if name.startswith(f"do_{text}")]
        return found if len(found) > 1 else [f"{name} " for name in found]

    def completedefault(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Complete names of registers, shared variables, mbarriers and tensors."""
        kernel = self._session.launch.kernel
        barriers = [barrier_name(barrier) for cta in self._ctas() for barrier in mbarriers([cta])]
        variables = [source_name(variable.name) for variable in shared_variables(kernel)]
        known = {register.name for register in kernel.registers}.union(variables, barriers, self._session.tensors)
        return sorted(name for name in known if name.startswith(text))

    def complete_watch(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Complete what to watch, then its name."""
        if len(line[:begin].split()) > 1:
            return self.completedefault(text, line, begin, end)
        return [kind for kind in WATCHED if kind.startswith(text)]

    # parts of commands ---------------------------------------------------------------------------------------------

    def _say(self, *lines: str) -> None:
        for line in lines:
            self.stdout.write(line + "\n")
        self.stdout.flush()

    def _add(self, stop: Any) -> None:
        self._session.add(stop)
        self._say(f"stop {stop}")

    def _ctas(self, who: Who | None = None) -> Sequence[Cta]:
        """Return the CTAs that are named, else that of the warp in focus."""
        if who is None or who.ctas is None:
            return [self._session.focus.cta]
        found = [cta for cluster in self._session.clusters for cta in cluster.ctas if who.has_cta(cta)]
        if not found:
            raise ValueError(f"CTA {', '.join(map(str, who.ctas))} is not running")
        return found

    def _doing(self, warp: Warp) -> str:
        kernel = self._session.launch.kernel
        if warp.done:
            return "has ended"
        if warp.waiting is not None:
            return f"waits for {warp.waiting.text()}, at {brief(kernel, warp.pc)}"
        return f"at {brief(kernel, warp.pc)}" if warp.pc != EXIT else "has ended"

    def _register(self, name: str) -> Reg:
        found = next((r for e in self._session.program.effects for r in e.writes if r.name == name), None)
        if found is None:
            raise ValueError(
                f"register {name!r}: no instruction of the kernel writes it; `regs` lists those that have values"
            )
        return found

    def _show(self, matrix: Matrix, options: argparse.Namespace) -> None:
        reference = None if options.diff is None else np.load(options.diff)
        self._say(*matrix.lines(reference, options.tolerance, options.all))
        if options.save is not None:
            np.save(options.save, matrix.values)
            self._say(f"  saved to {options.save}")

    def _shared(self, cta: Cta, options: argparse.Namespace) -> list[Matrix]:
        name, stage = options.name, None
        array = variable_named(cta, name)
        if array is None and name.endswith("]"):
            name, _, inside = name[:-1].partition("[")
            array, stage = variable_named(cta, name), integers(inside)
        if array is not None and array.view and not (options.layout or options.type or options.swizzle):
            return array_views(cta, array)[slice(None) if stage is None else slice(stage.start, stage.stop)]
        known = shared_range(cta, options.name)
        if known is None:
            return list(boxes(self._session.loads(cta), cta, options.name, self._session.tensors))
        kind, layout = options.type or "b32", None if options.layout is None else cute_layouts.parse(options.layout)
        return [shared(cta, *known, kind, layout, options.swizzle)]

    def _unknown_shared(self, name: str) -> str:
        variables = [source_name(v.name) for v in shared_variables(self._session.launch.kernel)]
        return (
            f"{name!r} is no shared variable ({', '.join(variables) or 'none'}), no address, and no tensor of which "
            "TMA copied a box to this CTA yet"
        )

    def _watch_shared(self, number: int, who: Who, name: str) -> Watch:
        known = shared_range(self._session.focus.cta, name)
        if known is None:
            raise ValueError(self._unknown_shared(name))
        offset, size = known

        def read(cta: Cta) -> np.ndarray:
            return cta.smem.bytes[offset : offset + size].copy()

        return Watch(number, f"shared memory {name}", who, read, _changed_bytes)

    def _watch_tensor_memory(self, number: int, who: Who, columns: str, lanes: str = "0:128") -> Watch:
        c, n = integers(columns), integers(lanes)

        def read(cta: Cta) -> np.ndarray | None:
            if "tmem" not in vars(cta):
                return None
            return cta.tmem.cells[c.start : c.stop, n.start : n.stop].copy()

        def describe(before: np.ndarray, new: np.ndarray) -> str:
            column, lane = (int(i) for i in np.argwhere(before != new)[0])
            bits = before[column, lane], new[column, lane]
            values = " to ".join(f"{int(b):#x} ({shown(numbers(np.array([b]), 'f32')[0], 'f32')})" for b in bits)
            return f"column {c.start + column}, lane {n.start + lane}: {values}; {int((before != new).sum())} cells"

        return Watch(number, f"tensor memory {columns} {lanes}", who, read, describe)

    def _watch_global(self, number: int, who: Who, *name: str) -> Watch:
        text = " ".join(name)
        tensor, index = sliced(text, self._session.tensors)

        def describe(before: np.ndarray, new: np.ndarray) -> str:
            first = int(np.flatnonzero((before != new).reshape(-1))[0])
            values = (shown(np.asarray(each).reshape(-1)[first], tensor.kind) for each in (before, new))
            return " to ".join(values)

        return Watch(number, text, who, lambda cta: np.asarray(tensor.values()[index]), describe)

    def _watch_phase(self, number: int, who: Who, name: str) -> Watch:
        ctas = [cta for cluster in self._session.clusters for cta in cluster.ctas]
        known = [b for b in mbarriers(ctas) if is_named(b, name)]
        if mbarriers(ctas) and not known:
            raise ValueError(f"mbarrier {name!r}; `barriers` lists those that are initialised")
        return Watch(number, f"the phase of mbarrier {name}", who, lambda cta: phases(name, [cta]), _changed_phase)

    def _watch_register(self, number: int, who: Who, name: str) -> RegisterWatch:
        register = self._register(name)
        return RegisterWatch(number, name, who, lambda warp: self._session.program.value(warp, register))


def _changed_phase(before: np.ndarray, new: np.ndarray) -> str:
    return f"{int(before[0])} to {int(new[0])}"


def _changed_bytes(before: np.ndarray, new: np.ndarray) -> str:
    hit = np.flatnonzero(before != new)
    first = int(hit[0]) & ~3
    old, now = (int.from_bytes(b[first : first + 4].tobytes(), "little") for b in (before, new))
    return f"{hit.size} bytes, first at +{first:#x}: {old:#x} to {now:#x}"


def _matrix_parser(name: str, kind: str | None = None) -> Arguments:
    parser = Arguments(name, add_help=False)
    parser.add_argument("-t", "--type", default=kind)
    parser.add_argument("--diff", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--save", type=Path)
    return parser


def _parsed(parser: Arguments, words: Sequence[str], warps: bool = True) -> argparse.Namespace:
    """Parse a command's arguments, with -c and -w as `who`."""
    parser.add_argument("-c", "--cta", type=triple)
    if warps:
        parser.add_argument("-w", "--warps", type=integers)
    options = parser.parse_args(words)
    chosen = options.warps if warps else None
    ctas = None if options.cta is None else frozenset({options.cta})
    options.who = Who(None if chosen is None else frozenset(chosen), ctas)
    return options


def _count(text: str) -> int:
    if not text:
        return 1
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"count {text!r}; allowed: a number from 1")
    return int(text)


def _writers(effects: Sequence[Effect], pc: int) -> dict[Reg, int]:
    """Return the instruction that writes each register: the last before `pc` in text order, else the first."""
    found: dict[Reg, int] = {}
    for at, effect in enumerate(effects):
        for register in effect.writes:
            if register not in found or at < pc:
                found[register] = at
    return found


def _never_written(value: np.ndarray) -> bool:
    """Return whether a register holds what every register holds at first."""
    return value.dtype != bool and bool((np.ascontiguousarray(value).view(np.uint32) == UNSET).all())


def _lanes_text(value: np.ndarray) -> str:
    """Return a register's value: one number if all lanes agree, else the first ones."""
    if value.dtype == bool:
        return f"lanes {int(np.packbits(value, bitorder='little').view(np.uint32)[0]):#010x}"
    if value.ndim > 1:
        return " ".join(f"{int(high):#x}:{int(low):016x}" for low, high in value.T[:2])
    if (value == value[0]).all():
        return register_text(value[0])
    return " ".join(f"{int(lane):#x}" for lane in value[:4]) + " ..."


@contextlib.contextmanager
def _history() -> Any:
    """Keep the history of the prompt in a file, where Python has readline."""
    try:
        import readline
    except ModuleNotFoundError:
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(HISTORY)
    delimiters = readline.get_completer_delims()
    readline.set_completer_delims(" \t\n")  # names have % and []
    try:
        yield
    finally:
        readline.set_completer_delims(delimiters)
        readline.set_history_length(HISTORY_LINES)
        with contextlib.suppress(OSError):
            readline.write_history_file(HISTORY)
