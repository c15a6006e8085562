"""Global memory: host memory, accessible where an allocation is known."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ...errors import Culprit, Fault, OutOfBounds
from ...ptx.syntax import Instr

MARGIN = (256, 1 << 20)


@dataclass(order=True)
class Allocation:
    """`size` bytes of host memory from `address`."""

    address: int
    size: int = field(compare=False)
    name: str = field(compare=False)
    _views: dict[int, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def margin(self) -> int:
        """The bytes on either side where an access counts as a stray access of this allocation."""
        return min(max(self.size, MARGIN[0]), MARGIN[1])

    def view(self, width: int) -> tuple[np.ndarray, int]:
        """Return the allocation as unsigned integers of `width` bytes, with the aligned address of the first."""
        base = self.address & -width
        if width not in self._views:
            self._views[width] = host_bytes(base, -(-(self.address + self.size - base) // width) * width).view(
                f"u{width}"
            )
        return self._views[width], base


def host_bytes(address: int, size: int) -> np.ndarray:
    """Return `size` bytes of host memory as uint8, shared with their owner."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class GlobalMemory:
    """The allocations that kernels may access.

    closed: there are no others. Otherwise an access far from all of them may belong to an unknown allocation, and is
    allowed if the process's mappings contain it. report: called with a fault that leaves memory unchanged.
    """

    def __init__(self, allocations: list[tuple[int, int, str]], closed: bool, report: Callable[[Fault], None]) -> None:
        self.allocations = sorted(Allocation(*a) for a in allocations)
        self._starts = [allocation.address for allocation in self.allocations]
        self.closed, self._report = closed, report
        self.tracked: set[int] = set()
        """The addresses of allocations that are written in this launch, see `machine.memory.global_shadow`."""
        self.on_track: list[Callable[[Allocation], None]] = []
        """Called with each allocation that becomes tracked."""
        self.name_of: Callable[[Allocation], str] = lambda allocation: allocation.name
        """Returns the name of an allocation for a report."""
        self.freed_at: Callable[[int], str] = lambda address: ""
        """Describes the freed allocation that contained an address; empty if none is known."""
        self._recent: Allocation | None = None
        self._mappings: dict[str, list[Allocation]] = {}

    def find(self, low: int, high: int, described: bool = False) -> Allocation | None:
        """Return the allocation that holds bytes `low` to `high - 1`, or None.

        described: a tensor map declares the bytes, so they may belong to an unknown allocation even near another.
        """
        found = self.known(low, high)
        stray = self.closed or (not described and self._near(low, high))
        return found if found is not None or stray else self._mapping(low, high, "rw")

    def readable(
        self, low: int, high: int, instr: Instr, warp: Culprit, what: str, described: bool = False
    ) -> Allocation:
        """Return the memory that holds bytes `low` to `high - 1`, for a read.

        Raises OutOfBounds outside every allocation. Under diagnostics "report" records it instead if the bytes exist.
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
        """Return the memory that holds bytes `low` to `high - 1`, for a write. Raises OutOfBounds if there is none."""
        found = self.find(low, high, described)
        if found is None:
            raise self._outside(low, high, instr, warp, what)
        return found

    def load(self, addresses: np.ndarray, width: int, count: int, instr: Instr, warp: Culprit, what: str) -> np.ndarray:
        """Return `count` elements of `width` bytes at each address: unsigned[n, count]."""
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
        """Return whether the allocation that holds this byte is tracked."""
        found = self.known(address, address + 1) if self.tracked else None
        return found is not None and found.address in self.tracked

    def track(self, allocation: Allocation) -> None:
        """Check every access of an allocation from now on: it is written in this launch."""
        if allocation.address not in self.tracked:
            self.tracked.add(allocation.address)
            for tell in self.on_track:
                tell(allocation)

    def track_all(self) -> None:
        """Check and record every access from the start of the launch."""
        self.tracked.update(allocation.address for allocation in self.allocations)

    def _holding(self, addresses: np.ndarray, size: int) -> Allocation | None:
        low, high = int(addresses.min()), int(addresses.max()) + size
        recent = self._recent
        if recent is not None and recent.address <= low and high <= recent.address + recent.size:
            return recent
        self._recent = self.known(low, high)
        return self._recent

    def known(self, low: int, high: int) -> Allocation | None:
        """Return the known allocation that holds bytes `low` to `high - 1`, or None."""
        at = bisect_right(self._starts, low) - 1
        if at < 0:
            return None
        candidate = self.allocations[at]
        return candidate if high <= candidate.address + candidate.size else None

    def _near(self, low: int, high: int) -> bool:
        """Return whether the bytes lie so close to a known allocation that they count as a stray access of it."""
        at = bisect_right(self._starts, low)
        neighbours = self.allocations[max(at - 1, 0) : at + 1]
        return any(a.address - a.margin < high and low < a.address + a.size + a.margin for a in neighbours)

    def _mapping(self, low: int, high: int, access: str) -> Allocation | None:
        """Return the mapping of the process that holds the bytes with this access, "r" or "rw", or None.

        Linux lists memory that was mapped at once in several parts if their flags differ, as after a madvise.
        """
        mappings = self._mappings.setdefault(access, [])
        for known in mappings:
            if known.address <= low and high <= known.address + known.size:
                return known
        first = end = 0
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, given = line.split(maxsplit=2)[:2]
                if not given.startswith(access):
                    continue
                start, stop = (int(x, 16) for x in span.split("-"))
                first, end = first if start == end else start, stop
                if first <= low and high <= end:
                    mappings.append(Allocation(first, end - first, f"host mapping {first:x}-{end:x}"))
                    return mappings[-1]
        return None

    def _outside(self, low: int, high: int, instr: Instr, warp: Culprit, what: str) -> OutOfBounds:
        """Return the fault for bytes `low` to `high - 1`, with the nearest allocations, or one if all are far."""
        distance = {a.address: min(abs(low - a.address), abs(low - a.address - a.size)) for a in self.allocations}
        near = sorted(self.allocations, key=lambda a: distance[a.address])[:3]
        near = [a for a in near if a is near[0] or distance[a.address] <= MARGIN[1]]
        lines = [
            ("near", f"{self.name_of(a)}: {a.address:#x} to {a.address + a.size - 1:#x} ({_distance(low, a)})")
            for a in near
        ]
        where = "outside every allocation"
        if freed := self.freed_at(low):
            where, lines = "which was freed", [("freed", freed)]
        what = f"{what} touches global memory {low:#x} to {high - 1:#x}, {where}"
        return OutOfBounds(what, instr, warp, tuple(lines))


def rows_of(first: int, there: np.ndarray) -> np.ndarray:
    """Return the addresses of the rows of an array that starts at `first`: uint64[rows], lowest first, highest last.

    The last dimension is contiguous.
    """
    rows: np.ndarray = _from_first(there.shape[:-1], there.strides[:-1]) + np.uint64(first)
    return rows


@lru_cache(maxsize=1024)
def _from_first(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Return the byte distances of the rows of an array from its first row, shape without the last dimension."""
    places = np.zeros((), np.uint64)
    for n, stride in zip(shape, strides, strict=True):
        places = places[..., None] + np.arange(n, dtype=np.uint64) * np.uint64(stride)
    return places.reshape(-1)


def _index(allocation: Allocation, addresses: np.ndarray, width: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    view, base = allocation.view(width)
    first = ((addresses - np.uint64(base)) // np.uint64(width)).astype(np.intp)
    return view, first[:, None] + np.arange(count)


def _distance(low: int, a: Allocation) -> str:
    return (
        f"{low - a.address - a.size} bytes past its end"
        if low >= a.address + a.size
        else f"{low - a.address} bytes from its start"
    )
