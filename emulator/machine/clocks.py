"""Happens-before as vector clocks.

A component is whatever can be waited for: a warp, the tensor core as one thread drives it, the tensor-memory loads or
stores of a warp, an mbarrier (its time is the number of completed phases), a bulk group. A clock says up to which time
of each component its owner has seen everything.
"""

from __future__ import annotations

from typing import Final

import numpy as np

ORDERED: Final = 0
ASYNC_VISIBLE: Final = 1
"""The rows of a clock: what happened before, and which generic accesses of it the async proxy may see."""


class Clock:
    """A vector clock of two rows, int64[2, components]; components beyond its length are at time 0."""

    __slots__ = ("_address", "_of", "v")

    def __init__(self, components: int) -> None:
        self.v = np.zeros((2, components), np.int64)
        self._of: np.ndarray | None = None

    @property
    def address(self) -> int:
        """Where the rows are."""
        if self._of is not self.v:
            self._of, self._address = self.v, self.v.ctypes.data
        return self._address

    def merge(self, other: Clock) -> None:
        """See all that `other` has seen."""
        a, b = self.v, other.v
        n = b.shape[1]
        if a.shape[1] == n:
            np.maximum(a, b, out=a)
            return
        if a.shape[1] < n:
            self.v = np.zeros_like(b)
            self.v[:, : a.shape[1]] = a
        np.maximum(self.v[:, :n], b, out=self.v[:, :n])

    def copy(self) -> Clock:
        """An independent clock with the same times."""
        new = Clock.__new__(Clock)
        new.v, new._of = self.v.copy(), None
        return new

    def at(self, component: int, row: int = ORDERED) -> int:
        """The time of a component."""
        return int(self.v[row, component]) if component < self.v.shape[1] else 0

    def advance(self, component: int, time: int, both: bool = True) -> None:
        """See `component` up to `time`, in both rows or the first only."""
        if component >= self.v.shape[1]:
            wider = np.zeros((2, component + 64), np.int64)
            wider[:, : self.v.shape[1]] = self.v
            self.v = wider
        column = self.v[: 2 if both else 1, component]
        np.maximum(column, time, out=column)

    def publish(self) -> None:
        """fence.proxy.async: all that was seen becomes visible to the async proxy."""
        np.maximum(self.v[ASYNC_VISIBLE], self.v[ORDERED], out=self.v[ASYNC_VISIBLE])
