"""Modelled time: warps and agents in the order of their times, on a few SMs that stand for all."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..errors import Deadlock
from .chips import Chip
from .stretch import ALU, FMA, LSU, MUFU, PIPES, Stretch
from .warps import SUB_PARTITIONS, Prefetch, Sm, Tensor, TimedCluster, TimedWarp

if TYPE_CHECKING:
    from ..machine.launch.launch import Dim3, Launch
    from ..program import Program
    from .barriers import TimedMBarrier
    from .trace import Recorder, Track

INFINITY = float("inf")
SHARED = 0.5
"""Of a tensor whose loads miss L2 at most so often, each byte is taken to be loaded by several SMs at the same time."""
STUCK: Final = 1.1
"""In a trace, who waits for ever does so until this much past the last thing that happened."""


class Timeline:
    """Runs clusters of a launch, `resident` at a time on one set of SMs, each cluster's CTAs on SMs of their own.

    sharers: SMs that load at the same time, between which L2 and HBM are shared. ghz: the rate at which cycles pass, if
    it is not the highest. misses: by the address of a tensor, the share of its loads that L2 does not hold; all, of
    others; fresh: the same of what a cluster loads of it for the first time. walks: warps are only to go through their
    programs, each alone.
    """

    def __init__(
        self,
        chip: Chip,
        launch: Launch,
        program: Program,
        stretches: Sequence[Stretch],
        sharers: int,
        misses: Mapping[int, float],
        recorder: Recorder | None = None,
        walks: bool = False,
        ghz: float | None = None,
        fresh: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        self.chip, self.launch, self.program, self.stretches = chip, launch, program, stretches
        self.misses, self.fresh, self.recorder, self.walks = misses, fresh, recorder, walks
        self.hbm_share = min(chip.hbm_share(sharers, ghz or chip.max_clock_ghz), chip.sm_bytes_per_cycle)
        self.l2_share = min(chip.l2_share(sharers), chip.sm_bytes_per_cycle)
        self.l2_shared_share = min(chip.l2_share(sharers, shared=True), chip.sm_bytes_per_cycle)
        self._beside = [1.0] * len(PIPES)
        for pipe, factor in {
            FMA: chip.fma_beside_wgmma, ALU: chip.alu_beside_wgmma, MUFU: chip.mufu_beside_wgmma
        }.items():  # fmt: skip
            self._beside[pipe] = factor
        self.sms = [Sm() for _ in range(prod(launch.cluster))]
        self.finished: list[TimedCluster] = []
        self.tensors: dict[int, Tensor] = {}
        """What each tensor map describes, by the map's address."""
        self.loaded: dict[Tensor, int] = {}
        """Bytes that TMA was asked to load of each."""
        self.gathered: dict[Tensor, set[tuple[int, int]]] = {}
        """What warps gathered of each on their way through their programs: the column and row of a box's first line, or
        the address of a copy by cp.async."""
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0
        self._next: Iterator[Dim3] = iter(())
        self._live: list[TimedCluster] = []

    def run(self, indices: Iterable[Dim3], resident: int) -> list[TimedCluster]:
        """Run clusters, each when another has ended; those that ended, in that order. Raises Deadlock."""
        self._next = iter(indices)
        for _ in range(resident):
            self._start(0.0)
        time = 0.0
        while self._heap:
            time, _, happen = heapq.heappop(self._heap)
            happen(time)
        if self._live:
            stuck = [warp for cluster in self._live for warp in cluster.warps if not warp.done]
            if self.recorder is not None:
                for warp in stuck:
                    if warp.since is not None:
                        since, instr, what = warp.since
                        self.recorder.waited(warp, instr, what, since, STUCK * time)
            rows = tuple(f"  {w}: waits for {w.since[2]} at PTX line {w.since[1].line}" for w in stuck if w.since)
            raise Deadlock("deadlock in modelled time: no warp can go on and nothing is under way", rows)
        return self.finished

    def at(self, time: float, happen: Callable[[float], None]) -> None:
        """Do something at a time."""
        self._number += 1
        heapq.heappush(self._heap, (time, self._number, happen))

    def take_over(self) -> Dim3 | None:
        """The first CTA of a cluster that need not be launched any more; None if there is none."""
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
        """Set a warp at the program's first instruction."""
        self.program.start((warp,))
        warp.timeline, warp.go = self, partial(self._run, warp)

    def _run(self, warp: TimedWarp, now: float) -> None:
        """Let a warp run until another comes first, or it waits."""
        heap = self._heap
        while True:
            if warp.stretch is not None:
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
                self.program.advance(warp)
                warp.yielded = False
                continue
            if heap and heap[0][0] < now:
                self.at(now, warp.go)
                return

    def _spend(self, warp: TimedWarp, now: float) -> float:
        """Reserve slices of a stretch until another event comes first."""
        stretch, free, sm = warp.stretch, warp.free, warp.sm
        assert stretch is not None
        horizon = self._heap[0][0] if self._heap else INFINITY
        began, slices = now, stretch.slices
        i, count = warp.at, len(slices)
        delay, port = self.chip.wgmma_delay, warp.index % SUB_PARTITIONS
        while i < count and now <= horizon:
            part = slices[i]
            end = now + part.cycles
            beside = delay and sm.products[port] > now
            for pipe, cycles, over in part.demands:
                if beside:
                    if pipe == FMA:
                        sm.products[port] += cycles * delay
                        sm.delays[port] += cycles * delay
                    cycles *= self._beside[pipe]
                if pipe == LSU:
                    taken = (sm.lsu if sm.lsu > now else now) + cycles
                    sm.lsu = taken
                else:
                    taken = (free[pipe] if free[pipe] > now else now) + cycles
                    free[pipe] = taken
                if taken - over > end:
                    end = taken - over
            now = end
            i += 1
        warp.running_cycles += now - began
        if self.recorder is not None:
            self.recorder.ran(warp, began, now)
        warp.at = i
        if i == count:
            warp.stretch = None
        return now

    def begin(self, warp: TimedWarp, number: int) -> None:
        """The warp's next cycles are those of a stretch."""
        warp.stretch, warp.at = self.stretches[number], 0
        busy = warp.sm.busy
        for pipe, cycles in enumerate(warp.stretch.demand):
            if cycles:
                busy[pipe] = busy.get(pipe, 0.0) + cycles

    def wake(self, warps: Iterable[TimedWarp], now: float, latency: float, by: Track | None = None) -> None:
        """Waits end at `now`, by what happened on a track; their warps go on after `latency`."""
        for warp in warps:
            assert warp.since is not None
            since, instr, what = warp.since
            warp.waited(instr, what, now + latency - since)
            if self.recorder is not None:
                self.recorder.waited(warp, instr, what, since, now + latency)
                self.recorder.ended(warp, what, now, now + latency, by)
            warp.since, warp.granted = None, True
            self.at(now + latency, warp.go)

    def arrive(self, barrier: TimedMBarrier, count: int, now: float, by: Track | None = None) -> None:
        """Arrivals on an mbarrier, by what happened on a track."""
        self.wake(barrier.arrive(count), now, self.chip.wake_latency, by)

    def complete(self, barrier: TimedMBarrier, tx: int, now: float, by: Track | None = None) -> None:
        """Bytes of an mbarrier came, by what happened on a track."""
        self.wake(barrier.complete(tx), now, self.chip.wake_latency, by)

    def from_hbm(self, tensor: Tensor | None) -> float:
        """Of the bytes loaded of a tensor, the share that comes from HBM."""
        return 1.0 if tensor is None else self.misses.get(tensor.address, 1.0)

    def prefetch(self, sm: Sm, now: float, address: int, size: int) -> None:
        """Bring bytes to L2, if it has them not: on their way from HBM they are in flight as those of loads are."""
        chip = self.chip
        missing = size * self.fresh.get(max((at for at in self.fresh if at <= address), default=0), 1.0)
        sm.coming += missing
        sm.hbm = max(sm.hbm, now - chip.burst_cycles) + missing / self.hbm_share
        latency = chip.global_latency + (sm.outstanding + sm.coming) / chip.bytes_in_flight_per_cycle
        done = max(now + latency, sm.hbm)
        sm.use("HBM bytes", missing)
        sm.prefetched.append(Prefetch(address, missing, done))
        self.at(done, partial(self._came, sm, missing))

    @staticmethod
    def _came(sm: Sm, size: float, _now: float) -> None:
        sm.coming -= size

    def _prefetched(self, sm: Sm, tensor: Tensor | None, size: float) -> tuple[float, float]:
        """Of so many bytes of a tensor from HBM, how many were prefetched, and when the last of those is in L2."""
        taken = done = 0.0
        if tensor is None or not sm.prefetched:
            return taken, done
        end = tensor.address + tensor.bytes
        for ahead in [each for each in sm.prefetched if tensor.address <= each.address < end]:
            part = min(ahead.bytes, size - taken)
            taken, done = taken + part, max(done, ahead.done) if part else done
            ahead.bytes -= part
        sm.prefetched = [each for each in sm.prefetched if each.bytes]
        return taken, done

    def load(
        self, sm: Sm, now: float, size: int, latency: float, from_hbm: float, tensor: Tensor | None = None
    ) -> float:
        """When a load from global memory issued now is complete. latency: from HBM, with nothing else under way."""
        chip = self.chip
        taken, there = self._prefetched(sm, tensor, size * from_hbm)
        from_hbm = from_hbm - taken / size if taken < size * from_hbm else 0.0
        sm.outstanding += size
        latency += from_hbm * (sm.outstanding + sm.coming) / chip.bytes_in_flight_per_cycle
        latency += (1 - from_hbm) * (sm.outstanding / chip.l2_bytes_in_flight_per_cycle - chip.tma_l2_saving)
        sm.hbm = max(sm.hbm, now - chip.burst_cycles) + size * from_hbm / self.hbm_share
        rate = self.l2_shared_share if from_hbm <= SHARED else self.l2_share
        sm.l2 = max(sm.l2, now - chip.burst_cycles) + size / rate
        sm.use("L2 bytes", size * self.l2_share / rate)
        sm.use("HBM bytes", size * from_hbm)
        latency += chip.cold_latency if now < sm.warm else 0.0
        done = max(now + latency, sm.hbm if from_hbm else 0.0, there, sm.l2)
        sm.warm = min(sm.warm, done)
        self.at(done, partial(self._landed, sm, size))
        return done

    def store(self, sm: Sm, now: float, size: int) -> tuple[float, float]:
        """When a store to global memory issued now is complete, and when its source was read."""
        chip = self.chip
        sm.out = max(sm.out, now) + size / chip.store_bytes_per_cycle
        sm.hbm = max(sm.hbm, now - chip.burst_cycles) + size / self.hbm_share
        sm.l2 = max(sm.l2, now - chip.burst_cycles) + size / self.l2_share
        sm.use("L2 bytes", size)
        sm.use("HBM bytes", size)
        return max(sm.out + chip.tma_store_latency, sm.hbm, sm.l2), sm.out

    @staticmethod
    def _landed(sm: Sm, size: int, _now: float) -> None:
        sm.outstanding -= size

    def _leave(self, warp: TimedWarp, now: float) -> None:
        cta, cluster = warp.cta, warp.cta.cluster
        cta.running -= 1
        cluster.running -= 1
        if not cluster.running:
            cluster.end = now
            self.finished.append(cluster)
            self._live.remove(cluster)
            self._start(now)
