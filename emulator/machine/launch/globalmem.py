"""Global memory: the host's own memory, entered only where an allocation is known."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OutOfBounds

if TYPE_CHECKING:
    from ...errors import Culprit, Fault
    from ...ptx.syntax import Instr

MARGIN = (256, 1 << 20)
Written = tuple[np.ndarray, np.ndarray]
"""Bytes that were written: addresses [n], and the bytes from each, uint8[n, size]."""


@dataclass(order=True)
class Allocation:
    """`size` bytes of host memory from `address`."""

    address: int
    size: int = field(compare=False)
    name: str = field(compare=False)
    _views: dict[int, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def margin(self) -> int:
        """Bytes on either side where an access is taken for one that left this allocation."""
        return min(max(self.size, MARGIN[0]), MARGIN[1])

    def view(self, width: int) -> tuple[np.ndarray, int]:
        """All of it as unsigned integers of `width` bytes, from the first aligned address at or below its start."""
        base = self.address & -width
        if width not in self._views:
            self._views[width] = host_bytes(base, -(-(self.address + self.size - base) // width) * width).view(
                f"u{width}"
            )
        return self._views[width], base


def host_bytes(address: int, size: int) -> np.ndarray:
    """`size` bytes of host memory as uint8, shared with their owner."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class GlobalMemory:
    """The allocations that kernels may touch.

    closed: there are no others. If not, what is far from all of them may belong to one that nobody made known: the
    process's mappings decide. found: what to do with a fault that leaves memory as it is.
    """

    def __init__(self, allocations: list[tuple[int, int, str]], closed: bool, report: Callable[[Fault], None]) -> None:
        self.allocations = sorted(Allocation(*a) for a in allocations)
        self._starts = [allocation.address for allocation in self.allocations]
        self.closed, self._report = closed, report
        self.written: list[Written] | None = None
        """If a list, what every write writes goes there too."""
        self.tracked: set[int] = set()
        """The addresses of the allocations that are written in this launch: see `machine.memory.global_shadow`."""
        self.on_track: list[Callable[[Allocation], None]] = []
        """Who has to know of an allocation that is watched from now on."""
        self._recent: Allocation | None = None
        self._mappings: dict[str, list[Allocation]] = {}

    def find(self, low: int, high: int, described: bool = False) -> Allocation | None:
        """The allocation that holds bytes `low` to `high - 1`, or None.

        described: a tensor map says that they are a tensor's, so they may belong to one that nobody made known even
        where they are near another.
        """
        found = self.known(low, high)
        stray = self.closed or (not described and self._near(low, high))
        return found if found is not None or stray else self._mapping(low, high, "rw")

    def readable(
        self, low: int, high: int, instr: Instr, warp: Culprit, what: str, described: bool = False
    ) -> Allocation:
        """The memory that holds bytes `low` to `high - 1`, for a read.

        Raises OutOfBounds outside every allocation; or, under diagnostics "report", notes it if the bytes are there.
        """
        found = self.find(low, high, described)
        if found is None:
            found = self._mapping(low, high, "r")
            stray = self._outside(low, high, instr, warp, what)
            if found is None:
                raise stray
            self._report(stray)
        return found

    def writable(
        self, low: int, high: int, instr: Instr, warp: Culprit, what: str, described: bool = False
    ) -> Allocation:
        """The memory that holds bytes `low` to `high - 1`, for a write. Raises OutOfBounds outside every allocation."""
        found = self.find(low, high, described)
        if found is None:
            raise self._outside(low, high, instr, warp, what)
        return found

    def load(self, addresses: np.ndarray, width: int, count: int, instr: Instr, warp: Culprit, what: str) -> np.ndarray:
        """`count` elements of `width` bytes at each address: unsigned[n, count]."""
        found = self._holding(addresses, width * count)
        if found is not None:
            view, index = _index(found, addresses, width, count)
            loaded: np.ndarray = view[index]
            return loaded
        out = np.empty((addresses.size, count), f"u{width}")
        for i, address in enumerate(addresses.tolist()):
            allocation = self.readable(address, address + width * count, instr, warp, what)
            view, index = _index(allocation, addresses[i : i + 1], width, count)
            out[i] = view[index]
        return out

    def store(self, addresses: np.ndarray, values: np.ndarray, instr: Instr, warp: Culprit, what: str) -> None:
        """Write unsigned[n, count] at the addresses."""
        width, count = values.itemsize, values.shape[1]
        if self.written is not None:
            self.written.append((addresses.copy(), np.ascontiguousarray(values).view(np.uint8).copy()))
        found = self._holding(addresses, width * count)
        if found is not None:
            view, index = _index(found, addresses, width, count)
            view[index] = values
            return
        for i, address in enumerate(addresses.tolist()):
            allocation = self.writable(address, address + width * count, instr, warp, what)
            view, index = _index(allocation, addresses[i : i + 1], width, count)
            view[index] = values[i]

    def tracks(self, address: int) -> bool:
        """Whether what holds this byte is watched."""
        found = self.known(address, address + 1) if self.tracked else None
        return found is not None and found.address in self.tracked

    def track(self, allocation: Allocation) -> None:
        """It is written in this launch: from now on every access of it has to be looked at."""
        if allocation.address not in self.tracked:
            self.tracked.add(allocation.address)
            for tell in self.on_track:
                tell(allocation)

    def note_writes(self) -> None:
        """Note in `written` what is written from now on, by machine code too."""
        self.written = []
        for allocation in self.allocations:
            if allocation.address in self.tracked:
                for tell in self.on_track:
                    tell(allocation)

    def wrote(self, there: np.ndarray) -> None:
        """Note that an agent wrote this part of host memory, whose last dimension is contiguous."""
        if self.written is not None:
            places = rows_of(there.__array_interface__["data"][0], there)
            rows = np.ascontiguousarray(there).reshape(places.size, -1).view(np.uint8)
            self.written.append((places, rows.copy()))

    def apply(self, written: list[Written]) -> None:
        """Write what was noted elsewhere, in that order."""
        for size, notes in groupby(written, lambda note: note[1].shape[1]):
            addresses, rows = (np.concatenate(parts) for parts in zip(*notes, strict=True))
            found = self._holding(addresses, size)
            if found is not None:
                view, index = _index(found, addresses, 1, size)
                view[index] = rows
                continue
            for address, row in zip(addresses.tolist(), rows, strict=True):
                ctypes.memmove(address, row.ctypes.data, size)

    def _holding(self, addresses: np.ndarray, size: int) -> Allocation | None:
        low, high = int(addresses.min()), int(addresses.max()) + size
        recent = self._recent
        if recent is not None and recent.address <= low and high <= recent.address + recent.size:
            return recent
        self._recent = self.known(low, high)
        return self._recent

    def known(self, low: int, high: int) -> Allocation | None:
        """The allocation made known that holds bytes `low` to `high - 1`, or None."""
        at = bisect_right(self._starts, low) - 1
        if at < 0:
            return None
        candidate = self.allocations[at]
        return candidate if high <= candidate.address + candidate.size else None

    def _near(self, low: int, high: int) -> bool:
        """Whether the bytes are so close to a known allocation that they are meant to be in it."""
        at = bisect_right(self._starts, low)
        neighbours = self.allocations[max(at - 1, 0) : at + 1]
        return any(a.address - a.margin < high and low < a.address + a.size + a.margin for a in neighbours)

    def _mapping(self, low: int, high: int, access: str) -> Allocation | None:
        """The mapping of the process that holds the bytes and gives this access, "r" or "rw"."""
        mappings = self._mappings.setdefault(access, [])
        for known in mappings:
            if known.address <= low and high <= known.address + known.size:
                return known
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, given = line.split(maxsplit=2)[:2]
                start, stop = (int(x, 16) for x in span.split("-"))
                if start <= low and high <= stop and given.startswith(access):
                    mappings.append(Allocation(start, stop - start, f"host mapping {span}"))
                    return mappings[-1]
        return None

    def _outside(self, low: int, high: int, instr: Instr, warp: Culprit, what: str) -> OutOfBounds:
        """The fault for bytes `low` to `high - 1`, locating_errors the nearest allocations."""
        near = sorted(self.allocations, key=lambda a: min(abs(low - a.address), abs(low - a.address - a.size)))[:3]
        return OutOfBounds(
            f"{what} touches global memory {low:#x} to {high - 1:#x}, outside every allocation",
            instr,
            warp,
            tuple(
                ("near", f"{a.name}: {a.address:#x} to {a.address + a.size - 1:#x} ({_apart(low, a)})") for a in near
            ),
        )


def rows_of(first: int, there: np.ndarray) -> np.ndarray:
    """The addresses of the rows of an array at the address `first`, whose last dimension is contiguous: uint64[rows],
    the least first and the greatest last."""
    rows: np.ndarray = _from_first(there.shape[:-1], there.strides[:-1]) + np.uint64(first)
    return rows


@lru_cache(maxsize=1024)
def _from_first(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """How far the rows of an array of this shape, without its last dimension, are from the first: uint64[rows]."""
    places = np.zeros((), np.uint64)
    for n, stride in zip(shape, strides, strict=True):
        places = places[..., None] + np.arange(n, dtype=np.uint64) * np.uint64(stride)
    return places.reshape(-1)


def _index(allocation: Allocation, addresses: np.ndarray, width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    view, base = allocation.view(width)
    first = ((addresses - np.uint64(base)) // np.uint64(width)).astype(np.intp)
    return view, first[:, None] + np.arange(count)


def _apart(low: int, a: Allocation) -> str:
    return (
        f"{low - a.address - a.size} bytes past its end"
        if low >= a.address + a.size
        else f"{low - a.address} bytes from its start"
    )
