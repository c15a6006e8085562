"""Memory layout shared by compiled loads and stores and `machine.compiled.accesses`.

The invariant: compiled code proceeds only where records and clocks prove that the access is in order, and calls
the handler otherwise.

- Global memory: every lane must be aligned and begin in the instruction's window, part of an allocation that the
  handler accessed, so no fault is possible. An allocation that is written in the launch has two records per cell, of
  the last write and the last read. Each lane must find its own record or none there; a load by .nc must find no write.
- Shared memory: besides the shadow there is a record of the last writer of each cell and, for each warp of the CTA and
  each peer (an admitted warp of another CTA), of its last read since. A cell has as many bytes as the shadow's, 4 or 1.
  A load proceeds if its warp's clock covers the records of writes. A store also has to cover the records of reads, if
  the cell is marked READ, and the readers in the shadow. If a cell has a record of a write, a clock that covers that
  write covers the shadow's older state too. A handler first merges the records of its cells into the shadow. Where a
  record cannot express the shadow's state it is `ASK`. A peer is admitted once it knows that the CTA has started, which
  remains true.
- Lanes: a lane has seen the other lanes of its warp up to the time of the clock's next component. A record has the
  lane, or `MANY`. For a write, MANY means that all lanes wrote the same value in one instruction and any lane may read
  it; for reads, that there were several lanes.
- Counts: a global access adds its bytes. A shared access must have the pattern of its handler's last access in the
  warp, whose bank conflicts are computed later, times the number of its occurrences.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Final

import numpy as np

from ..chip import ALL_LANES, LANES

MEMORY_ROW: Final = np.dtype(
    {
        "names": (
            *("windows", "bytes", "patterns"),
            *("start", "limit", "data"),
            *("writes", "reads", "pending", "readers", "epochs"),
            *("warps", "cells", "shift"),
            *("stored", "clock", "warp", "component", "serial", "peers", "ctas"),
            "last",
        ),
        "formats": ("u8",) * 22,
        "itemsize": LANES * 8,
    }
)
"""The row `memory` of a warp. These fields are addresses in host memory:

windows, patterns: one record for each compiled access of the program; every warp of a CTA has patterns of its own.
bytes: two longs, bytes loaded and stored.
stored: for each compiled store, the lanes of the warp that ever executed it, as bits.
data: the bytes of the CTA's shared memory. writes: the records of writes [cells]. reads: a word that holds the address
of the records of reads, [warps, cells]. pending: a byte per cell, the kinds of records not in the shadow yet, WRITTEN
and READ. readers: the shadow's array. epochs: a word that holds the address of the epochs of accesses, by the numbers
in `readers`. clock: the first row of the warp's clock. warps: a word that holds the number of warps with records.
peers: a row like this for each CTA of the cluster, by rank, for accesses of .shared::cluster.

These are numbers. start, limit: the address of the CTA's shared memory and its size (0 while there are no records, or
for a peer that did not admit the warp). cells: the number of cells with records. shift: log2 of the bytes of a cell.
warp: the warp's index in the records. component: its clock component. serial: its number in the launch. ctas: the
number of rows at `peers`. last: the record of the warp's last access by this row.
"""
_NAMES: Final = MEMORY_ROW.names or ()
PATTERNS, LIMIT, CLOCK, WARP, LAST = map(_NAMES.index, ("patterns", "limit", "clock", "warp", "last"))
OF_ONE_WARP: Final = slice(_NAMES.index("stored"), LAST)
"""Indices into a row as uint64[32]: five fields, and those that differ between a CTA's warps besides `patterns`."""
WINDOW: Final = np.dtype([("start", "u8"), ("count", "u8"), ("writes", "u8"), ("reads", "u8")])
"""The addresses at which an access may begin: `count` bytes from `start`. writes, reads: the address of the records of
that allocation, biased as if it began at 0; 0 for none, if nothing writes to it in the launch."""
PATTERN: Final = np.dtype(
    [("times", "u8"), ("lanes", "u4"), ("bytes", "u4"), ("offsets", "u4", LANES), ("who", "u4", LANES)]
)
"""A pattern of a shared access: its number of occurrences, the active lanes as bits, bytes per lane, each lane's offset
from the first one, and the lane itself, or MANY if another lane has the same address. Stores of several lanes to one
address have no pattern: they ask."""

