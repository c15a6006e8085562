"""Records of shared-memory accesses by compiled code, see `native.memory_layout`.

Before a handler touches shared memory, the records of its cells are merged into the shadow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...native.memory_layout import (
    ASK,
    COMPONENT_BITS,
    FIRST_ID,
    ID,
    ID_BITS,
    LAST,
    MEMORY_ROW,
    TIME_BITS,
    UNWRITTEN,
    address_of,
    component_of,
    lane_of,
    untouched,
)
from ...native.shadow_check import GENERIC, NOT_KNOWN
from ...ptx.syntax import Instr
from ..memory.shared import CHUNK
from ..order.access import Access
from ..order.clocks import Clock
from ..topology import Cta, Warp


class CompiledRecords:
    """The last writer of each cell of a CTA's shared memory, int64[cells], and its readers, [warps, cells].

    warps: those whose code may access the memory, the CTA's own and peers from its cluster that were admitted.
    """

    def __init__(self, cta: Cta, accesses: Sequence[tuple[Instr, str]]) -> None:
        self._cta, self._shadow, self._accesses = cta, cta.smem.shadow, accesses
        self.warps = list(cta.warps)
        shadow = self._shadow
        self.writes = np.full(shadow.writer.size, UNWRITTEN)
        self.reads = untouched(len(cta.cluster.warps), shadow.writer.size)
        self.pending = np.zeros(shadow.writer.size, np.uint8)
        self.row: np.ndarray
        """The MEMORY_ROW of these records, uint64[32]."""
        self.words = np.array([address_of(self.reads), len(self.warps)])
        """The address of `reads`, and the number of warps, which grows when a peer is admitted."""
        self.copy_from_shadow(np.flatnonzero((shadow.writer | shadow.reader) != 0))

    def number(self, warp: Warp) -> int:
        """Return the number of a warp among `warps`. A new peer gets the next."""
        if warp.cta is self._cta:
            return warp.index
        self.warps.append(warp)
        self.words[1] = len(self.warps)
        return len(self.warps) - 1

    def unseen(self, clock: Clock) -> bool:
        """Return whether peers accessed the memory at times that `clock` does not cover."""
        peers = self.warps[len(self._cta.warps) :]
        last = np.array([warp.peers[self._cta.rank, LAST] for warp in peers], np.int64)
        return bool(clock.misses(last).any())

    def split(self, times: int) -> None:
        """Follow the shadow, each of whose cells became `times` cells. No record may be pending."""
        self.writes = np.repeat(self.writes, times)
        self.reads = untouched(len(self._cta.cluster.warps), self.writes.size)
        self.pending = np.zeros(self.writes.size, np.uint8)
        self.words[0] = address_of(self.reads)
        self._shadow.attach(self)
        rank, own = self._cta.rank, len(self._cta.warps)
        of_warps = [warp.memory for warp in self.warps[:own]] + [warp.peers[rank] for warp in self.warps[own:]]
        for row in (self.row, *of_warps):
            self.describe(row)

    def describe(self, row: np.ndarray) -> None:
        """Write into a MEMORY_ROW, uint64[32], where these records and the memory are."""
        smem, known = self._cta.smem, row.view(MEMORY_ROW)
        known["start"], known["limit"], known["data"] = self._cta.window, smem.size & -CHUNK, address_of(smem.bytes)
        known["writes"], known["cells"], known["shift"] = address_of(self.writes), self.writes.size, smem.shift
        known["pending"], known["readers"] = address_of(self.pending), address_of(self._shadow.reader)
        known["epochs"] = self._cta.cluster.history.epochs
        known["reads"], known["warps"] = address_of(self.words) + 8 * np.arange(2)

    def copy_from_shadow(self, cells: Any) -> None:
        """Copy the last writers of cells (any numpy index) from the shadow, where clocks alone decide the order."""
        epochs = self._shadow.history.table[self._shadow.writer[cells]]
        lanes = np.where(epochs & GENERIC, self._shadow.writer_lanes[cells], 0)
        of_warp = self._cta.cluster.warp_components[component_of(epochs)]
        # Compiled code cannot check an access by several lanes, or one without an epoch.
        asks = (epochs == NOT_KNOWN) | (lanes != 0) & ~of_warp  # cp.async: not every lane may read what is there
        self.writes[cells] = np.where(asks, ASK, epochs & -(1 << COMPONENT_BITS) | lane_of(lanes))

    def flush_all(self) -> None:
        """Merge all pending records into the shadow."""
        self.flush(np.flatnonzero(self.pending), write=False)

    def flush(self, cells: Any, write: bool) -> None:
        """Merge the records of cells (slice or intp array) into the shadow. write: invalidate them for machine code."""
        every = _places(self.writes.size)
        places = every[cells] if isinstance(cells, slice) else np.ascontiguousarray(cells).reshape(-1)
        self._shadow.merge_writes(places, self.writes, self.pending, ID, self._access)
        if self.pending[places].any():
            reads = self.reads[: len(self.warps)]
            for row in reads[:, places]:
                self._shadow.merge_reads(places, row, lambda record, _: self._access(record))
            reads[:, places] = 0
            self.pending[places] = 0
        if write:
            # The handler writes the shadow next, so the copy for compiled code is out of date.
            self.writes[places] = ASK

    def _access(self, record: int) -> Access:
        instr, what = self._accesses[(record & ID) - FIRST_ID >> ID_BITS]
        component = component_of(record)
        warp = self._cta.cluster.by_component[component]
        access = Access(component, record >> TIME_BITS, True, instr, warp, what, compiled=True)
        access.issued = access.time
        return access


@lru_cache(maxsize=8)
def _places(cells: int) -> np.ndarray:
    """Return the numbers of `cells` cells. The array is shared and must not be written to."""
    return np.arange(cells)
