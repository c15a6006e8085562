"""mbarrier.*, bar, barrier.cta, barrier.cluster, and the fences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from emulator.errors import BarrierError, OutOfBounds, UnknownInstruction
from emulator.isa.modifiers import ALIGNED, SCOPE, SEMANTICS, SHARED, of_lane, pick, same
from emulator.isa.modifiers import active as active_lanes
from emulator.isa.registry import BLOCK, Run, executes, if_sources_are, nobody
from emulator.isa.tensor_map import acquire
from emulator.machine.barriers import Generation, wait_for
from emulator.machine.mbarrier import MBarrier, Party
from emulator.machine.shared import OFFSET_MASK, RANK_SHIFT
from emulator.machine.warp import Wait
from emulator.ptx.syntax import Instr

if TYPE_CHECKING:
    from emulator.machine.warp import Warp

B64 = frozenset({"b64"})
PHASE_BITS: Final = 32
PHASES: Final = (1 << PHASE_BITS) - 1
"""Of the state that an arrival gives, the phase; above it the count that was pending."""
PARITY = frozenset({"parity"})


def mbarrier_at(warp: Warp, address: int, ins: Instr) -> MBarrier:
    """The mbarrier at a shared address, in this CTA or another of the cluster."""
    rank = (address & 0xFFFF_FFFF) >> RANK_SHIFT
    ctas = warp.cta.cluster.ctas
    if rank >= len(ctas):
        raise OutOfBounds(f"{ins.opcode} at {address:#x}: no CTA of rank {rank} in a cluster of {len(ctas)}", ins, warp)
    return ctas[rank].smem.mbarrier(address & OFFSET_MASK, ins, warp)


@executes("mbarrier.init", meets=nobody)
def _init(ins: Instr) -> Run:
    pick(ins, SHARED, B64)

    def run(warp: Warp, mask: Any, address: Any, count: Any) -> None:
        for lane in active_lanes(mask) if isinstance(address, np.ndarray) else (0,):
            smem = warp.cta.smem
            smem.init_mbarrier(of_lane(address, lane) & OFFSET_MASK, of_lane(count, lane), ins, warp)

    return run


@executes("mbarrier.inval", meets=nobody)
def _inval(ins: Instr) -> Run:
    pick(ins, SHARED, B64)

    def run(warp: Warp, mask: Any, address: Any) -> None:
        at = same(address, mask)
        for lane in active_lanes(mask) if at is None else (0,):
            warp.cta.smem.drop_mbarrier(of_lane(address, lane) & OFFSET_MASK, ins, warp)

    return run


def _each(address: Any, mask: Any) -> list[tuple[int, list[int]]]:
    """The active lanes by address."""
    at = same(address, mask)
    if at is not None:
        return [(at, active_lanes(mask))]
    groups: dict[int, list[int]] = {}
    for lane in active_lanes(mask):
        groups.setdefault(int(address[lane]), []).append(lane)
    return list(groups.items())


@executes("mbarrier.arrive", "mbarrier.arrive_drop", dst=1, meets=nobody)
def _arrive(ins: Instr) -> Run:
    """Arrivals. A relaxed one releases too unless the launch is pedantic: cute_ext emits no other."""
    expect, no_complete, sem, _, _, _ = pick(ins, {"expect_tx"}, {"noComplete"}, SEMANTICS, SCOPE, SHARED, B64)
    drop = ins.opcode == "mbarrier.arrive_drop"
    what = ".".join((ins.opcode, *((expect,) if expect else ())))

    def run(warp: Warp, mask: Any, address: Any, count: Any = 1) -> int:
        party = Party(ins, warp, what)
        clock = warp.fenced
        if release := sem != "relaxed" or not warp.cta.launch.pedantic:
            warp.settle_loads(ins)
            clock = warp.clock
        token = 0
        for at, lanes in _each(address, mask):
            barrier = mbarrier_at(warp, at, ins)
            token = barrier.phase | barrier.pending << PHASE_BITS
            if expect:
                for lane in lanes:
                    barrier.expect(of_lane(count, lane), party)
            arrivals = [1 if expect else of_lane(count, lane) for lane in lanes]
            if no_complete:
                barrier.check_incomplete(sum(arrivals), party)
            if drop:
                barrier.expected -= sum(arrivals)
            barrier.arrive_each(arrivals, party, clock)
        if release:
            warp.tick()
        return token

    return run


@executes("mbarrier.expect_tx", "mbarrier.complete_tx", meets=nobody)
def _tx(ins: Instr) -> Run:
    pick(ins, SEMANTICS, SCOPE, SHARED, B64)
    expect = ins.opcode == "mbarrier.expect_tx"

    def run(warp: Warp, mask: Any, address: Any, tx: Any) -> None:
        party = Party(ins, warp, ins.opcode)
        for at, lanes in _each(address, mask):
            barrier = mbarrier_at(warp, at, ins)
            for lane in lanes:
                if expect:
                    barrier.expect(of_lane(tx, lane), party)
                else:
                    barrier.complete_tx(of_lane(tx, lane), party)

    return run


@executes("mbarrier.pending_count", dst=1, uniform=if_sources_are, meets=nobody)
def _pending_count(ins: Instr) -> Run:
    pick(ins, B64)
    return lambda warp, mask, state: state >> (np.uint64(PHASE_BITS) if isinstance(state, np.ndarray) else PHASE_BITS)


@executes("mbarrier.try_wait", "mbarrier.test_wait", dst=1, blocking=True, uniform=if_sources_are, meets=nobody)
def _wait(ins: Instr) -> Run:
    """Waits. A relaxed one acquires too unless the launch is pedantic: cute_ext emits no other."""
    parity, sem, _, _, _ = pick(ins, PARITY, SEMANTICS, SCOPE, SHARED, B64)

    def run(warp: Warp, mask: Any, address: Any, phase: Any, _time_limit: Any = 0) -> Any:
        acquire = sem != "relaxed" or not warp.cta.launch.pedantic
        at, wanted = same(address, mask), same(phase, mask)
        if at is None or wanted is None:
            return _wait_lanes(ins, warp, mask, address, phase, parity is not None, acquire)
        barrier = mbarrier_at(warp, at, ins)
        if parity is not None and barrier.phase > 1:
            _refuse_late(ins, warp, barrier, wanted)
        if _complete(barrier, wanted, parity is not None):
            _observe(warp, barrier, acquire)
            return True
        return _not_yet(ins, warp, barrier, wanted, parity is not None)

    return run


def _complete(barrier: MBarrier, wanted: int, parity: bool) -> bool:
    return (barrier.phase & 1) != (wanted & 1) if parity else barrier.phase > wanted & PHASES


def _observe(warp: Warp, barrier: MBarrier, acquire: bool) -> None:
    warp.spin = warp.granted = None
    warp.phases[barrier] = barrier.phase
    barrier.waits += 1
    if acquire:
        warp.clock.merge(barrier.complete)
    else:
        warp.unacquired(barrier.complete)


def _not_yet(ins: Instr, warp: Warp, barrier: MBarrier, wanted: int, parity: bool) -> Any:
    """No: the warp is suspended, once for a while, and for good when it does nothing but ask again."""
    asked = (id(ins), barrier, barrier.phase, warp.time)
    if warp.granted is False:
        warp.granted, warp.spin = None, asked
        return False
    for_good = warp.spin == asked or spins(ins, warp)
    barrier.waiters.append(warp)
    shown = f"parity {wanted & 1} (phase {barrier.phase})" if parity else f"phase {wanted & PHASES}"

    def text() -> str:
        seen = warp.phases.get(barrier, 0)
        late = barrier.phase - seen
        hint = f"; it has seen {seen} phases complete, {late} have passed since: two phases late?" if late > 1 else ""
        return f"{shown} of {barrier.state()}{hint}"

    warp.waiting = Wait(ins, (barrier,), text, peek=not for_good)
    return BLOCK


def _refuse_late(ins: Instr, warp: Warp, barrier: MBarrier, wanted: int) -> None:
    """Of the phases known to be over a parity means the last, or the open one after it; two phases on, neither."""
    known = warp.clock.at(barrier.over)
    meant = known - (known & 1 != wanted & 1)
    if barrier.phase - meant >= 2:
        what = f"{ins.opcode} for parity {wanted & 1} of {barrier} comes two phases late"
        state = f"{warp} knows of {known} completed phases, {barrier.phase} are"
        missing = f"what keeps {barrier} from going on before {warp} has waited for phase {meant}"
        warp.cta.launch.found(BarrierError(what, ins, warp, (("state", state), ("missing", missing))))


def _wait_lanes(ins: Instr, warp: Warp, mask: Any, address: Any, phase: Any, parity: bool, acquire: bool) -> Any:
    answer = np.zeros(32, bool)
    late = None
    for lane in active_lanes(mask):
        barrier = mbarrier_at(warp, of_lane(address, lane), ins)
        wanted = of_lane(phase, lane)
        answer[lane] = _complete(barrier, wanted, parity)
        if not answer[lane]:
            late = (barrier, wanted)
    if late is not None and warp.granted is not False:
        return _not_yet(ins, warp, *late, parity)
    for lane in np.flatnonzero(answer).tolist():
        _observe(warp, mbarrier_at(warp, of_lane(address, lane), ins), acquire)
    warp.granted = None
    return answer


def spins(ins: Instr, warp: Warp) -> bool:
    """Whether `ins` is alone in a loop: L: try_wait p; @p bra out; bra L."""
    launch = warp.cta.launch
    key = ("spins", id(ins))
    if key not in launch.registry:
        at = launch.place(ins)
        leave, again = (*launch.kernel.instrs[at + 1 : at + 3], None, None)[:2]
        launch.registry[key] = (
            leave is not None
            and again is not None
            and leave.opcode == again.opcode == "bra"
            and leave.guard is not None
            and leave.guard == (ins.operands[0], True)
            and again.guard is None
            and launch.kernel.labels.get(getattr(again.operands[0], "name", "")) == at
        )
    return launch.registry[key]


@executes("bar.sync", "bar", "barrier.sync", "barrier.cta", blocking=True, meets=nobody)
def _sync(ins: Instr) -> Run:
    verb, _, _ = pick(ins, {"sync", "arrive"}, ALIGNED, {"cta"})
    if verb == "arrive":
        raise UnknownInstruction(ins, "modifier '.arrive'")

    def run(warp: Warp, mask: Any, index: Any, threads: Any = None) -> Any:
        if isinstance(warp.granted, Generation):
            generation, warp.granted = warp.granted, None
        else:
            warp.settle_loads(ins)
            barrier = warp.cta.barriers[of_lane(index, active_lanes(mask)[0])]
            count = None if threads is None else of_lane(threads, active_lanes(mask)[0])
            generation = barrier.arrive(warp, count, ins)
            if not generation.over:
                wait_for(generation, warp, ins, barrier)
                return BLOCK
        warp.clock.merge(generation.clock)
        return None

    return run


@executes("bar.arrive", "barrier.arrive", meets=nobody)
def _bar_arrive(ins: Instr) -> Run:
    pick(ins, ALIGNED, {"cta"})

    def run(warp: Warp, mask: Any, index: Any, threads: Any) -> None:
        warp.settle_loads(ins)
        lane = active_lanes(mask)[0]
        warp.cta.barriers[of_lane(index, lane)].arrive(warp, of_lane(threads, lane), ins)

    return run


@executes("bar.red", "barrier.red", blocking=True, dst=1, meets=nobody)
def _bar_red(ins: Instr) -> Run:
    operation, *_ = pick(ins, {"popc", "and", "or"}, ALIGNED, {"cta"}, {"u32", "pred"})

    def run(warp: Warp, mask: Any, index: Any, *rest: Any) -> Any:
        if isinstance(warp.granted, Generation):
            generation, warp.granted = warp.granted, None
        else:
            warp.settle_loads(ins)
            lane = active_lanes(mask)[0]
            vote = rest[-1]
            votes = np.full(32, vote) if not isinstance(vote, np.ndarray) else vote
            barrier = warp.cta.barriers[of_lane(index, lane)]
            count = of_lane(rest[0], lane) if len(rest) == 2 else None
            generation = barrier.arrive(warp, count, ins, votes if mask is None else votes[mask])
            if not generation.over:
                wait_for(generation, warp, ins, barrier)
                return BLOCK
        warp.clock.merge(generation.clock)
        votes = np.concatenate([np.asarray(v, bool) for v in generation.votes if v is not None])
        return {"popc": int(votes.sum()), "and": bool(votes.all()), "or": bool(votes.any())}[operation or ""]

    return run


@executes("barrier.cluster", blocking=True, meets=nobody)
def _cluster(ins: Instr) -> Run:
    """A relaxed arrival orders nothing in PTX. NVIDIA's programs hand data over with it: only `pedantic` asks."""
    verb, sem, _ = pick(ins, {"arrive", "wait"}, {"release", "relaxed", "acquire"}, ALIGNED)
    if verb == "arrive":

        def arrive(warp: Warp, mask: Any) -> None:
            warp.settle_loads(ins)
            if warp.cluster_arrivals:
                _arrived_already(warp, warp.cluster_arrivals[-1], ins)
            releases = sem != "relaxed" or not warp.cta.launch.pedantic
            warp.cluster_arrivals.append(warp.cta.cluster.barrier.arrive(warp, ins, releases))

        return arrive

    def wait(warp: Warp, mask: Any) -> Any:
        if not warp.cluster_arrivals:
            warp.cta.launch.found(BarrierError("barrier.cluster.wait without an arrive before it", ins, warp))
            return None
        generation = warp.cluster_arrivals[0]
        if not generation.over:
            wait_for(generation, warp, ins, warp.cta.cluster.barrier)
            return BLOCK
        warp.granted = None
        del warp.cluster_arrivals[0]
        warp.known |= generation.published
        warp.clock.merge(generation.clock)
        return None

    return wait


