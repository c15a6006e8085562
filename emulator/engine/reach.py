"""Data flow to and from memory: the origins of a kernel's addresses, and the stores that loaded values reach.

Also loads before a barrier, and loads in loops that end by the loaded value, such as a wait for a flag.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..isa.ld_st import STRONG, MemoryOp, outside_cluster
from ..isa.synchronisation import is_aligned
from ..machine.reports.suspects import Reach
from ..ptx.flow import Flow, predecessors, reachable
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Instr, Reg, TensorAddress
from .effects import Effect, Source, registers
from .taint import choice


def retried(flow: Flow, effects: Sequence[Effect]) -> frozenset[Any] | None:
    """Return the strong loads, by `Instr.place`, that are in a loop which ends by the loaded value.

    None if the kernel has no strong load besides these, and no strong store.
    """
    strong = [at for at, effect in enumerate(effects) if is_strong(effect.instr)]
    again = {at for at in strong if effects[at].instr.kind is Kind.LOAD and _decides_its_loop(flow, effects, at)}
    return frozenset(effects[at].instr.place for at in again) if len(again) < len(strong) else None


def is_strong(instr: Instr) -> bool:
    """Return whether an instruction is an ld or st with an order, or volatile."""
    return instr.kind in (Kind.LOAD, Kind.STORE) and not STRONG.isdisjoint(instr.modifiers)


def _decides_its_loop(flow: Flow, effects: Sequence[Effect], at: int) -> bool:
    block = flow.block_with(at)
    after = reachable(block.successors, lambda index: flow.ways.get(index, ()))
    before = reachable([block.index], predecessors(flow.ways).__getitem__)
    loop = [e for index in after & before for e in effects[flow.blocks[index].start : flow.blocks[index].end]]
    held: set[Reg] = set()
    if block.index in after:
        held.update(effects[at].writes)
    for _ in range(len(loop) if held else 0):
        more = {r for e in loop if not held.isdisjoint(r for r in e.reads if isinstance(r, Reg)) for r in e.writes}
        if more <= held:
            break
        held |= more
    return any(e.instr.kind is Kind.BRANCH and e.instr.guard is not None and e.instr.guard[0] in held for e in loop)


_STORES = frozenset({Kind.STORE, Kind.ATOMIC, Kind.REDUCTION})
_LOADS = frozenset({Kind.LOAD, Kind.ATOMIC, Kind.PARAMETER})
_MOVES = frozenset({Kind.MOVE, Kind.ADDRESS})


def stored(effects: Sequence[Effect]) -> frozenset[int]:
    """Return the offsets of the parameters that store addresses come from, directly or through a possible tensor map.

    Stores through pointers that come from other memory are not found.
    """
    pointers = Pointers(effects)
    by_threads = (e for e in effects if e.instr.kind in _STORES and outside_cluster(e.instr))
    by_agents = [e for e in effects if "bulk_group" in e.instr.modifiers]
    return pointers.of((*by_threads, *by_agents)) | pointers.maps(by_agents)


class Pointers:
    """The origins of a kernel's addresses. variables: the addresses of the module's variables."""

    def __init__(self, effects: Sequence[Effect], variables: Iterable[int] = ()) -> None:
        self._variables = frozenset(variables)
        self._writers: dict[Source, list[Effect]] = defaultdict(list)
        for effect in effects:
            for written in effect.writes:
                self._writers[written].append(effect)

    def of(self, accesses: Iterable[Effect]) -> frozenset[int]:
        """Return the parameters (offsets) and variables (addresses) that accesses' addresses are computed from.

        Values loaded from other memory are not followed.
        """
        starts = [r for e in accesses for o in e.sources if isinstance(o, Address) for r in registers(o)]
        found = set[int]()
        for effect, register in self._before(starts):
            if effect.instr.kind in _LOADS:
                found |= _loaded(effect, register)
            elif effect.instr.kind in _MOVES:
                found |= self._variables.intersection(o.value for o in effect.sources if isinstance(o, Imm))
        return frozenset(found)

    def maps(self, accesses: Iterable[Effect]) -> frozenset[int]:
        """Return the constants from which tensor-map addresses are computed: a parameter is its offset, in cvta."""
        at = [o.map for e in accesses for o in e.sources if isinstance(o, TensorAddress)]
        moves = (e for e, _ in self._before([r for o in at for r in registers(o)]) if e.instr.kind in _MOVES)
        return frozenset(o.value for e in moves for o in e.sources if isinstance(o, Imm) and isinstance(o.value, int))

    def _before(self, starts: Iterable[Source]) -> Iterator[tuple[Effect, Source]]:
        """Yield the writers of these registers and, except for loads, of the registers that the writers read."""

        def read(register: Source) -> Iterator[Source]:
            for effect in self._writers[register]:
                if effect.instr.kind not in _LOADS:
                    yield from effect.reads

        for register in reachable(starts, read):
            yield from ((effect, register) for effect in self._writers[register])


def _loaded(effect: Effect, register: Source) -> set[int]:
    """Return the parameter that a register is loaded from, if it is."""
    address = effect.sources[0]
    if effect.instr.kind is not Kind.PARAMETER or not isinstance(address, Address) or not isinstance(address.base, Imm):
        return set()
    if not isinstance(register, Reg) or register.type != "b64":
        return set()
    return {address.base.value + 8 * effect.writes.index(register)}


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
        """The blocks that are entered from a block other than the preceding one."""
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
