"""Origins of a kernel's addresses, parameters and variables: used to predict writes and aliases of loads."""

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


def stored(effects: Sequence[Effect]) -> frozenset[int]:
    """Return the offsets of the parameters that stores go through, directly or by what may be a tensor map.

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
