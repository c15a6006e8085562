"""Convergence: the lanes of a warp that execute an instruction together, and instructions that need all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..chip import ALL_LANES, LANES
from ..errors import BarrierError, Level
from ..leniency import Leniency
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm

if TYPE_CHECKING:
    from ..ptx.syntax import Instr
    from .topology import Warp


def report_unconverged(instr: Instr, warp: Warp, mask: np.ndarray | None, aligned: bool) -> None:
    """Report lanes that come to a barrier while other lanes wait for them at an exchange.

    aligned: also report lanes of the warp that are elsewhere. Called if a mask is set or lanes were missed.
    """
    bits = lane_bits(mask)
    _report_missed(warp, bits)
    absent = _elsewhere(warp, bits) if aligned else 0
    if absent:
        warp.cta.launch.report(_apart(instr, warp, bits, ALL_LANES, absent))


def record_absent_lanes(instr: Instr, warp: Warp, bits: int, members: int) -> None:
    """Record the `members` of an exchange that are elsewhere while `bits` execute it.

    The exchange waits for them to come or to end. If they wait for these lanes at a barrier or another exchange, all
    wait for ever: an H100 hangs there, and does not if they end.
    """
    _report_missed(warp, bits)
    absent = _elsewhere(warp, bits) & members
    if absent:
        warp.missed.append((absent, _apart(instr, warp, bits, members, absent)))
        getting = receiving_lanes(instr, absent) & bits if has_constant_lanes(instr) else 0
        if getting:
            what = f"{instr.opcode} gives {_shown(getting)} the values of {_shown(absent)}, which never come to it"
            warp.undefined.append(BarrierError(what, instr, warp, level=Leniency.UNDEFINED_SHUFFLE))


def report_undefined(warp: Warp) -> None:
    """Report the values that lanes of an ended warp received from lanes that never came to the exchange."""
    for fault in warp.undefined:
        warp.cta.launch.report(fault)


def report_nonmembers(instr: Instr, warp: Warp, bits: int, members: int, parted: bool) -> None:
    """Report lanes that execute an exchange whose member mask does not name them.

    An H200 ends the launch if the driver's compiler does not know the warp to be converged, after a branch (`parted`).
    Otherwise all of them take part.
    """
    what = f"{instr.opcode} of {_shown(bits)} names {_shown(members)} only: the results of other lanes are undefined"
    together = not parted and bits | warp.ended == ALL_LANES
    warp.cta.launch.report(BarrierError(what, instr, warp, level=Leniency.UNNAMED_LANE if together else Level.FAULT))


def _report_missed(warp: Warp, bits: int) -> None:
    """Report lanes about to wait for others that missed an exchange which named them."""
    fault = next((fault for absent, fault in warp.missed if absent & bits), None)
    if fault is not None:
        warp.missed.clear()
        warp.cta.launch.report(fault)


def _apart(instr: Instr, warp: Warp, bits: int, members: int, absent: int) -> BarrierError:
    return BarrierError(
        f"{instr.opcode} of {_shown(bits)} names {_shown(members)}, but {_shown(absent)} did not come with them",
        instr,
        warp,
        (("missing", f"a path on which all these lanes reach PTX line {instr.line} together"),),
    )


def report_reads_of_ended(instr: Instr, warp: Warp, bits: int) -> None:
    """Report that `bits` receive, by a shuffle of fixed distance, values of lanes that have ended or never existed."""
    getting = receiving_lanes(instr, warp.ended) & bits
    if getting:
        what = f"{instr.opcode} gives {_shown(getting)} the values of lanes that have ended, which are undefined"
        warp.cta.launch.report(BarrierError(what, instr, warp, level=Leniency.UNDEFINED_SHUFFLE))


def report_reads_of_unnamed(instr: Instr, warp: Warp, bits: int) -> None:
    """Report that `bits` receive, by a shuffle of fixed distance, values of lanes that it does not name."""
    what = f"{instr.opcode} gives {_shown(bits)} the values of lanes that it does not name, which are undefined"
    warp.cta.launch.report(BarrierError(what, instr, warp, level=Leniency.UNDEFINED_SHUFFLE))


def has_constant_lanes(instr: Instr) -> bool:
    """Return whether the lanes between which an instruction moves values are constants."""
    return instr.kind is Kind.SHUFFLE and all(isinstance(operand, Imm) for operand in instr.operands[2:4])


def receiving_lanes(instr: Instr, lanes: int) -> int:
    """Return the lanes (bits) that may receive the values of `lanes` by an exchange.

    By a shuffle of fixed distance these are the lanes that read one of them; by others, all lanes.
    """
    if not has_constant_lanes(instr):
        return ALL_LANES
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


def lane_bits(mask: np.ndarray | None) -> int:
    """Return bool[32] as a word, lane 0 in the lowest bit; all lanes for None."""
    if mask is None:
        return ALL_LANES
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _elsewhere(warp: Warp, bits: int) -> int:
    """Return the lanes at other instructions. The latest entry of the stack that holds a lane decides where it is."""
    found = warp.bits & ~bits
    placed = warp.bits | warp.ended
    for block, lanes, _ in reversed(warp.stack):
        if block not in warp.leaves:
            found |= lanes & ~placed
        placed |= lanes
    return found


def _shown(lanes: int) -> str:
    """Format lanes as in "lanes 0 to 3, 7"."""
    edges = [i for i in range(LANES + 1) if (lanes >> i ^ lanes << 1 >> i) & 1]
    runs = [f"{a} to {b - 1}" if b - a > 1 else str(a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return f"lane{'s' * (lanes.bit_count() > 1)} {', '.join(runs)}"
