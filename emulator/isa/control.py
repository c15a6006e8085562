"""Instructions that steer the machine without touching data: register pools, grid dependence, sleep."""

from __future__ import annotations

from emulator.isa.modifiers import ALIGNED, pick
from emulator.isa.registry import Run, executes
from emulator.ptx.syntax import Instr


@executes("griddepcontrol.wait", "griddepcontrol.launch_dependents")
def _grid_dependence(ins: Instr) -> Run:
    pick(ins)
    return lambda warp, mask: None


@executes("setmaxnreg")
def _registers(ins: Instr) -> Run:
    pick(ins, {"inc", "dec"}, {"sync"}, ALIGNED, {"u32"})
    return lambda warp, mask, _count: None


@executes("nanosleep")
def _sleep(ins: Instr) -> Run:
    pick(ins, {"u32"})

    def run(warp: object, mask: object, _time: object) -> None:
        warp.yielded = True  # type: ignore[attr-defined]

    return run
