"""Barriers in shared memory that count arrivals and bytes (mbarrier.*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..chip import LANES, RANK_SHIFT
from ..errors import BarrierError, DataRace, Level, OutOfBounds, UnknownInstruction, place
from ..leniency import Leniency
from ..machine.memory.shared import OFFSET_MASK
from ..machine.order.access import CTA
from ..machine.order.clocks import Clock
from ..machine.order.completion import Wait
from ..machine.synchronisation.mbarrier import MBarrier, Party
from ..machine.topology import Warp
from ..ptx.syntax import Instr, Sink
from .lane_values import active_lanes, of_lane, same
from .registry import (
    BLOCK,
    SCOPE,
    SEMANTICS,
    SHARED,
    Action,
    Modifiers,
    Publishes,
    executes,
    if_sources_uniform,
    never_communicates,
    performs,
)

B64 = frozenset({"b64"})
PHASE_BITS: Final = 32
PHASES: Final = (1 << PHASE_BITS) - 1
"""Mask of the phase in the state token that an arrival returns; the pending count is above it."""
PARITY = frozenset({"parity"})
OWN: Final = frozenset({"shared", "shared::cta"})
"""State spaces that name the CTA's own shared memory."""


def mbarrier_at(warp: Warp, address: int, ins: Instr) -> MBarrier:
    """Return the mbarrier at a shared address, in this CTA or another one of the cluster."""
    cluster, named = warp.cta.cluster, (warp, address)
    found: MBarrier | None = cluster.lookups.get(named)
    if found is not None:
        return found
    rank, ctas = (address & 0xFFFF_FFFF) >> RANK_SHIFT, cluster.ctas
    if rank >= len(ctas):
        raise OutOfBounds(f"{ins.opcode} at {address:#x}: no CTA of rank {rank} in a cluster of {len(ctas)}", ins, warp)
    found = ctas[rank].smem.mbarrier(address & OFFSET_MASK, ins, warp)
    if found.init.warp is warp or found in warp.known:  # else it is reported each time
        cluster.lookups[named] = found
    return found


def check_initialised(barrier: MBarrier, ins: Instr, warp: Warp) -> None:
    """Report a BarrierError unless a fence made the initialisation of `barrier` visible to the async proxy.

    Within the CTA the error is of level formal: in practice a copy finds the initialised mbarrier in its own CTA.
    """
    if not barrier.fenced:
        init = barrier.init
        what = f"{ins.opcode} reports to {barrier}, whose initialisation no fence made visible to the async proxy"
        missing = "fence.mbarrier_init.release.cluster or fence.proxy.async after it"
        at = (("initialised at", place(init.instr, init.warp)), ("initialised by", str(init.warp)))
        level = Leniency.INIT_WITHOUT_FENCE if init.warp.cta is warp.cta else Level.FAULT
        warp.cta.launch.report(BarrierError(what, ins, warp, (*at, ("missing", missing)), level))


@performs("mbarrier.init", modifiers=(SHARED, B64), communicates=never_communicates)
def _init(ins: Instr, warp: Warp, mask: Any, address: Any, count: Any) -> None:
    for lane in active_lanes(mask):
        smem = warp.cta.smem
        offset = smem.local_offset(of_lane(address, lane), ins, warp, ins.opcode)
        smem.init_mbarrier(offset, of_lane(count, lane), ins, warp)


@performs("mbarrier.inval", modifiers=(SHARED, B64), communicates=never_communicates)
def _inval(ins: Instr, warp: Warp, mask: Any, address: Any) -> None:
    at = same(address, mask)
    for lane in active_lanes(mask) if at is None else (0,):
        smem = warp.cta.smem
        smem.drop_mbarrier(smem.local_offset(of_lane(address, lane), ins, warp, ins.opcode), ins, warp)


def _by_address(address: Any, mask: Any) -> list[tuple[int, Sequence[int]]]:
    """Group the active lanes by address."""
    at = same(address, mask)
    if at is not None:
        return [(at, active_lanes(mask))]
    groups: dict[int, list[int]] = {}
    for lane in active_lanes(mask):
        groups.setdefault(int(address[lane]), []).append(lane)
    return [*groups.items()]


