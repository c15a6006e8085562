"""Instructions by which lanes publish what other lanes of their warp accessed before, without bar.warp.sync.

A typical one is an elected arrival at an mbarrier after stores by all lanes. PTX orders the stores of a lane only
before that lane's own arrival. The elected lane's own accesses need no synchronisation. An asynchronous copy or product
reads data that several lanes stored, so it needs the synchronisation even if all lanes issue it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from ..chip import ALL_LANES, LANES
from ..isa.ld_st import UNSHARED
from ..isa.registry import Publishes
from ..ptx.flow import EXIT, BasicBlock, Flow, reachable
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Dual, Imm, Reg
from .effects import Effect

ACCESSES: Final = frozenset(
    {
        Kind.LOAD,
        Kind.STORE,
        Kind.ATOMIC,
        Kind.REDUCTION,
        Kind.MATRIX_LOAD,
        Kind.MATRIX_STORE,
        Kind.TENSOR_LOAD,
        Kind.TENSOR_STORE,
    }
)
TENSOR_ADDRESSED: Final = frozenset(
    {Kind.TENSOR_MMA, Kind.TENSOR_COPY, Kind.TENSOR_LOAD, Kind.TENSOR_STORE, Kind.TENSOR_SHIFT}
)
WRITES: Final = frozenset({Kind.STORE, Kind.MATRIX_STORE, Kind.ATOMIC, Kind.REDUCTION})
_CARRIES_CHOICE: Final = frozenset({Kind.MOVE, Kind.SELECT, Kind.COMPARE, Kind.AND})
Place = tuple[int, str, int]
Choice = tuple[Reg, bool] | int
"""A guard, with the value for which its lanes execute, or a branch by its block."""


@dataclass(frozen=True)
class Published:
    """The accesses, by `Instr.place`, that an instruction may publish without a synchronisation of the lanes.

    by_others: accesses of lanes that do not execute it. by_each: accesses of several lanes that execute it, which
    matter if the instruction starts asynchronous work.
    """

    by_others: frozenset[Place]
    by_each: frozenset[Place]

    def by(self, lanes: int) -> frozenset[Place]:
        """Return the accesses that need a synchronisation if these lanes (bits) execute the instruction."""
        if lanes == ALL_LANES:
            return self.by_each
        return self.by_others | self.by_each if lanes & lanes - 1 else self.by_others


class Elections:
    """Places where lanes of a warp act alone: blocks and guards that depend on predicates that differ by lane."""

    def __init__(self, flow: Flow, effects: Sequence[Effect], varying: Collection[Reg]) -> None:
        self._flow, self._effects = flow, effects
        self._varying = frozenset(varying)
        one_lane = {wanted: _one_lane(effects, wanted) for wanted in (True, False)}
        self._choices: list[set[Choice]] = [set() for _ in flow.blocks]
        """The choices that decide which lanes execute each block."""
        self._alone: set[Choice] = {(register, wanted) for wanted in one_lane for register in one_lane[wanted]}
        """The choices of one lane."""
        for block in flow.blocks:
            guard = effects[block.end - 1].instr.guard
            if len(block.successors) < 2 or guard is None or guard[0] not in self._varying:
                continue
            if any(guard[0] in registers for registers in one_lane.values()):
                self._alone.add(block.index)
            for inside in _separated(flow, block):
                self._choices[inside].add(block.index)

    def published(self) -> dict[int, Published]:
        """Return the accesses that instructions publish without a synchronisation on some path, by the effect's id."""
        pointers = tensor_pointers(self._effects)
        accesses = [at for at, e in enumerate(self._effects) if _is_access(e) and pointers.isdisjoint(e.writes)]
        publishing = [at for at, effect in enumerate(self._effects) if effect.publishes is not Publishes.NOTHING]
        chosen = {at: self._lanes(at) for at in (*accesses, *publishing)}
        several = [at for at in accesses if not chosen[at] & self._alone]
        found: dict[int, Published] = {}
        for at, pending in self._reaching(several, set(publishing)).items():
            places: tuple[set[Place], set[Place]] = set(), set()
            for each in pending:
                places[chosen[at] <= chosen[each]].add(self._effects[each].instr.place)
            others, own = map(frozenset, places)
            if self._effects[at].publishes is Publishes.ARRIVAL:
                own = frozenset()
            if others or own:
                found[id(self._effects[at])] = Published(others, own)
        return found

    def overwriting(self) -> frozenset[int]:
        """Return the ids of stores that a path leads to from a wait for bulk copies without a synchronisation.

        Only the lane that issued the copies waits for them.
        """
        waits = [at for at, effect in enumerate(self._effects) if effect.instr.kind is Kind.BULK_WAIT]
        writes = {at for at, e in enumerate(self._effects) if e.instr.kind in WRITES and _is_access(e)}
        found = [at for at in self._reaching(waits, writes) if "global" not in self._effects[at].instr.modifiers]
        return frozenset(id(self._effects[at]) for at in found if not self._lanes(at) & self._alone)

    def _lanes(self, at: int) -> set[Choice]:
        """Return the choices that decide which lanes execute an instruction."""
        guard = self._effects[at].instr.guard
        own: set[Choice] = {guard} if guard is not None and guard[0] in self._varying else set()
        return self._choices[self._flow.block_with(at).index] | own

    def _reaching(self, starts: Sequence[int], ends: Collection[int]) -> dict[int, list[int]]:
        """Return, for each of `ends`, the `starts` from which a path leads there without a synchronisation."""
        if not starts or not ends:
            return {}
        bits = {at: 1 << number for number, at in enumerate(starts)}
        syncs = {at for at, effect in enumerate(self._effects) if effect.joins_lanes}

        def follow(state: int, at: int) -> int:
            return 0 if at in syncs else state | bits.get(at, 0)

        return {
            at: [start for start in starts if bits[start] & state]
            for at, state in self._flow.before_each(0, follow, int.__or__)
            if state and at in ends
        }


