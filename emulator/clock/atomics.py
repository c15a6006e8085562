"""Times of atomics in L2 and in shared memory, by the words that the lanes of a warp update.

All figures: atomics of an H200, 2026-11-30, 1 to 1,056 CTAs, chosen and random words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..chip import BANK_BYTES, LANES, SHARED_BANKS
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr
from .lane_addresses import LINE_BYTES, SECTOR_BYTES
from .spans import Span

SECTOR_CYCLES: Final = 1.27
"""L2's cycles for each sector of a line, times the lanes that update its most updated word."""
WORD_CYCLES: Final = 1.45
FLOAT_CYCLES: Final = 3.5
"""L2's cycles for each lane that updates one word, of integers and of floating-point numbers."""
AT_ONCE: Final = 68
ANSWERED: Final = 48
"""The sectors that all of L2 updates at once, without and with results."""
HALF_OF_L2: Final = 280
"""The lines of a region at which L2 reaches half of that."""

LOOP_CYCLES: Final = 93
"""The latency of a loop that compares and swaps a word of shared memory, for each lane of a bank."""
LOOP_LSU: Final = 6.0
"""The cycles of the LSU for the same."""
DRAWS: Final = 64
FLOATS: Final = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})


def is_float(instr: Instr) -> bool:
    """Return True for an atomic on floating-point numbers."""
    return not FLOATS.isdisjoint(instr.modifiers)


def of_l2(instr: Instr, lanes: np.ndarray | None, active: float, span: Span, words: float) -> float:
    """Return the cycles of all of L2 that a warp's atomic takes.

    lanes: their addresses relative to each other, if they follow from the thread. active: the share of lanes that
    update. span: of the addresses. words: the number of different words.
    """
    count = max(round(LANES * active), 1)
    if lanes is not None:
        addresses = lanes[None, :count]
        if not addresses.any() and instr.kind is Kind.REDUCTION and not is_float(instr):
            addresses = addresses[:, :1]  # ptxas adds up the lanes of a warp first
    else:
        places = np.random.default_rng(0).random((DRAWS, count)) * words
        addresses = places.astype(np.int64) * max(span.step, BANK_BYTES)
    cycles = np.mean([_of_warp(each, FLOAT_CYCLES if is_float(instr) else WORD_CYCLES) for each in addresses])
    lines = max(min(words, 1 + span.most // LINE_BYTES, words * max(span.step, BANK_BYTES) / LINE_BYTES), 1.0)
    at_once = ANSWERED if instr.kind is Kind.ATOMIC else AT_ONCE
    return float(cycles) / max(at_once * lines / (lines + HALF_OF_L2), 1.0)


def _of_warp(addresses: np.ndarray, word_cycles: float) -> float:
    """Return the cycles that one part of L2 would take for an atomic."""
    words, times = np.unique(addresses // BANK_BYTES, return_counts=True)
    sectors = words * BANK_BYTES // SECTOR_BYTES
    most = sum(int(times[sectors == sector].max()) for sector in np.unique(sectors))
    return max(SECTOR_CYCLES * most, word_cycles * int(times.max()))


def of_shared(instr: Instr, lanes: np.ndarray) -> tuple[float, float]:
    """Return (cycles of the LSU, latency of a loop) of an atomic on shared memory. lanes: their addresses.

    Additions of 1 have a counter of lanes, so that those to one word take one turn. There is no instruction for
    floating-point numbers.
    """
    words = lanes // BANK_BYTES
    if instr.kind is Kind.REDUCTION and "add" in instr.modifiers and instr.operands[-1] == Imm(1):
        words = np.unique(words)
    turns = int(np.bincount(words % SHARED_BANKS).max())
    if is_float(instr):
        return LOOP_LSU * turns, LOOP_CYCLES * turns
    return float(turns * (1 + ("cas" in instr.modifiers))), 0.0
