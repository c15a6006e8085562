"""What compiled loads and stores know of memory: the layout that their code shares with `machine.compiled.accesses`.

The invariant: compiled code may go on where the notes prove order; anything else asks the handler. That is,

- Global memory: it goes on where every lane begins in the instruction's window and is aligned. A window is part of an
  allocation that the handler met, so nothing there can be refused. Where every write must be noted for another
  process, stores have none. If the allocation is written in the launch there are two notes for each cell, of its last
  write and of its last read: each lane must find its own note there, or none; of a load by .nc, no write at all.
- Shared memory: beside the shadow there is a note for each 4-byte cell of who wrote it last and, for each warp of the
  CTA and each guest (a warp of a peer that was let in), of its last read since. A load goes on if its warp's clock has
  seen what the notes say of the writes; a store also if it has seen those of the reads, of which there are none where
  the cell is not noted to be READ, and the readers that the shadow knows of. Where a cell has a note of a write, what
  the shadow has is from before it, seen by whoever sees the write. A handler that touches cells moves their notes to
  the shadow first. Where a note could not say all that the shadow knows, it is `ASK`. A guest is let in when it knows
  that the CTA has started, which stays true.
- Lanes: what another lane of the warp did is seen up to the time of the clock's next component. A note has the lane, or
  `MANY`: of a write, all wrote the same value in one instruction, and any may read it; of reads, there were several.
- Counts: a global access adds its bytes; a shared one must have the pattern that its handler met last, whose bank
  conflicts can be counted later, as often as it occurred.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

import numpy as np

from ..chip import LANES

MEMORY_ROW: Final = np.dtype(
    {
        "names": (
            *("windows", "bytes", "patterns"),
            *("start", "limit", "data"),
            *("writes", "reads", "noted", "readers", "epochs"),
            *("components", "warps", "cells"),
            *("stored", "clock", "warp", "component", "serial", "peers", "ctas"),
        ),
        "formats": ("u8",) * 21,
        "itemsize": LANES * 8,
    }
)
"""The row `memory` of a warp. Addresses, in the host's memory, are those of

windows, patterns: one of each for every compiled access of the program; bytes: two longs, loaded and stored; stored:
of each access that is a store, the lanes of the warp that ever executed it, as bits;
data: the bytes of the CTA's shared memory; writes: the notes of writes [cells]; reads: the word that has where those of
reads are, [warps, cells]; noted: a byte a cell, of what there is that the shadow does not know, WRITTEN and READ;
readers: the shadow's; epochs: the word that has the address of the epochs of accesses, by the numbers in `readers`;
clock: the first row of the warp's clock; warps: the word that has how many warps the notes have; components: theirs;
peers: a row like this for each CTA of the cluster, by its rank, for accesses of .shared::cluster.

Numbers are start, limit: where the CTA's shared memory begins and its size (0 while there are no notes, or for a peer
that the warp was not let into); cells: how many the notes have; warp: which of theirs it is; component: its own on the
clock; serial: its number in the launch; ctas: how many rows are at `peers`.
"""
_NAMES: Final = MEMORY_ROW.names or ()
LIMIT, CLOCK = _NAMES.index("limit"), _NAMES.index("clock")
OF_ONE_WARP: Final = slice(_NAMES.index("stored"), len(_NAMES))
"""In a row as uint64[32], two fields, and those that each warp has of its own: the rest is of its CTA or the launch."""
WINDOW: Final = np.dtype([("start", "u8"), ("count", "u8"), ("writes", "u8"), ("reads", "u8")])
"""Where an access may begin: in `count` bytes from the address `start`. writes, reads: where the notes of that
allocation would be if it began at 0; 0 for none, where nobody writes to it in the launch."""
PATTERN: Final = np.dtype(
    [("times", "u8"), ("lanes", "u4"), ("bytes", "u4"), ("offsets", "u4", LANES), ("who", "u4", LANES)]
)
"""How often it occurred; the active lanes as bits, the bytes of each, and each one's offset from the first of them; the
lane, or MANY where another is at the same address. Stores of several lanes to one address have none: they ask."""

TIME_BITS, COMPONENT_BITS, ID_BITS = 36, 24, 6
"""A note is an epoch, an instruction and a lane: time << 36 | component << 24 | id << 6 | lane. An id of 0: the shadow
knows who."""
COMPONENTS_MAX: Final = 1 << TIME_BITS - COMPONENT_BITS
LANE: Final = (1 << ID_BITS) - 1
ID: Final = (1 << COMPONENT_BITS) - 1 & ~LANE
FIRST_ID: Final = 2 << ID_BITS
"""The id of the program's first compiled access."""
MANY: Final = LANES
UNKNOWN: Final = LANES + 1
"""Several lanes, but not all: the shadow knows which."""
ASK: Final = 0x7FF_FFFF << TIME_BITS
"""Of a time that nobody has seen."""
UNWRITTEN: Final = ASK | 1

GLOBAL_TIME_BITS, SERIAL_BITS = 40, 22
"""A note of global memory is an epoch, the warp's serial number in the launch, an instruction and a lane:
time << 40 | serial << 22 | id << 6 | lane. An id of 0: the shadow knows who. 0: nobody accessed the cell."""
SERIALS_MAX: Final = (1 << GLOBAL_TIME_BITS - SERIAL_BITS) - 1
UNCHANGED: Final = 1 << SERIAL_BITS - 1
"""In a note of a write: neither it nor any write of the launch before it changed what is in the cell, and who wrote
first had read that."""
GLOBAL_ID: Final = UNCHANGED - 1 & ~LANE
GLOBAL_WHO: Final = SERIALS_MAX << SERIAL_BITS | LANE
IDS_MAX: Final = GLOBAL_ID >> ID_BITS
NOBODY: Final = SERIALS_MAX << SERIAL_BITS
"""Of a serial number that no warp has: whoever comes asks."""

ALL_LANES: Final = 0xFFFF_FFFF
LANE_BITS: Final = np.array([*(1 << lane for lane in range(LANES)), ALL_LANES], np.uint32)
"""The lanes as bits, by the lane of a note."""


def lane_of(bits: np.ndarray) -> np.ndarray:
    """Lanes as bits, as a note has them."""
    found = np.full(bits.shape, MANY)
    few = (bits != 0) & (bits != ALL_LANES)
    if few.any():
        some = bits[few]
        found[few] = np.where(some & some - 1, UNKNOWN, np.frexp(some)[1] - 1)
    return found


WRITTEN, READ = 1, 2
"""What a cell's notes may say."""


HUGE_FROM: Final = 4 << 20


def address_of(array: np.ndarray) -> int:
    """Where an array begins that may be written to and is not empty: a third of the time that `array.ctypes` takes."""
    return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]


def untouched(rows: int, columns: int) -> np.ndarray:
    """Zeros, int64[rows, columns], of which little will be touched. From 4 MiB on numpy would ask for huge pages, which
    may take milliseconds to come: they are pages of their own, and those that nobody touches cost nothing."""
    size = 8 * rows * columns
    if size < HUGE_FROM:
        return np.zeros((rows, columns), np.int64)
    pages = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    return np.frombuffer(pages, np.int64).reshape(rows, columns)


def offset_of(name: str, within: np.dtype) -> int:
    """Where a field begins, in bytes."""
    assert within.fields is not None
    return within.fields[name][1]
