"""Permissions of compiled loads and stores: windows and patterns that handlers allowed at the last access.

`native.memory_layout` explains how compiled code finds them and why it may trust them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...chip import LANES, RANK_SHIFT
from ...native.memory_layout import (
    CLOCK,
    IDS_MAX,
    LIMIT,
    MANY,
    MEMORY_ROW,
    OF_ONE_WARP,
    PATTERN,
    PATTERNS,
    SERIALS_MAX,
    WARP,
    WINDOW,
    address_of,
)
from ...ptx.syntax import Instr
from ..launch.globalmem import Allocation
from ..launch.launch import Launch
from ..launch.statistics import Shape, Stats, shape_of
from ..memory.global_shadow import GlobalShadow
from ..topology import Cta, Warp
from .records import CompiledRecords


class AccessPatterns:
    """The access patterns of shared memory that a program keeps across launches, by warp of a CTA and access number.

    A pattern implies no addresses, order or values, so one that was kept in another launch is valid.
    """

    def __init__(self, accesses: int) -> None:
        self.patterns = np.zeros((0, accesses), PATTERN)
        self.shapes: dict[tuple[int, int], tuple[Shape, ...]] = {}
        """The patterns that were counted, as `Stats` knows them, one for each CTA."""

    def of(self, warps: int) -> np.ndarray:
        """Return the patterns of at least this number of warps: PATTERN[warps, accesses]."""
        had, accesses = self.patterns.shape
        if had < warps:
            self.patterns = np.concatenate((self.patterns, np.zeros((warps - had, accesses), PATTERN)))
        return self.patterns


class CompiledAccesses:
    """The data and the counts of the compiled loads and stores of one launch.

    accesses: the instructions by number, with their names in reports.
    """

    def __init__(self, launch: Launch, accesses: Sequence[tuple[Instr, str]], kept: AccessPatterns) -> None:
        self._memory, self._accesses, self._outside = launch.memory, accesses, GlobalShadow.of(launch)
        self._outside.accesses += accesses
        self._windows = np.zeros(len(accesses), WINDOW)
        self._bytes = np.zeros(2, np.uint64)
        self._of_shared = any(name.split("::")[0] == "shared" for instr, _ in accesses for name in instr.modifiers)
        self._kept, self._patterns = kept, kept.of(-(-math.prod(launch.block) // LANES))
        self._times = self._patterns["times"]
        self._times[:] = 0  # an aborted launch may have left counts
        self._row = np.zeros(LANES, np.uint64)
        row = self._row.view(MEMORY_ROW)
        row["windows"], row["bytes"] = self._windows.ctypes.data, self._bytes.ctypes.data
        launch.memory.on_track.append(self._leave)

    def start(self, warps: Sequence[Warp], memory: np.ndarray) -> None:
        """Initialise the MEMORY_ROWs of the warps of a CTA, and the records of its shared memory if there are any.

        memory: these rows, uint64[warps, 32].
        """
        cta, row = warps[0].cta, self._row
        memory[:] = _with_records(row, cta, CompiledRecords(cta, self._accesses)) if self._of_shared else row
        memory[:, PATTERNS] = self._patterns.ctypes.data + self._patterns.strides[0] * np.arange(len(warps))
        stored = np.zeros((len(warps), max(len(self._accesses), 1)), np.uint32)
        for warp, row, executed in zip(warps, memory, stored, strict=True):
            warp.memory, warp.stored = row, executed
            warp.peers = None
            _identify(warp)

    def allow(self, number: int, addresses: np.ndarray, size: int, store: bool) -> None:
        """Allow instruction `number` to access the allocation that holds `size` bytes at each address.

        Not allowed: a store of two lanes to one address, anything in a tracked allocation without records, and a load
        of two lanes from one address of a tracked allocation.
        """
        address = addresses.item(0)
        found = self._memory.known(address, address + size)
        watched = found is not None and found.address in self._memory.tracked
        # PTX leaves open which of two lanes wins that store to one address: the handler compares their bits
        # (test_the_last_of_the_lanes_that_store_to_one_place).
        together = (store or watched) and np.unique(addresses).size < addresses.size
        if found is None or together or len(self._accesses) > IDS_MAX:
            return
        # Nothing writes the allocation in this launch, so no access of it can race.
        records = 0, 0
        if watched:
            area = self._outside.area(address, address + size)
            records = area.records() if area is not None and len(self._outside.warps) < SERIALS_MAX else records
            if not records[0]:
                return
        self._windows[number] = found.address, found.size - size + 1, *records

    def _leave(self, allocation: Allocation) -> None:
        """Revoke all permissions for an allocation."""
        self._windows["count"][self._windows["start"] == allocation.address] = 0

    def allow_shared(
        self, number: int, warp: Warp, lanes: np.ndarray, addresses: np.ndarray, size: int, store: bool, peer: bool
    ) -> None:
        """Allow instruction `number` of a warp to access shared memory in this pattern, at one address per lane.

        Compiled code checks the order itself. A store of two lanes to one address is not allowed. peer: the instruction
        may access any CTA of the cluster that the warp knows to have started. Warps without a pattern get this one too.
        """
        parts = _by_cta(warp, addresses)
        if not parts or not all(_has_records(cta, offsets) for cta, offsets in parts):
            return
        for cta, offsets in parts:
            records = cta.smem.shadow.records
            assert isinstance(records, CompiledRecords)
            if peer and (warp.peers is None or not warp.peers[cta.rank, LIMIT]):
                _admit(warp)
            records.copy_from_shadow(cta.smem.cells(offsets, size))
        self._flush_pattern((warp.index, number), warp.cta.launch.stats)
        self._kept.shapes.pop((warp.index, number), None)
        pattern = self._patterns[warp.index, number]
        places = addresses.tolist()
        together = {place for place in places if places.count(place) > 1} if len(set(places)) < len(places) else set()
        # See `allow`: the handler compares the bits.
        if together and store:
            pattern["lanes"] = 0
            return
        pattern["lanes"], pattern["bytes"] = sum(1 << lane for lane in lanes.tolist()), size
        pattern["who"][lanes] = [
            MANY if place in together else lane for place, lane in zip(places, lanes.tolist(), strict=True)
        ]
        pattern["offsets"] = 0
        pattern["offsets"][lanes] = (addresses - addresses[0]).astype(np.uint32)
        of_warps = self._patterns[:, number]
        of_warps[of_warps["lanes"] == 0] = pattern

    def flush(self, stats: Stats) -> None:
        """Add the counts to those of the launch."""
        loaded, stored = self._bytes.tolist()
        stats.global_load_bytes += loaded
        stats.global_store_bytes += stored
        self._bytes[:] = 0
        for at in zip(*(each.tolist() for each in np.nonzero(self._times)), strict=True):
            self._flush_pattern(at, stats)

    def _flush_pattern(self, at: tuple[int, int], stats: Stats) -> None:
        """Count a pattern as often as it occurred. at: the warp's index and the access number."""
        times = self._times.item(at)
        if not times:
            return
        shapes = self._kept.shapes.get(at)
        if shapes is None:
            _, active, size, offsets, _ = self._patterns[at].tolist()
            lanes = [lane for lane in range(LANES) if active >> lane & 1]
            apart = offsets.view(np.int32).astype(np.intp)[lanes]
            ranks = apart + (1 << RANK_SHIFT - 1) >> RANK_SHIFT  # relative to the first lane's, as offsets are
            shapes = tuple(shape_of((apart - (rank << RANK_SHIFT))[ranks == rank], size) for rank in np.unique(ranks))
            self._kept.shapes[at] = shapes
        for shape in shapes:
            stats.count_access(shape, times)
        self._times[at] = 0


