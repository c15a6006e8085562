"""Butterfly reductions in a kernel's text: sums over the lanes of a warp by shfl.sync.bfly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final

from ...ptx.kinds import Kind
from ...ptx.syntax import Imm, Instr, Kernel, Operand, Reg, Vector

WHOLE: Final = (Imm(31), Imm(-1)), (Imm(31), Imm(0xFFFF_FFFF))
"""Clamp and member mask of a shuffle among all lanes."""
Makers = Mapping[str, Sequence[Instr]]
"""The instructions that write each register, by its name."""


def summed_lanes(register: Operand, kernel: Kernel) -> int:
    """Return the lanes over which a register holds a float32 sum, as the bits in which they differ; 0 if it holds none.

    All these lanes hold the same sum up to rounding order. Triton's compiler fuses a product and the first addition
    into one fma, so each lane rounds all products except its own.
    """
    makers: dict[str, list[Instr]] = {}
    for instr in kernel.instrs:
        if instr.operands and isinstance(instr.operands[0], Reg):
            makers.setdefault(instr.operands[0].name, []).append(instr)
    return _summed(register, makers)


def _summed(register: Operand, makers: Makers) -> int:
    if isinstance(register, Vector):
        return reduce(and_, (_summed(item, makers) for item in register.items))
    made = _made(register, makers)
    match (made.kind, made.modifiers[-1:], made.operands[1:]) if made is not None else None:
        case Kind.MOVE, _, (source,):
            return _summed(source, makers)
        case Kind.ADD, ("f32",), (one, other):
            return _added(one, other, makers)
        case Kind.ADD, ("f32x2",), (one, other):
            halves = zip(_halves(one, makers), _halves(other, makers), strict=True)
            return reduce(and_, (_added(mine, given, makers) for mine, given in halves))
        case Kind.MULTIPLY_ADD, ("f32",), (one, other, given):
            distance, term = _given(given, makers)
            product = _made(term, makers) if term is not None else None
            if product is not None and product.kind is Kind.MULTIPLY and product.modifiers[-1:] == ("f32",):
                return distance if set(product.operands[1:]) == {one, other} else 0
    return 0


def _added(one: Operand, other: Operand, makers: Makers) -> int:
    return _across(one, other, makers) or _across(other, one, makers)


def _halves(register: Operand, makers: Makers) -> tuple[Operand, Operand]:
    """Return the two floats that a b64 register was packed from, or the register twice if that is unknown."""
    made = _made(register, makers)
    match made.operands[1:] if made is not None and made.kind is Kind.MOVE else None:
        case (Vector((low, high)),):
            return low, high
    return register, register


def _across(mine: Operand, given: Operand, makers: Makers) -> int:
    """Return the lanes of a sum if `given` is the other lane's value of `mine`; 0 otherwise."""
    distance, source = _given(given, makers)
    return distance | _summed(mine, makers) if source == mine else 0


def _given(register: Operand, makers: Makers) -> tuple[int, Operand | None]:
    """Return the lane distance and the source of a butterfly shuffle that writes a register; (0, None) for others."""
    made = _made(register, makers)
    if made is not None and made.kind is Kind.SHUFFLE and "bfly" in made.modifiers:
        _, source, distance, clamp, members = made.operands
        if isinstance(distance, Imm) and (clamp, members) in WHOLE:
            return distance.value, source
    return 0, None


def _made(register: Operand, makers: Makers) -> Instr | None:
    """Return the only, unguarded instruction that writes a register; None if there is no such instruction."""
    found = makers.get(register.name, ()) if isinstance(register, Reg) else ()
    return found[0] if len(found) == 1 and found[0].guard is None else None