@executes(
    "mbarrier.arrive", "mbarrier.arrive_drop", dst=1, publishes=Publishes.ARRIVAL, communicates=never_communicates
)
def _arrive(ins: Instr) -> Action:
    """Arrive. The lanes of a warp arrive at an mbarrier together and get the same state token, as on an H200.

    An H200 ends the launch if more arrive than are pending. With .noComplete lanes arrive one after another.
    Below level `formal` a relaxed arrival also releases, since cute_ext emits no other kind. An arrival that names
    scope .cta releases nothing to another CTA.
    """
    expect, no_complete, sem, scope, space, _ = Modifiers(ins).pick(
        {"expect_tx"}, {"noComplete"}, SEMANTICS, SCOPE, SHARED, B64
    )
    drop, own = ins.opcode == "mbarrier.arrive_drop", space in OWN
    if "shared::cluster" in ins.modifiers and not isinstance(ins.operands[0], Sink):
        raise UnknownInstruction(ins, "a state result with .shared::cluster; allowed is _")
    what = ".".join((ins.opcode, *((expect,) if expect else ())))
    wanted = not isinstance(ins.operands[0], Sink)

    def run(warp: Warp, mask: Any, address: Any, count: Any = 1) -> Any:
        party = Party(ins, warp, what)
        clock = warp.fenced[CTA]
        if release := sem != "relaxed" or not warp.cta.launch.enforces(Leniency.RELAXED):
            warp.complete_used_loads(ins)
            clock = warp.clock
        tokens: Any = np.zeros(LANES, np.uint64) if wanted else 0
        for at, lanes in _by_address(address, mask):
            barrier = mbarrier_at(warp, at, ins)
            if own and barrier.cta is not warp.cta:
                warp.cta.smem.local_offset(at, ins, warp, ins.opcode)
            for together in [[lane] for lane in lanes] if no_complete else [[*lanes]]:
                if wanted:
                    tokens[together] = barrier.phase | barrier.pending << PHASE_BITS
                # An arrival of scope .cta releases nothing to a warp of another CTA, which is outside of its scope.
                narrow = scope == "cta" and barrier.cta is not warp.cta
                if narrow:
                    warp.narrow_arrivals.append((warp.time, ins))
                arrive(barrier, together, count, party, None if narrow else clock)
        if release:
            warp.tick()
        return tokens

    def arrive(barrier: MBarrier, lanes: Sequence[int], count: Any, party: Party, clock: Clock | None) -> None:
        if expect:
            for lane in lanes:
                barrier.expect(of_lane(count, lane), party)
        arrivals = [1 if expect else of_lane(count, lane) for lane in lanes]
        if no_complete:
            barrier.check_incomplete(sum(arrivals), party)
        if drop:
            barrier.expected -= sum(arrivals)
        barrier.arrive(sum(arrivals), party, clock)

    return run


@executes("mbarrier.expect_tx", "mbarrier.complete_tx", communicates=never_communicates)
def _tx(ins: Instr) -> Action:
    _, _, space, _ = Modifiers(ins).pick(SEMANTICS, SCOPE, SHARED, B64)
    expect, own = ins.opcode == "mbarrier.expect_tx", space in OWN

    def run(warp: Warp, mask: Any, address: Any, tx: Any) -> None:
        party = Party(ins, warp, ins.opcode)
        for at, lanes in _by_address(address, mask):
            barrier = mbarrier_at(warp, at, ins)
            if own and barrier.cta is not warp.cta:
                warp.cta.smem.local_offset(at, ins, warp, ins.opcode)
            for lane in lanes:
                if expect:
                    barrier.expect(of_lane(tx, lane), party)
                else:
                    barrier.complete_tx(of_lane(tx, lane), party)

    return run


@executes("mbarrier.pending_count", dst=1, uniform=if_sources_uniform, communicates=never_communicates)
def _pending_count(ins: Instr) -> Action:
    Modifiers(ins).pick(B64)
    return lambda warp, mask, state: state >> (np.uint64(PHASE_BITS) if isinstance(state, np.ndarray) else PHASE_BITS)