def _by_cta(warp: Warp, addresses: np.ndarray) -> list[tuple[Cta, np.ndarray]]:
    """Return each CTA of the cluster that the addresses lie in, with their offsets in its window."""
    ranks = addresses >> RANK_SHIFT
    known = [cta for cta in warp.cta.cluster.ctas if (ranks == cta.rank).any()]
    return [(cta, addresses[ranks == cta.rank].astype(np.int64) - cta.window) for cta in known]


def _has_records(cta: Cta, offsets: np.ndarray) -> bool:
    """Return whether the offsets lie in a CTA's shared memory and its accesses are recorded."""
    return cta.smem.shadow.records is not None and bool(offsets.min() >= 0 and offsets.max() < cta.smem.size)


def _admit(warp: Warp) -> None:
    """Let a warp's code access all CTAs of its cluster that have records and are known to have started."""
    ctas = warp.cta.cluster.ctas
    if warp.peers is None:
        warp.peers = np.zeros((len(ctas), LANES), np.uint64)
        _identify(warp)
    peers = ((cta, cta.smem.shadow.records) for cta in ctas if not warp.peers[cta.rank, LIMIT])
    # barrier.cluster: a CTA of the cluster may be accessed only once it is known to have started.
    new = {
        cta.rank: records for cta, records in peers if isinstance(records, CompiledRecords) and warp.knows_started(cta)
    }
    if new:
        rows = np.array([records.row for records in new.values()])
        rows[:, OF_ONE_WARP] = warp.memory[OF_ONE_WARP]
        rows[:, WARP] = [records.number(warp) for records in new.values()]
        warp.peers[[*new]] = rows
        follow_clock(warp)


def _with_records(row: np.ndarray, cta: Cta, records: CompiledRecords) -> np.ndarray:
    """Attach records to a CTA's shared memory. Return `row` with them, the MEMORY_ROW of any warp: uint64[32]."""
    cta.smem.shadow.attach(records)
    records.row = row.copy()
    records.describe(records.row)
    return records.row


def _identify(warp: Warp) -> None:
    """Complete a warp's own MEMORY_ROW with what is specific to the warp."""
    peers, ctas = (0, 0) if warp.peers is None else (address_of(warp.peers), len(warp.peers))
    own = address_of(warp.stored), warp.clock.address, warp.index, warp.component, warp.serial, peers, ctas
    warp.memory[OF_ONE_WARP] = own
    follow_clock(warp)


def admitted_now(warp: Warp) -> bool:
    """Let a warp's code access its cluster. Return False if it may already, else the caller retries its access."""
    new = warp.peers is None and warp.cta.smem.shadow.records is not None
    if new:
        _admit(warp)
    return new


def follow_clock(warp: Warp) -> None:
    """Update the address of a warp's clock in its MEMORY_ROWs."""
    warp.memory_clock = warp.clock.v
    warp.memory[CLOCK] = address = warp.clock.address
    if warp.peers is not None:
        warp.peers[:, CLOCK] = address
