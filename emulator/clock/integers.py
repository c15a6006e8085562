"""Launches that only compute integers, on which the work of later launches may depend."""

from __future__ import annotations

from math import prod
from typing import Final

from ..machine.launch.launch import Launch
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr
from .operations import operation
from .segment import FLOATS

MOST_THREADS: Final = 1 << 15
"""The most threads of a launch that is executed although the clock runs."""
BUDGET: Final = 10_000
"""The most instructions of each of its warps."""
EXCLUDED: Final = frozenset({Kind.ATOMIC, Kind.REDUCTION, Kind.WARP_MMA})
"""Counters keep their values, so that a repeated launch has the same prediction."""


def computes_integers(launch: Launch) -> bool:
    """Return True for a small launch that only computes integers: tensor maps, a schedule of tiles, or offsets."""
    if prod(launch.grid) * prod(launch.block) > MOST_THREADS:
        return False
    return all(map(_is_plain, launch.kernel.instrs))


def _is_plain(instr: Instr) -> bool:
    """Return True for integer arithmetic, branches, barriers, ordinary accesses, and changes of tensor maps."""
    if instr.kind in EXCLUDED or not FLOATS.isdisjoint(instr.modifiers):
        return False
    waits = instr.kind.is_barrier or instr.kind.is_mbarrier
    accesses = instr.kind in (Kind.LOAD, Kind.STORE) or instr.opcode.startswith("tensormap.")
    return waits or accesses or operation(instr) is None
