"""The skeleton of a kernel: the instructions that decide control flow and what warps request of the machine.

The time of a launch depends on control flow, synchronisation and the shapes of operations. A computed value is kept
only if one of these depends on it. All other instructions become stretches, which take time and compute nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ..engine.effects import Effect, effects, registers
from ..isa.registry import Handler
from ..ptx.flow import EXIT, TERMINATORS, BasicBlock, Flow
from ..ptx.syntax import Imm, Instr, Kernel, Reg
from .chips import Chip
from .operations import AWAIT_LOAD, ENTRIES, KEPT, STRETCH, is_global_store, waits_at_first_use
from .schedule import AwaitedLoad, Between, Scheduler
from .stretch import FLOATS, Stretch

UNKNOWN = frozenset({"wgmma.wait_group", "cp.async.bulk.wait_group", "nanosleep"})
"""Instructions that delay a warp by a time that the program does not show. Nothing is scheduled across them.

Blocking instructions are treated likewise.
"""
PREDICATED = 8
"""The maximum length of a skipped block that ptxas is assumed to predicate instead of branching around it."""
LOADS = frozenset({"ld", "atom"})
MATRICES = frozenset({"tcgen05.ld", "ldmatrix", "mma", "wmma"})


@dataclass(frozen=True)
class Skeleton:
    """A kernel that `Program` runs with `operations.find`, and its stretches by number.

    decided: floating-point comparisons that decide a branch. They are taken to be false.
    """

    kernel: Kernel
    stretches: tuple[Stretch, ...]
    decided: tuple[Instr, ...]


def skeleton(kernel: Kernel, variables: Mapping[str, int], chip: Chip) -> Skeleton:
    """Reduce a kernel to its skeleton. variables: host addresses of the module's variables."""
    found = effects(kernel, variables)
    keep, cut, needed = _Slice(found).run()
    operations = {i for i in keep if found[i].instr.opcode in ENTRIES}
    alone = {id(kernel.instrs[i]) for i in operations if _is_alone(found[i].instr)}
    flow = Flow(kernel, lambda instr: id(instr) in alone)
    scheduler = Scheduler(found, {id(found[i]) for i in operations}, chip)
    instrs: list[Instr] = []
    stretches: list[Stretch] = []
    moved: dict[int, int] = {}

    def spend(between: Between) -> None:
        for part in between:
            opcode, number = (AWAIT_LOAD, part.line) if isinstance(part, AwaitedLoad) else (STRETCH, len(stretches))
            if isinstance(part, Stretch):
                stretches.append(part)
            instrs.append(Instr(opcode, (), (Imm(number),), None, part.line, f"{opcode} {number}"))

    def leave(i: int) -> None:
        effect, instr = found[i], kernel.instrs[i]
        if i in operations:
            instrs.append(KEPT[instr.opcode](instr))
            if instr.opcode in MATRICES:
                instrs.extend(_zeros(instr, [r for r in effect.writes if r in needed]))
        elif i in cut:
            instrs.extend(_zeros(instr, effect.writes))
        elif i in keep:
            instrs.append(instr)

    starts = {block.start for block in flow.blocks}
    for region in _regions(flow, alone):
        inner = [i for i in region.whole if i not in region.skips and id(kernel.instrs[i]) not in alone]
        *before, after = scheduler.block([found[i] for i in inner])
        ends = bool(inner) and found[inner[-1]].instr.opcode in TERMINATORS
        at = {inner[-1] if ends else region.whole.stop: after}
        for i, part in zip((i for i in inner if i in operations), before, strict=True):
            at[region.place(i)] = [*at.get(region.place(i), ()), *part]
        for i in region.whole:
            if i in starts:
                moved[i] = len(instrs)
            spend(at.get(i, ()))
            leave(i)
        spend(at.get(region.whole.stop, ()))
    end = len(instrs)
    labels = {name: moved.get(at, end) for name, at in kernel.labels.items()}
    left = replace(kernel, instrs=tuple(instrs), labels=labels, locations=())
    decided = tuple(kernel.instrs[i] for i in sorted(cut) if kernel.instrs[i].opcode == "setp")
    return Skeleton(left, tuple(stretches), decided)


def _is_alone(instr: Instr) -> bool:
    return (ENTRIES[instr.opcode].blocking and not waits_at_first_use(instr)) or instr.opcode in UNKNOWN


@dataclass(frozen=True)
class _Region:
    """Instructions that are scheduled together.

    skips: by the index of a branch, the instructions that it may skip.
    """

    whole: range
    skips: Mapping[int, range]

    def place(self, operation: int) -> int:
        """Return where the instructions before an operation go: before the branch that may skip it, if there is one."""
        return next((branch for branch, body in self.skips.items() if operation in body), operation)


