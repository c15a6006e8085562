"""Fences: fence, membar, fence.mbarrier_init and fence.proxy."""

from __future__ import annotations

from typing import Any

from ..machine.order.access import GPU
from ..machine.order.clocks import ASYNC_VISIBLE, ASYNC_VISIBLE_OUTSIDE
from ..machine.order.strong import StrongOrder
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane
from .modifiers import REACH, SCOPE, Modifiers
from .registry import Action, Timing, executes, never_communicates, performs
from .tensormap import acquire, release


@executes("fence", timing=Timing.FREE, communicates=never_communicates)
@executes("membar", communicates=never_communicates)
def _fence(ins: Instr) -> Action:
    """Publish earlier accesses with the next relaxed write, and acquire what relaxed reads have observed."""
    semantics, scope, _ = Modifiers(ins).pick(
        {"sc", "acq_rel", "acquire", "release"},
        SCOPE | {"gl"},
        {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
    )

    def run(warp: Warp, mask: Any) -> None:
        warp.complete_used_loads(ins)
        warp.fence(semantics != "release", semantics != "acquire", REACH.get(scope, GPU))
        # membar is fence.sc (test_litmus).
        if semantics in ("sc", None) and (order := warp.cta.launch.registry.get(StrongOrder)) is not None:
            order.fence(warp, REACH.get(scope, GPU))

    return run


@performs("fence.mbarrier_init", modifiers=({"release"}, {"cluster"}), communicates=never_communicates)
def _fence_init(ins: Instr, warp: Warp, mask: Any) -> None:
    _fence_mbarriers(warp)
    # fence.mbarrier_init.release.cluster: the next arrival at the cluster barrier publishes these initialisations.
    warp.published |= {b for b in warp.cta.smem.mbarriers.values() if b.init.seen_by(warp.clock)}


def _fence_mbarriers(warp: Warp) -> None:
    """Make the mbarriers whose initialisation the warp has observed ready for the async proxy."""
    for barrier in warp.cta.smem.mbarriers.values():
        if not barrier.fenced and barrier.init.seen_by(warp.clock):
            barrier.fenced = True


@executes("fence.proxy", communicates=never_communicates)
def _fence_proxy(ins: Instr) -> Action:
    kind, space, semantics, _, restricted = Modifiers(ins).pick(
        {"async", "alias", "tensormap::generic", "async::generic"},
        {"shared::cta", "shared::cluster", "global"},
        {"acquire", "release"},
        SCOPE,
        {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
    )
    if kind == "tensormap::generic" and semantics == "acquire":

        def acquire_maps(warp: Warp, mask: Any, address: Any, _size: Any) -> None:
            for at in {of_lane(address, lane) for lane in active_lanes(mask)}:
                acquire(ins, warp, at)

        return acquire_maps
    if kind == "tensormap::generic" and semantics == "release":
        return lambda warp, mask: release(warp)
    if kind not in ("async", "async::generic"):
        return lambda warp, mask, *_operands: None

    # fence.proxy.async of one state space orders the accesses of that space alone (test_pairs.py, "a fence of global
    # memory before the bulk store"; test_what_threads_write_needs_a_fence_before_a_bulk_copy_reads_it).
    shared = space != "global"
    rows = (ASYNC_VISIBLE,) * shared + (ASYNC_VISIBLE_OUTSIDE,) * (restricted is None and space in (None, "global"))

    def run(warp: Warp, mask: Any) -> None:
        for row in rows:
            warp.clock.publish(row)
        warp.tick()
        if shared:
            _fence_mbarriers(warp)

    return run
