"""Barriers and fences.

bar and barrier are among the warps of a CTA, barrier.cluster among the warps of a cluster. Fences are fence, membar,
fence.mbarrier_init and fence.proxy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..chip import LANES, NAMED_BARRIERS
from ..errors import BarrierError, UnknownInstruction
from ..leniency import Leniency
from ..machine.convergence import report_unconverged
from ..machine.order.access import CLUSTER, GPU
from ..machine.order.clocks import ASYNC_VISIBLE, ASYNC_VISIBLE_OUTSIDE
from ..machine.order.strong import StrongOrder
from ..machine.synchronisation.barriers import Generation, NamedBarrier, meet, wait_for
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane, same
from .registry import ALIGNED, BLOCK, REACH, SCOPE, Action, Modifiers, Timing, executes, never_communicates, performs
from .tensormap import acquire, release

VOTES: Final = {"popc": "u32", "and": "pred", "or": "pred"}


def is_aligned(ins: Instr) -> bool:
    """Return True if all lanes of a warp must execute the instruction together. `bar` means `barrier.cta.aligned`."""
    return ins.opcode.startswith("bar.") or "aligned" in ins.modifiers


@performs(
    "bar.sync", "barrier.sync", modifiers=(ALIGNED,), blocking=True, joins_lanes=True, communicates=never_communicates
)
def _sync(ins: Instr, warp: Warp, mask: Any, index: Any, threads: Any = None) -> Any:
    generation = meet(warp, ins, lambda: _arrive(ins, warp, mask, index, threads))
    if generation is None:
        return BLOCK
    warp.acquire(generation.clock)
    return None


@performs("bar.arrive", "barrier.arrive", modifiers=(ALIGNED,), communicates=never_communicates)
def _bar_arrive(ins: Instr, warp: Warp, mask: Any, index: Any, threads: Any) -> None:
    _arrive(ins, warp, mask, index, threads)


@executes("bar.red", "barrier.red", blocking=True, dst=1, joins_lanes=True, communicates=never_communicates)
def _bar_red(ins: Instr) -> Action:
    operation, _, kind = Modifiers(ins).pick(VOTES, ALIGNED, {"u32", "pred"})
    if operation is None or kind != VOTES[operation]:
        raise UnknownInstruction(ins, f".{operation}.{kind}; allowed is {VOTES}")

    def run(warp: Warp, mask: Any, index: Any, *rest: Any) -> Any:
        vote = np.broadcast_to(rest[-1], LANES) if mask is None else np.broadcast_to(rest[-1], LANES)[mask]
        threads = rest[0] if len(rest) == 2 else None
        generation = meet(warp, ins, lambda: _arrive(ins, warp, mask, index, threads, vote))
        if generation is None:
            return BLOCK
        warp.acquire(generation.clock)
        votes = np.concatenate([np.asarray(v, bool) for v in generation.votes if v is not None])
        return {"popc": int(votes.sum()), "and": bool(votes.all()), "or": bool(votes.any())}[operation]

    return run


def _arrive(
    ins: Instr, warp: Warp, mask: Any, index: Any, threads: Any, vote: Any = None
) -> tuple[Generation, NamedBarrier]:
    """Let a warp arrive at the named barrier `index`. Return the barrier with its generation."""
    if mask is not None:
        report_unconverged(ins, warp, mask, is_aligned(ins))
    warp.complete_used_loads(ins)
    barrier = _named(ins, warp, index, mask)
    count = None if threads is None else of_lane(threads, active_lanes(mask)[0])
    return barrier.arrive(warp, count, ins, vote), barrier


def _named(ins: Instr, warp: Warp, index: Any, mask: Any) -> NamedBarrier:
    """Return the CTA's barrier that all active lanes name. Raises BarrierError."""
    number = same(index, mask)
    if number is None or not 0 <= number < NAMED_BARRIERS:
        named = "several barriers" if number is None else f"barrier {number}"
        raise BarrierError(f"{ins.opcode} names {named}; allowed is one of 0 to {NAMED_BARRIERS - 1}", ins, warp)
    return warp.cta.barrier(number)


@executes("barrier.cluster", blocking=True, joins_lanes=True, communicates=never_communicates)
def _cluster(ins: Instr) -> Action:
    """Arrive at or wait for the cluster barrier.

    In PTX a relaxed arrival publishes only what earlier fences cover. NVIDIA's programs rely on more, so only level
    `formal` enforces it.
    """
    verb, sem, _ = Modifiers(ins).pick({"arrive", "wait"}, {"release", "relaxed", "acquire"}, ALIGNED)
    if verb == "arrive":
        aligned = is_aligned(ins)

        def arrive(warp: Warp, mask: Any) -> None:
            if mask is not None:
                report_unconverged(ins, warp, mask, aligned)
            warp.complete_used_loads(ins)
            if warp.cluster_arrivals:
                _arrived_already(warp, warp.cluster_arrivals[-1], ins)
            releases = sem != "relaxed" or not warp.cta.launch.enforces(Leniency.RELAXED)
            clock = warp.clock if releases else warp.fenced[CLUSTER]
            warp.cluster_arrivals.append(warp.cta.cluster.barrier.arrive(warp, ins, clock))
            # What follows the arrival is not released (test_the_round_without_a_barrier_of_the_cluster).
            if releases:
                warp.tick()

        return arrive

    def wait(warp: Warp, mask: Any) -> Any:
        if not warp.cluster_arrivals:
            warp.cta.launch.report(BarrierError("barrier.cluster.wait without an arrive before it", ins, warp))
            return None
        generation = warp.cluster_arrivals[0]
        if not generation.over:
            wait_for(generation, warp, ins, warp.cta.cluster.barrier)
            return BLOCK
        warp.wait_result = None
        del warp.cluster_arrivals[0]
        warp.known = warp.known | generation.published if warp.known else generation.published
        # A wait for the cluster barrier proves that every CTA of the cluster has started.
        warp.clock.advance(warp.cta.cluster.started, 1)
        warp.acquire(generation.clock)
        return None

    return wait


def _arrived_already(warp: Warp, generation: Generation, ins: Instr) -> None:
    """Report an arrival before the wait for the previous one, which PTX leaves undefined.

    Here it counts for the next phase, as on an H100, and must be waited for too (see machine/execution/ending.py).
    """
    warp.arrived_again = ins
    line = generation.came[warp].line
    what = "barrier.cluster.arrive a second time before barrier.cluster.wait"
    warp.cta.launch.report(
        BarrierError(what, ins, warp, (("arrived at", f"PTX line {line}"),), Leniency.SECOND_CLUSTER_ARRIVE)
    )


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
