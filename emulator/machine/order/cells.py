"""The shadow cells of an access: as an index for numpy, and as runs for compiled code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...native.shadow_check import CELLS


class Cells:
    """Cells of a shadow. index: for numpy. at: the address of a CELLS record. end: one past the last cell."""

    __slots__ = ("_kept", "at", "end", "index")

    def __init__(
        self,
        index: Any,
        first: int,
        runs: int,
        length: int,
        stride: int = 0,
        starts: np.ndarray | None = None,
        accesses: int = 1,
    ) -> None:
        """Describe `runs` runs of `length` neighbours: from `first` every `stride`, or from each of `starts` (int64).

        accesses: the number of accesses that share the runs equally, one after another.
        """
        row = np.zeros(1, CELLS)
        row[0] = first, 0 if starts is None else starts.ctypes.data, stride, runs, length, runs // accesses
        self.index, self.at, self._kept = index, row.ctypes.data, (row, starts)
        self.end = (first + (runs - 1) * stride if starts is None else int(starts.max())) + length


@lru_cache(maxsize=4096)
def span(first: int, count: int) -> Cells:
    """Return neighbouring cells."""
    return Cells(slice(first, first + count), first, 1, count)


def pieces(firsts: np.ndarray, length: int, accesses: int = 1) -> Cells:
    """Return `length` neighbouring cells from each of `firsts` (any shape), for one or several accesses.

    The runs of an access are sorted. Pairs of adjacent runs are merged into runs of twice the length.
    """
    rows = np.sort(firsts.reshape(accesses, -1).astype(np.int64))
    while rows.shape[1] % 2 == 0 and (rows[:, 1::2] - rows[:, ::2] == length).all():
        rows, length = rows[:, ::2], 2 * length
    starts = np.ascontiguousarray(rows.reshape(-1))
    index = (starts[:, None] + np.arange(length)).reshape(-1)
    return Cells(index, 0, starts.size, length, starts=starts, accesses=accesses)
