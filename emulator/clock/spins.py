"""Waits that a kernel repeats until they succeed.

A failed mbarrier.try_wait returns after a while. Most kernels then only try again, so it makes no difference to time
that the warp ran in between; a kernel that does anything else needs the failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Kernel, Operand, Reg, Symbol
from .operations import operation

STEPS: Final = 64
"""The maximum number of instructions between a wait and its repetition."""


def repeats(kernel: Kernel, wait: int, writes: Callable[[int], tuple[Reg, ...]]) -> bool:
    """Return True if a wait that fails is executed again, and nothing else happens in between.

    wait: the index of an mbarrier.try_wait; writes: the registers that an instruction writes.
    """
    instr = kernel.instrs[wait]
    if instr.guard is not None or not isinstance(instr.operands[0], Reg):
        return False
    inputs = {reg for operand in instr.operands[1:] for reg in _registers(operand)}
    known: dict[Reg, int] = {instr.operands[0]: 0}
    at = wait + 1
    for _ in range(STEPS):
        if at == wait:
            return True
        if at >= len(kernel.instrs):
            return False
        instr, taken = kernel.instrs[at], True
        if instr.guard is not None:
            if instr.guard[0] not in known:
                return False
            taken = bool(known[instr.guard[0]]) == instr.guard[1]
        if instr.kind is Kind.BRANCH:
            label = instr.operands[0]
            if not isinstance(label, Symbol):
                return False
            at = kernel.labels[label.name] if taken else at + 1
            continue
        if taken and (instr.kind is Kind.EXIT or operation(instr) is not None or not inputs.isdisjoint(writes(at))):
            return False
        if taken:
            value = _value(instr, known)
            for reg in writes(at):
                known.pop(reg, None)
                if value is not None:
                    known[reg] = value
        at += 1
    return False


def _registers(operand: Operand) -> tuple[Reg, ...]:
    """Return the register of an operand, or of an address's base."""
    base = getattr(operand, "base", operand)
    return (base,) if isinstance(base, Reg) else ()


def _value(instr: Instr, known: dict[Reg, int]) -> int | None:
    """Return the value that an instruction writes if it follows from the failed wait; else None."""

    def of(operand: Operand) -> int | None:
        if isinstance(operand, Imm):
            return operand.value
        return known.get(operand) if isinstance(operand, Reg) else None

    if instr.kind is Kind.MOVE:
        return of(instr.operands[1])
    if instr.kind is Kind.SELECT:
        chosen = of(instr.operands[3])
        return None if chosen is None else of(instr.operands[1 if chosen else 2])
    if instr.kind is Kind.COMPARE and len(instr.operands) == 3 and instr.modifiers[0] in ("eq", "ne"):
        a, b = (of(operand) for operand in instr.operands[1:])
        return None if a is None or b is None else int((a == b) == (instr.modifiers[0] == "eq"))
    return None
