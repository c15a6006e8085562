"""One number for every byte that a launch can touch, and the event that last wrote each byte.

Global memory has its own addresses. Shared, tensor and local memory lie above them, each CTA's or thread's in a range
of its own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..chip import LANES, LOCAL_BASE, RANK_SHIFT, SHARED_BASE, TMEM_LANES
from ..machine.launch.shared_names import shared_variable, source_name
from ..machine.memory.shared import OFFSET_MASK
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Kernel

SHARED: Final = 1 << 56
TENSOR: Final = 2 << 56
LOCAL: Final = 3 << 56
CTA_SHIFT: Final = 28
LOCAL_LANE_SHIFT: Final = 24
LOCAL_WARP_SHIFT: Final = LOCAL_LANE_SHIFT + 5
PAGE: Final = 12
UNKNOWN: Final = -1


def shared_base(cta: Cta) -> int:
    """Return the number of the first byte of a CTA's shared memory."""
    return SHARED | _serial(cta) << CTA_SHIFT


def tensor_base(cta: Cta) -> int:
    """Return the number of the first byte of a CTA's tensor memory; a column's lanes follow one another."""
    return TENSOR | _serial(cta) << CTA_SHIFT


def cells(cta: Cta, columns: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Return the first byte of cells of tensor memory."""
    found: np.ndarray = tensor_base(cta) + 4 * (columns.astype(np.int64) * TMEM_LANES + lanes)
    return found


def _serial(cta: Cta) -> int:
    x, y, z = cta.ctaid
    wide, high, _ = cta.launch.grid
    return int(x + wide * (y + high * z))


def of_threads(warp: Warp, addresses: np.ndarray, space: str) -> np.ndarray:
    """Return the bytes that a PTX address of each lane means: int64[32]."""
    raw = addresses.astype(np.uint64)
    if space == "global":
        return raw.astype(np.int64)
    if space == "local":
        return _local(warp, raw)
    if space == "shared":
        return _shared(warp, raw)
    high = raw >> np.uint64(32)
    found = raw.astype(np.int64)
    found = np.where(high == SHARED_BASE >> 32, _shared(warp, raw), found)
    return np.where(high == LOCAL_BASE >> 32, _local(warp, raw), found)


def _shared(warp: Warp, raw: np.ndarray) -> np.ndarray:
    low = (raw & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    ctas = warp.cta.cluster.ctas
    bases = np.array([shared_base(cta) for cta in ctas], np.int64)
    found: np.ndarray = bases[np.minimum(low >> RANK_SHIFT, len(ctas) - 1)] + (low & OFFSET_MASK)
    return found


def _local(warp: Warp, raw: np.ndarray) -> np.ndarray:
    offset = (raw & np.uint64((1 << LOCAL_LANE_SHIFT) - 1)).astype(np.int64)
    lane = np.arange(LANES, dtype=np.int64) << LOCAL_LANE_SHIFT
    return LOCAL | (int(warp.serial) << LOCAL_WARP_SHIFT) | lane | offset


class Writers:
    """The event that last wrote each byte, UNKNOWN at first."""

    def __init__(self) -> None:
        self._pages: dict[int, np.ndarray] = {}

    def read(self, first: np.ndarray, width: int) -> np.ndarray:
        """Return the writers of `width` bytes from each address: int32[..., width]."""
        at = first[..., None] + np.arange(width)
        found = np.full(at.shape, UNKNOWN, np.int32)
        for page, here in self._by_page(at):
            known = self._pages.get(page)
            if known is not None:
                found[here] = known[at[here] & (1 << PAGE) - 1]
        return found

    def write(self, first: np.ndarray, width: int, event: int) -> None:
        """Record that an event wrote `width` bytes from each address."""
        at = first[..., None] + np.arange(width)
        for page, here in self._by_page(at):
            known = self._pages.get(page)
            if known is None:
                known = self._pages[page] = np.full(1 << PAGE, UNKNOWN, np.int32)
            known[at[here] & (1 << PAGE) - 1] = event

    def last(self, address: int) -> int:
        """Return the event that last wrote a byte."""
        known = self._pages.get(address >> PAGE)
        return UNKNOWN if known is None else int(known[address & (1 << PAGE) - 1])

    def touched(self, address: int, size: int) -> bool:
        """Return whether an event wrote any of `size` bytes."""
        return any(
            (known[max(address - (page << PAGE), 0) : max(address + size - (page << PAGE), 0)] != UNKNOWN).any()
            for page in range(address >> PAGE, (address + size - 1 >> PAGE) + 1)
            if (known := self._pages.get(page)) is not None
        )

    def _by_page(self, at: np.ndarray) -> list[tuple[int, np.ndarray | slice]]:
        if not at.size:
            return []
        pages = at >> PAGE
        low, high = int(pages.min()), int(pages.max())
        if low == high:
            return [(low, slice(None))]
        return [(int(page), pages == page) for page in np.unique(pages)]


def describe(address: int, kernel: Kernel) -> str:
    """Describe a byte outside of global memory, shared memory by the array that holds it."""
    space, inside = address >> 56, address & (1 << CTA_SHIFT) - 1
    match space:
        case 1:
            array = shared_variable(kernel, inside, inside)
            text = f"shared memory {inside:#x}"
            return text if array is None else f"{source_name(array.name)} ({text})"
        case 2:
            column, lane = divmod(inside // 4, TMEM_LANES)
            return f"tensor memory column {column} lane {lane}"
        case 3:
            return f"local memory {address & (1 << LOCAL_LANE_SHIFT) - 1:#x}"
    return f"global memory {address:#x}"
