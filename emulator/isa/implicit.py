"""Implicit operands of instructions, made explicit before lowering."""

from __future__ import annotations

from ..ptx.syntax import Instr
from .carry import with_carry
from .moves import with_fixed_parameter
from .wgmma import with_accumulator


def with_implicit_operands(instr: Instr) -> Instr:
    """Make the carry and the accumulator operands; give ld.param of a constant address its own opcode."""
    return with_accumulator(with_carry(with_fixed_parameter(instr)))
