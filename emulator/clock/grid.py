"""A whole grid from a few of its clusters: which do the same work, how long each takes, and how they fill the chip."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ..chip import CTAS_AN_SM, LANES, SHARED_BYTES_AN_SM, THREADS_AN_SM, TMEM_COLUMNS
from ..errors import Deadlock
from .chips import Chip
from .timeline import Timeline
from .trace import Recorder
from .warps import Sm, TimedCluster

if TYPE_CHECKING:
    from ..machine.launch.launch import Dim3, Launch
    from ..program import Program
    from .stretch import Stretch

ASKED: Final = 24
"""So many clusters of a grid, drawn at random, are asked how much work they have."""
SAMPLED: Final = 512
"""And so many at most, evenly spaced, if these differ; the others have what the one before them has."""
EXECUTED: Final = 5
"""So many amounts of work, evenly spaced, are executed; the times of those between are interpolated."""
PATIENCE: Final = 1_000_000
"""Instructions of a warp that is only asked for its work."""
SHARES_REGISTERS: Final = "setmaxnreg"
"""ptxas gives all registers of an SM to the one CTA of a kernel whose warps hand them to one another."""
TAKES_OVER: Final = "clusterlaunchcontrol.try_cancel"


@dataclass(frozen=True)
class Occupancy:
    """How a grid lies on the chip. resident: CTAs of an SM at a time; slots: clusters of the chip at a time."""

    clusters: int
    resident: int
    slots: int
    limit: str


@dataclass(frozen=True)
class Executed:
    """A cluster that was executed: how many its SMs had, itself among them, and the share of the grid it stands for."""

    cluster: TimedCluster
    sms: Sequence[Sm]
    together: int
    share: float


@dataclass(frozen=True)
class GridTime:
    """When the last cluster ends, in cycles, and what was executed to know it."""

    cycles: float
    occupancy: Occupancy
    executed: Sequence[Executed]


class Grid:
    """The clusters of a launch, on a chip."""

    def __init__(self, chip: Chip, launch: Launch, program: Program, stretches: Sequence[Stretch]) -> None:
        self._chip, self._launch, self._program, self._stretches = chip, launch, program, stretches
        x, y, z = launch.grid_of_clusters
        self._indices: list[Dim3] = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
        self._size = prod(launch.cluster)
        self._misses: dict[int, float] = {}
        self._fresh: dict[int, float] = {}

    @cached_property
    def _asked(self) -> tuple[Occupancy, Sequence[int], Sequence[int]]:
        """How the grid lies on the chip; numbers of clusters, and the work of each."""
        whole = self._timeline(walks=True)
        first = self._walk(self._indices[0], whole, None)
        occupancy = self._occupancy(first.ctas[0].tmem_columns)
        loaders = [w for w in first.ctas[0].warps if w.loaded] or first.ctas[0].warps
        loader = min(loaders, key=lambda w: w.executed).index
        for tensor, loaded in whole.loaded.items():
            distinct = len(whole.gathered.get(tensor, ())) * tensor.box_bytes or loaded
            missed = min(distinct, tensor.bytes / len(self._indices))
            self._misses[tensor.address], self._fresh[tensor.address] = missed / loaded, missed / distinct
        if any(instr.opcode == TAKES_OVER for instr in self._launch.kernel.instrs):
            return occupancy, (), ()
        return occupancy, *self._works(loader)

    def time(self, ghz: float, recorder: Recorder | None = None) -> GridTime:
        """Execute a few clusters and schedule the rest, cycles passing at a rate. recorder: of the first executed."""
        occupancy, sampled, works = self._asked
        if not works:
            return self._taken_over(occupancy, ghz, recorder)
        times: dict[int, float] = {}
        executed: list[tuple[int, TimedCluster, Sequence[Sm]]] = []
        together = min(occupancy.resident, -(-len(self._indices) * self._size // self._chip.sms))
        one_wave = len(self._indices) <= occupancy.slots
        for work in _spread(sorted(set(works)), 1 if one_wave else EXECUTED):
            index = self._indices[sampled[works.index(work)]]
            timeline = self._timeline(recorder if not executed else None, ghz=ghz)
            ran = timeline.run([index] * together, together)
            times[work] = sum(c.end - c.start for c in ran) / len(ran)
            executed.append((work, ran[0], timeline.sms))
        all_works = [works[bisect_right(sampled, i) - 1] for i in range(len(self._indices))]
        cycles = _scheduled([_interpolated(times, work) for work in all_works], occupancy.slots)
        shares: dict[int, float] = {}
        for work in works:
            nearest = min(times, key=lambda known: abs(known - work))
            shares[nearest] = shares.get(nearest, 0) + 1 / len(works)
        found = [Executed(c, sms, together, shares.get(work, 0.0)) for work, c, sms in executed]
        return GridTime(cycles, occupancy, found)

    def _timeline(self, recorder: Recorder | None = None, **how: Any) -> Timeline:
        sharers = min(self._chip.sms, len(self._indices) * self._size)
        how |= {"recorder": recorder, "fresh": self._fresh}
        return Timeline(self._chip, self._launch, self._program, self._stretches, sharers, self._misses, **how)

    def _occupancy(self, tmem_columns: int) -> Occupancy:
        launch = self._launch
        limits = {
            "CTAs an SM": CTAS_AN_SM,
            "threads": THREADS_AN_SM // (launch.warps * LANES),
            "shared memory": SHARED_BYTES_AN_SM // launch.shared_bytes,
        }
        if any(instr.opcode == SHARES_REGISTERS for instr in launch.kernel.instrs):
            limits["registers"] = 1
        if tmem_columns:
            limits["tensor memory"] = TMEM_COLUMNS // tmem_columns
        limit = min(limits, key=lambda name: limits[name])
        resident = max(limits[limit], 1)
        slots = self._chip.slots(self._size) * resident
        return Occupancy(len(self._indices), resident, slots, limit)

    def _works(self, loader: int) -> tuple[list[int], list[int]]:
        """(numbers of clusters, instructions of each's warp `loader`): a few at random, and many if these differ."""
        count, timeline = len(self._indices), self._timeline(walks=True)

        def works(sampled: list[int]) -> list[int]:
            walked = (self._walk(self._indices[i], timeline, loader) for i in sampled)
            return [cluster.ctas[0].warps[loader].executed for cluster in walked]

        few = sorted({0, *Random(0).sample(range(count), min(ASKED, count))})
        found = works(few)
        if len(set(found)) == 1 or count <= ASKED:
            return few, found
        many = list(range(0, count, -(-count // SAMPLED) | 1))
        return many, works(many)

    def _walk(self, index: Dim3, timeline: Timeline, only: int | None) -> TimedCluster:
        """Let a cluster's warps go through their programs, every wait over at once; only one of its first CTA."""
        cluster = TimedCluster(self._launch, index, timeline.sms, 0.0)
        for warp in cluster.warps if only is None else [cluster.ctas[0].warps[only]]:
            timeline.prepare(warp)
            while not warp.done:
                self._program.advance(warp)
                warp.ops.clear()
                warp.yielded, warp.granted = False, True
                if warp.executed > PATIENCE:
                    raise Deadlock(f"{warp} does not end with every wait over at once", ())
        return cluster

    def _taken_over(self, occupancy: Occupancy, ghz: float, recorder: Recorder | None) -> GridTime:
        """Clusters that take over the work of those not launched: what one slot of the chip gets."""
        timeline = self._timeline(recorder, ghz=ghz)
        mine = self._indices[:: occupancy.slots // occupancy.resident]
        ran = timeline.run(mine, occupancy.resident)
        cycles = max(cluster.end for cluster in ran)
        executed = [Executed(ran[0], timeline.sms, len(mine), 1.0)]
        return GridTime(cycles, occupancy, executed)


def _spread(values: Sequence[int], count: int) -> Sequence[int]:
    """At most `count` of the values in ascending order, the last and, of several, the first among them."""
    if len(values) <= count:
        return values
    return [values[len(values) - 1 - i * (len(values) - 1) // max(count - 1, 1)] for i in reversed(range(count))]


def _interpolated(times: dict[int, float], work: int) -> float:
    """Cycles of a cluster by its work, between those that were executed; below the least, in proportion."""
    known = sorted(times)
    if work in times or len(known) == 1:
        return times[work] if work in times else times[known[0]] * work / known[0]
    i = min(max(bisect_right(known, work), 1), len(known) - 1)
    low, high = known[i - 1], known[i]
    return times[low] + (times[high] - times[low]) * (work - low) / (high - low)


def _scheduled(cycles: Sequence[float], slots: int) -> float:
    """When the last of the clusters ends, each starting in their order where one has ended."""
    ends = [0.0] * min(slots, len(cycles))
    for each in cycles:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)