def _regions(flow: Flow, alone: Set[int]) -> Iterator[_Region]:
    """Yield runs of blocks that ptxas would merge."""
    blocks, instrs = flow.blocks, flow.kernel.instrs
    into: dict[int, list[int]] = {block.index: [] for block in blocks}
    for block in blocks:
        for successor in set(block.successors) - {EXIT}:
            into[successor].append(block.index)

    def is_new(block: BasicBlock, *before: int) -> bool:
        return id(instrs[block.start]) in alone or sorted(into[block.index]) != [*before]

    first = 0
    while first < len(blocks):
        skips: dict[int, range] = {}
        last = first
        while last + 1 < len(blocks):
            here, body, *rest = blocks[last : last + 3]
            if here.successors == (last + 1,) and not is_new(body, last):
                last += 1
                continue
            is_short = body.end - body.start <= PREDICATED and body.successors == (last + 2,)
            if not rest or here.successors != (last + 2, last + 1) or not is_short or is_new(body, last):
                break
            if is_new(rest[0], last, last + 1) or instrs[body.end - 1].opcode in TERMINATORS:
                break
            skips[here.end - 1] = range(body.start, body.end)
            last += 2
        yield _Region(range(blocks[first].start, blocks[last].end), skips)
        first = last + 1


def _zeros(instr: Instr, written: Sequence[Reg]) -> Iterator[Instr]:
    """Yield moves of zero to the registers that a data instruction writes."""
    for n, register in enumerate(written):
        yield Instr("mov", (register.type,), (register, Imm(0)), None, instr.line, f"{instr.text} {n}")


class _Slice:
    """A backward slice: the kept instructions, and the data instructions whose results are replaced by zero."""

    def __init__(self, found: Sequence[Effect]) -> None:
        self._found = found
        self._writers: dict[Reg, list[int]] = {}
        for i, effect in enumerate(found):
            for register in effect.writes:
                self._writers.setdefault(register, []).append(i)
        self.keep: set[int] = set()
        self.cut: set[int] = set()

    def run(self) -> tuple[set[int], set[int], set[Reg]]:
        """Return (kept instructions, cut instructions, registers that the kept ones read)."""
        for i, effect in enumerate(self._found):
            if effect.instr.opcode in TERMINATORS or _is_always_kept(effect):
                self._take(i)
        while stores := self._stores():
            for i in stores:
                self._take(i)
        needed = {r for i in self.keep for r in _needed(self._found[i])}
        return self.keep, self.cut, needed

    def _take(self, first: int) -> None:
        work = [first]
        while work:
            i = work.pop()
            if i in self.keep or i in self.cut:
                continue
            effect = self._found[i]
            if _is_data(effect) and effect.instr.opcode not in ENTRIES:
                self.cut.add(i)
                continue
            self.keep.add(i)
            for register in _needed(effect):
                work += self._writers.get(register, ())

    def _stores(self) -> list[int]:
        """Return stores that are not kept yet, of non-data values, to a space that a kept load reads."""
        spaces = {_space(self._found[i].instr) for i in self.keep if self._found[i].instr.opcode in LOADS}
        spaces &= {"shared", "local"}
        return [
            i
            for i, effect in enumerate(self._found)
            if effect.instr.opcode == "st"
            and i not in self.keep
            and _space(effect.instr) in spaces
            and not self._of_data(effect)
        ]

    def _of_data(self, effect: Effect) -> bool:
        seen: set[Reg] = set()
        work = [r for operand in effect.instr.operands[1:] for r in registers(operand) if isinstance(r, Reg)]
        while work:
            register = work.pop()
            if register in seen:
                continue
            seen.add(register)
            for i in self._writers.get(register, ()):
                if _is_data(self._found[i]):
                    return True
                work += [r for r in self._found[i].reads if isinstance(r, Reg)]
        return False


def _is_always_kept(effect: Effect) -> bool:
    """Return True for an operation of the machine. Loads and stores are kept only if something depends on them."""
    instr = effect.instr
    if instr.opcode == "atom":
        return FLOATS.isdisjoint(instr.modifiers)
    return is_global_store(instr) or (instr.opcode in ENTRIES and instr.opcode not in ("ld", "st", "red"))


def _is_data(effect: Effect) -> bool:
    """Return True if an instruction's result is data: floating-point arithmetic or moved matrices."""
    instr = effect.instr
    if instr.opcode in MATRICES and effect.writes:
        return True
    if instr.opcode in ("ld", "st", "mov", *TERMINATORS) or (
        isinstance(effect.entry, Handler) and instr.opcode in ENTRIES
    ):
        return False
    return not FLOATS.isdisjoint(instr.modifiers)


def _needed(effect: Effect) -> set[Reg]:
    """Return the registers that the kept form of an instruction reads."""
    instr = effect.instr
    guard = set() if instr.guard is None else {instr.guard[0]}
    if instr.opcode in ENTRIES:
        kept = KEPT[instr.opcode](instr)
        count = ENTRIES[instr.opcode].dst
        return guard | {r for o in kept.operands[count:] for r in registers(o) if isinstance(r, Reg)}
    return guard | {r for r in effect.reads if isinstance(r, Reg)}


def _space(instr: Instr) -> str:
    spaces = ("shared", "local", "global", "param", "const")
    return next((s for m in instr.modifiers for s in spaces if m.startswith(s)), "generic")