def _separated(flow: Flow, block: BasicBlock) -> Collection[int]:
    """Return the blocks that only some lanes run after a branch. If other lanes end, these are all that follow."""
    if flow.leaves.isdisjoint(block.successors):
        return flow.divergent_region(block)[0]
    return reachable(block.successors, lambda at: () if at == EXIT else flow.ways[at]) - {EXIT}


def _is_access(effect: Effect) -> bool:
    """Return whether an instruction accesses memory that other warps reach too."""
    return effect.instr.kind in ACCESSES and UNSHARED.isdisjoint(effect.instr.modifiers)


def tensor_pointers(effects: Sequence[Effect]) -> set[Reg]:
    """Return the registers from which addresses of tensor memory are computed.

    A word that tcgen05.alloc wrote keeps its value, so its readers need no order after their read.
    """
    makers: dict[Reg, list[Effect]] = {}
    used: set[Reg] = set()
    for effect in effects:
        if effect.instr.kind in TENSOR_ADDRESSED:
            used |= {o.base for o in effect.instr.operands if isinstance(o, Address) and isinstance(o.base, Reg)}
        elif effect.pure:
            for register in effect.writes:
                makers.setdefault(register, []).append(effect)

    def sources(register: Reg) -> list[Reg]:
        return [source for made in makers.get(register, ()) for source in made.reads if isinstance(source, Reg)]

    return reachable(used, sources)


def _counts_warps(effect: Effect) -> bool:
    """Return whether an instruction divides by 32 or more, or takes one lane's value, as for the number of a warp."""
    match effect.instr.kind, effect.instr.operands:
        case Kind.SHIFT_RIGHT, (_, _, Imm(bits)):
            return bits >= LANES.bit_length() - 1
    return effect.instr.kind is Kind.SHUFFLE and "idx" in effect.instr.modifiers


def _one_lane(effects: Sequence[Effect], wanted: bool) -> set[Reg]:
    """Return the registers that choose one lane, by their value `wanted`: of elect.sync, or of an equality.

    Copies, selections and conjunctions of such registers count too. The number of a warp, %tid.x / 32, chooses no lane.
    """
    warps = {r for effect in effects if _counts_warps(effect) for r in effect.writes}
    comparison = "eq" if wanted else "ne"
    users: dict[Reg, list[Effect]] = {}
    chosen: set[Reg] = set()
    for effect in effects:
        if effect.instr.kind is Kind.ELECTION and wanted:
            chosen |= {r for to in effect.instr.operands[:1] if isinstance(to, Dual) and isinstance(r := to.p, Reg)}
        elif (
            effect.instr.kind is Kind.COMPARE
            and comparison in effect.instr.modifiers
            and warps.isdisjoint(effect.reads)
        ):
            chosen |= set(effect.writes)
        elif effect.instr.kind in _CARRIES_CHOICE:
            for register in effect.reads:
                if isinstance(register, Reg):
                    users.setdefault(register, []).append(effect)
    return reachable(chosen, lambda register: [r for effect in users.get(register, ()) for r in effect.writes])
