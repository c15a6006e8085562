"""Loads that NVIDIA's assembler moves above a store, so that lanes which execute together still race.

ptxas 13.5 for sm_100a does this (tests/emulator/test_machine_code.py repeats it). It moves a load of shared memory over
a store to other bytes of the same base register, also if one of MOVED_OVER is between the two. It keeps their order
over a fence, ldmatrix, stmatrix and tcgen05.ld, and wherever it cannot tell that two addresses differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ptx.kinds import Kind
from ...ptx.syntax import Address, Dual, Instr, Operand, Reg, Vector
from ..launch.launch import Launch

MOVED_OVER: Final = frozenset(
    {Kind.SHUFFLE, Kind.VOTE, Kind.WARP_REDUCTION, Kind.ELECTION, Kind.WARP_MMA, Kind.TENSOR_STORE}
)
"""The collectives over which ptxas moves a load."""


def moves_above(load: Instr, store: Instr, launch: Launch) -> bool:
    """Return whether ptxas may execute `load` before `store`, because a lane never loads what it stored itself.

    False in doubt: for other accesses than plain ld and st, guards, and code with a branch or label between the two.
    """
    start, end = launch.place(store), launch.place(load)
    plain = (store.kind, load.kind) == (Kind.STORE, Kind.LOAD) and store.guard is load.guard is None
    if not plain or start > end or any(start < at <= end for at in launch.kernel.labels.values()):
        return False
    return _disjoint(load, store) and _movable(launch.kernel.instrs[start + 1 : end], load)


def _movable(between: Sequence[Instr], load: Instr) -> bool:
    (base,) = (operand.base for operand in load.operands if isinstance(operand, Address))
    return not any(
        instr.kind in (Kind.BRANCH, Kind.FENCE)
        or (instr.is_collective and instr.kind not in MOVED_OVER)
        or base in _first(instr)
        for instr in between
    )


def _first(instr: Instr) -> Sequence[Operand]:
    """Return the first operand, which holds what the instruction writes to registers."""
    first = instr.operands[:1]
    if first and isinstance(first[0], Vector):
        return first[0].items
    return (first[0].d, first[0].p) if first and isinstance(first[0], Dual) else first


def _disjoint(a: Instr, b: Instr) -> bool:
    """Return whether two accesses have the same base register and no byte in common."""
    first, second = (next(o for o in instr.operands if isinstance(o, Address)) for instr in (a, b))
    if first.base != second.base or not isinstance(first.base, Reg):
        return False
    return first.offset + _bytes(a) <= second.offset or second.offset + _bytes(b) <= first.offset


def _bytes(instr: Instr) -> int:
    """Return the bytes that a lane accesses."""
    count = next((int(m[1:]) for m in instr.modifiers if m in ("v2", "v4")), 1)
    return count * int(instr.modifiers[-1][1:]) // 8
