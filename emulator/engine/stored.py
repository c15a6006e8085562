"""Through which parameters a kernel's addresses come: what it will write is known before it runs, and which loads may
read the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..isa.ld_st import outside_cluster
from ..isa.moves import FIXED_PARAMETER
from ..ptx.syntax import Address, Imm, Reg
from .effects import Effect, Source, registers

_STORES = frozenset({"st", "atom", "red"})
_LOADS = frozenset({"ld", "atom", FIXED_PARAMETER})


def stored_parameters(effects: Sequence[Effect]) -> frozenset[int]:
    """The offsets of the parameters that their addresses are computed from, as far as that needs no other memory."""
    return Pointers(effects).of(e for e in effects if e.instr.opcode in _STORES and outside_cluster(e.instr))


class Pointers:
    """Of a kernel, where its addresses come from."""

    def __init__(self, effects: Sequence[Effect]) -> None:
        self._writers: dict[Source, list[Effect]] = defaultdict(list)
        for effect in effects:
            for written in effect.writes:
                self._writers[written].append(effect)

    def of(self, accesses: Iterable[Effect]) -> frozenset[int]:
        """The offsets of the parameters that their addresses are computed from, as far as that needs no
        other memory."""
        work: list[Source] = [r for e in accesses for o in e.sources if isinstance(o, Address) for r in registers(o)]
        seen, found = set(work), set[int]()
        while work:
            register = work.pop()
            for effect in self._writers[register]:
                if effect.instr.opcode in _LOADS:
                    found |= _loaded(effect, register)
                    continue
                new = set(effect.reads) - seen
                seen |= new
                work.extend(new)
        return frozenset(found)


def _loaded(effect: Effect, register: Source) -> set[int]:
    """Where in the parameters a register is loaded from, if it is."""
    address = effect.sources[0]
    if effect.instr.opcode != FIXED_PARAMETER or not isinstance(address, Address) or not isinstance(address.base, Imm):
        return set()
    if not isinstance(register, Reg) or register.type != "b64":
        return set()
    return {address.base.value + 8 * effect.writes.index(register)}
