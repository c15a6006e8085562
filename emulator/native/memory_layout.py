"""What compiled loads and stores know of memory: the layout that their code shares with `machine.compiled_accesses`.

The invariant: compiled code may go on where the notes prove order; anything else asks the handler. That is,

- Global memory: it goes on where every lane begins in the instruction's window and is aligned. A window is part of an
  allocation that the handler met, so nothing there can be refused. Where every write must be noted for another
  process, stores have none; and nobody has one of an allocation that agents write to, from the first such write on.
- Shared memory: beside the shadow there is a note for each 4-byte cell of who wrote it last and, for each warp of the
  CTA, of its last read since. A load goes on if its warp's clock has seen what the notes say of the writes; a store
  also if it has seen those of the reads, and the readers that the shadow knows of. Where a cell has a note of a write,
  what the shadow has is from before it, seen by whoever sees the write. A handler that touches cells moves their notes
  to the shadow first. Where a note could not say all that the shadow knows, it is `ASK`.
- Lanes: what another lane of the warp did is seen up to the time of the clock's next component. A note has the lane, or
  `MANY`: of a write, all wrote the same value in one instruction, and any may read it; of reads, there were several.
- Counts: a global access adds its bytes; a shared one must have the pattern that its handler met last, whose bank
  conflicts can be counted later, as often as it occurred.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..chip import LANES

MEMORY_ROW: Final = np.dtype(
    {
        "names": (
            *("windows", "bytes", "patterns"),
            *("start", "limit", "data"),
            *("writes", "reads", "noted", "readers", "epochs", "clock"),
            *("components", "warps", "cells", "warp"),
        ),
        "formats": ("u8",) * 16,
        "itemsize": LANES * 8,
    }
)
"""The row `memory` of a warp. Addresses, in the host's memory, are those of

windows, patterns: one of each for every compiled access of the program; bytes: two longs, loaded and stored;
data: the bytes of the CTA's shared memory; writes, reads: the notes of writes [cells] and of reads [warps, cells];
noted: a byte a cell, of what there is that the shadow does not know, WRITTEN and READ; readers: the shadow's; epochs:
the word that has the address of the epochs of accesses, by the numbers in `readers`; clock: the first row of the warp's
clock; components: of the CTA's warps.

Numbers are start, limit: where the CTA's shared memory begins and its size (0 while there are no notes); warps, cells:
how many the notes have; warp: its own index.
"""
WINDOW: Final = np.dtype([("start", "u8"), ("count", "u8")])
"""Where an access may begin: in `count` bytes from the address `start`."""
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


WRITTEN, READ = 1, 2
"""What a cell's notes may say."""


def offset_of(name: str, within: np.dtype) -> int:
    """Where a field begins, in bytes."""
    assert within.fields is not None
    return within.fields[name][1]
