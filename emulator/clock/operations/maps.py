"""Tensor maps that a kernel changes: the memory of the map is changed at issue, as copies through it need its box."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...chip import SHARED_BASE
from ...isa.lane_values import active_lanes, of_lane
from ...isa.registry import Action
from ...isa.tensormap import REPLACEABLE, replace_field
from ...machine.formats.tensormap import MAP_BYTES
from ...machine.launch.globalmem import host_bytes
from ...machine.memory.shared import OFFSET_MASK
from ...ptx.syntax import Instr
from ..warps import TimedWarp
from .registry import everything, timed


@timed("tensormap.replace", keep=everything)
def _replace(ins: Instr) -> Action:
    (field,) = REPLACEABLE.intersection(ins.modifiers)

    def run(warp: TimedWarp, mask: Any, address: Any, *values: Any) -> None:
        for lane in active_lanes(mask):
            replace_field(ins, warp, lane, field, _map(ins, warp, of_lane(address, lane)), values)

    return run


@timed("tensormap.cp_fenceproxy", keep=everything)
def _publish(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, target: Any, source: Any, size: Any) -> None:
        offset = of_lane(source, 0) & OFFSET_MASK
        _map(ins, warp, of_lane(target, 0))[:] = warp.cta.smem[offset : offset + MAP_BYTES]

    return run


def _map(ins: Instr, warp: TimedWarp, address: int) -> np.ndarray:
    """Return the bytes of a map that is about to change."""
    named = ins.opcode == "tensormap.replace" and "shared::cta" in ins.modifiers
    if named or address >> 32 == SHARED_BASE >> 32:
        offset = address & OFFSET_MASK
        return warp.cta.smem[offset : offset + MAP_BYTES]
    warp.cta.launch.memory.writable(address, address + MAP_BYTES, ins, warp, f"the map of {ins.opcode}")
    warp.timeline.tensors.pop(address, None)
    return host_bytes(address, MAP_BYTES)
