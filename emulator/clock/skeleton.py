"""A kernel without its data: what decides where warps go and what they ask of the machine, and nothing else.

How long a launch takes depends on its control flow, its synchronisation and the shapes of what it issues; of the values
that it computes only what these depend on is kept. All else becomes stretches, which cost time and do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..engine.effects import Effect, effects, registers
from ..isa.registry import Handler
from ..ptx.flow import ENDS, Flow
from ..ptx.syntax import Imm, Instr, Kernel, Reg
from .chips import Chip
from .operations import ENTRIES, KEPT, STRETCH
from .stretch import FLOATS, Stretch, scheduled

SINKS = frozenset({"tcgen05.st", "tcgen05.wait::st", "mbarrier.arrive"})
"""What ptxas may put before computation that it does not need: a part of P is handed on while the rest is computed."""
LOADS = frozenset({"ld", "atom"})
MATRICES = frozenset({"tcgen05.ld", "ldmatrix", "mma", "wmma"})


@dataclass(frozen=True)
class Skeleton:
    """A kernel that `Program` can run with `operations.find`; its stretches by number.

    decided: the comparisons of floating-point data that decide where warps go, and are taken to be false.
    """

    kernel: Kernel
    stretches: tuple[Stretch, ...]
    decided: tuple[Instr, ...]


def skeleton(kernel: Kernel, variables: Mapping[str, int], chip: Chip) -> Skeleton:
    """What is left of a kernel. variables: host addresses of the module's variables."""
    found = effects(kernel, variables)
    keep, cut, needed = _Slice(found).run()
    flow = Flow(kernel, lambda instr: False)
    instrs: list[Instr] = []
    stretches: list[Stretch] = []
    moved: dict[int, int] = {}

    def spend(pending: list[Effect], needed: Effect | None = None) -> None:
        """All that is pending, or what an instruction needs of it."""
        now = list(pending) if needed is None else _before(needed, pending)
        if now:
            number, first = len(stretches), now[0].instr
            stretches.append(scheduled(now, chip))
            instrs.append(Instr(STRETCH, (), (Imm(number),), None, first.line, f"stretch {number}"))
            done = set(map(id, now))
            pending[:] = [effect for effect in pending if id(effect) not in done]

    for block in flow.blocks:
        moved[block.start] = len(instrs)
        early = _early(found, block.start, block.end) - keep - cut
        pending = [found[i] for i in sorted(early)]
        for i in range(block.start, block.end):
            if i in early:
                continue
            effect = found[i]
            instr = effect.instr
            if i in keep and instr.opcode in ENTRIES:
                spend(pending, effect if instr.opcode in SINKS else None)
                instrs.append(KEPT[instr.opcode](kernel.instrs[i]))
                if instr.opcode in MATRICES:
                    instrs += _zeros(kernel.instrs[i], [r for r in effect.writes if r in needed])
                continue
            pending.append(effect)
            if instr.opcode in ENDS:
                spend(pending)
                instrs.append(kernel.instrs[i])
            elif i in cut:
                instrs += _zeros(kernel.instrs[i], effect.writes)
            elif i in keep:
                instrs.append(kernel.instrs[i])
        spend(pending)
    end = len(instrs)
    labels = {name: moved.get(at, end) for name, at in kernel.labels.items()}
    left = replace(kernel, instrs=tuple(instrs), labels=labels, locations=())
    decided = tuple(kernel.instrs[i] for i in sorted(cut) if kernel.instrs[i].opcode == "setp")
    return Skeleton(left, tuple(stretches), decided)


def _early(found: Sequence[Effect], start: int, end: int) -> set[int]:
    """Of a block, loads of what the launch does not write, and what their addresses take: ptxas may begin so."""
    early: set[int] = set()
    for i in range(start, end):
        if found[i].instr.opcode != "ld" or "nc" not in found[i].instr.modifiers:
            continue
        wanted, takes = set(found[i].reads), {i}
        for before in range(i - 1, start - 1, -1):
            if not wanted.isdisjoint(found[before].writes):
                takes.add(before)
                wanted |= set(found[before].reads)
        if all(each == i or found[each].instr.opcode not in ENTRIES for each in takes):
            early |= takes
    return early


def _before(last: Effect, pending: Sequence[Effect]) -> list[Effect]:
    """Of what is pending, what an instruction depends on."""
    wanted = set(last.reads)
    found = []
    for effect in reversed(pending):
        if not wanted.isdisjoint(effect.writes):
            found.append(effect)
            wanted |= set(effect.reads)
    return found[::-1]


def _zeros(instr: Instr, written: Sequence[Reg]) -> Iterator[Instr]:
    """In the place of an instruction of data, nothing is what it writes."""
    for n, register in enumerate(written):
        yield Instr("mov", (register.type,), (register, Imm(0)), None, instr.line, f"{instr.text} {n}")


class _Slice:
    """Which instructions are kept, by index, and which of them are of data, whose results are taken to be nothing."""

    def __init__(self, found: Sequence[Effect]) -> None:
        self._found = found
        self._writers: dict[Reg, list[int]] = {}
        for i, effect in enumerate(found):
            for register in effect.writes:
                self._writers.setdefault(register, []).append(i)
        self.keep: set[int] = set()
        self.cut: set[int] = set()

    def run(self) -> tuple[set[int], set[int], set[Reg]]:
        """(kept, cut, registers that what is kept reads)."""
        for i, effect in enumerate(self._found):
            if effect.instr.opcode in ENDS or _is_always_kept(effect):
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
        """Stores, not yet kept, to a space that something kept loads from, of values that are no data."""
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
    """What acts on the machine. A load or store is kept where something depends on it."""
    instr = effect.instr
    if instr.opcode == "atom":
        return FLOATS.isdisjoint(instr.modifiers)
    return instr.opcode in ENTRIES and instr.opcode not in ("ld", "st", "red")


def _is_data(effect: Effect) -> bool:
    """Whether it computes with floating-point numbers, or moves matrices: what it gives is data."""
    instr = effect.instr
    if instr.opcode in MATRICES and effect.writes:
        return True
    if instr.opcode in ("ld", "st", "mov", *ENDS) or (isinstance(effect.entry, Handler) and instr.opcode in ENTRIES):
        return False
    return not FLOATS.isdisjoint(instr.modifiers)


def _needed(effect: Effect) -> set[Reg]:
    """The registers that what is kept of an instruction reads."""
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
