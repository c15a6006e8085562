"""Waits for wgmma where ptxas puts them: before computations that do not need the products.

ptxas moves `wgmma.wait_group` to the start of its basic block, or behind the last instruction before it that is not
plain computation. That takes overlap away: exponentials that the program computes during a product come after it.
Read from the machine code of this project's kernel and of CUDA C++ (ptxas 13.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..engine.effects import Effect
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr, Kernel
from .operations import operation

WAIT: Final = "wgmma.wait_group"
FIXED: Final = frozenset({Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.REDUCTION, Kind.MATRIX_LOAD, Kind.MATRIX_STORE})


def with_early_waits(kernel: Kernel, found: Sequence[Effect]) -> Kernel:
    """Return a kernel whose waits for wgmma are as early in their basic blocks as ptxas puts them."""
    if not any(_waits(effect.instr) for effect in found):
        return kernel
    instrs = list(kernel.instrs)
    for block in Flow(kernel, lambda _: False).blocks:
        first = block.start
        for i in range(block.start, block.end):
            if _waits(found[i].instr):
                instrs.insert(first, instrs.pop(i))
            if not _is_plain(found[i].instr):
                first = i + 1
    return replace(kernel, instrs=tuple(instrs))


def _waits(instr: Instr) -> bool:
    return instr.opcode == WAIT


def _is_plain(instr: Instr) -> bool:
    """Return True for a computation in registers."""
    return not _waits(instr) and operation(instr) is None and not instr.kind.ends_block and instr.kind not in FIXED
