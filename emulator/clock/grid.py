"""Extrapolate from a few executed clusters to the whole grid.

Clusters are grouped by their amount of work; a list schedule places their times on the chip.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from math import inf, prod
from random import Random
from typing import Any, Final

import numpy as np

from ..chip import CTAS_AN_SM, LANES, REGISTERS_AN_SM, SHARED_BYTES_AN_SM, THREADS_AN_SM, TMEM_COLUMNS
from ..machine.launch.launch import Dim3, Launch
from ..machine.launch.statistics import LONGEST
from ..program import Program
from ..ptx.kinds import Kind
from .accesses import HBM_SECTORS, L1_BYTES, RECORDED, SECTORS, Cta, Load, extents, footprints, measured
from .atomics import of_l2
from .chips import Chip
from .conditions import Conditions
from .operations.in_memory import READ_AND_WRITTEN
from .origins import POINTER_BYTES, Origin
from .outcomes import Outcomes
from .registers import Registers
from .reuse import Loads, reused
from .segment import LSU, Segment
from .skeleton import Skeleton
from .spans import Span
from .timeline import Ordinary, Timeline, Traffic
from .trace import Trace
from .uncertainty import BY_WARPS, GATHERS, NARROW, STORES
from .walk import Walk
from .warps import Sm, Tensor, TimedCluster

PROBES: Final = 24
"""The number of randomly chosen clusters whose amount of work is determined first."""
MAX_SAMPLES: Final = 512
"""The maximum number of evenly spaced clusters to sample if those amounts differ.

A cluster between two samples is assumed to have the work of the previous sample.
"""
PROBES_IN_ORDER: Final = 6
SAMPLES_IN_ORDER: Final = 16
"""The same numbers for clusters all of whose warps have to run."""
MAX_EXECUTED: Final = 5
"""The maximum number of distinct amounts of work to execute; times between them are interpolated."""
OUT_OF_STEP: Final = 4.0
"""The exponent of the times of clusters alone and of HBM in their joint time, which is the longer one if they differ
much. Fitted: lab/ordinary.cu on an H200, the points that lab/data/kernels.csv names."""
DIRTY: Final = 0.7
"""The share of L2 that dirty lines take after a flush. Fitted: lab/ordinary.cu on an H200, the points that
lab/data/kernels.csv names."""
MEMORY_MATTERS: Final = 0.5
"""The use of L2's or HBM's bandwidth below which clusters are not faster if fewer SMs share it."""


@dataclass(frozen=True)
class Occupancy:
    """The occupancy of the chip. resident: CTAs per SM at a time; slots: clusters on the chip at a time."""

    clusters: int
    resident: int
    slots: int
    limit: str


@dataclass(frozen=True, order=True)
class Work:
    """The work of a cluster: instructions of a loading warp or of all, and the bytes that they load."""

    instructions: int
    bytes: int

    @property
    def amount(self) -> int:
        """The measure of an SM's use: bytes, or instructions if nothing is loaded."""
        return self.bytes or self.instructions


@dataclass(frozen=True)
class Executed:
    """A cluster that was executed.

    together: the clusters that ran on its SMs at the same time; share: the part of the grid that it represents.
    weight: the same by work, as a cluster also represents others with more or less work.
    """

    cluster: TimedCluster
    sms: Sequence[Sm]
    together: int
    share: float
    weight: float


@dataclass(frozen=True)
class GridTime:
    """The cycle at which the last cluster ends, and the executed clusters from which it was derived."""

    cycles: float
    occupancy: Occupancy
    executed: Sequence[Executed]

    @cached_property
    def used(self) -> dict[str | int, float]:
        """The use of each part of an SM by an average cluster of the grid, in cycles or bytes."""
        used: dict[str | int, float] = {}
        for executed in self.executed:
            for sm in executed.sms:
                for part, cycles in sm.busy.items():
                    used[part] = used.get(part, 0.0) + executed.weight * cycles / executed.together
        return used

    def work(self, kinds: Collection[str], opcodes: Mapping[int, str], segments: Sequence[Segment]) -> dict[str, float]:
        """Return kinds of use, and operations by opcode, of all clusters. opcodes: by PTX line.

        A cluster that was not executed counts as the executed one that represents it, although it may have less work.
        """
        found = dict.fromkeys((*kinds, *opcodes.values()), 0.0)
        for executed in self.executed:
            for sm in executed.sms:
                times = executed.share * self.occupancy.clusters / executed.together
                for kind in kinds:
                    found[kind] += sm.busy.get(kind, 0.0) * times
                for line, count in sm.executed.items():
                    found[opcodes[line]] += count * times
        warps = (warp for executed in self.executed for warp in executed.cluster.warps)
        found[LONGEST] = max(sum(segments[i].instructions * n for i, n in warp.segments.items()) for warp in warps)
        return found


