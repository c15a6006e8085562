"""Which lanes of a warp have come to an instruction together, and what must not be executed without the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..chip import LANES
from ..errors import BarrierError, Level
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm

if TYPE_CHECKING:
    from ..ptx.syntax import Instr
    from .topology import Warp

ALL = (1 << LANES) - 1


def report_unconverged(instr: Instr, warp: Warp, mask: np.ndarray | None, aligned: bool) -> None:
    """Find that lanes come to a barrier without those that wait for them at an exchange; or, if it is `aligned`,
    that others of the warp are elsewhere. To be called where a mask is set, or lanes were missed."""
    bits = word(mask)
    _report_missed(warp, bits)
    absent = _elsewhere(warp, bits) if aligned else 0
    if absent:
        warp.cta.launch.report(_apart(instr, warp, bits, ALL, absent))


def note_absent_lanes(instr: Instr, warp: Warp, bits: int, members: int) -> None:
    """Note which of `members` are elsewhere while `bits` execute `instr`, an exchange among them. That waits for
    them to come or to end. Should they wait for these lanes, all wait for ever: an H100 hangs where they come to a
    barrier or another exchange, and does not where they end."""
    _report_missed(warp, bits)
    absent = _elsewhere(warp, bits) & members
    if absent:
        warp.missed.append((absent, _apart(instr, warp, bits, members, absent)))


def report_nonmembers(instr: Instr, warp: Warp, bits: int, members: int, parted: bool) -> None:
    """Find that some of `bits` execute an exchange among `members` that does not name them. An H200 ends the launch
    where the driver's compiler does not know the warp to be together: `parted` by a branch. Else all take part."""
    what = f"{instr.opcode} of {_shown(bits)} is for {_shown(members)}: what the others get is not defined"
    together = not parted and bits | warp.ended == ALL
    warp.cta.launch.report(BarrierError(what, instr, warp, level=Level.FORMAL if together else Level.FAULT))


def _report_missed(warp: Warp, bits: int) -> None:
    """Find that some of `bits`, which are about to wait for others, did not come to an exchange that named them."""
    fault = next((fault for absent, fault in warp.missed if absent & bits), None)
    if fault is not None:
        warp.missed.clear()
        warp.cta.launch.report(fault)


def _apart(instr: Instr, warp: Warp, bits: int, members: int, absent: int) -> BarrierError:
    return BarrierError(
        f"{instr.opcode} of {_shown(bits)} is for {_shown(members)}; {_shown(absent)} did not come with them",
        instr,
        warp,
        (("missing", f"a way of all these lanes to PTX line {instr.line} together"),),
    )


def report_reads_of_ended(instr: Instr, warp: Warp, bits: int) -> None:
    """Find that `bits` get from a shuffle of fixed distance what a lane gives that has ended, or never was."""
    getting = reached(instr, warp.ended) & bits
    if getting:
        what = f"{instr.opcode} brings {_shown(getting)} what lanes give that have ended: it may be anything"
        warp.cta.launch.report(BarrierError(what, instr, warp, level=Level.FORMAL))


def report_reads_of_unnamed(instr: Instr, warp: Warp, bits: int) -> None:
    """Find that `bits` get from a shuffle of fixed distance what lanes give that it does not name."""
    what = f"{instr.opcode} brings {_shown(bits)} what lanes give that it does not name: it may be anything"
    warp.cta.launch.report(BarrierError(what, instr, warp, level=Level.FORMAL))


def fixed(instr: Instr) -> bool:
    """Whether it is known before it runs between which lanes an instruction brings values."""
    return instr.kind is Kind.SHUFFLE and all(isinstance(operand, Imm) for operand in instr.operands[2:4])


def reached(instr: Instr, lanes: int) -> int:
    """The lanes, as bits, that what these lanes give to an exchange may come to: by a shuffle of fixed distance those
    that read one of them, else all."""
    if not fixed(instr):
        return ALL
    distance, clamp = (operand.value for operand in instr.operands[2:4] if isinstance(operand, Imm))
    segment = clamp >> 8 & 31
    found = 0
    for lane in range(LANES):
        last = lane & segment | clamp & 31 & ~segment
        if "up" in instr.modifiers:
            at, there = lane - distance, lane - distance >= last
        elif "idx" in instr.modifiers:
            at = lane & segment | distance & 31 & ~segment
            there = at <= last
        else:
            at = lane ^ distance if "bfly" in instr.modifiers else lane + distance
            there = at <= last
        found |= (lanes >> (at if there else lane) & 1) << lane
    return found


def word(mask: np.ndarray | None) -> int:
    """bool[32] as a word, lane 0 in the lowest bit; all lanes for None."""
    if mask is None:
        return ALL
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _elsewhere(warp: Warp, bits: int) -> int:
    """The lanes that wait or go on at other instructions. A lane is where the latest entry of the stack has it."""
    found = warp.bits & ~bits
    placed = warp.bits | warp.ended
    for block, lanes, _ in reversed(warp.stack):
        if block not in warp.leaves:
            found |= lanes & ~placed
        placed |= lanes
    return found


def _shown(lanes: int) -> str:
    """As in "lanes 0 to 3, 7"."""
    edges = [i for i in range(LANES + 1) if (lanes >> i ^ lanes << 1 >> i) & 1]
    runs = [f"{a} to {b - 1}" if b - a > 1 else str(a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return f"lane{'s' * (lanes.bit_count() > 1)} {', '.join(runs)}"