@executes(
    "mbarrier.try_wait",
    "mbarrier.test_wait",
    dst=1,
    blocking=True,
    uniform=if_sources_uniform,
    communicates=never_communicates,
)
def _wait(ins: Instr) -> Action:
    """Wait for or test a phase. Either may return false after a while.

    A wait whose result is discarded waits for nothing. Below level `formal` a relaxed wait also acquires, since
    cute_ext
    emits no other kind.
    """
    parity, sem, scope, _, _ = Modifiers(ins).pick(PARITY, SEMANTICS, SCOPE, SHARED, B64)
    if isinstance(ins.operands[0], Sink):
        return _ignored_wait(ins, parity is not None)

    def run(warp: Warp, mask: Any, address: Any, phase: Any, _time_limit: Any = 0) -> Any:
        acquire = sem != "relaxed" or not warp.cta.launch.enforces(Leniency.RELAXED)
        at, wanted = same(address, mask), same(phase, mask)
        if at is None or wanted is None:
            return _wait_lanes(ins, warp, mask, address, phase, parity is not None, acquire)
        barrier = mbarrier_at(warp, at, ins)
        if barrier.cta is not warp.cta:
            _report_remote_wait(ins, warp, barrier)
        # mbarrier.test_wait: only the current and the immediately preceding phase may be asked for.
        if barrier.phase > 1:
            _report_late_wait(ins, warp, barrier, wanted, parity is not None)
        done = _complete(barrier, wanted, parity is not None)
        if warp.cta.cluster.may_deny and _says_false(ins, warp, barrier, done):
            return False
        if done:
            if scope == "cta" and barrier.foreign:
                _report_narrow_wait(ins, warp, barrier)
            _observe(ins, warp, barrier, acquire)
            return True
        return _suspend(ins, warp, barrier, wanted, parity is not None)

    return run


def _ignored_wait(ins: Instr, parity: bool) -> Action:
    def run(warp: Warp, mask: Any, address: Any, phase: Any, _time_limit: Any = 0) -> Any:
        for at, lanes in _by_address(address, mask):
            barrier = mbarrier_at(warp, at, ins)
            warp.unread_answers[barrier] = ins
            warp.cta.launch.stats.gave_up += not _complete(barrier, of_lane(phase, lanes[0]), parity)
        return False

    return run


def _complete(barrier: MBarrier, wanted: int, parity: bool) -> bool:
    return (barrier.phase & 1) != (wanted & 1) if parity else barrier.phase > wanted & PHASES


def _says_false(ins: Instr, warp: Warp, barrier: MBarrier, done: bool) -> bool:
    """Return whether a test gets a negative answer although the phase is `done` or can complete.

    The answer of a wait that only repeats itself makes no difference.
    """
    asked = (id(ins), barrier, barrier.phase, warp.time)
    known = done and barrier.phase <= warp.clock.at(barrier.over)
    if known or warp.wait_result is not None or warp.spin == asked or spins(ins, warp):
        return False
    if denied := warp.cta.cluster.denies():
        warp.spin = asked
    return denied


def _observe(ins: Instr, warp: Warp, barrier: MBarrier, acquire: bool) -> None:
    warp.spin = warp.wait_result = None
    if warp.phases.get(barrier) == barrier.phase:
        barrier.repeated = Party(ins, warp, ins.opcode)
    warp.phases[barrier] = barrier.phase
    barrier.waits += 1
    if acquire:
        warp.acquire(barrier.complete)
    else:
        warp.observe_relaxed(barrier.complete)


def _suspend(ins: Instr, warp: Warp, barrier: MBarrier, wanted: int, parity: bool) -> Any:
    """Suspend the warp. If it does more than poll, it resumes after a while and gets false."""
    asked = (id(ins), barrier, barrier.phase, warp.time)
    if warp.wait_result is False:
        warp.wait_result, warp.spin = None, asked
        warp.cta.launch.stats.gave_up += 1
        return False
    for_good = warp.spin == asked or spins(ins, warp)
    barrier.waiters.append(warp)
    shown = f"parity {wanted & 1} (phase {barrier.phase})" if parity else f"phase {wanted & PHASES}"

    def text() -> str:
        seen = warp.phases.get(barrier, 0)
        late = barrier.phase - seen
        hint = f"; it has seen {seen} phases complete, {late} have passed since: two phases late?" if late > 1 else ""
        return f"{shown} of {barrier}{hint}"

    warp.cta.cluster.suspend(warp, Wait(ins, (barrier,), text, peek=not for_good))
    return BLOCK


