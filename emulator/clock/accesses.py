"""Ordinary loads of global memory as the caches see them: what a few CTAs of an SM request, and what L1 keeps of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf
from random import Random
from typing import Any, Final

import numpy as np

from ..chip import LANES
from ..ptx.syntax import Instr
from .lane_addresses import LINE_BYTES, SECTOR_BYTES
from .origins import Origin

RECORDED: Final = 16_384
"""The number of requests of an SM that are recorded. Further ones are assumed to be like these."""
ALIGNED: Final = 256
"""The alignment of a GPU's allocations."""
L1_BYTES: Final = 256 << 10
"""The memory of an SM that L1 and shared memory have together."""
SECTORS: Final = LINE_BYTES // SECTOR_BYTES
HBM_SECTORS: Final = 2
"""The sectors of a read of HBM: 64 bytes."""
AGAIN: Final = 0.9
"""The least share of a region that half of the requests span if a CTA reads it again and again."""
HASHED_BYTES: Final = 4096
"""Contiguous bytes that one half of L2 holds (QuickRunCUDA, B300: its hash changes each 4 KiB)."""


@dataclass(frozen=True)
class Site:
    """A load in the program.

    origin: the parameters that its address follows from. lane_bytes: what a lane loads. cached: L1 may keep it.
    scattered: lanes load at random places. atomic: the instruction, if it is one. lanes: its addresses relative to each
    other, None if they are random.
    sectors, lines: those of all lanes, if the addresses do not follow from the launch.
    """

    origin: Origin
    lane_bytes: int
    cached: bool
    sectors: float
    lines: float
    scattered: bool = False
    atomic: Instr | None = None
    lanes: np.ndarray | None = None


@dataclass(frozen=True)
class Load:
    """Means of a load over the times that a warp passes it, with or without lanes that load.

    lines: that L1 looks up, one a cycle. asked: bytes of their sectors. lanes: the share of lanes that load. fetched:
    bytes that L2 sends. waits: the share of the times that a warp waits for L2. wasted: bytes of requested sectors that
    no lane asked for. spread: the probability that the lines are in both halves of L2. latency: in cycles. updates:
    cycles of L2 that an atomic takes all SMs, besides those of its bytes.
    """

    lines: float
    asked: float
    lanes: float
    fetched: float
    waits: float
    wasted: float
    spread: float
    latency: float = 0.0
    updates: float = 0.0


@dataclass(frozen=True)
class Request:
    """One execution of a load. sectors: their numbers, ascending, None if they are unknown. lanes: how many load."""

    site: int
    sectors: Sequence[int] | None
    lanes: int


