"""Addresses in shared memory that follow from a kernel's text."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, lshift, mul, sub
from typing import Final

from ...ptx.syntax import Address, Imm, Instr, Kernel, Operand, Reg, Symbol, atoms

COPIES: Final = frozenset({"mov", "cvta", "cvta.to", "cvt"})
SUMS: Final[dict[str, Callable[[int, int], int]]] = {"add": add, "sub": sub, "mul": mul, "shl": lshift}


class KnownAddresses:
    """The addresses of a kernel's operands, as far as registers have one definition and constants decide them."""

    def __init__(self, kernel: Kernel) -> None:
        self._symbols = {variable.name: variable.offset for variable in kernel.shared}
        self._defined: dict[Reg, Instr | None] = {}
        for instr in kernel.instrs:
            for register in atoms(instr.operands[:1]):
                if isinstance(register, Reg):
                    self._defined[register] = None if register in self._defined else instr

    def of(self, operand: Operand) -> int | None:
        """Return the value of an operand; None if it is not known."""
        match operand:
            case Imm(value):
                return value
            case Symbol(name):
                return self._symbols.get(name)
            case Address(base, offset):
                start = self.of(base)
                return None if start is None else start + offset
            case Reg() if (instr := self._defined.get(operand)) is not None and instr.guard is None:
                known = [self.of(source) for source in instr.operands[1:]]
                if instr.opcode in COPIES:
                    return known[0]
                one, two = known[:2] if instr.opcode in SUMS else (None, None)
                return None if one is None or two is None else SUMS[instr.opcode](one, two)
        return None
