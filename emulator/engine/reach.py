"""Which stores the value of a load may come to, if it comes to nothing else; and which loads a barrier follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..isa.barrier import BARRIERS, is_aligned
from ..isa.ld_st import MemoryOp
from ..ptx.flow import EXIT, Flow
from ..ptx.syntax import Address, Instr, Reg
from .blocks import EXCHANGES
from .effects import Effect, registers
from .stored import Pointers
from .taint import COMPUTES, choice


@dataclass(frozen=True)
class Reach:
    """The numbers of the stores, and whether it comes there from other lanes too."""

    stores: frozenset[int]
    exchanged: bool


def reach(flow: Flow, effects: Sequence[Effect], stores: Mapping[int, int], at: int) -> Reach | None:
    """Where what the load `at` brings may go; None if elsewhere than into what some of `stores` store.

    stores: their numbers by the id of the effect. What is computed from it counts as it does.
    """
    found, exchanged, chosen = set[int](), False, set[int]()
    held: list[frozenset[Reg]] = [frozenset()] * len(flow.blocks)
    (first,) = (block for block in flow.blocks if block.start <= at < block.end)
    work = [(first, at + 1, frozenset(effects[at].writes))]
    while work:
        block, start, registers_held = work.pop()
        holding = set(registers_held)
        for index, effect in enumerate(effects[start : block.end], start):
            taken = holding.intersection(r for r in effect.reads if isinstance(r, Reg))
            if not taken:
                if id(effect) in chosen:
                    holding |= set(effect.writes)
                elif not effect.preserves:
                    holding -= set(effect.writes)
                continue
            if effect.instr.opcode == "bra":
                if (passed := choice(flow, effects, index)) is None:
                    return None
                chosen |= passed.effects
                holding |= passed.registers
                continue
            if not _computes(effect):
                if id(effect) not in stores or taken & _decides(effect):
                    return None
                found.add(stores[id(effect)])
            elif effect.instr.guard is not None and effect.instr.guard[0] in taken:
                return None
            exchanged |= effect.instr.opcode in EXCHANGES or effect.instr.opcode in COMPUTES
            holding |= set(effect.writes)
        for successor in block.successors:
            if successor != EXIT and not holding <= held[successor]:
                held[successor] |= holding
                work.append((flow.blocks[successor], flow.blocks[successor].start, held[successor]))
    return Reach(frozenset(found), exchanged)


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

        Another load may have read the same memory before, and its record may be gone: loads of memory that is reached
        by the same pointers count too. met: the write that conflicts comes after everything that the warp did before
        it last arrived at a barrier, so loads before that barrier do not count.
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
            if effect.instr.opcode == "ld" and MemoryOp(effect.instr).space in spaces
        ]
        (mine,) = (origins for _, origins, instr in loads if instr is load)
        alike = [
            at
            for at, origins, instr in loads
            if _may_alias(mine, origins) and (instr is load or not (met and self._meetings.behind(at)))
        ]
        ways = [reach(self._flow, self._effects, self._stores, at) for at in alike]
        known = [way for way in ways if way is not None]
        if len(known) < len(ways):
            return None
        return Reach(frozenset[int]().union(*(way.stores for way in known)), any(way.exchanged for way in known))

    @cached_property
    def _pointers(self) -> Pointers:
        return Pointers(self._effects, self._variables)

    @cached_property
    def _meetings(self) -> Meetings:
        return Meetings(self._flow)


def _may_alias(one: frozenset[int], other: frozenset[int]) -> bool:
    """Return whether addresses of these origins may be in one memory. Origins: parameters, variables; none: unknown."""
    return not one or not other or not one.isdisjoint(other)


class Meetings:
    """Of a kernel, behind which loads warps meet."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._joined = {s for block in flow.blocks for s in block.successors if s != block.index + 1}

    def behind(self, at: int) -> bool:
        """Whether the lanes that execute the instruction `at` go straight on to arrive at a barrier of the CTA."""
        blocks, instrs = self._flow.blocks, self._flow.kernel.instrs
        (block,) = (block for block in blocks if block.start <= at < block.end)
        while not any(_meets(instr) for instr in instrs[at + 1 : block.end]):
            following = block.index + 1
            if block.successors != (following,) or following in self._joined:
                return False
            block, at = blocks[following], block.end - 1
        return True


def _meets(instr: Instr) -> bool:
    return instr.opcode in BARRIERS and is_aligned(instr) and instr.guard is None


def _computes(effect: Effect) -> bool:
    return effect.entry is not None and (effect.inlined or effect.instr.opcode in COMPUTES)


def _decides(effect: Effect) -> set[Reg]:
    """The registers of an instruction's guard and addresses."""
    operands = [o for o in effect.sources if isinstance(o, Address)]
    guard = effect.instr.guard
    found = {r for operand in operands for r in registers(operand) if isinstance(r, Reg)}
    return found if guard is None else found | {guard[0]}