class Placement:
    """Places of allocations one after the other, in the order of their first loads.

    Those of an emulated launch may be a host's arrays, which are elsewhere in every process.
    """

    def __init__(self) -> None:
        self._shifts: dict[int, int] = {}
        self._end = 0

    def shift(self, address: int, memory: Any) -> int:
        """Return the distance from its place to the allocation that holds an address, 0 if none does."""
        if (known := memory.known(address, address + 1)) is None:
            return 0
        if known.address not in self._shifts:
            self._shifts[known.address] = known.address - self._end
            self._end += -(-known.size // ALIGNED) * ALIGNED
        return self._shifts[known.address]


class Requests:
    """The first requests of a warp, and how often it came to each load: in all, and while they were recorded."""

    def __init__(self, most: int, placement: Placement) -> None:
        self._most = max(most, 1)
        self.placement = placement
        self.made: list[Request] = []
        self.passed: Counter[int] = Counter()
        self.recorded: Counter[int] = Counter()

    @property
    def full(self) -> bool:
        """True if no more requests are recorded."""
        return len(self.made) >= self._most

    def passes(self, sites: Iterable[int]) -> None:
        """Count loads to which the warp comes."""
        counters = (self.passed,) if self.full else (self.passed, self.recorded)
        for counter in counters:
            for site in sites:
                counter[site] += 1


Cta = Sequence[Requests]
"""The requests of the warps of a CTA."""


@dataclass
class _Totals:
    lines: float = 0.0
    asked: float = 0.0
    lanes: float = 0.0
    sectors: float = 0.0
    waits: float = 0.0
    wasted: float = 0.0
    spread: float = 0.0


class L1:
    """The lines that an SM's L1 holds, each with a bit for each sector. A new line takes the place of a random one."""

    def __init__(self, size: float) -> None:
        self._most = max(size // LINE_BYTES, 1)
        self._lines: dict[int, int] = {}
        self._places: list[int] = []
        self._came: dict[int, int] = {}
        self._random = Random(0)

    def missed(self, sectors: Iterable[int], turn: int) -> tuple[int, bool]:
        """Load sectors; return (how many L2 sends, whether a warp waits for one that it or a neighbour requested).

        turn: in which all warps request something.
        """
        count, waits = 0, False
        for sector in sectors:
            line, bit = divmod(sector, SECTORS)
            if (held := self._lines.get(line)) is None:
                self._place(line)
                held = 0
            self._lines[line] = held | 1 << bit
            if not held & 1 << bit:
                count += 1
                self._came[sector] = turn
            waits = waits or self._came[sector] == turn
        return count, waits

    def _place(self, line: int) -> None:
        if len(self._places) < self._most:
            self._places.append(line)
        else:
            at = self._random.randrange(len(self._places))
            self._lines.pop(self._places[at], None)
            self._places[at] = line


def measured(groups: Sequence[Sequence[Cta]], sites: Mapping[int, Site], l1: float) -> dict[int, Load]:
    """Return the means of each load. groups: CTAs that are on an SM at the same time, one group after the other.

    The last group is measured, the ones before it fill L1. l1: the bytes that a group has of it.
    """
    cache, turn = L1(l1), 0
    totals: defaultdict[int, _Totals] = defaultdict(_Totals)
    for group in groups:
        totals.clear()
        for together in zip_longest(*(warp.made for cta in group for warp in cta)):
            turn += 1
            for request in together:
                if request is not None:
                    _count(totals[request.site], request, sites[request.site], cache, turn)
    recorded = sum((warp.recorded for cta in groups[-1] for warp in cta), Counter[int]())
    found = {}
    for i, times in recorded.items():
        t = totals[i]
        asked, fetched = t.asked * SECTOR_BYTES, t.sectors * SECTOR_BYTES
        sums = t.lines, asked, t.lanes / LANES, fetched, t.waits, t.wasted, t.spread
        found[i] = Load(*(each / times for each in sums))
    return found


def _count(total: _Totals, request: Request, site: Site, cache: L1, turn: int) -> None:
    if request.sectors is None:
        asked = site.sectors * request.lanes / LANES
        missed, waits, lines = asked, True, site.lines * request.lanes / LANES
        pieces = lines if lines * SECTORS > asked else 1
    else:
        asked, lines = len(request.sectors), len({sector // SECTORS for sector in request.sectors})
        missed, waits = cache.missed(request.sectors, turn) if site.cached else (asked, True)
        pieces = len({sector * SECTOR_BYTES // HASHED_BYTES for sector in request.sectors}) or 1
    total.lines += lines
    total.asked += asked
    total.spread += 1 - 2.0 ** (1 - pieces)
    total.lanes += request.lanes
    total.sectors += missed
    total.waits += waits
    total.wasted += max(asked * SECTOR_BYTES - site.lane_bytes * request.lanes, 0)


def footprints(cta: Cta, sites: Mapping[int, Site], together: int = 1) -> dict[Origin, float]:
    """Return the distinct bytes that a CTA loads, by origin; without origins whose addresses are unknown.

    The second half of the recorded requests shows at which rate more bytes follow. together: the sectors that come at
    once if one of them is loaded.
    """
    known: defaultdict[Origin, set[int]] = defaultdict(set)
    half: dict[Origin, int] = {}
    turns = [*zip_longest(*(warp.made for warp in cta))]
    unknown = set()
    for at, turn in enumerate(turns):
        if at == len(turns) // 2:
            half = {origin: len(found) for origin, found in known.items()}
        for request in turn:
            if request is None:
                continue
            if request.sectors is None:
                unknown.add(sites[request.site].origin)
            else:
                known[sites[request.site].origin] |= {sector // together for sector in request.sectors}
    passed, recorded = (
        sum(map(Counter.total, counts)) for counts in zip(*((w.passed, w.recorded) for w in cta), strict=True)
    )
    more = 2 * (passed / max(recorded, 1) - 1)
    return {
        origin: together * SECTOR_BYTES * (len(found) + more * (len(found) - half.get(origin, 0)))
        for origin, found in known.items()
        if origin not in unknown
    }


def extents(cta: Cta, sites: Mapping[int, Site]) -> dict[Origin, tuple[float, float]]:
    """Return (start, end) in bytes of what a CTA reads, by origin; without end unless it reads a region repeatedly.

    The first half of its recorded requests then spans most of the region.
    """
    whole: dict[Origin, tuple[float, float]] = {}
    half: dict[Origin, tuple[float, float]] = {}
    for warp in cta:
        for at, request in enumerate(warp.made):
            if request.lanes:
                low, high = (min(request.sectors), max(request.sectors) + 1) if request.sectors else (0, inf)
                for spans in (whole, half)[: 1 + (at < len(warp.made) / 2)]:
                    before = spans.get(sites[request.site].origin, (low, high))
                    spans[sites[request.site].origin] = min(before[0], low), max(before[1], high)
    found: dict[Origin, tuple[float, float]] = {}
    for origin, (start, end) in whole.items():
        early, late = half.get(origin, (0.0, 0.0))
        found[origin] = SECTOR_BYTES * start, SECTOR_BYTES * end if late - early >= AGAIN * (end - start) else inf
    return found
