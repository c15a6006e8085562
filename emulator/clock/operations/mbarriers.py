"""mbarriers in modelled time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...chip import RANK_SHIFT
from ...isa.lane_values import active_lanes, of_lane, same
from ...isa.registry import BLOCK, Action, if_sources_uniform
from ...machine.launch.shared_names import mbarrier_name
from ...machine.launch.statistics import GAVE_UP, WAITED
from ...machine.memory.shared import OFFSET_MASK
from ...ptx.syntax import Imm, Instr, Operand
from ..barriers import TimedMBarrier
from ..warps import TimedWarp
from .registry import SPIN, first, timed


def mbarrier(warp: TimedWarp, address: int, ins: Instr) -> TimedMBarrier:
    cta, offset = warp.cta.cluster.ctas[address >> RANK_SHIFT & 0xFF], address & OFFSET_MASK
    found = cta.mbarriers.get(offset)
    return warp.timeline.unknown_mbarrier(warp, cta, offset, ins) if found is None else found


def groups(address: Any, mask: Any) -> Sequence[tuple[int, Sequence[int]]]:
    at, lanes = same(address, mask), active_lanes(mask)
    if at is not None:
        return [(at, lanes)]
    found: dict[int, list[int]] = {}
    for lane in lanes:
        found.setdefault(int(address[lane]), []).append(lane)
    return list(found.items())


@timed("mbarrier.init", keep=first(2))
def _init(ins: Instr) -> Action:
    """Initialise at issue: a CTA barrier follows before anyone uses the mbarrier."""

    def run(warp: TimedWarp, mask: Any, address: Any, count: Any) -> None:
        cta = warp.cta
        for lane in active_lanes(mask) if isinstance(address, np.ndarray) else (0,):
            offset = of_lane(address, lane) & OFFSET_MASK
            earlier = [each.init for at, each in cta.mbarriers.items() if at != offset]
            known = mbarrier_name(cta.launch, offset, ins, earlier)
            name = known or f"mbarrier #{len(cta.mbarriers)} at {offset:#x}"
            cta.mbarriers[offset] = TimedMBarrier(name, of_lane(count, lane), ins)

    return run


@timed("mbarrier.arrive", "mbarrier.arrive_drop", keep=first(3), dst=1)
def _arrive(ins: Instr) -> Action:
    expects, drops = "expect_tx" in ins.modifiers, ins.opcode == "mbarrier.arrive_drop"
    releases = {"release", "cluster"} <= set(ins.modifiers)

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, count: int, tx: int, peer: bool) -> float:
        barrier.expect(tx)
        barrier.expected -= count * drops
        chip = warp.timeline.chip
        if peer and releases:
            now += chip.peer_release_cycles
        later = now + (chip.peer_arrive_latency if peer else chip.arrive_latency)
        by = warp.cta.rank, warp.index
        warp.timeline.at(later, lambda time: warp.timeline.arrive(barrier, count, time, by))
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, operand: Any = 1) -> int:
        phase = 0
        for at, lanes in groups(address, mask):
            barrier = mbarrier(warp, at, ins)
            phase = barrier.phase
            total = sum(of_lane(operand, lane) for lane in lanes)
            peer = at >> RANK_SHIFT & 0xFF != warp.cta.rank
            warp.ops.append((perform, barrier, len(lanes) if expects else total, total if expects else 0, peer))
        return phase

    return run


@timed("mbarrier.expect_tx", "mbarrier.complete_tx", keep=first(2))
def _tx(ins: Instr) -> Action:
    sign = 1 if ins.opcode == "mbarrier.expect_tx" else -1

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, tx: int) -> float:
        barrier.expect(sign * tx)
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, tx: Any) -> None:
        for at, lanes in groups(address, mask):
            warp.ops.append((perform, mbarrier(warp, at, ins), sum(of_lane(tx, lane) for lane in lanes)))

    return run


def _wait_operands(instr: Instr) -> Sequence[Operand]:
    """Return predicate, address, phase, and whether there is a time hint."""
    return *instr.operands[:3], Imm(len(instr.operands) > 3)


@timed(
    SPIN,
    "mbarrier.try_wait",
    "mbarrier.test_wait",
    keep=_wait_operands,
    dst=1,
    blocking=True,
    uniform=if_sources_uniform,
)
def _wait(ins: Instr) -> Action:
    """Wait or test: try_wait suspends the warp for a limited time, SPIN until the phase ends, test_wait not at all."""
    parity, tests, spins = "parity" in ins.modifiers, ins.opcode == "mbarrier.test_wait", ins.opcode == SPIN

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, wanted: int, hinted: int) -> float | None:
        timeline, chip = warp.timeline, warp.timeline.chip
        limit = now + (1e3 * chip.try_wait_hint_us * timeline.ghz if hinted else chip.try_wait_cycles)
        now += chip.try_wait_latency
        if barrier.is_over(wanted, parity):
            warp.wait_result = True
            warp.visited(ins.line, barrier.name)
        elif tests:
            warp.wait_result = False
        else:
            warp.since = now, ins, barrier.name
            barrier.waiters.append(warp)
            if not spins:
                timeline.at(max(now, limit), partial(timeline.give_up, barrier, warp, warp.since))
            return None
        return now

    def run(warp: TimedWarp, mask: Any, address: Any, phase: Any, hinted: int) -> Any:
        if warp.wait_result is not None:
            answer, warp.wait_result = warp.wait_result, None
            warp.sm.use(WAITED if answer else GAVE_UP, 1)
            return answer
        for at, lanes in groups(address, mask)[:1]:
            warp.ops.append((perform, mbarrier(warp, at, ins), of_lane(phase, lanes[0]) & 0xFFFF_FFFF, hinted))
        return BLOCK

    return run