def _report_remote_wait(ins: Instr, warp: Warp, barrier: MBarrier) -> None:
    """Report a wait on another CTA's mbarrier: only arrivals and bytes may be remote (PTX ISA 9.1, 9.7.13.15.16)."""
    what = f"{ins.opcode} in {warp} waits for {barrier} of {barrier.cta}"
    missing = f"an mbarrier of {warp.cta}, on which others arrive"
    warp.cta.launch.report(BarrierError(what, ins, warp, (("missing", missing),)))


def _report_narrow_wait(ins: Instr, warp: Warp, barrier: MBarrier) -> None:
    """Report a wait of scope .cta for a phase in which a warp of another CTA arrived."""
    for _, phase, party in barrier.foreign.values():
        if phase == barrier.phase - 1 and party.shown is None:
            what = f"{ins.opcode} of scope .cta waits for {barrier}, at which {party} arrives from another CTA"
            missing = ("missing", f"scope .cluster at PTX line {ins.line}")
            warp.cta.launch.report(DataRace(what, ins, warp, (missing,), Leniency.WAIT_IN_CTA))
            return


def _report_late_wait(ins: Instr, warp: Warp, barrier: MBarrier, wanted: int, parity: bool) -> None:
    """Report a wait that is two phases late.

    A parity means the last phase known to be complete or the open one after it. A state token also identifies its phase
    by one bit only.
    """
    known = warp.clock.at(barrier.over)
    requested = known - (known & 1 != wanted & 1) if parity else wanted & PHASES
    if barrier.phase - requested >= 2:
        shown = f"parity {wanted & 1}" if parity else f"the state of phase {requested}"
        what = f"{ins.opcode} for {shown} of {barrier} comes two phases late"
        state = f"{warp} knows of {known} completed phases, {barrier.phase} are"
        missing = f"what keeps {barrier} from going on before {warp} has waited for phase {requested}"
        last = barrier.last.placed() if barrier.last else "none"
        records = (("state", state), ("last arrival", last), ("missing", missing))
        warp.cta.launch.report(BarrierError(what, ins, warp, records))


def _wait_lanes(ins: Instr, warp: Warp, mask: Any, address: Any, phase: Any, parity: bool, acquire: bool) -> Any:
    answer = np.zeros(32, bool)
    late = None
    for lane in active_lanes(mask):
        barrier = mbarrier_at(warp, of_lane(address, lane), ins)
        wanted = of_lane(phase, lane)
        if barrier.cta is not warp.cta:
            _report_remote_wait(ins, warp, barrier)
        if barrier.phase > 1:
            _report_late_wait(ins, warp, barrier, wanted, parity)
        answer[lane] = _complete(barrier, wanted, parity)
        if not answer[lane]:
            late = (barrier, wanted)
    if late is not None and warp.wait_result is not False:
        return _suspend(ins, warp, *late, parity)
    warp.cta.launch.stats.gave_up += late is not None
    for lane in np.flatnonzero(answer).tolist():
        _observe(ins, warp, mbarrier_at(warp, of_lane(address, lane), ins), acquire)
    warp.wait_result = None
    return answer


def spins(ins: Instr, warp: Warp) -> bool:
    """Return True if `ins` is alone in a loop: L: try_wait p; @p bra out; bra L."""
    launch = warp.cta.launch
    key = ("spins", id(ins))
    alone: bool | None = launch.registry.get(key)
    if alone is None:
        at = launch.place(ins)
        leave, again = (*launch.kernel.instrs[at + 1 : at + 3], None, None)[:2]
        alone = launch.registry[key] = (
            leave is not None
            and again is not None
            and leave.opcode == again.opcode == "bra"
            and leave.guard is not None
            and leave.guard == (ins.operands[0], True)
            and again.guard is None
            and launch.kernel.labels.get(getattr(again.operands[0], "name", "")) == at
        )
    return alone
