"""Modelled time: an event loop over warps and agents on a few SMs that represent all SMs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import hypot, log, prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..chip import LANES, RANK_SHIFT
from ..errors import BarrierError, Deadlock
from ..machine.launch.statistics import INSTRUCTIONS, LOADED
from .chips import Chip
from .segment import ALU, FMA, ISSUE, LSU, MUFU, SLICE, SUB_PARTITIONS, Segment, Slice
from .trace import COPIES, TENSOR_CORE, Trace, Track
from .warps import Prefetch, Sm, Tensor, TimedCluster, TimedCta, TimedWarp

if TYPE_CHECKING:
    import numpy as np

    from ..machine.launch.launch import Dim3, Launch
    from ..program import Program
    from ..ptx.syntax import Instr
    from .barriers import TimedBarrier, TimedMBarrier
    from .origins import Origin
    from .outcomes import Outcomes

INFINITY = float("inf")
ROUNDING = 1e-6
"""Cycles by which sums of a schedule's slices may differ."""
CAUSES: Final = {COPIES: "TMA", TENSOR_CORE: "tensor core"}
"""The reasons of waits at mbarriers, by the track of the last arrival; other arrivals are of warps."""
BARRIER: Final = "barrier"
SHARED = 0.5
"""L2 miss rate up to which each byte of a tensor is assumed to be loaded by several SMs at the same time."""
STUCK: Final = 1.1
"""In a trace, the end of a wait without end, as a multiple of the time of the last event."""


@dataclass(frozen=True)
class Route:
    """The latency and the bandwidth of one kind of loads.

    latency: from HBM on an idle chip; saving: how much sooner a load comes from L2. l2_rate, l2_shared_rate: bytes per
    cycle that the SM gets from L2, of bytes that it alone loads, and of bytes that several SMs load at the same time.
    width: bytes per cycle of loads that the SM requests, one after the other.
    """

    latency: float
    saving: float
    l2_rate: float
    l2_shared_rate: float
    width: float


@dataclass(frozen=True)
class Ordinary:
    """The share of the bytes that L2 sends for warps' own loads that comes from HBM, and of those that wait for HBM."""

    hbm: float
    waits: float


EVERYTHING: Final = Ordinary(1.0, 1.0)
LATER: Final = 0.17
"""The delay of the last of several loads by the logarithm of their number, as a share of HBM's latency."""
AMONG_STORES: Final = 0.26
"""The increase of HBM's latency, as a share of it, if a launch stores half as much as it loads or more.

Both fitted: lab/ordinary.cu on an H200, the points that lab/data/kernels.csv names.
"""
BUSY: Final = 0.3
"""The time of the bytes in flight, as a share of the latency, from which HBM often turns between loads and stores."""


@dataclass(frozen=True)
class Traffic:
    """HBM's traffic besides loads.

    displaced: dirty bytes of other data that L2 writes to HBM for each byte that the launch loads from HBM or stores.
    stored: bytes that the launch stores for each that it loads from HBM.
    """

    displaced: float = 0.0
    stored: float = 0.0

    @property
    def all(self) -> float:
        """The bytes that HBM moves for each loaded one."""
        return (1 + self.displaced) * (1 + self.stored)


