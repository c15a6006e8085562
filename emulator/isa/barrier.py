"""Barriers: bar and barrier among the warps of a CTA, barrier.cluster among the warps of a cluster."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..chip import LANES, NAMED_BARRIERS
from ..errors import BarrierError, UnknownInstruction
from ..leniency import Leniency
from ..machine.convergence import report_unconverged
from ..machine.order.access import CLUSTER
from ..machine.synchronisation.barriers import Generation, NamedBarrier, meet, wait_for
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane, same
from .modifiers import ALIGNED, Modifiers
from .registry import BLOCK, Action, executes, never_communicates, performs

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
