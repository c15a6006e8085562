"""Uses of registers before the asynchronous work on them was waited for.

tcgen05.ld writes its registers until the wait for loads. A warpgroup MMA writes its accumulator, and reads matrix A in
registers, until its wait. At run time the work is outstanding if a path with an early use was taken.

A copy does not count as a use, because NVIDIA's compiler puts the moves that pair registers before the wait; the copy
is tracked. Nor does an MMA that continues with an accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Operand, Reg, Vector
from .effects import Effect

WORK: Final = frozenset({Kind.TENSOR_LOAD, Kind.GROUP_MMA})
WAITS: Final = {Kind.TENSOR_LOAD_WAIT: Kind.TENSOR_LOAD, Kind.GROUP_MMA_WAIT: Kind.GROUP_MMA}
"""The work that each instruction waits for."""
EarlyUse = tuple[Instr, str]
"""Work that may be outstanding, and the used register of it or of a copy."""


class _Work(NamedTuple):
    """Work that may be outstanding.

    groups: the least number of groups committed since its issue. late: registers that it may still have to write, and
    copies of them. held: registers that it may still have to read.
    """

    groups: int = 0
    late: frozenset[Reg] = frozenset()
    held: frozenset[Reg] = frozenset()

    def join(self, other: _Work) -> _Work:
        """Return what may be outstanding on either path."""
        return _Work(min(self.groups, other.groups), self.late | other.late, self.held | other.held)

    def touched(self, effect: Effect) -> bool:
        """Return whether an instruction accesses any of the registers."""
        writes, late = effect.writes, self.late
        return not (late.isdisjoint(effect.reads) and late.isdisjoint(writes) and self.held.isdisjoint(writes))

    def past(self, effect: Effect) -> _Work:
        """Return the work after another instruction, which may write late registers or copy them."""
        groups, late, held = self
        copied = effect.instr.kind is Kind.MOVE and not late.isdisjoint(effect.reads)
        if not effect.preserves:
            late, held = late.difference(effect.writes), held.difference(effect.writes)
        return _Work(groups, late.union(effect.writes) if copied else late, held)

    def use(self, effect: Effect, own: Sequence[Reg]) -> Reg | None:
        """Return the first register used early: a late one that is read, or one of `own` or a held one written."""
        written = () if effect.instr.kind in WORK else [r for r in effect.writes if r in self.late and r in own]
        early = (r for r in _read(effect) if r in self.late), written, (r for r in effect.writes if r in self.held)
        return next(chain.from_iterable(early), None)


_State = dict[int, _Work]
"""The work that may be outstanding, by the index of its effect."""


def early_uses(flow: Flow, effects: Sequence[Effect]) -> dict[int, list[EarlyUse]]:
    """Return the early uses of each instruction, by the id of its effect."""
    found: dict[int, list[EarlyUse]] = {}
    if WORK.isdisjoint(effect.instr.kind for effect in effects):
        return found
    for at, state in flow.before_each(_State(), lambda state, at: _after(state, at, effects), _join):
        used = [
            (effects[w].instr, r.name) for w, work in state.items() if (r := work.use(effects[at], effects[w].writes))
        ]
        if used:
            found[id(effects[at])] = used
    return found


def _after(state: _State, at: int, effects: Sequence[Effect]) -> _State:
    """Return the state after an instruction."""
    effect, kind = effects[at], effects[at].instr.kind
    if kind in WAITS:
        return (
            state
            if effect.preserves
            else {w: work for w, work in state.items() if not _waits(effect, work, effects[w])}
        )
    if kind in WORK:
        mine = state.get(at, _Work())
        left = {w: _Work(n, late.difference(effect.writes), held) for w, (n, late, held) in state.items()}
        known = {w: work for w, work in left.items() if work.late or work.held}
        return {**known, at: _Work(0, mine.late.union(effect.writes), mine.held.union(_matrix_a(effect)))}
    if kind is Kind.GROUP_MMA_COMMIT:
        products = (w for w in state if effects[w].instr.kind is Kind.GROUP_MMA)
        return {**state, **{w: state[w]._replace(groups=state[w].groups + 1) for w in products}}
    changed = {w: work.past(effect) for w, work in state.items() if work.touched(effect)}
    return {**state, **changed} if changed else state


def _join(one: _State, other: _State) -> _State:
    return {w: one[w].join(other[w]) if w in one and w in other else work for w, work in (one | other).items()}


def _waits(wait: Effect, work: _Work, issued: Effect) -> bool:
    """Return whether an instruction waits for this work."""
    operands, kind = wait.instr.operands, issued.instr.kind
    allowed = operands[0].value if operands and isinstance(operands[0], Imm) else 0
    return kind is WAITS[wait.instr.kind] and (kind is Kind.TENSOR_LOAD or work.groups > allowed)


def _matrix_a(effect: Effect) -> tuple[Reg, ...]:
    """Return the registers of matrix A, which a warpgroup MMA reads asynchronously."""
    if effect.instr.kind is not Kind.GROUP_MMA:
        return ()
    a: Operand = effect.instr.operands[2]
    return tuple(r for r in a.items if isinstance(r, Reg)) if isinstance(a, Vector) else ()


def _read(effect: Effect) -> tuple[Reg, ...]:
    """Return the registers whose values are used: not a copy, nor the accumulator of an MMA."""
    if effect.instr.kind is Kind.MOVE:
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