class Timeline:
    """Runs clusters of a launch, `resident` at a time on one set of SMs, with one SM per CTA of a cluster.

    sharers: the SMs that load at the same time and share L2 and HBM bandwidth.
    ghz: the clock rate, default the highest.
    misses: the L2 miss rate of loads, by tensor address, default 1.
    first_misses: the L2 miss rate of a cluster's first load of bytes, by tensor address, default 1.
    merged: the share of a tensor's loaded bytes that another SM is fetching from HBM at the same time, default 0.
    holds: L2 holds all that the launch reads and writes.
    ordinary: which bytes of warps' own loads come from HBM, by the parameters that their addresses follow from.
    traffic: HBM's, besides loads.
    incomplete: the share of partly stored sectors that L2 reads from HBM, by the index of a warp's store.
    outcomes: of comparisons of data; without them they are false.
    has_code: earlier clusters have run on the SMs, so that their instruction caches hold the code.
    """

    def __init__(
        self,
        chip: Chip,
        launch: Launch,
        program: Program,
        segments: Sequence[Segment],
        sharers: int,
        misses: Mapping[int, float],
        trace: Trace | None = None,
        ghz: float | None = None,
        first_misses: Mapping[int, float] = MappingProxyType({}),
        merged: Mapping[int, float] = MappingProxyType({}),
        holds: bool = False,
        ordinary: Mapping[Origin, Ordinary] = MappingProxyType({}),
        incomplete: Mapping[int, float] = MappingProxyType({}),
        traffic: Traffic = Traffic(),
        outcomes: Outcomes | None = None,
        has_code: bool = False,
    ) -> None:
        self.chip, self.launch, self.program, self.segments = chip, launch, program, segments
        self.misses, self.first_misses, self.merged = misses, first_misses, merged
        self.trace, self.holds, self.outcomes = trace, holds, outcomes
        self.fetch_cycles = 0.0 if has_code else chip.fetch_cycles
        self.burst_cycles = INFINITY if has_code else chip.burst_cycles
        self.ordinary, self.traffic, self._in_step = ordinary, traffic, not has_code
        self.incomplete = incomplete
        self.ghz = ghz or chip.max_clock_ghz
        self.hbm_share = min(chip.hbm_share(sharers, self.ghz), chip.sm_bytes_per_cycle)
        self.l2_share = min(chip.l2_share(sharers), chip.sm_bytes_per_cycle)
        self._sharers = sharers
        self._during_mma = {FMA: chip.fma_during_mma, ALU: chip.alu_during_mma, MUFU: chip.mufu_during_mma}
        self.sms = [Sm() for _ in range(prod(launch.cluster))]
        for sm in self.sms:
            sm.hbm = -INFINITY if has_code else 0.0
        self.finished: list[TimedCluster] = []
        self.tensors: dict[int, Tensor] = {}
        """The tensor of each tensor map, by the map's address."""
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self._next: Iterator[Dim3] = iter(())
        self._live: list[TimedCluster] = []

    @cached_property
    def engine(self) -> Route:
        """Loads by TMA."""
        chip, width = self.chip, self.chip.sm_bytes_per_cycle
        shared = min(chip.l2_share(self._sharers, shared=True), width)
        return Route(chip.tma_latency, chip.tma_l2_saving, self.l2_share, shared, width)

    @cached_property
    def copies(self) -> Route:
        """Loads by cp.async. Other SMs are assumed to load other bytes."""
        chip, width = self.chip, self.chip.smem_bytes_per_cycle
        rate = min(chip.l2_share(self._sharers), width)
        return Route(chip.copy_latency, chip.copy_l2_saving, rate, rate, width)

    @cached_property
    def queue_bytes_per_cycle(self) -> float:
        """The outstanding bytes of the SM that delay a load from HBM by one cycle.

        HBM gives each SM its share. At a random time it has half of what the SMs requested still to give.
        """
        return min(self.chip.bytes_in_flight_per_cycle, 2 * self.hbm_share)

    @cached_property
    def store_share(self) -> float:
        """The SM's bytes per cycle of stores to L2."""
        return min(self.chip.l2_store_share(self._sharers), self.chip.sm_bytes_per_cycle)

    # A walk records what warps issue. A timed run does not need it.

    def issues_copy(
        self,
        warp: TimedWarp,
        tensor: Tensor | None,
        size: int,
        rows: Iterable[tuple[int, int]] = (),
        box: Iterable[int] = (),
        how: str = "",
    ) -> None:
        """Record a load by TMA or cp.async.

        rows: the (column, row) of each gathered row, or (0, address) of each lane's cp.async. box: the coordinates of
        a box, counted in boxes, so that boxes which mostly overlap are one. how: the kind of load, for kinds whose
        times may never have been compared with the chip.
        """

    def issues_store(self, size: int, how: str, at: int | None = None, partly: float = 0.0) -> None:
        """Record a store to global memory.

        how: the kind of store. at: the index of a warp's store in the kernel. partly: bytes of what HBM moves for it at
        once, if it stores only a part of these.
        """

    def loads_shared(self, warp: TimedWarp, line: int, stored_by: np.ndarray) -> None:
        """Record a load from shared memory. stored_by: the warps that stored the bytes, by their numbers."""

    def unknown_mbarrier(self, warp: TimedWarp, cta: TimedCta, offset: int, instr: Instr) -> TimedMBarrier:
        """Return the mbarrier at an offset at which none was initialised."""
        raise BarrierError(f"no mbarrier at {cta.rank << RANK_SHIFT | offset:#x}", instr, warp)

    def run(self, indices: Iterable[Dim3], resident: int) -> list[TimedCluster]:
        """Run clusters, each when another has ended; return them in the order in which they ended. Raises Deadlock."""
        self._next = iter(indices)
        for _ in range(resident):
            self._start(0.0)
        time = self._perform(lambda: False)
        if self._live:
            stuck = [warp for cluster in self._live for warp in cluster.warps if not warp.done]
            if self.trace is not None:
                for warp in stuck:
                    if warp.since is not None:
                        since, instr, what = warp.since
                        self.trace.waited(warp, instr, what, since, STUCK * time)
            rows = tuple(f"  {w}: waits for {w.since[2]} at PTX line {w.since[1].line}" for w in stuck if w.since)
            raise Deadlock("deadlock in modelled time: every warp waits and no operation is in flight", rows)
        return self.finished

    def _perform(self, enough: Callable[[], bool]) -> float:
        """Let events happen until there are none, or `enough` returns True; return the time of the last one."""
        time = 0.0
        while self._heap and not enough():
            time, _, happen = heapq.heappop(self._heap)
            happen(time)
        return time

    def at(self, time: float, happen: Callable[[float], None]) -> None:
        """Schedule an event."""
        self._number += 1
        heapq.heappush(self._heap, (time, self._number, happen))

    def cancel_launch(self) -> Dim3 | None:
        """Return the first CTA index of a cluster that is not launched yet, or None. It is then never launched."""
        index = next(self._next, None)
        if index is None:
            return None
        x, y, z = (i * c for i, c in zip(index, self.launch.cluster, strict=True))
        return x, y, z

    def _start(self, now: float) -> None:
        index = next(self._next, None)
        if index is None:
            return
        cluster = TimedCluster(self.launch, index, self.sms, now)
        self._live.append(cluster)
        for warp in cluster.warps:
            self.prepare(warp)
            self.at(now + self.chip.cta_launch, warp.go)

    def prepare(self, warp: TimedWarp) -> None:
        """Set a warp to the program's first instruction."""
        self.program.start((warp,))
        warp.timeline, warp.go = self, partial(self._run, warp)

    def advance(self, warp: TimedWarp) -> None:
        """Run a warp until it has issued an operation or ended."""
        self.program.advance(warp)
        warp.yielded = False

    def _run(self, warp: TimedWarp, now: float) -> None:
        """Run a warp until another event comes first or the warp waits."""
        heap = self._heap
        while True:
            if warp.segment is not None:
                now = self._spend(warp, now)
            elif warp.ops:
                perform, *arguments = warp.ops.popleft()
                later = perform(warp, now, *arguments)
                if later is None:
                    return
                now = later
            elif warp.done:
                self._leave(warp, now)
                return
            else:
                self.advance(warp)
                continue
            if heap and heap[0][0] < now:
                self.at(now, warp.go)
                return

    def _spend(self, warp: TimedWarp, now: float) -> float:
        """Reserve slices of a segment until another event comes first."""
        segment, free, sm = warp.segment, warp.free, warp.sm
        assert segment is not None
        horizon = self._heap[0][0] if self._heap else INFINITY
        began, shown, stalled, slices = now, now, 0.0, segment.slices
        i, count = warp.at, len(slices)
        delay, port, late, due = self.chip.mma_delay, warp.index % SUB_PARTITIONS, warp.late, warp.due
        while now <= horizon:
            if due and due[0][0] <= warp.progress:
                there = max(heapq.heappop(due)[1], now)
                shown = self._awaited(warp, ((segment.line, there - now, True),), shown, now, there)
                now, stalled = there, stalled + there - now
                continue
            if i == count:
                break
            if late and late[0][0] <= warp.progress:
                now = max(now, heapq.heappop(late)[1])
                continue
            part = slices[i]
            warp.progress += part.cycles
            end = now + part.cycles
            during_mma = delay and sm.products[port] > now
            for pipe, cycles, over in part.demands:
                if during_mma:
                    if pipe == FMA:
                        sm.products[port] += cycles * delay
                        sm.delays[port] += cycles * delay
                    cycles *= self._during_mma.get(pipe, 1.0)
                if pipe == LSU:
                    taken = (sm.lsu if sm.lsu > now else now) + cycles
                    sm.lsu = taken
                    sm.port_backlog += cycles
                    if part.slack:
                        heapq.heappush(late, (warp.progress + part.slack, taken - over))
                        continue
                else:
                    taken = (free[pipe] if free[pipe] > now else now) + cycles
                    free[pipe] = taken
                if taken - over > end:
                    end = taken - over
            if part.loaded or part.carried:
                self._load_in_slice(warp, part, now, end)
            if part.awaited:
                shown = self._awaited(warp, part.awaited, shown, now, end)
                stalled += sum(awaited for _, awaited, _ in part.awaited)
            now = end
            i += 1
        warp.running_cycles += now - began - stalled
        if self.trace is not None:
            self.trace.ran(warp, shown, now)
        warp.at = i
        if i == count and not warp.is_due:
            warp.segment = None
        return now

    def _awaited(
        self, warp: TimedWarp, waits: Sequence[tuple[int, float, bool]], shown: float, now: float, end: float
    ) -> float:
        """Record waits for values from L2 or HBM from `now` to `end`; return until when the trace shows the warp."""
        for line, awaited, begins in waits:
            if awaited:
                warp.stalled(line, awaited, begins)
        if self.trace is None:
            return shown
        self.trace.ran(warp, shown, now)
        self.trace.ran(warp, now, end, 2 * sum(awaited for _, awaited, _ in waits) > end - now)  # by the larger part
        return end

    def _load_in_slice(self, warp: TimedWarp, part: Slice, now: float, end: float) -> None:
        """Load what a slice loads, from `now` to `end`."""
        more = self._load_by_warp(warp, now, part.loaded)
        if more > 0 and part.used < INFINITY:
            heapq.heappush(warp.due, (warp.progress + part.used - ROUNDING, end + part.used + more))
        for line, left in part.carried:
            warp.carried[line] = end + left + more

    def _load_by_warp(self, warp: TimedWarp, now: float, loaded: Iterable[tuple[Origin, float, float, float]]) -> float:
        """Load bytes by ordinary loads; return by how much they take longer than their latency in the segment.

        Those that L1 answers take no longer.
        """
        chip, sm, more = self.chip, warp.sm, 0.0
        for origin, size, loads, updates in loaded:
            share = self.ordinary.get(origin, EVERYTHING)
            latency, in_hbm = chip.load_latency(share.waits), size * share.hbm
            taken = max(size / self.l2_share, updates * self._sharers)
            sm.l2 = max(sm.l2, now - self.burst_cycles) + taken
            sm.use("L2 bytes", taken * self.l2_share)
            more = max(more, sm.l2 - now - latency)
            if in_hbm:
                self._move(sm, now, in_hbm, self.burst_cycles)
                queued = self._queued(sm, now, in_hbm, latency, warp.asks(now, now + latency - SLICE, loads))
                more = max(more, sm.hbm - now - latency, share.waits * queued * min(loads, 1.0))
        return more

    def _move(self, sm: Sm, now: float, size: float, burst: float) -> None:
        """Move bytes between HBM and L2, and the dirty bytes that they displace."""
        size *= 1 + self.traffic.displaced
        sm.hbm = max(sm.hbm, now - burst) + size / self.hbm_share
        sm.use("HBM bytes", size)

    def _queued(self, sm: Sm, now: float, size: float, latency: float, loads: float) -> float:
        """Return how much longer than its latency a warp's load from HBM takes.

        It waits for the bytes that the SM has in flight; SMs that are out of step wait for each other: see `Grid`.
        loads: those that the warp has in flight, in the mean.
        """
        most, mixed = self.chip.global_latency, AMONG_STORES * min(2 * self.traffic.stored, 1.0)
        alone = latency + most * LATER * log(max(loads, 1.0))
        if not self._in_step:
            sm.awaited += size
            return alone + most * mixed - latency
        while sm.flying and sm.flying[0][0] <= now:
            sm.in_flight -= sm.flying.popleft()[1]
        sm.in_flight += size
        queue = sm.in_flight * self.traffic.all / self.hbm_share
        taken = hypot(alone + most * mixed * min(queue / (BUSY * alone), 1.0), queue)
        sm.flying.append((now + taken, size))
        return taken - latency

    def _multiply_by_warp(self, sm: Sm, flops: float) -> None:
        """Count the products of mma.sync."""
        sm.use("flops", flops)
        sm.use("products", flops / self.chip.mma_flops_per_cycle)

    def begin(self, warp: TimedWarp, number: int, now: float) -> float:
        """Start a segment on a warp; return the time at which its code is there."""
        warp.segment, warp.at = self.segments[number], 0
        warp.sm.segments[number] += 1
        warp.sm.use(INSTRUCTIONS, warp.segment.instructions)
        if flops := warp.segment.flops:
            self._multiply_by_warp(warp.sm, flops)
        if asked := warp.segment.asked:
            warp.sm.use(LOADED, asked)
        warp.segments[number] += 1
        busy = warp.sm.busy
        for pipe, cycles in enumerate(warp.segment.demand):
            if cycles:
                busy[pipe] = busy.get(pipe, 0.0) + cycles
        if number not in warp.sm.code:
            warp.sm.code[number] = now + warp.segment.demand[ISSUE] * self.fetch_cycles
        return max(now, warp.sm.code[number])

    def wake(self, warps: Iterable[TimedWarp], now: float, latency: float, by: Track | None = None) -> None:
        """End waits at `now`; the warps continue after `latency`. by: the track of the cause."""
        for warp in warps:
            assert warp.since is not None
            since, instr, what = warp.since
            warp.waited(instr.line, what, now + latency - since, CAUSES.get(by[1], BARRIER) if by else BARRIER)
            if self.trace is not None:
                self.trace.waited(warp, instr, what, since, now + latency)
                self.trace.ended(warp, what, now, now + latency, by)
            warp.since, warp.wait_result = None, True
            self.at(now + latency, warp.go)

    def arrive(self, barrier: TimedMBarrier, count: int, now: float, by: Track | None = None) -> None:
        """Arrive on an mbarrier. by: the track of the cause."""
        self.wake(barrier.arrive(count), now, self.chip.wake_latency, by)

    def give_up(self, barrier: TimedMBarrier, warp: TimedWarp, since: tuple[float, Instr, str], now: float) -> None:
        """End the wait that began with `since` without success, if it has not ended yet."""
        if warp.since is not since:
            return
        barrier.waiters.remove(warp)
        warp.waited(since[1].line, since[2], now - since[0], BARRIER)
        if self.trace is not None:
            self.trace.waited(warp, since[1], since[2], since[0], now)
        warp.since, warp.wait_result = None, False
        self.at(now, warp.go)

    def complete(self, barrier: TimedMBarrier, tx: int, now: float, by: Track | None = None) -> None:
        """Complete bytes on an mbarrier. by: the track of the cause."""
        self.wake(barrier.complete(tx), now, self.chip.wake_latency, by)

    def from_hbm(self, tensor: Tensor | None) -> float:
        """Return the share of a tensor's loaded bytes that comes from HBM."""
        return float(not self.holds) if tensor is None else self.misses.get(tensor.address, 1.0)

    def awaits_hbm(self, tensor: Tensor | None) -> float:
        """Return the share of a tensor's loaded bytes that L2 does not hold yet, whoever fetches them."""
        return self.from_hbm(tensor) + (0.0 if tensor is None else self.merged.get(tensor.address, 0.0))

    def prefetch(self, sm: Sm, now: float, address: int, size: int) -> None:
        """Prefetch bytes that L2 does not hold. They are in flight from HBM like those of loads."""
        chip = self.chip
        known = self.launch.memory.known(address, address + 1)  # a tensor below it may be another's
        start = address if known is None else known.address
        tensor = max((at for at in self.first_misses if start <= at <= address), default=0)
        missing = size * self.first_misses.get(tensor, 1.0)
        sm.coming += missing
        self._move(sm, now, missing, chip.burst_cycles)
        latency = chip.global_latency + (sm.outstanding + sm.coming) / self.queue_bytes_per_cycle
        done = max(now + latency, sm.hbm)
        sm.prefetched.append(Prefetch(address, missing, done))
        self.at(done, partial(self._came, sm, missing))

    @staticmethod
    def _came(sm: Sm, size: float, _now: float) -> None:
        sm.coming -= size

    def _prefetched(self, sm: Sm, tensor: Tensor | None, size: float) -> tuple[float, float]:
        """Return (prefetched bytes of a tensor's load, the time at which the last of them is in L2)."""
        taken = done = 0.0
        if tensor is None or not sm.prefetched:
            return taken, done
        end = tensor.address + tensor.bytes
        for ahead in sm.prefetched:
            if taken != size and tensor.address <= ahead.address < end:
                part = min(ahead.bytes, size - taken)
                taken, ahead.bytes, done = taken + part, ahead.bytes - part, max(done, ahead.done) if part else done
        if taken:
            sm.prefetched = [each for each in sm.prefetched if each.bytes]
        return taken, done

    def load(
        self,
        sm: Sm,
        now: float,
        size: int,
        route: Route,
        tensor: Tensor | None = None,
        sent: float = 0.0,
        destinations: int = 1,
    ) -> float:
        """Return the completion time of a load from global memory.

        sent: the time at which the last of it was requested. destinations: the SMs that one multicast load serves.
        """
        chip, from_hbm, awaits = self.chip, self.from_hbm(tensor) / destinations, self.awaits_hbm(tensor)
        taken, there = self._prefetched(sm, tensor, size * from_hbm)
        from_hbm = from_hbm - taken / size if taken < size * from_hbm else 0.0
        sm.outstanding += size
        awaits = max(awaits - taken / size, from_hbm)
        saving = route.saving - (0.0 if tensor is None else tensor.spread * chip.l2_box_cycles)
        latency = route.latency - (1 - awaits + chip.merged_saving * (awaits - from_hbm)) * saving
        queued = from_hbm * (sm.outstanding + sm.coming) / self.queue_bytes_per_cycle
        if from_hbm and not sm.streams and chip.start_cycles:
            sm.streams, sm.hbm = True, max(sm.hbm, now + route.latency + chip.start_cycles)
        self._move(sm, now, size * from_hbm, chip.burst_cycles)
        rate = route.l2_shared_rate if from_hbm <= SHARED else route.l2_rate
        sm.l2 = max(sm.l2, now - chip.burst_cycles) + size / rate
        sm.use("L2 bytes", size * self.l2_share / rate)
        latency += chip.cold_latency if now < sm.warm else 0.0
        sm.to_l2 = max(sm.to_l2, now) + size / route.width
        filled = sm.to_l2 + route.latency - saving
        done = max(now + latency + queued, sent + latency, filled, sm.hbm if from_hbm else 0.0, there, sm.l2)
        sm.warm = min(sm.warm, done)
        self.at(done, partial(self._landed, sm, size))
        return done

    def store(self, sm: Sm, now: float, size: float, asked: float | None = None) -> tuple[float, float]:
        """Return (completion time, time at which the source was read) of a store to global memory.

        asked: the bytes that HBM moves for a warp's store. L2 joins sectors, and buffers them for HBM.
        """
        chip = self.chip
        sm.to_l2 = max(sm.to_l2, now) + size / chip.store_bytes_per_cycle
        sm.out = max(sm.out, sm.to_l2)
        to_hbm = 0.0 if self.holds else size if asked is None else asked
        self._move(sm, now, to_hbm, self.burst_cycles)
        sm.l2 = max(sm.l2, now - (chip if asked is None else self).burst_cycles) + size / self.store_share
        sm.use("L2 bytes", size * self.l2_share / self.store_share)
        sm.occupy_port(size / chip.smem_bytes_per_cycle)
        sm.out = max(sm.out, sm.hbm if to_hbm and asked is None else 0.0, sm.l2)
        return sm.out + chip.tma_store_latency, sm.out

    def _landed(self, sm: Sm, size: int, _now: float) -> None:
        sm.outstanding -= size

    def release_cta(self, barrier: TimedBarrier, released: list[TimedWarp] | None, cta: TimedCta, now: float) -> bool:
        """End the waits at a CTA's barrier if it has completed; return True if it has."""
        if released is None:
            return False
        warps = cta.running if barrier.needed is None else barrier.needed / LANES
        self.wake(released, now, self.chip.barrier_latency + self.chip.barrier_warp_cycles * warps)
        return True

    def release_cluster(self, cluster: TimedCluster, released: list[TimedWarp] | None, now: float) -> None:
        """End the waits at a cluster's barrier if it has completed."""
        if released is not None:
            cluster.barrier.over = now + self.chip.cluster_barrier_latency
            self.wake(released, now, self.chip.cluster_barrier_latency)

    def _end_barriers(self, warp: TimedWarp, now: float) -> None:
        """Complete the barriers that waited for a warp that ends alone: those of all threads, and the cluster's."""
        cta, cluster = warp.cta, warp.cta.cluster
        for barrier in cta.barriers:
            if barrier.needed is None:
                self.release_cta(barrier, barrier.completed(cta.running * LANES), cta, now)
        if warp.arrived == cluster.barrier.generation:  # it is no longer among those that have to arrive
            cluster.barrier.arrived -= 1
        self.release_cluster(cluster, cluster.barrier.completed(cluster.running), now)

    def _leave(self, warp: TimedWarp, now: float) -> None:
        cta, cluster = warp.cta, warp.cta.cluster
        cta.running -= 1
        cluster.running -= 1
        self._end_barriers(warp, now)
        if not cluster.running:
            cluster.end = now
            self.finished.append(cluster)
            self._live.remove(cluster)
            self._start(now)