TIME_BITS, COMPONENT_BITS, ID_BITS = 36, 24, 6
"""A record consists of an epoch, an instruction and a lane: time << 36 | component << 24 | id << 6 | lane. The id 0
means that the shadow has the access."""
COMPONENTS_MAX: Final = 1 << TIME_BITS - COMPONENT_BITS


def component_of(record: Any) -> Any:
    """Return the clock component in a record or an epoch, or in an array of them."""
    return record >> COMPONENT_BITS & COMPONENTS_MAX - 1


LANE: Final = (1 << ID_BITS) - 1
ID: Final = (1 << COMPONENT_BITS) - 1 & ~LANE
FIRST_ID: Final = 2 << ID_BITS
"""The id of the program's first compiled access."""
MANY: Final = LANES
UNKNOWN: Final = LANES + 1
"""Several lanes, but not all. The shadow has them."""
ASK: Final = 0x7FF_FFFF << TIME_BITS
"""A record with a time that no clock covers."""
UNWRITTEN: Final = ASK | 1

GLOBAL_TIME_BITS, SERIAL_BITS = 40, 22
"""A record of global memory consists of an epoch, the warp's serial number in the launch, an instruction and a lane:
time << 40 | serial << 22 | id << 6 | lane. The id 0 means that the shadow has the access. 0: no access of the cell."""
SERIALS_MAX: Final = (1 << GLOBAL_TIME_BITS - SERIAL_BITS) - 1
UNCHANGED: Final = 1 << SERIAL_BITS - 1
"""A bit in a record of a write: no write of the launch so far changed the cell's contents, and the first writer had
read them."""
LOST: Final = UNCHANGED >> 1
"""Another bit in such a record: the same lane stored other bits there before, which nothing else records."""
GLOBAL_ID: Final = LOST - 1 & ~LANE
GLOBAL_WHO: Final = SERIALS_MAX << SERIAL_BITS | LANE
IDS_MAX: Final = GLOBAL_ID >> ID_BITS
NOBODY: Final = SERIALS_MAX << SERIAL_BITS
"""A record with a serial number that no warp has: everyone asks."""

LANE_BITS: Final = np.array([*(1 << lane for lane in range(LANES)), ALL_LANES], np.uint32)
"""Lanes as bits, by the lane of a record."""


def lane_of(bits: np.ndarray) -> np.ndarray:
    """Return lanes (bits) as records hold them."""
    found = np.full(bits.shape, MANY)
    few = (bits != 0) & (bits != ALL_LANES)
    if few.any():
        some = bits[few]
        found[few] = np.where(some & some - 1, UNKNOWN, np.frexp(some)[1] - 1)
    return found


WRITTEN, READ = 1, 2
"""The kinds of records of a cell."""


HUGE_FROM: Final = 4 << 20


def address_of(array: np.ndarray) -> int:
    """Return the address of a writable, non-empty array, in a third of the time of `array.ctypes`."""
    return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]


def untouched(rows: int, columns: int) -> np.ndarray:
    """Return zeros, int64[rows, columns], of which few will be accessed.

    From 4 MiB on numpy asks for huge pages, which can take milliseconds. Separate pages cost nothing until accessed.
    """
    size = 8 * rows * columns
    if size < HUGE_FROM:
        return np.zeros((rows, columns), np.int64)
    pages = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    return np.frombuffer(pages, np.int64).reshape(rows, columns)


def offset_of(name: str, within: np.dtype) -> int:
    """Return the offset of a field in bytes."""
    assert within.fields is not None
    return within.fields[name][1]
