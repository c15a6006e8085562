"""The reach of loaded values: the stores that they may come to. Also the loads that a barrier follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from ..isa.barrier import is_aligned
from ..isa.ld_st import MemoryOp
from ..machine.reports.suspects import Reach
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Instr, Reg
from .effects import Effect, registers
from .stored import Pointers
from .taint import choice


class _UsedElsewhere(Exception):
    """The value of a load is used by something other than the stores."""


class _Followed:
    """Findings about the value of the load `at` along its way, and about values computed from it.

    stores: the numbers of stores by the id of the effect. chosen: effects that a branch on the value skips.
    """

    def __init__(self, flow: Flow, effects: Sequence[Effect], stores: Mapping[int, int], at: int) -> None:
        self._flow, self._effects, self._stores, self._at = flow, effects, stores, at
        self._chosen = set[int]()
        self.found = set[int]()
        self.exchanged = False

    def reach(self) -> Reach | None:
        """Return the stores that the value may reach, None if it has any other use."""
        try:
            deque(self._flow.before_each(frozenset[Reg](), self._past, frozenset.__or__), maxlen=0)
        except _UsedElsewhere:
            return None
        return Reach(frozenset(self.found), self.exchanged)

    def _past(self, holding: frozenset[Reg], index: int) -> frozenset[Reg]:
        """Return the registers that hold the value after an instruction. Raises _UsedElsewhere."""
        effect = self._effects[index]
        taken = holding and holding.intersection(r for r in effect.reads if isinstance(r, Reg))
        if not taken:
            if index == self._at or id(effect) in self._chosen:
                return holding.union(effect.writes)
            return holding if effect.preserves else holding.difference(effect.writes)
        if effect.instr.kind is Kind.BRANCH:
            if (passed := choice(self._flow, self._effects, index)) is None:
                raise _UsedElsewhere
            self._chosen |= passed.effects
            return holding | passed.registers
        if not effect.pure:
            if id(effect) not in self._stores or taken & _decides(effect):
                raise _UsedElsewhere
            self.found.add(self._stores[id(effect)])
        elif effect.instr.guard is not None and effect.instr.guard[0] in taken:
            raise _UsedElsewhere
        self.exchanged |= effect.crosses_lanes
        return holding.union(effect.writes)


class Reaches:
    """The reach of the values of a kernel's loads, each computed once.

    stores: the numbers of the stores that are machine code, by the id of the effect. variables: addresses of the
    module's variables.
    """

    def __init__(
        self, flow: Flow, effects: Sequence[Effect], stores: Mapping[int, int], variables: Iterable[int]
    ) -> None:
        self._flow, self._effects, self._stores, self._variables = flow, effects, stores, variables
        self._known: dict[tuple[int, bool], Reach | None] = {}

    def __call__(self, load: Instr, met: bool) -> Reach | None:
        """Return the stores that the value of a load may come to; None if it may come to anything else.

        The record of an earlier load of the same memory may have been replaced, so loads through the same pointers
        count too. met: the conflicting write is ordered after everything that the warp did before it last arrived at a
        barrier, so loads before that barrier do not count.
        """
        key = id(load), met
        if key not in self._known:
            self._known[key] = self._reach(load, met)
        return self._known[key]

    def _reach(self, load: Instr, met: bool) -> Reach | None:
        spaces = {MemoryOp(load).space, "generic"}
        loads = [
            (at, self._pointers.of([effect]), effect.instr)
            for at, effect in enumerate(self._effects)
            if effect.instr.kind is Kind.LOAD and MemoryOp(effect.instr).space in spaces
        ]
        (mine,) = (origins for _, origins, instr in loads if instr is load)
        alike = [
            at
            for at, origins, instr in loads
            if _may_alias(mine, origins) and (instr is load or not (met and self._meet_behind(at)))
        ]
        ways = [_Followed(self._flow, self._effects, self._stores, at).reach() for at in alike]
        known = [way for way in ways if way is not None]
        if len(known) < len(ways):
            return None
        return Reach(frozenset[int]().union(*(way.stores for way in known)), any(way.exchanged for way in known))

    @cached_property
    def _pointers(self) -> Pointers:
        return Pointers(self._effects, self._variables)

    @cached_property
    def _joined(self) -> set[int]:
        """The blocks to which another block than the one before them continues."""
        return {s for block in self._flow.blocks for s in block.successors if s != block.index + 1}

    def _meet_behind(self, at: int) -> bool:
        """Return whether the lanes that execute instruction `at` always continue to an aligned barrier of the CTA."""
        blocks, instrs, block = self._flow.blocks, self._flow.kernel.instrs, self._flow.block_with(at)
        while not any(_meets(instr) for instr in instrs[at + 1 : block.end]):
            following = block.index + 1
            if block.successors != (following,) or following in self._joined:
                return False
            block, at = blocks[following], block.end - 1
        return True


def _may_alias(one: frozenset[int], other: frozenset[int]) -> bool:
    """Return whether addresses of these origins may alias. Origins: parameters and variables; none means unknown."""
    return not one or not other or not one.isdisjoint(other)


def _meets(instr: Instr) -> bool:
    return instr.kind is Kind.CTA_BARRIER and is_aligned(instr) and instr.guard is None


def _decides(effect: Effect) -> set[Reg]:
    """Return the registers of an instruction's guard and addresses."""
    operands = [o for o in effect.sources if isinstance(o, Address)]
    guard = effect.instr.guard
    found = {r for operand in operands for r in registers(operand) if isinstance(r, Reg)}
    return found if guard is None else found | {guard[0]}
