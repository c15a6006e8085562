"""cp.async: a warp's consecutive copies, checked and issued as one.

A warp that gathers rows issues dozens of copies of a few hundred bytes with only computation in between. Together they
take as many operations on the shadow and on memory as one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...chip import LANES, RANK_SHIFT
from ...ptx.syntax import Instr
from ..convergence import lane_bits
from ..memory.shared import OFFSET_MASK, SharedMemory
from ..topology import Warp
from .bulk import WarpCopies, warp_copies

WHAT = "cp.async"
BITS = np.uint32(1) << np.arange(LANES, dtype=np.uint32)


@dataclass(slots=True, eq=False)
class Copy:
    """One cp.async of `size` bytes per lane, neither checked nor issued; `alone` does both.

    targets, sources: addresses of each lane. sizes: the source bytes copied; zeros fill the rest.
    """

    instr: Instr
    size: int
    mask: np.ndarray | None
    targets: Any
    sources: Any
    sizes: Any
    alone: Callable[[], None]


@dataclass(slots=True, eq=False)
class Gather:
    """Consecutive copies: destination offsets, intp[n], source addresses, uint64[n], and copied bytes, uint32[n]."""

    first: Copy
    offsets: np.ndarray
    sources: np.ndarray
    sizes: np.ndarray

    def fits(self, warp: Warp) -> bool:
        """Return whether all copies are aligned, inside shared memory and one untracked allocation, and disjoint."""
        size, memory = self.first.size, warp.cta.launch.memory
        addresses = np.bitwise_or.reduce(self.offsets) | int(np.bitwise_or.reduce(self.sources))
        if addresses & size - 1 or self.offsets.max() + size > warp.cta.smem.size or self.sizes.max() > size:
            return False
        if np.unique(self.offsets).size < self.offsets.size:
            return False
        read = self.sources[self.sizes > 0]
        if not read.size:
            return True
        low, high = int(read.min()), int(read.max()) + size
        return memory.known(low, high) is not None and warp.cta.cluster.outside.area(low, high) is None

    def move(self, warp: Warp, smem: SharedMemory) -> None:
        """Copy the bytes."""
        size, launch = self.first.size, warp.cta.launch
        width = min(size, 8)
        values = np.zeros((self.offsets.size, size // width), f"u{width}")
        for count in set(self.sizes[self.sizes > 0].tolist()):
            these = self.sizes == count
            if count == size:
                values[these] = launch.memory.load(
                    self.sources[these], width, size // width, self.first.instr, warp, WHAT
                )
            else:
                values.view(np.uint8)[these, :count] = launch.memory.load(
                    self.sources[these], 1, count, self.first.instr, warp, WHAT
                )
        smem.views[width][(self.offsets // width)[:, None] + np.arange(size // width)] = values


def issue_copies(warp: Warp) -> None:
    """Check and issue the warp's queued copies.

    Deferring them is unobservable: nothing else happens in the cluster meanwhile. In random order each copy completes
    by itself.
    """
    left, warp.queued_copies = warp.queued_copies, []
    together = len(left) > 1 and warp.cta.cluster.agents.completion != "random"
    if not together or not _issued_at_once(warp, left):
        for copy in left:
            copy.alone()


def _issued_at_once(warp: Warp, row: Sequence[Copy]) -> bool:
    """Return whether consecutive copies are in order and uniform enough to be issued as one. If so, issue them."""
    gather, smem, copies = _gather(warp, row), warp.cta.smem, warp_copies(warp)
    if gather is None or not gather.fits(warp):
        return False
    first = gather.first
    cells = smem.cells(gather.offsets, first.size).reshape(len(row), -1)
    each = gather.offsets.size // len(row)
    lanes = BITS if first.mask is None else BITS[first.mask]
    accesses = [copies.access(copy.instr, WHAT, after) for after, copy in enumerate(row)]
    of_cells = np.repeat(lanes, cells.shape[1] // each)
    if not smem.shadow.write_each(cells, accesses, warp.clock, of_cells):
        return False
    _issue(warp, copies, gather, len(row))
    return True


def _issue(warp: Warp, copies: WarpCopies, gather: Gather, count: int) -> None:
    smem = warp.cta.smem
    copies.made_by(lane_bits(gather.first.mask))
    copies.issue(gather.first.instr, lambda: gather.move(warp, smem), count)
    warp.cta.launch.stats.copied_in_bytes += gather.first.size * gather.offsets.size


def _gather(warp: Warp, row: Sequence[Copy]) -> Gather | None:
    """Return copies of one size by the same lanes to this CTA's own shared memory as a Gather; None for others."""
    first, lanes = row[0], lane_bits(row[0].mask)
    for copy in row:
        by_lane = isinstance(copy.targets, np.ndarray) and isinstance(copy.sources, np.ndarray)
        if not by_lane or copy.size != first.size or lane_bits(copy.mask) != lanes:
            return None
    targets = _of_all(first.mask, [copy.targets for copy in row])
    if (targets >> RANK_SHIFT != warp.cta.rank).any():
        return None
    sizes = _of_all(first.mask, [np.broadcast_to(np.asarray(copy.sizes, np.uint32), LANES) for copy in row])
    sources = _of_all(first.mask, [copy.sources for copy in row])
    return Gather(first, (targets & OFFSET_MASK).astype(np.intp), sources, sizes)


def _of_all(mask: np.ndarray | None, operands: list[Any]) -> np.ndarray:
    """Return the active lanes' values of an operand of each copy, one copy after another."""
    stacked = np.stack(operands)
    return (stacked if mask is None else stacked[:, mask]).reshape(-1)