class Grid:
    """The clusters of a launch on a chip."""

    def __init__(
        self, chip: Chip, launch: Launch, program: Program, skeleton: Skeleton, conditions: Conditions
    ) -> None:
        self._chip, self._launch, self._program, self._skeleton = chip, launch, program, skeleton
        self._warm, self._dirty = conditions.l2 == "warm", conditions.l2 == "dirty"
        self.outcomes: Outcomes | None = None
        """The outcomes of comparisons of data."""
        x, y, z = launch.grid_of_clusters
        self._indices: list[Dim3] = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
        self._others: dict[Dim3, Outcomes | None] = dict.fromkeys(conditions.clusters & set(self._indices))
        if conditions.branches == "executed" and skeleton.decided:
            middle = self._indices[len(self._indices) // 2]
            self.outcomes, *found = skeleton.recording.executed(launch, [middle, *self._others])
            self._others = dict(zip(self._others, found, strict=True))
        self._size = prod(launch.cluster)
        self._misses: dict[int, float] = {}
        self._first_misses: dict[int, float] = {}
        self._merged: dict[int, float] = {}
        self._ordinary: dict[Origin, Ordinary] = {}
        self._incomplete: Mapping[int, float] = {}
        self._extents: dict[Origin, float] = {}
        self._traffic = Traffic()
        self._loads: dict[int, Load] = {}
        self.shares: dict[str, float] = {}
        """The shares of the bytes that a cluster loads and stores in ways that may never have been measured."""
        self.registers: Registers | None = None
        """The registers of a thread, if something else does not limit an SM to one CTA."""
        self.holds = False
        """True if L2 holds all that the launch reads and writes."""
        self.touched = 0.0
        """The bytes of global memory that the launch reads and writes, each counted once."""
        self._in_order = self._pass_values({})
        """Walks run all warps of a cluster, in the order of their waits."""
        self._probed = self._probe()

    def _probe(self) -> tuple[Occupancy, Sequence[int], Sequence[Work]]:
        """Return (occupancy, indices of sampled clusters, the amount of work of each)."""
        for index in self._indices[:PROBES]:  # a cluster that has no work tells nothing of the others
            whole = self._walk()
            first = whole.recorded(index, self._in_order)
            if whole.loaded or any(warp.made for warp in whole.requests[0]):
                break
        self._in_order = self._pass_values(whole.passed)
        occupancy = self._occupancy(first.ctas[0].tmem_columns)
        loaders = [w for w in first.ctas[0].warps if w.loaded] or first.ctas[0].warps
        loader = min(loaders, key=lambda w: w.executed).index
        clusters = len(self._indices)
        touched = float(clusters * whole.stored)
        by_warps = self._ordinary_loads(whole, index, occupancy)
        whole.moved[BY_WARPS] += sum(by_warps.values())
        everything = whole.stored + sum(by_warps.values()) + sum(whole.loaded.values())
        self.shares = {name: whole.moved[name] / max(everything, 1) for name in (GATHERS, NARROW, STORES, BY_WARPS)}
        for tensor, loaded in whole.loaded.items():
            distinct = len(whole.gathered.get(tensor, ())) * tensor.box_bytes or loaded
            missed = min(distinct, tensor.bytes / clusters)
            touched += clusters * missed
            self._misses[tensor.address], self._first_misses[tensor.address] = missed / loaded, missed / distinct
            self._merged[tensor.address] = (distinct - missed) / loaded
        touched += self._from_hbm(whole, by_warps, occupancy)
        self.touched = min(touched, self._accessible(whole.loaded))
        if self._warm and self.touched <= self._chip.l2_bytes:
            self._ordinary = dict.fromkeys(self._ordinary, Ordinary(0.0, 0.0))
            self.holds = True
            self._misses = dict.fromkeys(self._misses, 0.0)
            self._first_misses = dict.fromkeys(self._first_misses, 0.0)
            self._merged = {}
        sampled, works, loads = self._work_samples(loader, self._roles(first, loader, occupancy.slots))
        self._reuse(whole, occupancy.slots, loader, loads)
        self._incomplete = self._partly_stored(whole)
        self._traffic = self._other_traffic(whole, by_warps)
        return occupancy, sampled, works

    def _accessible(self, tensors: Iterable[Tensor]) -> float:
        """Return the bytes of the allocations that the launch's parameters point to, and of those of `tensors`.

        Infinite if no parameter points to an allocation that is known.
        """
        launch, found = self._launch, dict[int, int]()
        pointers = np.frombuffer(launch.param_bytes, np.uint64, len(launch.param_bytes) // POINTER_BYTES).tolist()
        for address, least in [*((pointer, 0) for pointer in pointers), *((t.address, t.bytes) for t in tensors)]:
            known = launch.memory.known(address, address + 1)
            if known is not None:
                found[known.address] = known.size
            elif least:
                found[address] = least
        return sum(found.values()) or inf

    def _other_traffic(self, whole: Walk, by_warps: Mapping[Origin, float]) -> Traffic:
        """Return HBM's traffic besides loads. Of what L2 holds at the end of a launch it has written nothing yet."""
        loaded = sum(size * self._misses[tensor.address] for tensor, size in whole.loaded.items())
        loaded += sum(size * self._ordinary[origin].hbm for origin, size in by_warps.items())
        more = (
            left * (READ_AND_WRITTEN * whole.partly[i] - whole.stored_at[i]) for i, left in self._incomplete.items()
        )
        stored = whole.stored + sum(more)
        size = len(self._indices) * (loaded + stored)
        displaced = 0.0
        if self._dirty and size:
            held = min(DIRTY * self._chip.l2_bytes / size, 1.0)
            displaced = held * loaded / (loaded + stored)
        return Traffic(displaced, stored / loaded if loaded else 0.0)

    def _partly_stored(self, whole: Walk) -> Mapping[int, float]:
        """Return the shares of partly stored sectors that L2 reads from HBM, by the index of a store.

        It reads those that the launch never completes, each once if it holds the region that the stores lie in.
        """
        skeleton, clusters, found = self._skeleton, len(self._indices), dict[int, float]()
        for i, partly in whole.partly.items():
            if partly:
                alike = [at for at, origin in skeleton.stores.items() if origin == skeleton.stores[i]]
                region = max(min(max(self._spans[at].most for at in alike), self._loadable(skeleton.stores[i])), 1.0)
                left = max(1 - clusters * sum(whole.stored_at[at] for at in alike) / region, 0.0)
                found[i] = min(left, region / (clusters * partly)) if region <= self._chip.l2_bytes else left
        return found

    @property
    def exceeds(self) -> bool:
        """True if the launch reads and writes more than L2 holds."""
        return self.touched > self._chip.l2_bytes

    def _reuse(self, whole: Walk, slots: int, loader: int, sampled: Sequence[Loads]) -> None:
        """Find the shares of loads that wait for HBM, from the order in which clusters load boxes.

        If there are several waves, a cluster's first load of a tensor represents all its loads of that tensor; the
        waves are alike, so that a few clusters of the middle one represent all. If L2 is too small, all clusters of a
        wave decide what it still holds. whole: a walk of one cluster. sampled: loads of some clusters.
        """
        if not whole.boxes:
            return
        count, walk = len(self._indices), self._walk()
        loaded = {tensor.address: float(size) for tensor, size in whole.loaded.items()}

        def loads(clusters: Iterable[int], first: bool) -> list[Loads]:
            found = []
            for i in clusters:
                walk.boxes = {}
                done = (lambda: len(walk.boxes) == len(self._merged)) if first else (lambda: False)
                walk.cluster(self._indices[i], self._in_order, [loader], done)
                boxes = {tensor: boxes[:1] if first else boxes for tensor, boxes in walk.boxes.items()}
                found.append(Loads(i // slots, boxes))
            return found

        before: Sequence[Loads] = ()
        later, capacity = 1.0, self._chip.l2_bytes if self.exceeds else inf
        if count > slots:
            later, start = 1 - slots / count, max(count // slots * 3 // 7, 1) * slots
            end, earlier = min(start + slots, count), range(max(start - MAX_SAMPLES, 0), start)
            step = 1 if self.exceeds else -(-(end - start) // PROBES)
            before, sampled = loads(earlier, True), loads(range(start, end, step), True)
        elif self.exceeds:
            sampled = loads(range(count), False)
        in_flight = float(self._size * self._launch.shared_bytes)
        for tensor, found in reused(before, sampled, loaded, float(whole.stored), in_flight, capacity).items():
            distinct = self._misses[tensor] + self._merged.get(tensor, 0.0)
            if self.exceeds:
                self._misses[tensor] = max(self._misses[tensor], distinct * found.fetched)
                self._merged[tensor] = max(distinct * (1 - found.held) - self._misses[tensor], 0.0)
            else:
                self._merged[tensor] = self._merged.get(tensor, 0.0) * (1 - later * found.held)

    def time(self, ghz: float, trace: Trace | None = None) -> GridTime:
        """Execute a few clusters at `ghz` and schedule the rest. trace: of the first executed cluster."""
        occupancy, sampled, works = self._probed
        if not works:
            return self._time_with_work_stealing(occupancy, ghz, trace)
        times: dict[int, float] = {}
        executed: list[tuple[Work, TimedCluster, Sequence[Sm]]] = []
        late: list[float] = []
        count, slots = len(self._indices), occupancy.slots
        together = min(occupancy.resident, -(-count * self._size // self._chip.sms))
        for work in _most(works) if count <= slots else _spread(sorted(set(works)), MAX_EXECUTED):
            index = self._indices[sampled[works.index(work)]]
            shown = trace if not executed else None
            timeline = Timeline(**self._sharing(count), trace=shown, ghz=ghz, has_code=count > slots)
            alone, cycles = _mean_times(timeline, index, together)
            late.append(cycles - alone)
            times[work.instructions] = max(cycles, times.get(work.instructions, 0.0))
            executed.append((work, timeline.finished[0], timeline.sms))
        each = [_interpolated(times, works[bisect_right(sampled, i) - 1].instructions) for i in range(count)]
        if count > slots and (left := count % slots):
            at_last = min(together, -(-left * self._size // self._chip.sms))
            if at_last < together or _waits_for_memory(timeline):  # the last wave's clusters share with fewer others
                timeline = Timeline(**self._sharing(left), ghz=ghz, has_code=True)
                faster = _mean_times(timeline, index, at_last)[1] / times[work.instructions]
                each[-left:] = [cycles * min(faster, 1.0) for cycles in each[-left:]]
        for (_, cluster, _), cycles in zip(executed, late, strict=True):
            cluster.waits_for_hbm(cycles)
        found, longest = _represented(executed, works, together), max(times.values())
        for index, outcomes in self._others.items():
            timeline = Timeline(**self._sharing(count) | {"outcomes": outcomes}, ghz=ghz, has_code=count > slots)
            longest = max(longest, _mean_times(timeline, index, together)[1])
        cycles = _scheduled(each, slots) * longest / max(times.values())
        return self._with_memory(GridTime(cycles, occupancy, found), ghz)

    def loads(self) -> dict[int, Load]:
        """Return the launch's ordinary loads, with their mean latencies. L1 is taken to answer like shared memory."""
        chip, near, spans = self._chip, self._chip.shared_latency, self._spans

        def latency(i: int, load: Load) -> float:
            far = chip.load_latency(self._ordinary[self._skeleton.sites[i].origin].waits, load.spread)
            return load.waits * far + (1 - load.waits) * near

        def updates(i: int, load: Load) -> float:
            site = self._skeleton.sites[i]
            if site.atomic is None:
                return 0.0
            words = min(spans[i].places, max(self._loadable(site.origin) / site.lane_bytes, 1.0))
            return of_l2(chip, site.atomic, site.lanes, load.lanes, spans[i], words)

        return {i: replace(load, latency=latency(i, load), updates=updates(i, load)) for i, load in self._loads.items()}

    def _ordinary_loads(self, whole: Walk, index: Dim3, occupancy: Occupancy) -> dict[Origin, float]:
        """Find out what ordinary loads request; return the bytes that L2 sends for a cluster, by origin.

        CTAs of one SM that follow each other are walked, as many as the recorded requests allow: those that are on it
        at a time, and those of the wave before, which leave L1 filled. whole: a walk of the cluster `index`.
        """
        sites, first = self._skeleton.sites, whole.requests[0]
        count = sum(len(warp.made) for warp in first)
        if not count:
            return {}
        step = max(self._chip.slots(self._size), 1)
        start, most = self._indices.index(index), RECORDED // count
        others = self._indices[start + step :: step][: max(most - 1, 0)]
        walked = [first, *(self._requests_of(other) for other in others[: 2 * occupancy.resident - 1])]
        spans = extents(first, sites)
        if any(end < inf for _, end in spans.values()):
            last = extents(self._requests_of(self._indices[-1]), sites)
            ends = {origin: (*span, *last.get(origin, span)) for origin, span in spans.items()}
            self._extents = {origin: max(each) - min(each) for origin, each in ends.items()}
        at_once = min(occupancy.resident, -(-len(walked) // 2))
        groups = [walked[-2 * at_once : -at_once], walked[-at_once:]]
        shared = occupancy.resident * self._launch.shared_bytes
        l1 = (L1_BYTES - shared) * at_once / min(occupancy.resident, -(-len(self._indices) // step))
        found_loads = measured([group for group in groups if group], sites, l1)
        self._loads = self._in_small_arrays(found_loads, {r.site for w in first for r in w.made if r.sectors is None})
        found = defaultdict[Origin, float](float)
        for warp in chain(*whole.requests):
            for i, times in warp.passed.items():
                found[sites[i].origin] += times * self._loads[i].fetched if i in self._loads else 0.0
        return found

    def _in_small_arrays(self, loads: Mapping[int, Load], unknown: Set[int]) -> dict[int, Load]:
        """Return the loads, those with unknown addresses in an array that L1 holds with each byte fetched once."""
        found, clusters = dict(loads), len(self._indices)
        for i in unknown:
            load, there = loads[i], self._loadable(self._skeleton.sites[i].origin)
            if there <= L1_BYTES and load.fetched:
                once = min(1.0, min(self._chip.sms, clusters * self._size) * there / (clusters * load.fetched))
                found[i] = replace(load, fetched=load.fetched * once, waits=load.waits * once)
        return found

    def _requests_of(self, index: Dim3) -> Cta:
        walk = self._walk()
        walk.recorded(index, self._in_order, whole=False)
        return walk.requests[0]

    def _from_hbm(self, whole: Walk, by_warps: Mapping[Origin, float], occupancy: Occupancy) -> float:
        """Find which bytes of ordinary loads come from HBM; return how many.

        The clusters of a wave read the same bytes at the same time, so that all of them wait for HBM. Later waves wait
        only for bytes that no earlier wave has read. by_warps: the bytes that L2 sends for a cluster.
        """
        clusters, touched = len(self._indices), 0.0
        requests, sites = whole.requests[0], self._skeleton.sites
        distinct, read = (footprints(requests, sites, n) if by_warps else {} for n in (1, HBM_SECTORS))
        scattered = {site.origin for site in sites.values() if site.scattered}
        at_once = min(occupancy.slots, clusters)
        a_wave = float(whole.stored * at_once)
        found: dict[Origin, tuple[float, float, float]] = {}
        for origin, size in by_warps.items():
            mine = min(size, self._size * distinct.get(origin, size))
            pairs = read[origin] / distinct[origin] if distinct.get(origin) else 1.0
            pairs = float(SECTORS) if origin in scattered else pairs  # whole lines, by the rate of HBM
            there = min(self._loadable(origin), clusters * mine * pairs)
            found[origin] = mine, pairs, there
            a_wave += min(there, at_once * mine * pairs)
        for origin, (mine, pairs, there) in found.items():
            size = by_warps[origin]
            once = min(pairs, there / (clusters * size)) if size else 1.0
            waits = min(mine / size, max(min(once, 1.0), mine / size * at_once / clusters)) if size else 1.0
            if a_wave > self._chip.l2_bytes:  # a cluster finds nothing in L2 that it has loaded before
                kept = there / (clusters * mine * pairs) if mine else 1.0
                once, waits = max(once, pairs * kept), max(waits, kept)
            self._ordinary[origin] = Ordinary(once, waits)
            touched += min(clusters * size * pairs, there)
        return touched

    def _loadable(self, origin: Origin) -> float:
        """Return the bytes of the allocations that parameters point to; if none does, of all that may be read.

        At most those of the region that clusters read again and again.
        """
        memory, words = self._launch.memory, self._launch.param_bytes
        at = [int.from_bytes(words[i : i + POINTER_BYTES], "little") for i in origin]
        found = {known.address: known.size for each in at if (known := memory.known(each, each + 1)) is not None}
        allocated = float(sum(found.values()) or min(self._accessible(()), sum(a.size for a in memory.allocations)))
        return min(allocated, self._extents.get(origin, inf), self._regions.get(origin, inf))

    @cached_property
    def _regions(self) -> Mapping[Origin, float]:
        """The bytes that the bounds of all addresses of an origin leave."""
        found: dict[Origin, float] = {}
        for i, site in self._skeleton.sites.items():
            found[site.origin] = max(found.get(site.origin, 0.0), self._spans[i].most + site.lane_bytes)
        return found

    @cached_property
    def _spans(self) -> Mapping[int, Span]:
        """The spans of the addresses of ordinary loads, atomics and stores."""
        return self._skeleton.spans(self._launch)

    def on(self, program: Program, skeleton: Skeleton) -> Grid:
        """Return this grid with another skeleton. The work of its clusters is known already."""
        other = copy(self)
        other._program, other._skeleton = program, skeleton
        return other

    def _with_memory(self, time: GridTime, ghz: float) -> GridTime:
        """Return the time, raised if HBM, L2 or the port of shared memory needs longer to move all bytes.

        The timeline alone is too short: CTAs end before their last stores arrive, and warps do not wait for MMA
        operands.
        """
        chip, used = self._chip, time.used
        hbm = used.get("HBM bytes", 0.0) / chip.hbm_share(chip.sms, ghz)
        l2 = used.get("L2 bytes", 0.0) / chip.l2_share(chip.sms)
        port = used.get("shared memory", 0.0) + used.get(LSU, 0.0)
        least = max(hbm, l2, port) * time.occupancy.clusters / chip.sms
        return replace(time, cycles=max(time.cycles, least))

    def _sharing(self, clusters: int) -> dict[str, Any]:
        """Return the arguments of a timeline whose SMs share the chip with those of `clusters` clusters in all."""
        return {
            "chip": self._chip,
            "launch": self._launch,
            "program": self._program,
            "segments": self._skeleton.segments,
            "sharers": min(self._chip.sms, clusters * self._size),
            "misses": self._misses,
            "first_misses": self._first_misses,
            "merged": self._merged,
            "holds": self.holds,
            "ordinary": self._ordinary,
            "incomplete": self._incomplete,
            "traffic": self._traffic,
            "outcomes": self.outcomes,
        }

    def _walk(self) -> Walk:
        return Walk(**self._sharing(len(self._indices)))

    def _occupancy(self, tmem_columns: int) -> Occupancy:
        launch = self._launch
        limits = {
            "CTAs an SM": CTAS_AN_SM,
            "threads": THREADS_AN_SM // (launch.warps * LANES),
            "shared memory": SHARED_BYTES_AN_SM // launch.shared_bytes,
        }
        if any(instr.kind is Kind.REGISTER_POOL for instr in launch.kernel.instrs):  # ptxas gives one CTA all registers
            limits["registers"] = 1
        if tmem_columns:
            limits["tensor memory"] = TMEM_COLUMNS // tmem_columns
        if min(limits.values()) > 1:
            self.registers = self._skeleton.registers()
            limits["registers"] = REGISTERS_AN_SM // (self.registers.allocated * launch.warps * LANES)
        limit = min(limits, key=lambda name: limits[name])
        resident = max(limits[limit], 1)
        slots = self._chip.slots(self._size) * resident
        return Occupancy(len(self._indices), resident, slots, limit)

    def _roles(self, first: TimedCluster, loader: int, slots: int) -> Mapping[int, int]:
        """Return the warps whose work is compared between clusters, each with the number of warps that it represents.

        A warp that loads may have the same work in all clusters, while the work of others differs. In a single wave the
        cluster with the most work decides. So all warps that load are compared, and the others too if the first and the
        last cluster differ: one of those with equal work in both.
        """
        if 1 < len(self._indices) <= slots:
            last = self._walk().cluster(self._indices[-1], self._in_order)
            pairs = list(zip(first.warps, last.warps, strict=True))
            works = [
                (i if a.loaded else None, a.executed, a.loaded, b.executed, b.loaded) for i, (a, b) in enumerate(pairs)
            ]
            differ = any((a.executed, a.loaded) != (b.executed, b.loaded) for a, b in pairs)
            roles = {works.index(work): times for work, times in Counter(works).items() if differ or work[2]}
            return roles or {loader: 1}
        return {loader: 1}

    def _work_samples(
        self, loader: int, roles: Mapping[int, int]
    ) -> tuple[Sequence[int], Sequence[Work], Sequence[Loads]]:
        """Return (indices of sampled clusters, the work of each, loads of some of them by its warp `loader`).

        First a few random clusters are sampled, with the first and the last one, which has less work if persistent
        clusters divide the work unevenly; then more if those differ.
        """
        if self._steals:
            return (), (), ()
        count, walk = len(self._indices), self._walk()
        loads: list[Loads] = []

        def works(sampled: list[int]) -> list[Work]:
            found = []
            for i in sampled:
                walk.boxes = {}
                cluster = walk.cluster(self._indices[i], self._in_order, [loader])
                if len(loads) < len(few):
                    loads.append(Loads(0, walk.boxes))
                if len(roles) > 1 and not self._in_order:
                    walk.boxes = {}
                    cluster = walk.cluster(self._indices[i], self._in_order, [*roles])
                warps = [(cluster.warps[warp], times) for warp, times in roles.items()]
                found.append(Work(*(sum(getattr(w, what) * n for w, n in warps) for what in ("executed", "loaded"))))
            return found

        probes, samples = (PROBES_IN_ORDER, SAMPLES_IN_ORDER) if self._in_order else (PROBES, MAX_SAMPLES)
        few = sorted({0, count - 1, *Random(0).sample(range(count), min(probes, count))})
        found = works(few)
        if len(set(found)) == 1 or count <= probes:
            return few, found, loads
        many = list(range(0, count, -(-count // samples) | 1))
        return many, works(many), loads

    def _pass_values(self, passed: Mapping[int, bool]) -> bool:
        """Return True if warps may pass tensor maps to other warps, or values that decide what these do.

        A skeleton loads from shared memory only what decides something. passed: by the PTX line of each such load that
        a walk of all warps executed, whether another warp had stored what it loaded.
        """
        instrs = self._skeleton.kernel.instrs
        if any(instr.opcode.startswith("tensormap.") for instr in instrs):
            return True
        shared = [instr for instr in instrs if any(m.startswith("shared") for m in instr.modifiers)]
        loads = {instr.line for instr in shared if instr.kind is Kind.LOAD}
        stores = any(instr.kind is Kind.STORE for instr in shared)
        return stores and (any(passed.values()) or not loads <= passed.keys())

    @property
    def _steals(self) -> bool:
        """True if clusters take over the work of others that were not launched yet."""
        return any(instr.kind is Kind.WORK_STEALING for instr in self._launch.kernel.instrs)

    def _time_with_work_stealing(self, occupancy: Occupancy, ghz: float, trace: Trace | None) -> GridTime:
        """Return the time of a grid with work stealing (clusterlaunchcontrol).

        The resident clusters of one set of SMs process all the work that this set gets.
        """
        timeline = Timeline(**self._sharing(len(self._indices)), trace=trace, ghz=ghz)
        mine = [*dict.fromkeys((*self._indices[:: occupancy.slots // occupancy.resident], *self._others))]
        ran = timeline.run(mine, occupancy.resident)
        cycles = max(cluster.end for cluster in ran)
        executed = [Executed(ran[0], timeline.sms, len(mine), 1.0, 1.0)]
        return self._with_memory(GridTime(cycles, occupancy, executed), ghz)


def _mean_times(timeline: Timeline, index: Dim3, together: int) -> tuple[float, float]:
    """Run clusters that are alike at the same time; return the mean cycles of one, by itself and with waits for others.

    If SMs are out of step, clusters also wait for the loads of others from HBM, at random: the closer the time that
    HBM takes for all of them is to that of a cluster which has HBM for itself, the more.
    """
    ran = timeline.run([index] * together, together)
    alone = sum(cluster.end - cluster.start for cluster in ran) / len(ran)
    in_hbm = max(sm.awaited for sm in timeline.sms) * timeline.traffic.all / timeline.hbm_share
    return alone, float((alone**OUT_OF_STEP + in_hbm**OUT_OF_STEP) ** (1 / OUT_OF_STEP))


def _waits_for_memory(timeline: Timeline) -> bool:
    """Return True if L2 or HBM may bound the clusters that a timeline ran, so that fewer SMs would be faster."""
    whole = max(cluster.end for cluster in timeline.finished)
    shares = ("HBM bytes", timeline.hbm_share), ("L2 bytes", timeline.l2_share)
    return any(sm.busy.get(what, 0.0) > MEMORY_MATTERS * whole * share for sm in timeline.sms for what, share in shares)


def _represented(
    executed: Sequence[tuple[Work, TimedCluster, Sequence[Sm]]], works: Sequence[Work], together: int
) -> Sequence[Executed]:
    """Return executed clusters with their part of the grid. Each sampled cluster goes to the nearest by work."""
    shares, weights = dict.fromkeys((work for work, _, _ in executed), 0.0), {work: 0.0 for work, _, _ in executed}
    for work in works:
        nearest = min(shares, key=lambda known: abs(known.instructions - work.instructions))
        shares[nearest] += 1 / len(works)
        weights[nearest] += work.amount / nearest.amount / len(works)
    return [Executed(cluster, sms, together, shares[work], weights[work]) for work, cluster, sms in executed]


def _most(works: Collection[Work]) -> Sequence[Work]:
    """Return the largest amount of work by instructions, and the one by bytes if that is another."""
    return [*{max(works): None, max(works, key=lambda work: (work.bytes, work.instructions)): None}]


def _spread(values: Sequence[Work], count: int) -> Sequence[Work]:
    """Return at most `count` evenly spaced values of an ascending sequence.

    The last value and, of several, the first are always included.
    """
    if len(values) <= count:
        return values
    return [values[len(values) - 1 - i * (len(values) - 1) // max(count - 1, 1)] for i in reversed(range(count))]


def _interpolated(times: dict[int, float], work: int) -> float:
    """Return the cycles of a cluster by its work, interpolated between executed clusters.

    Below the smallest executed amount, cycles are proportional to work.
    """
    known = sorted(times)
    if work in times or len(known) == 1 or work < known[0]:
        return times[work] if work in times else times[known[0]] * work / known[0]
    i = min(max(bisect_right(known, work), 1), len(known) - 1)
    low, high = known[i - 1], known[i]
    return times[low] + (times[high] - times[low]) * (work - low) / (high - low)


def _scheduled(cycles: Sequence[float], slots: int) -> float:
    """Return the end of the last cluster if each starts, in order, in the first slot that becomes free."""
    ends = [0.0] * min(slots, len(cycles))
    for each in cycles:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)
