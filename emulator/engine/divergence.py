"""Divergence of a warp's lanes, and their reconvergence by a stack of waiting lanes.

An arm is a group of lanes that a branch separated from others. A warp runs its arms one after another, and lanes that
reach the branch's post-dominator wait there for the others. If lanes are independent this order has no effect. But
an arm may wait for another one: at an exchange that names its lanes, or in a wait that another arm ends. Then the warp
switches to another arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..chip import ALL_LANES
from ..ptx.flow import EXIT
from ..ptx.syntax import Instr


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


class ArmsApart(Exception):
    """An exchange names lanes that are not at it; raised before the block's instruction `instr`."""

    def __init__(self, instr: Instr, lanes: int) -> None:
        super().__init__(instr.text)
        self.instr, self.lanes = instr, lanes


@dataclass(frozen=True)
class Arm:
    """Lanes (bits) that are at instruction `at` and meet others at `meet`.

    place: their entry of the warp's stack, None for the active lanes. waits: True if they reached their branch's end.
    """

    place: int | None
    at: int
    lanes: int
    meet: int
    waits: bool = False


def arms(warp: Any) -> list[Arm]:
    """Return the arms of a warp, the active one first, then in the order in which they would run.

    The latest entry of the stack that holds a lane decides where it is.
    """
    found, placed = [Arm(None, warp.pc, warp.bits, warp.meet)], warp.bits | warp.ended
    for place in reversed(range(len(warp.stack))):
        at, lanes, meet = warp.stack[place]
        if at == meet:
            continue  # these lanes wait for others at an earlier entry
        here = lanes & ~placed
        if here:
            found.append(Arm(place, at, here, meet, here != lanes & ~warp.ended))
        placed |= lanes
    return found


def change(warp: Any, arm: Arm) -> None:
    """Make an arm the active one."""
    if arm.waits:
        warp.ahead |= arm.lanes
    take(warp, arm)
    warp.stack.append((warp.pc, warp.bits, warp.meet))
    warp.pc, warp.meet = arm.at, arm.meet
    resume(warp, arm.lanes)


def take(warp: Any, arm: Arm) -> None:
    """Take the lanes of an arm off the warp's stack."""
    stack = warp.stack
    left = [(at, lanes & ~arm.lanes, meet) for at, lanes, meet in stack[arm.place :]]
    stack[arm.place :] = [entry for entry in left if entry[1]]
