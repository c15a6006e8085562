"""The kernel parameters from which the addresses of a kernel's accesses to global memory follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..engine.effects import Effect
from ..isa.moves import parameter_bytes
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Operand, Reg

Origin = frozenset[int]
"""The offsets of parameters, in bytes. Empty if an address follows from none, as one that is loaded from memory."""
NOWHERE: Final[Origin] = frozenset()
POINTER_BYTES: Final = 8
VALUES: Final = frozenset({Kind.LOAD, Kind.ATOMIC, Kind.SHUFFLE, Kind.COMPARE})
"""Instructions whose result does not point to where their operands do."""


class Origins:
    """The parameters that each register of a kernel follows from, but for values that are loaded."""

    def __init__(self, effects: Sequence[Effect]) -> None:
        self._of: dict[Reg, Origin] = {}
        changed = True
        while changed:
            changed = False
            for effect in effects:
                found = self._result(effect)
                for register in effect.writes if found else ():
                    known = self._of.get(register, NOWHERE)
                    if not found <= known:
                        self._of[register], changed = known | found, True

    def of(self, operand: Operand) -> Origin:
        """Return the parameters that an address follows from: pointers, and sizes that it was computed with."""
        base = operand.base if isinstance(operand, Address) else operand
        return self._of.get(base, NOWHERE) if isinstance(base, Reg) else NOWHERE

    def _result(self, effect: Effect) -> Origin:
        instr = effect.instr
        if instr.kind is Kind.PARAMETER:
            address = instr.operands[1]
            assert isinstance(address, Address) and isinstance(address.base, Imm)
            return frozenset(range(address.base.value, address.base.value + parameter_bytes(instr), POINTER_BYTES))
        if instr.kind in VALUES:
            return NOWHERE
        return NOWHERE.union(*(self._of.get(r, NOWHERE) for r in effect.reads if isinstance(r, Reg)))