def _arrived_already(warp: Warp, generation: Generation, ins: Instr) -> None:
    """Find an arrival before the wait for the last one, which PTX leaves undefined; here it counts for the next use."""
    line = next(first.line for other, first in generation.arrived if other is warp)
    what = "barrier.cluster.arrive a second time before barrier.cluster.wait"
    warp.cta.launch.found(BarrierError(what, ins, warp, (("arrived at", f"PTX line {line}"),)))


@executes("fence", "membar", meets=nobody)
def _fence(ins: Instr) -> Run:
    """Orders what came before it for who sees a later relaxed write, and acquires what relaxed reads have seen."""
    semantics, *_ = pick(
        ins,
        {"sc", "acq_rel", "acquire", "release"},
        SCOPE | {"gl"},
        {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
    )

    def run(warp: Warp, mask: Any) -> None:
        warp.settle_loads(ins)
        warp.fence(acquire=semantics != "release", release=semantics != "acquire")

    return run


@executes("fence.mbarrier_init", meets=nobody)
def _fence_init(ins: Instr) -> Run:
    pick(ins, {"release"}, {"cluster"})

    def run(warp: Warp, mask: Any) -> None:
        warp.published |= _fence_mbarriers(warp)

    return run


def _fence_mbarriers(warp: Warp) -> set[MBarrier]:
    """The mbarriers whose initialisation the warp has seen are ready for the async proxy."""
    seen = {b for b in warp.cta.smem.mbarriers.values() if b.init.seen_by(warp.clock)}
    for barrier in seen:
        barrier.fenced = True
    return seen


@executes("fence.proxy", meets=nobody)
def _fence_proxy(ins: Instr) -> Run:
    kind, _, semantics, _, _ = pick(
        ins,
        {"async", "async.global", "alias", "tensormap::generic", "async::generic"},
        {"shared::cta", "shared::cluster", "global"},
        {"acquire", "release"},
        SCOPE,
        {"sync_restrict::shared::cta", "sync_restrict::shared::cluster"},
    )
    if kind == "tensormap::generic" and semantics == "acquire":

        def acquire_maps(warp: Warp, mask: Any, address: Any, _size: Any) -> None:
            for at in {of_lane(address, lane) for lane in active_lanes(mask)}:
                acquire(warp, at)

        return acquire_maps
    if kind not in ("async", "async::generic"):
        return lambda warp, mask, *_operands: None

    def run(warp: Warp, mask: Any) -> None:
        warp.clock.publish()
        warp.tick()
        _fence_mbarriers(warp)

    return run
