"""Notes of the accesses of shared memory that are machine code: see `native.memory_layout`.

Wherever a handler touches shared memory, what the notes say of its cells moves to the shadow first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...native.memory_layout import (
    ASK,
    COMPONENT_BITS,
    COMPONENTS_MAX,
    FIRST_ID,
    ID,
    ID_BITS,
    LANE,
    LANE_BITS,
    LIMIT,
    READ,
    TIME_BITS,
    UNWRITTEN,
    address_of,
    lane_of,
    untouched,
)
from ...native.shadow_check import GENERIC, NOT_KNOWN
from ..order.access import Access
from ..order.clocks import ORDERED, Clock
from ..order.shadow import distinct

if TYPE_CHECKING:
    from ...ptx.syntax import Instr
    from ..topology import Cta, Warp


GAP: Final = 64
RUNS: Final = 8
"""Of all that is noted, cells no further apart are settled as one run, if there are fewer runs than this: a slice of an
array is read and written many times faster than the same cells by their numbers."""


class Notes:
    """Of each cell of a CTA's shared memory who wrote it last, int64[cells], and who read it since, [warps, cells].

    warps: those whose code may access it, the CTA's own and guests of its cluster.
    """

    def __init__(self, cta: Cta, accesses: Sequence[tuple[Instr, str]]) -> None:
        self._cta, self._shadow, self._accesses = cta, cta.smem.shadow, accesses
        self._in_cluster = {warp.component: warp for warp in cta.cluster.warps}
        self.warps = list(cta.warps)
        shadow = self._shadow
        self.writes = np.full(shadow.writer.size, UNWRITTEN)
        self.reads = untouched(len(self.warps), shadow.writer.size)
        self.noted = np.zeros(shadow.writer.size, np.uint8)
        self.row: np.ndarray
        """What code knows of them, a MEMORY_ROW as uint64[32]."""
        self.words = np.array([address_of(self.reads), len(self.warps)])
        """What changes when a guest comes: where `reads` is, and of how many warps."""
        self.components = np.zeros(len(self._in_cluster), np.int64)
        self.components[: len(self.warps)] = [warp.component for warp in self.warps]
        self._of_warp = np.zeros(COMPONENTS_MAX, bool)
        self._of_warp[[component for component in self._in_cluster if component < COMPONENTS_MAX]] = True
        self.copy_from_shadow(np.flatnonzero((shadow.writer | shadow.reader) != 0))

    def number(self, warp: Warp) -> int:
        """Of a warp of the cluster among `warps`; a guest gets one, and room for its reads."""
        if warp.cta is self._cta:
            return warp.index
        if len(self.warps) == len(self.reads):
            room = untouched(len(self._in_cluster), self.writes.size)
            room[: len(self.reads)] = self.reads
            self.reads = room
        self.components[len(self.warps)] = warp.component
        self.warps.append(warp)
        self.words[:] = address_of(self.reads), len(self.warps)
        return len(self.warps) - 1

    def unseen(self, clock: Clock) -> bool:
        """Whether guests noted anything that the owner of `clock` has not seen."""
        guests = range(len(self._cta.warps), len(self.warps))
        if any(self.reads[i].max() >> TIME_BITS > clock.at(self.warps[i].component) for i in guests):
            return True
        own = self.writes[self.writes & ID >= FIRST_ID] if guests else self.writes[:0]
        return bool((own >> TIME_BITS > clock.v[ORDERED, own >> COMPONENT_BITS & COMPONENTS_MAX - 1]).any())

    def end(self) -> None:
        """Move all to the shadow, and let the warps' code ask from now on."""
        self.flush(slice(None), write=False)
        self._shadow.attach(None)
        for warp in self.warps:
            if warp.cta is self._cta:
                warp.memory[LIMIT] = 0
            if warp.peers is not None:
                warp.peers[self._cta.rank, LIMIT] = 0

    def copy_from_shadow(self, cells: Any) -> None:
        """Note who wrote cells (any numpy index) according to the shadow, where clocks tell who comes after."""
        epochs = self._shadow.history.epochs_of(self._shadow.writer[cells])
        lanes = np.where(epochs & GENERIC, self._shadow.writer_lanes[cells], 0)
        of_warp = self._of_warp[epochs >> COMPONENT_BITS & COMPONENTS_MAX - 1]
        asks = (epochs == NOT_KNOWN) | (lanes != 0) & ~of_warp  # of cp.async, not every lane may read what is there
        if self._shadow.under.size:
            asks |= self._shadow.under[cells] != 0
        self.writes[cells] = np.where(asks, ASK, epochs & -(1 << COMPONENT_BITS) | lane_of(lanes))

    def flush_all(self) -> None:
        """Move all that was noted to the shadow, where it is not known there."""
        fours = np.flatnonzero(self.noted.view(np.uint32))
        ends = np.flatnonzero(np.diff(fours) > GAP // 4)
        if len(ends) >= RUNS:
            self.flush(np.flatnonzero(self.noted), write=False)
            return
        for run in np.split(fours, ends + 1):
            if run.size:
                self.flush(slice(4 * run.item(0), 4 * run.item(-1) + 4), write=False)

    def flush(self, cells: Any, write: bool) -> None:
        """Move what was noted of cells (any numpy index) to the shadow. write: it will not hold any longer."""
        notes = self.writes[cells]
        own = notes & ID >= FIRST_ID
        if (everywhere := own.ndim == 1 and own.all()) or own.any():
            self._flush_writes(cells, notes, slice(None) if everywhere else own)
        if (self.noted[cells] & READ).any():
            reads = self.reads[: len(self.warps)]
            for row in reads[:, cells]:
                self._flush_reads(cells, row)
            reads[:, cells] = 0
        self.noted[cells] = 0
        self.writes[cells] = ASK if write else np.where(own, notes & ~ID, notes)

    def record_flushed(self, notes: Sequence[int], replaced: Sequence[Iterable[int]]) -> None:
        """Record the stores of these notes, which compiled code moved to the shadow. replaced: what they overwrote."""
        for note in notes:
            access = self._access(note)
            access.replaced = replaced
            self._shadow.history.record(access)

    def _flush_writes(self, cells: Any, notes: np.ndarray, own: np.ndarray | slice) -> None:
        writers, readers = self._shadow.writer[cells], self._shadow.reader[cells]
        replaced = distinct(writers[own]), distinct(readers[own])
        epochs = notes[own] & ~LANE
        starts = np.flatnonzero(np.diff(epochs, prepend=-1))  # most come in runs
        found, places = np.unique(epochs[starts], return_inverse=True)
        accesses = [self._access(note) for note in found.tolist()]
        for access in accesses:
            access.replaced = replaced
        numbers = np.array([self._shadow.history.record(access) for access in accesses])[places]
        writers[own] = np.repeat(numbers, np.diff(starts, append=epochs.size))
        readers[own] = 0
        self._shadow.writer[cells], self._shadow.reader[cells] = writers, readers
        lanes = self._shadow.writer_lanes[cells]
        lanes[own] = LANE_BITS[notes[own] & LANE]
        self._shadow.writer_lanes[cells] = lanes

    def _flush_reads(self, cells: Any, notes: np.ndarray) -> None:
        """One warp's."""
        places = _places(self._shadow.writer.size)[cells]
        epochs = notes & ~LANE
        for note in distinct(epochs):
            if note:
                me, here = self._access(note), epochs == note
                clock = self._shadow.history.clock()
                clock.advance(me.component, me.time)
                clock.advance(me.component + 1, me.time - 1)
                self._shadow.note_read(places[here], me, clock, LANE_BITS[notes[here] & LANE])

    def _access(self, note: int) -> Access:
        instr, what = self._accesses[(note & ID) - FIRST_ID >> ID_BITS]
        component = note >> COMPONENT_BITS & COMPONENTS_MAX - 1
        access = Access(component, note >> TIME_BITS, True, instr, self._in_cluster[component], what, compiled=True)
        access.issued = access.time
        return access


@lru_cache(maxsize=8)
def _places(cells: int) -> np.ndarray:
    """The numbers of so many cells. Shared: not to be written to."""
    return np.arange(cells)
