"""Convergence: the lanes of a warp that execute an instruction together, and instructions that need all of them."""

from __future__ import annotations

import numpy as np

from ..chip import ALL_LANES, LANES
from ..errors import BarrierError, Level
from ..leniency import Leniency
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr
from .topology import Warp


def report_unconverged(instr: Instr, warp: Warp, mask: np.ndarray, aligned: bool) -> None:
    """Report lanes at an `aligned` barrier if other lanes of their warp are at another instruction."""
    bits = lane_bits(mask)
    absent = warp.elsewhere(bits) if aligned else 0
    if absent:
        warp.cta.launch.report(diverged(instr, warp, bits, ALL_LANES, absent))


def report_nonmembers(instr: Instr, warp: Warp, bits: int, members: int, parted: bool) -> None:
    """Report lanes that execute a shuffle or vote whose member mask does not name them.

    An H200 ends the launch if the driver's compiler does not know the warp to be converged, after a branch (`parted`).
    Otherwise all these lanes take part.
    """
    what = f"{instr.opcode} of {_shown(bits)} names {_shown(members)} only: the results of other lanes are undefined"
    together = not parted and bits | warp.ended == ALL_LANES
    warp.cta.launch.report(BarrierError(what, instr, warp, level=Leniency.UNNAMED_LANE if together else Level.FAULT))


def diverged(instr: Instr, warp: Warp, bits: int, members: int, absent: int) -> BarrierError:
    """Return the fault that lanes `absent` of `members` do not execute an instruction together with lanes `bits`."""
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
    """Report that `bits` receive, by a shuffle of fixed distance, values of lanes outside its member mask."""
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


def _shown(lanes: int) -> str:
    """Format lanes as in "lanes 0 to 3, 7"."""
    edges = [i for i in range(LANES + 1) if (lanes >> i ^ lanes << 1 >> i) & 1]
    runs = [f"{a} to {b - 1}" if b - a > 1 else str(a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return f"lane{'s' * (lanes.bit_count() > 1)} {', '.join(runs)}"
