"""Completion of tensor core operations: tcgen05.commit and tcgen05.fence."""

from __future__ import annotations

from typing import Any

from ..chip import RANK_SHIFT
from ..leniency import Leniency
from ..machine.agents.tensorcore import TensorThread
from ..machine.memory.shared import OFFSET_MASK
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane
from .mbarrier import check_initialised, mbarrier_at
from .modifiers import CTA_GROUP, SHARED, Modifiers
from .registry import Action, Publishes, executes, never_communicates, performs


def thread(warp: Warp, lane: int) -> TensorThread:
    """Return the state of the tensor core operations that a lane of a warp issues."""
    driver: TensorThread | None = warp.tensor.get(lane)
    if driver is None:
        driver = warp.tensor[lane] = TensorThread(warp, lane)
    return driver


@executes("tcgen05.commit", publishes=Publishes.WORK, communicates=never_communicates)
def _commit(ins: Instr) -> Action:
    _, _, _, multicast, _ = Modifiers(ins).pick(
        CTA_GROUP, {"mbarrier::arrive::one"}, SHARED, {"multicast::cluster"}, {"b64"}
    )

    def run(warp: Warp, mask: Any, address: Any, targets: Any = 0) -> None:
        for lane in active_lanes(mask):
            at = of_lane(address, lane)
            if multicast:
                barriers = tuple(
                    mbarrier_at(warp, at & OFFSET_MASK | rank << RANK_SHIFT, ins)
                    for rank in range(16)
                    if of_lane(targets, lane) >> rank & 1
                )
            else:
                barriers = (mbarrier_at(warp, at, ins),)
            for barrier in barriers:
                check_initialised(barrier, ins, warp)
            thread(warp, lane).commit(ins, barriers)

    return run


@performs("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync", communicates=never_communicates)
def _fence(ins: Instr, warp: Warp, mask: Any) -> None:
    """Order tcgen05 operations around a thread synchronisation.

    NVIDIA's compiler emits none of these fences: only level `pedantic` requires them.
    """
    before = ins.opcode.endswith("before_thread_sync")
    if warp.cta.launch.enforces(Leniency.TCGEN05_FENCE):
        (warp.before_thread_sync if before else warp.after_thread_sync)()
