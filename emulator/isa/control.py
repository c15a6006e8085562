"""Control instructions that touch no data: register pools, grid dependence, sleep."""

from __future__ import annotations

from typing import Any

from ..errors import UnknownInstruction
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .modifiers import ALIGNED, Modifiers
from .registry import BLOCK, Action, executes, never_communicates


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

    return lambda warp, mask, _time: warp.sleep()
