"""Bulk zero-fill of the CTA's shared memory (st.bulk)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import Misaligned, OutOfBounds, UnknownInstruction
from ..machine.topology import Warp
from ..ptx.syntax import Imm, Instr
from .lane_values import active_lanes, of_lane
from .modifiers import Modifiers
from .registry import Action, executes, never_communicates
from .spaces import SHARED_BASE

UNIT: Final = 8
"""The required alignment of address and size in bytes (PTX ISA 9.1, 9.7.9.13)."""


@executes("st.bulk", communicates=never_communicates)
def _st_bulk(ins: Instr) -> Action:
    _, space = Modifiers(ins).pick({"weak"}, {"shared::cta"})
    if ins.operands[2] != Imm(0):
        raise UnknownInstruction(ins, "the value must be 0")

    def run(warp: Warp, mask: Any, address: Any, size: Any, _value: Any) -> None:
        smem = warp.cta.smem
        for lane in active_lanes(mask):
            start, count = of_lane(address, lane), of_lane(size, lane)
            if space is None and start >> 32 != SHARED_BASE >> 32:
                raise OutOfBounds(f"st.bulk at {start:#x}, which is not in shared memory", ins, warp)
            offset = smem.local_offset(start, ins, warp, "st.bulk")
            if (offset | count) % UNIT:
                raise Misaligned(f"st.bulk of {count} bytes at {start:#x}: both are multiples of {UNIT}", ins, warp)
            if not count:
                continue
            smem.check_span(offset, count, ins, warp, "st.bulk")
            offsets = np.arange(offset, offset + count, UNIT)
            by = np.full(offsets.size, 1 << lane, np.uint32)
            smem.store(offsets, np.zeros((offsets.size, 1), np.uint64), warp.access(ins, "st.bulk"), warp.clock, by)

    return run
