"""Allocation of tensor memory columns, and completion of tensor core operations.

The families are tcgen05.alloc, .dealloc, .relinquish_alloc_permit, .commit and .fence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chip import RANK_SHIFT
from ..errors import TensorMemoryError, place
from ..leniency import Leniency
from ..machine.agents.tensorcore import TensorThread
from ..machine.memory.shared import OFFSET_MASK
from ..machine.memory.tmem import ALLOC
from ..machine.order.completion import Wait
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane, same
from .mbarrier import check_initialised, mbarrier_at
from .registry import (
    ALIGNED,
    BLOCK,
    CTA_GROUP,
    SHARED,
    Action,
    Modifiers,
    Publishes,
    executes,
    never_communicates,
    performs,
)
from .tcgen05_ld_st import B32, SYNC


@executes("tcgen05.alloc", blocking=True, communicates=never_communicates)
def _alloc(ins: Instr) -> Action:
    group, *_ = Modifiers(ins).pick(CTA_GROUP, SYNC, ALIGNED, SHARED, B32)

    def run(warp: Warp, mask: Any, address: Any, columns: Any) -> Any:
        tmem, smem = warp.cta.tmem, warp.cta.smem
        if group == "cta_group::2" and len(warp.cta.cluster.ctas) % 2:
            ctas = len(warp.cta.cluster.ctas)
            raise TensorMemoryError(f"tcgen05.alloc.cta_group::2 in a cluster of {ctas}: no pair of CTAs", ins, warp)
        count = same(columns, mask) or 0
        if count not in (32, 64, 128, 256, 512):
            raise TensorMemoryError(f"tcgen05.alloc of {count} columns; allowed is 32, 64, 128, 256, 512", ins, warp)
        if tmem.relinquished is not None:
            by, who = tmem.relinquished
            raise TensorMemoryError(
                "tcgen05.alloc after tcgen05.relinquish_alloc_permit",
                ins,
                warp,
                (("relinquished", f"PTX line {by.line} by {who}"),),
            )
        column = tmem.allocate(count, ins, warp)
        if column is None:
            tmem.waiters.append(warp)
            live = ", ".join(f"{c} to {c + n - 1}" for c, (n, *_) in sorted(tmem.allocations.items()))
            lacking = f"{count} free columns of tensor memory; allocated: {live}"
            warp.cta.cluster.suspend(warp, Wait(ins, (tmem,), lambda: lacking))
            return BLOCK
        offset = smem.local_offset(same(address, mask) or 0, ins, warp, ins.opcode)
        smem.check_span(offset, 4, ins, warp, "tcgen05.alloc's result")
        me = warp.access(ins, ALLOC)
        if group == "cta_group::2":
            _check_peer_runs(ins, warp)
            tmem.by_pair[column] = me
        smem.store(np.array([offset]), np.array([[column]], np.uint32), me, warp.clock, None)
        return None

    return run


def _peer(warp: Warp) -> Cta:
    """Return the other CTA of the warp's pair."""
    return warp.cta.cluster.ctas[warp.cta.rank ^ 1]


def _check_peer_runs(ins: Instr, warp: Warp) -> None:
    """Report an allocation for a pair by a CTA whose peer may not have started yet."""
    if warp.knows_started(_peer(warp)):
        return
    what = f"{ins.opcode}.cta_group::2 allocates columns of its peer, {_peer(warp)}, which may not have started yet"
    missing = f"barrier.cluster.arrive and barrier.cluster.wait before PTX line {ins.line}"
    warp.cta.launch.report(TensorMemoryError(what, ins, warp, (("missing", missing),), level=Leniency.PAIR_STARTED))


def _check_peer_allocated(ins: Instr, warp: Warp, column: int) -> None:
    """Report columns that a CTA of a pair frees while its peer may not have allocated them yet."""
    theirs = _peer(warp).tmem.by_pair.get(column)
    if theirs is not None and theirs.seen_by(warp.clock):
        return
    alloc = () if theirs is None else (("allocated at", place(theirs.instr, theirs.warp)), ("by", str(theirs.warp)))
    what = f"{ins.opcode}.cta_group::2 frees columns that its peer, {_peer(warp)}, may not have allocated yet"
    missing = f"a barrier that {_peer(warp)} arrives on after its tcgen05.alloc and {warp} waits for before this"
    warp.cta.launch.report(TensorMemoryError(what, ins, warp, (*alloc, ("missing", missing))))


@executes("tcgen05.dealloc", communicates=never_communicates)
def _dealloc(ins: Instr) -> Action:
    group, *_ = Modifiers(ins).pick(CTA_GROUP, SYNC, ALIGNED, B32)

    def run(warp: Warp, mask: Any, address: Any, columns: Any) -> None:
        warp.complete_used_loads(ins)
        column = (same(address, mask) or 0) & 0xFFFF
        warp.cta.tmem.free(column, same(columns, mask) or 0, ins, warp)
        if group == "cta_group::2":
            _check_peer_allocated(ins, warp, column)

    return run


@executes("tcgen05.relinquish_alloc_permit", communicates=never_communicates)
def _relinquish(ins: Instr) -> Action:
    group, *_ = Modifiers(ins).pick(CTA_GROUP, SYNC, ALIGNED)

    def run(warp: Warp, mask: Any) -> None:
        for _, alloc, by in warp.cta.tmem.allocations.values():
            if group not in alloc.modifiers:
                what = f"{ins.opcode}.{group} gives back the permit of another cta_group than that of the allocation"
                at = (("allocated at", place(alloc, by)),)
                warp.cta.launch.report(TensorMemoryError(what, ins, warp, at, level=Leniency.RELINQUISH_OTHER_GROUP))
        warp.cta.tmem.relinquished = (ins, warp)

    return run


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
