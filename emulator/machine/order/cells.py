"""Which cells of a shadow an access touches: as an index for numpy, and as runs for compiled code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...native.shadow_check import CELLS


class Cells:
    """Cells of a shadow. index: for its arrays. at: the address of the same as CELLS. end: past the last of them."""

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
        """`runs` of `length` neighbours: from `first` on every `stride`, or from each of `starts` (int64) on.

        accesses: so many accesses, one after another, of as many runs each.
        """
        row = np.zeros(1, CELLS)
        row[0] = first, 0 if starts is None else starts.ctypes.data, stride, runs, length, runs // accesses
        self.index, self.at, self._kept = index, row.ctypes.data, (row, starts)
        self.end = (first + (runs - 1) * stride if starts is None else int(starts.max())) + length


@lru_cache(maxsize=4096)
def span(first: int, count: int) -> Cells:
    """Neighbouring cells."""
    return Cells(slice(first, first + count), first, 1, count)


def pieces(firsts: np.ndarray, length: int, accesses: int = 1) -> Cells:
    """As many neighbours from each of `firsts` (any shape) on; by so many accesses, see `Cells`.

    An access's runs are in order, and twice as long where each two of them meet.
    """
    rows = np.sort(firsts.reshape(accesses, -1).astype(np.int64))
    while rows.shape[1] % 2 == 0 and (rows[:, 1::2] - rows[:, ::2] == length).all():
        rows, length = rows[:, ::2], 2 * length
    starts = np.ascontiguousarray(rows.reshape(-1))
    index = (starts[:, None] + np.arange(length)).reshape(-1)
    return Cells(index, 0, starts.size, length, starts=starts, accesses=accesses)
