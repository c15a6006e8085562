"""Search for the write that a read of unwritten memory should have waited for: other warps run on until it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import EmulatorError, UnwrittenRead, place
from ..order.access import Access, Issuer
from ..order.shadow import Shadow
from ..reports.report import ended_without, unwritten_cells
from ..topology import Cluster

ROUNDS = 64
"""The number of times that the other warps are run until all of them wait or one fails."""
AHEAD = "running on after a fault"
"""The key of `Launch.registry` for a launch whose other warps run on."""


def with_writer(fault: UnwrittenRead, cluster: Cluster, go_on: Callable[[], bool]) -> UnwrittenRead:
    """Return the fault with the access that writes the cells later in the launch, if there is one.

    go_on: runs the other warps until all wait, and returns False if none could run. The launch has failed already, so
    what they do has no effect on its result.
    """
    launch = cluster.launch
    found: tuple[Shadow, Any] | None = launch.registry.pop(unwritten_cells(fault.warp, fault.line), None)
    if found is None or AHEAD in launch.registry:
        return fault
    shadow, cells = found
    launch.registry[AHEAD] = True
    findings = list(launch.findings)
    for _ in range(ROUNDS):
        if shadow.records is not None:
            shadow.records.flush_all()
        shadow.reader[:] = 0  # reads that came too early must not stop the write as a race
        try:
            if not go_on():
                break
        except EmulatorError:  # the warp that failed does not go on
            continue
        if _writer(shadow, cells, fault) is not None:
            break
    launch.findings[:] = findings
    writer = _writer(shadow, cells, fault)
    return fault if writer is None else _too_early(fault, writer)


def _writer(shadow: Shadow, cells: Any, fault: UnwrittenRead) -> Access | None:
    """Return the access of another warp, or of its agent, that wrote one of the cells."""
    if shadow.records is not None:
        shadow.records.flush_all()
    numbers = np.unique(shadow.writer[cells]).tolist()
    writes = (shadow.history.accesses[number] for number in numbers)
    return next((write.last for write in writes if write is not None and write.last.warp is not fault.warp), None)


def _too_early(fault: UnwrittenRead, writer: Access) -> UnwrittenRead:
    did = f"{writer.warp} arrives on after PTX line {writer.instr.line}"
    if writer.via is not None:
        did = f"{writer.what} of PTX line {writer.instr.line} completes"
    missing = f"a barrier that {did} and {fault.warp} waits for before PTX line {fault.line}"
    assert isinstance(fault.warp, Issuer)
    missing += ended_without(writer, fault.warp)
    lines = (
        *(line for line in fault.lines if line[0] != "near"),
        ("written later at", place(writer.instr, fault.warp)),
        ("by", str(writer.warp)),
        ("missing", missing),
    )
    what = fault.what.replace("which nothing wrote", "which nothing had written yet")
    return UnwrittenRead(what, fault.instr, fault.warp, lines, fault.rule or fault.level)
