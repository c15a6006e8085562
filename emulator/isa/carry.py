"""Extended-precision arithmetic: add, sub and mad with the condition code in a register of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..native.builder import Builder
from ..native.vector import Vec
from ..ptx.syntax import Dual, Imm, Instr, Reg
from . import integer
from .arithmetic import INTEGERS
from .modifiers import Modifiers
from .registry import if_sources_uniform, lowers, rewrites

CARRY: Final = Reg("@carry", "pred")
"""CC.CF of a thread: the carry of a sum, the borrow of a difference."""
_FAMILIES: Final = {"add": "addc", "sub": "subc", "mad": "madc"}


@rewrites(*_FAMILIES, *_FAMILIES.values())
def _with_carry(instr: Instr) -> Instr:
    """Make CC.CF an operand of add.cc, addc, ...

    The destination is d|CARRY if the instruction writes it. The last source is CARRY if it reads it, else 0.
    """
    takes = instr.opcode in _FAMILIES.values()
    if not takes and "cc" not in instr.modifiers:
        return instr
    to, *sources = instr.operands
    to = Dual(to, CARRY) if "cc" in instr.modifiers else to
    return replace(
        instr,
        opcode=_FAMILIES.get(instr.opcode, instr.opcode),
        operands=(to, *sources, CARRY if takes else Imm(0)),
    )


@lowers("addc", "subc", "madc", uniform=if_sources_uniform)
def extended(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower addc, subc and madc.

    Computes a + b + carry, a - b - borrow, or half of a*b + c + carry; .cc writes the carry.
    """
    type_name = m.last()
    if type_name not in ("u32", "s32", "u64", "s64"):
        raise m.unsupported(f"type .{type_name}")
    kind, signed = INTEGERS[type_name]
    m.flag("cc")
    part = m.choice("lo", "hi") if ins.opcode == "madc" else ""
    to, *sources, incoming = ins.operands
    a, b, *c = (builder.read(source, kind) for source in sources)
    if part:
        a, b = integer.multiply_high(a, b, signed) if part == "hi" else a * b, c[0]
    result, carry = (_difference if ins.opcode == "subc" else _sum)(a, b, builder.read(incoming, "i1").zext(kind))
    if isinstance(to, Dual):
        builder.write(to.p, carry)
        to = to.d
    builder.write(to, result)


def _sum(a: Vec, b: Vec, carry: Vec) -> tuple[Vec, Vec]:
    partial = a + b
    total = partial + carry
    return total, partial.compare("ult", a) | total.compare("ult", partial)


def _difference(a: Vec, b: Vec, borrow: Vec) -> tuple[Vec, Vec]:
    partial = a - b
    return partial - borrow, a.compare("ult", b) | partial.compare("ult", borrow)
