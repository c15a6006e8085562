"""Divergence of a warp's lanes, and their reconvergence by a stack of waiting lanes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..chip import ALL_LANES
from ..ptx.flow import EXIT


@lru_cache(maxsize=4096)
def lanes_of(bits: int) -> np.ndarray:
    """Return a word as bool[32], lane 0 from the lowest bit. The array is shared and must not be written to."""
    return np.array([bits >> lane & 1 for lane in range(32)], dtype=bool)


def active(bits: int) -> np.ndarray | None:
    """Return a word as the mask that handlers take: None if all lanes are active."""
    return None if bits == ALL_LANES else lanes_of(bits)


def first(bits: int) -> int:
    """Return the lowest active lane."""
    return (bits & -bits).bit_length() - 1


def resume(warp: Any, bits: int) -> None:
    """Make these lanes the active ones of a warp."""
    warp.bits, warp.mask, warp.lane = bits, active(bits), first(bits)


def leave(warp: Any, bits: int) -> int:
    """End lanes. Return the block where other lanes may wait for them."""
    warp.ended |= bits
    meet: int = warp.meet
    return meet


def rejoin(warp: Any, pc: int) -> int:
    """Return the block where the warp continues after its active lanes reached `pc` or ended.

    If other lanes wait to meet at `pc`, those run first. EXIT if all lanes have ended.
    """
    while pc == warp.meet:
        while warp.stack:
            pc, bits, warp.meet = warp.stack.pop()
            bits &= ~warp.ended
            if bits:
                resume(warp, bits)
                break
        else:
            return EXIT
    return pc


def diverge(warp: Any, taken: int, target: int, following: int, meet: int) -> int:
    """Branch to `target` with the lanes `taken` only. Return the block where the warp continues.

    The other lanes run first. All lanes meet at the branch's post-dominator `meet`, except lanes that end before.
    """
    others = warp.bits & ~taken
    if following == EXIT:
        taken, others, target, following = others, taken, following, target
    if target in warp.leaves:
        warp.ended |= taken
        resume(warp, others)
        return following
    if following in warp.leaves:
        warp.ended |= others
        resume(warp, taken)
        return target
    if meet != EXIT:
        warp.stack.append((meet, warp.bits, warp.meet))
    warp.stack.append((target, taken, meet))
    warp.meet = meet
    resume(warp, others)
    return following
