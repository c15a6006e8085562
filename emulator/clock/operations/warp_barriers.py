"""Barriers of warps in modelled time."""

from __future__ import annotations

from typing import Any

from ...chip import LANES
from ...isa.lane_values import active_lanes, of_lane
from ...isa.registry import BLOCK, Action
from ...ptx.syntax import Instr
from ..warps import TimedWarp
from .registry import everything, idle, timed


@timed("bar.sync", "barrier.sync", keep=everything, blocking=True)
def _sync(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, index: Any, threads: Any = None) -> Any:
        if warp.wait_result is not None:
            warp.wait_result = None
            return None
        warp.ops.append((_arrive_and_wait, ins, *_named(mask, index, threads)))
        return BLOCK

    return run


@timed("bar.red", "barrier.red", keep=everything, dst=1, blocking=True)
def _vote(ins: Instr) -> Action:
    """Arrive and wait; the result follows from the votes of all warps, and is 0 in a walk that waits for none."""
    combined = next(each for each in ("or", "and", "popc") if each in ins.modifiers)

    def perform(warp: TimedWarp, now: float, index: int, threads: int | None, true: int, lanes: int) -> float | None:
        barrier = warp.cta.barriers[index]
        barrier.votes = barrier.votes[0] + true, barrier.votes[1] + lanes
        return _arrive_and_wait(warp, now, ins, index, threads)

    def run(warp: TimedWarp, mask: Any, index: Any, *rest: Any) -> Any:
        named = _named(mask, index, rest[0] if len(rest) == 2 else None)
        if warp.wait_result is not None:
            warp.wait_result = None
            true, votes = warp.cta.barriers[named[0]].result
            return {"or": true > 0, "and": 0 < true == votes, "popc": true}[combined]
        lanes = active_lanes(mask)
        warp.ops.append((perform, *named, sum(bool(of_lane(rest[-1], lane)) for lane in lanes), len(lanes)))
        return BLOCK

    return run


@timed("bar.arrive", "barrier.arrive", keep=everything)
def _bar_arrive(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, index: int, threads: int | None) -> float:
        _arrive_at(warp, now, index, threads)
        return now + 1

    return lambda warp, mask, index, threads: warp.ops.append((perform, *_named(mask, index, threads)))


def _named(mask: Any, index: Any, threads: Any) -> tuple[int, int | None]:
    lane = active_lanes(mask)[0]
    return of_lane(index, lane), None if threads is None else of_lane(threads, lane)


def _arrive_at(warp: TimedWarp, now: float, index: int, threads: int | None) -> bool:
    """Count a warp's arrival at a named barrier; return True if it was the last."""
    cta = warp.cta
    released = cta.barriers[index].arrive(LANES, threads, cta.running * LANES)
    return bool(warp.timeline.release_cta(cta.barriers[index], released, cta, now))


def _arrive_and_wait(warp: TimedWarp, now: float, ins: Instr, index: int, threads: int | None) -> float | None:
    barrier = warp.cta.barriers[index]
    if _arrive_at(warp, now, index, threads):
        warp.wait_result = True
        warp.visited(ins.line, barrier.name)
        return now + float(warp.timeline.chip.barrier_latency)
    barrier.waiters.append(warp)
    warp.since = now, ins, barrier.name
    return None


@timed("barrier.cluster", blocking=True)
def _cluster(ins: Instr) -> Action:
    def arrive(warp: TimedWarp, now: float) -> float:
        """Arrive, with release semantics when all SMs can see the warp's stores to global memory."""
        if "relaxed" not in ins.modifiers and warp.stored_until > now:
            warp.ops.appendleft((arrive,))
            return idle(warp, now, warp.stored_until, ins, "earlier stores")
        cluster = warp.cta.cluster
        warp.arrived = cluster.barrier.generation
        warp.timeline.release_cluster(cluster, cluster.barrier.arrive(1, None, cluster.running), now)
        return now + 1

    def wait(warp: TimedWarp, now: float, generation: int) -> float | None:
        barrier = warp.cta.cluster.barrier
        if barrier.generation > generation:
            warp.wait_result = True
            return idle(warp, now, barrier.over, ins, barrier.name)
        barrier.waiters.append(warp)
        warp.since = now, ins, barrier.name
        return None

    def run(warp: TimedWarp, mask: Any) -> Any:
        if "arrive" in ins.modifiers:
            warp.ops.append((arrive,))
            warp.cluster_generation = warp.cta.cluster.barrier.generation
            return None
        if warp.wait_result is not None:
            warp.wait_result = None
            return None
        warp.ops.append((wait, warp.cluster_generation))
        return BLOCK

    return run
