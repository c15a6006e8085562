"""Times of atomics in L2 and in shared memory, by the words that the lanes of a warp update."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..chip import BANK_BYTES, LANES, SHARED_BANKS
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr
from .chips import Chip
from .lane_addresses import LINE_BYTES, SECTOR_BYTES
from .spans import Span

DRAWS: Final = 64
FLOATS: Final = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})


def is_float(instr: Instr) -> bool:
    """Return True for an atomic on floating-point numbers."""
    return not FLOATS.isdisjoint(instr.modifiers)


def of_l2(chip: Chip, instr: Instr, lanes: np.ndarray | None, active: float, span: Span, words: float) -> float:
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
    word_cycles = chip.atomic_float_cycles if is_float(instr) else chip.atomic_word_cycles
    cycles = np.mean([_of_warp(each, chip.atomic_sector_cycles, word_cycles) for each in addresses])
    lines = max(min(words, 1 + span.most // LINE_BYTES, words * max(span.step, BANK_BYTES) / LINE_BYTES), 1.0)
    at_once = chip.atomics_answered if instr.kind is Kind.ATOMIC else chip.atomics_at_once
    return float(cycles) / max(at_once * lines / (lines + chip.atomics_half_lines), 1.0)


def _of_warp(addresses: np.ndarray, sector_cycles: float, word_cycles: float) -> float:
    """Return the cycles that one part of L2 would take for an atomic."""
    words, times = np.unique(addresses // BANK_BYTES, return_counts=True)
    sectors = words * BANK_BYTES // SECTOR_BYTES
    most = sum(int(times[sectors == sector].max()) for sector in np.unique(sectors))
    return max(sector_cycles * most, word_cycles * int(times.max()))


def of_shared(chip: Chip, instr: Instr, lanes: np.ndarray) -> tuple[float, float]:
    """Return (cycles of the LSU, latency of a loop) of an atomic on shared memory. lanes: their addresses.

    Additions of 1 have a counter of lanes, so that those to one word take one turn. There is no instruction for
    floating-point numbers.
    """
    words = lanes // BANK_BYTES
    if instr.kind is Kind.REDUCTION and "add" in instr.modifiers and instr.operands[-1] == Imm(1):
        words = np.unique(words)
    turns = int(np.bincount(words % SHARED_BANKS).max())
    if is_float(instr):
        return chip.atomic_loop_lsu * turns, chip.atomic_loop_cycles * turns
    return float(turns * (1 + ("cas" in instr.modifiers))), 0.0
