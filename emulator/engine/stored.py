"""Through which parameters and variables a kernel's addresses come: what it will write is known before it runs, and
which loads may read the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ..isa.ld_st import outside_cluster
from ..ptx.dataflow import reachable
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Reg, TensorAddress
from .effects import Effect, Source, registers

_STORES = frozenset({Kind.STORE, Kind.ATOMIC, Kind.REDUCTION})
_LOADS = frozenset({Kind.LOAD, Kind.ATOMIC, Kind.PARAMETER})
_MOVES = frozenset({Kind.MOVE, Kind.ADDRESS})

Stored = tuple[frozenset[int], frozenset[int]]
"""Offsets of parameters: those that addresses of threads' stores are computed from; and of agents', or what may be
tensor maps of theirs."""


def stored(effects: Sequence[Effect]) -> Stored:
    """Where the parameters are that stores go through, as far as that needs no other memory."""
    pointers = Pointers(effects)
    by_threads = [e for e in effects if e.instr.kind in _STORES and outside_cluster(e.instr)]
    by_agents = [e for e in effects if "bulk_group" in e.instr.modifiers]
    return pointers.of(by_threads), pointers.of(by_agents) | pointers.maps(by_agents)


class Pointers:
    """Of a kernel, where its addresses come from. variables: where those of its module are."""

    def __init__(self, effects: Sequence[Effect], variables: Iterable[int] = ()) -> None:
        self._variables = frozenset(variables)
        self._writers: dict[Source, list[Effect]] = defaultdict(list)
        for effect in effects:
            for written in effect.writes:
                self._writers[written].append(effect)

    def of(self, accesses: Iterable[Effect]) -> frozenset[int]:
        """The offsets of the parameters, and the addresses of the variables, that their addresses are computed from, as
        far as that needs no other memory."""
        starts = [r for e in accesses for o in e.sources if isinstance(o, Address) for r in registers(o)]
        found = set[int]()
        for effect, register in self._before(starts):
            if effect.instr.kind in _LOADS:
                found |= _loaded(effect, register)
            elif effect.instr.kind in _MOVES:
                found |= self._variables.intersection(o.value for o in effect.sources if isinstance(o, Imm))
        return frozenset(found)

    def maps(self, accesses: Iterable[Effect]) -> frozenset[int]:
        """The constants that the addresses of their tensor maps are made of: a parameter's is its offset, in cvta."""
        at = [o.map for e in accesses for o in e.sources if isinstance(o, TensorAddress)]
        moves = (e for e, _ in self._before([r for o in at for r in registers(o)]) if e.instr.kind in _MOVES)
        return frozenset(o.value for e in moves for o in e.sources if isinstance(o, Imm) and isinstance(o.value, int))

    def _before(self, starts: Iterable[Source]) -> Iterator[tuple[Effect, Source]]:
        """What writes these registers, and those that it reads, with the register; not on from a load."""

        def read(register: Source) -> Iterator[Source]:
            for effect in self._writers[register]:
                if effect.instr.kind not in _LOADS:
                    yield from effect.reads

        for register in reachable(starts, read):
            yield from ((effect, register) for effect in self._writers[register])


def _loaded(effect: Effect, register: Source) -> set[int]:
    """Where in the parameters a register is loaded from, if it is."""
    address = effect.sources[0]
    if effect.instr.kind is not Kind.PARAMETER or not isinstance(address, Address) or not isinstance(address.base, Imm):
        return set()
    if not isinstance(register, Reg) or register.type != "b64":
        return set()
    return {address.base.value + 8 * effect.writes.index(register)}
