"""The tables of docs/explanation/race.md: a race in shared memory, run one instruction at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from emulator.debug.stepping import Observer, SteppedProgram
from emulator.errors import EmulatorError
from emulator.machine.execution.scheduler import RunOptions, run
from emulator.machine.launch.launch import Launch
from emulator.machine.order.access import Access
from emulator.program import Program
from emulator.ptx.parser import parse

ORDERED: Final = """.version 9.1
.target sm_100a
.address_size 64
.visible .entry pass(.param .u64 out) .reqntid 64 {
  .reg .pred %p;  .reg .b32 %r<3>;  .reg .b64 %d;
  .shared .b32 box;
  shr.u32 %r0, %tid.x, 5;
  setp.ne.u32 %p, %r0, 0;
  @!%p st.shared.u32 [box], 7;
  bar.sync 0;
  @%p ld.shared.u32 %r1, [box];
  ld.param.u64 %d, [out];
  @%p st.global.u32 [%d], %r1;
  ret;
}"""
"""Warp 0 passes a number to warp 1 through shared memory."""
BARRIER: Final = "  bar.sync 0;\n"


class Steps(Observer):
    """The state after each instruction that concerns the race: a row of cells for a table."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []

    def after(self, warp: Any, at: int, lanes: int) -> None:
        """Add the state after an instruction that lanes of a warp executed."""
        if lanes:
            self._add(warp, at, "")

    def blocked(self, warp: Any, at: int) -> None:
        """Add the state in which a warp waits."""
        self._add(warp, at, ", which waits")

    def _add(self, warp: Any, at: int, remark: str) -> None:
        cta = warp.cta
        instr, shadow, cell = cta.launch.kernel.instrs[at], cta.smem.shadow, cta.launch.kernel.shared[0].offset // 4
        accesses = [shadow.history.accesses[table.item(cell)] for table in (shadow.writer, shadow.reader)]
        clocks = (f"({', '.join(str(one.clock.at(each.component)) for each in cta.warps)})" for one in cta.warps)
        self.rows.append((f"{warp.index}: {instr.line}{remark}", *clocks, *map(_shown, accesses)))


def _shown(access: Access | None) -> str:
    return "none" if access is None else f"warp {access.warp.index} at {access.time}, line {access.instr.line}"


def _executed(text: str) -> tuple[list[tuple[str, ...]], str]:
    """Run a program with two warps. Return a row for each step, and the report, "" if nothing is wrong."""
    (kernel,) = parse(text).kernels.values()
    out = np.zeros(1, np.uint32)
    params = np.array([out.ctypes.data], np.uint64)
    launch = Launch(
        kernel, (1, 1, 1), (64, 1, 1), params.ctypes.data, params, allocations=[(out.ctypes.data, 4, "out")]
    )
    steps = Steps()
    try:
        run(launch, SteppedProgram(Program(kernel), steps), RunOptions())
    except EmulatorError as error:
        return steps.rows, f"{type(error).__name__}: {error}"
    return steps.rows, ""


def _block(text: str) -> Iterator[str]:
    rows, report = _executed(text)
    yield "```ptx"
    yield from (f"{number:2} {line}" for number, line in enumerate(text.splitlines(), 1))
    yield "```\n"
    yield "| warp: PTX line | clock of warp 0 | clock of warp 1 | last writer of `box` | readers since |"
    yield "|---|---|---|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
    yield f"```text\n{report}\n```" if report else "The launch ends without a finding."


def race() -> Iterator[str]:
    """Yield the program without the barrier, its steps, and the report."""
    yield from _block(ORDERED.replace(BARRIER, ""))


def ordered() -> Iterator[str]:
    """Yield the program with the barrier and its steps."""
    yield from _block(ORDERED)
