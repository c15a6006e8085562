"""Uses of registers before the asynchronous work on them was waited for.

tcgen05.ld writes its registers until the wait for loads. A warpgroup MMA writes its accumulator, and reads matrix A in
registers, until its wait. At run time the work is outstanding if a path with an early use was taken.

A copy does not count as a use, because NVIDIA's compiler puts the moves that pair registers before the wait; the copy
is tracked. Nor does an MMA that continues with an accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..ptx.dataflow import forward
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Operand, Reg, Vector
from .effects import Effect

WORK: Final = frozenset({Kind.TENSOR_LOAD, Kind.GROUP_MMA})
WAITS: Final = {Kind.TENSOR_LOAD_WAIT: Kind.TENSOR_LOAD, Kind.GROUP_MMA_WAIT: Kind.GROUP_MMA}
"""The work that each instruction waits for."""
EarlyUse = tuple[Instr, str]
"""Work that may be outstanding, and the used register of it or of a copy."""
_NONE: Final[frozenset[int]] = frozenset()


@dataclass
class _State:
    """The work that may be outstanding, as indices of effects.

    groups: by work, the least number of groups committed since its issue. late: registers that work may still have to
    write, and copies of them. held: registers that it may still have to read.
    """

    groups: dict[int, int] = field(default_factory=dict)
    late: dict[Reg, frozenset[int]] = field(default_factory=dict)
    held: dict[Reg, frozenset[int]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.groups), dict(self.late), dict(self.held))

    def join(self, other: _State) -> _State:
        """Return what may be outstanding on either path, with the fewest groups committed."""
        fewest = {
            work: min(groups[work] for groups in (self.groups, other.groups) if work in groups)
            for work in self.groups | other.groups
        }
        late, held = (
            {register: one.get(register, _NONE) | more.get(register, _NONE) for register in one | more}
            for one, more in ((self.late, other.late), (self.held, other.held))
        )
        return _State(fewest, late, held)

    def follow(self, at: int, effect: Effect, kinds: Sequence[Kind]) -> None:
        """Update the state by an instruction."""
        kind = effect.instr.kind
        if kind in WAITS:
            if not effect.preserves:
                self._wait(WAITS[kind], effect, kinds)
        elif kind in WORK:
            self.groups[at] = 0
            self.late |= dict.fromkeys(effect.writes, frozenset((at,)))
            self.held |= {register: self.held.get(register, _NONE) | {at} for register in _matrix_a(effect)}
        elif kind is Kind.GROUP_MMA_COMMIT:
            self.groups = {w: n + (kinds[w] is Kind.GROUP_MMA) for w, n in self.groups.items()}
        elif self.late or self.held:
            self._write(effect)

    def _wait(self, waited_for: Kind, effect: Effect, kinds: Sequence[Kind]) -> None:
        operands = effect.instr.operands
        allowed = operands[0].value if operands and isinstance(operands[0], Imm) else 0
        complete = {
            w
            for w, n in self.groups.items()
            if kinds[w] is waited_for and (waited_for is Kind.TENSOR_LOAD or n > allowed)
        }
        self.groups = {w: n for w, n in self.groups.items() if w not in complete}
        self.late, self.held = (
            {register: left for register, works in known.items() if (left := works - complete)}
            for known in (self.late, self.held)
        )

    def _write(self, effect: Effect) -> None:
        copied = _NONE
        if _copies(effect):
            copied = copied.union(*(self.late[r] for r in effect.reads if isinstance(r, Reg) and r in self.late))
        for register in effect.writes:
            kept = self.late.pop(register, _NONE) if effect.preserves else _NONE
            self.late.pop(register, None)
            if not effect.preserves:
                self.held.pop(register, None)
            if kept or copied:
                self.late[register] = kept | copied

    def uses(self, effect: Effect, effects: Sequence[Effect]) -> Iterator[tuple[int, str]]:
        """Yield the work and registers used early: late ones that it reads, and late or held ones that it writes."""
        kind = effect.instr.kind
        for register in _read(effect):
            yield from ((work, register.name) for work in self.late.get(register, ()))
        for register in () if kind in WORK else effect.writes:
            yield from ((w, register.name) for w in self.late.get(register, ()) if register in effects[w].writes)
        for register in effect.writes:
            yield from ((work, register.name) for work in self.held.get(register, ()))


def early_uses(flow: Flow, effects: Sequence[Effect]) -> dict[int, list[EarlyUse]]:
    """Return the early uses of each instruction, by the id of its effect."""
    found: dict[int, list[EarlyUse]] = {}
    kinds = [effect.instr.kind for effect in effects]
    if WORK.isdisjoint(kinds):
        return found

    def at_end(block: int, state: _State) -> _State:
        state = state.copy()
        for at in range(flow.blocks[block].start, flow.blocks[block].end):
            state.follow(at, effects[at], kinds)
        return state

    for index, at_start in forward(flow.ways, {0: _State()}, at_end, _State.join).items():
        state = at_start.copy()
        for at in range(flow.blocks[index].start, flow.blocks[index].end):
            if uses := [(effects[load].instr, name) for load, name in state.uses(effects[at], effects)]:
                found[id(effects[at])] = uses
            state.follow(at, effects[at], kinds)
    return found


def _copies(effect: Effect) -> bool:
    return effect.instr.kind is Kind.MOVE


def _matrix_a(effect: Effect) -> tuple[Reg, ...]:
    """Return the registers of matrix A, which a warpgroup MMA reads asynchronously."""
    if effect.instr.kind is not Kind.GROUP_MMA:
        return ()
    a: Operand = effect.instr.operands[2]
    return tuple(r for r in a.items if isinstance(r, Reg)) if isinstance(a, Vector) else ()


def _read(effect: Effect) -> tuple[Reg, ...]:
    """Return the registers whose values are used: not a copy, nor the accumulator of an MMA."""
    if _copies(effect):
        return ()
    read = _matrix_a(effect) if effect.instr.kind is Kind.GROUP_MMA else effect.reads
    return tuple(r for r in read if isinstance(r, Reg))


def first_uses(
    effects: Sequence[Effect], early: Mapping[int, Sequence[EarlyUse]], kind: Kind
) -> dict[int, tuple[Instr, str, str]]:
    """Return the first early use of each outstanding operation of a kind among `effects`, by the operation's id.

    A use is the instruction, "uses" or "overwrites", and the register.
    """
    found: dict[int, tuple[Instr, str, str]] = {}
    for effect in effects:
        for work, name in early.get(id(effect), ()):
            if work.kind is kind:
                read = any(isinstance(r, Reg) and r.name == name for r in effect.reads)
                found.setdefault(id(work), (effect.instr, "uses" if read else "overwrites", name))
    return found
