"""Control of a warp and its resources: register pools, grid dependence, sleep, cache hints and profiler events.

Hints have no effect, except that discarded memory loses its contents.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import Misaligned, UnknownInstruction
from ..machine.memory.global_shadow import DISCARD
from ..machine.topology import Warp
from ..native.builder import Builder
from ..ptx.syntax import Imm, Instr
from .lane_values import active_lanes, of_lane
from .ld_st import active_addresses
from .registry import (
    ALIGNED,
    BLOCK,
    Action,
    Modifiers,
    Timing,
    executes,
    if_sources_uniform,
    lowers,
    never_communicates,
)


@executes("griddepcontrol.wait", "griddepcontrol.launch_dependents", communicates=never_communicates)
def _grid_dependence(ins: Instr) -> Action:
    Modifiers(ins).done()
    waits = ins.opcode == "griddepcontrol.wait"

    def run(warp: Warp, mask: Any) -> None:
        if (around := warp.cta.launch.surroundings) is not None:
            (around.wait if waits else around.trigger)(warp)

    return run


@executes("setmaxnreg", blocking=True, communicates=never_communicates)
def _registers(ins: Instr) -> Action:
    Modifiers(ins).pick({"inc", "dec"}, {"sync"}, ALIGNED, {"u32"})
    count = getattr(ins.operands[0], "value", None)
    if count not in range(24, 257, 8):
        raise UnknownInstruction(ins, f"count {count}; allowed is 24 to 256 in steps of 8")

    def run(warp: Warp, mask: Any, count: int) -> Any:
        return None if warp.cta.registers.set(warp, count, ins) else BLOCK

    return run


@executes("nanosleep", communicates=never_communicates)
def _sleep(ins: Instr) -> Action:
    Modifiers(ins).pick({"u32"})

    return lambda warp, mask, time: warp.sleep(max(of_lane(time, lane) for lane in active_lanes(mask)))


LINE_BYTES: Final = 128
POLICIES: Final = {
    "L2::evict_normal": 0x16F0 << 48,
    "L2::evict_first": 0x12F0 << 48,
    "L2::evict_last": 0x14F0 << 48,
    "L2::evict_unchanged": 0x10F0 << 48,
}


@lowers("createpolicy", timing=Timing.FREE, uniform=if_sources_uniform)
def createpolicy(builder: Builder, ins: Instr, m: Modifiers) -> None:
    """Lower createpolicy.

    A policy has no effect; its value encodes the primary priority or the given access property.
    """
    kind = m.choice("fractional", "range", "cvt")
    m.choice("b64")
    if kind == "cvt":
        m.choice("L2")
        m.done()
        builder.write(ins.operands[0], builder.read(ins.operands[1], "i64"))
        return
    if kind == "range":
        m.flag("global")
    first = m.choice(*POLICIES)
    m.choice(*POLICIES, default="")
    builder.write(ins.operands[0], builder.code.constant(POLICIES[first], "i64"))


@executes("applypriority", communicates=never_communicates)
def _applypriority(ins: Instr) -> Action:
    Modifiers(ins).pick({"global"}, {"L2::evict_normal"})
    _check_line(ins)
    return lambda warp, mask, address, _size: _lines(ins, warp, mask, address)


@executes("discard", communicates=never_communicates)
def _discard(ins: Instr) -> Action:
    """Set the line's bytes to all ones, like memory that was never written."""
    Modifiers(ins).pick({"global"}, {"L2"})
    _check_line(ins)

    def run(warp: Warp, mask: Any, address: Any, _size: int) -> None:
        lines = _lines(ins, warp, mask, address)
        lost = np.full((lines.size, LINE_BYTES // 8), ~np.uint64(0))
        warp.cta.cluster.outside.write(lines, lost, warp.access(ins, DISCARD), warp.clock, None)
        warp.cta.launch.memory.store(lines, lost, ins, warp, DISCARD)

    return run


def _check_line(ins: Instr) -> None:
    size = ins.operands[1]
    if not isinstance(size, Imm) or size.value != LINE_BYTES:
        raise UnknownInstruction(ins, f"size {size}; allowed is {LINE_BYTES}")


def _lines(ins: Instr, warp: Warp, mask: Any, address: Any) -> np.ndarray:
    """Return the addresses as uint64[n]. Raises Misaligned unless they are line-aligned."""
    addresses = active_addresses(warp, mask, address)
    if (inside := addresses % np.uint64(LINE_BYTES)).any():
        at = int(addresses[inside.argmax()])
        raise Misaligned(f"{ins.opcode} at {at:#x}, which is not a multiple of {LINE_BYTES}", ins, warp)
    return addresses


@executes("pmevent", communicates=never_communicates)
def _pmevent(ins: Instr) -> Action:
    Modifiers(ins).pick({"mask"})
    return lambda warp, mask, event: None
