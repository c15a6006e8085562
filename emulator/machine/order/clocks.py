"""Happens-before as vector clocks.

A component is whatever can be waited for: a warp, the tensor core as one thread drives it, the tensor-memory loads or
stores of a warp, an mbarrier (its time is the number of completed phases), a bulk group. A clock says up to which time
of each component its owner has seen everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...native.memory_layout import address_of

ORDERED: Final = 0
ASYNC_VISIBLE: Final = 1
ASYNC_VISIBLE_OUTSIDE: Final = 2
"""The rows of a clock: what happened before, and which generic accesses of it the async proxy may see, of shared and of
global memory."""
ROWS: Final = 3


Abroad = Mapping[Any, np.ndarray]
"""Of other clusters, by their home, what was seen of their components: rows as of a clock. Never changed."""


class Clock:
    """A vector clock, int64[ROWS, components]; components beyond its length are at time 0.

    home: the cluster whose components these are. abroad: what was seen of others, None for nothing.
    """

    __slots__ = ("_address", "_of", "abroad", "home", "v")

    def __init__(self, components: int, home: Any = None) -> None:
        self.v = np.zeros((ROWS, components), np.int64)
        self.home = home
        self.abroad: Abroad | None = None
        self._of: np.ndarray | None = None

    @property
    def address(self) -> int:
        """Where the rows are."""
        if self._of is not self.v:
            self._of, self._address = self.v, address_of(self.v)
        return self._address

    def merge(self, other: Clock) -> None:
        """See all that `other` has seen."""
        if other.abroad is not None:
            self._see_abroad(other.abroad)
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
        new.home, new.abroad = self.home, self.abroad
        return new

    def _see_abroad(self, seen: Abroad) -> None:
        known = dict(self.abroad or {})
        for home, rows in seen.items():
            mine = self.v if home == self.home else known.get(home)
            if mine is rows:
                continue
            joined = rows if mine is None else _joined(mine, rows)
            if home == self.home:
                self.v = joined
            else:
                known[home] = joined
        self.abroad = known

    def told(self) -> Clock:
        """What it has seen, for who is not of this cluster."""
        new = Clock(0)
        new.abroad = {**(self.abroad or {}), self.home: self.v.copy()}
        return new

    def at(self, component: int, row: int = ORDERED) -> int:
        """The time of a component."""
        return self.v.item(row, component) if component < self.v.shape[1] else 0

    def advance(self, component: int, time: int, visible: bool = True) -> None:
        """See `component` up to `time`, in all rows or the first only."""
        if component >= self.v.shape[1]:
            wider = np.zeros((ROWS, component + 64), np.int64)
            wider[:, : self.v.shape[1]] = self.v
            self.v = wider
        v = self.v
        if v.item(ORDERED, component) < time:
            v[ORDERED, component] = time
        if visible:
            for row in (ASYNC_VISIBLE, ASYNC_VISIBLE_OUTSIDE):
                if v.item(row, component) < time:
                    v[row, component] = time

    def publish(self, row: int) -> None:
        """fence.proxy.async: all that was seen of the memory of this row becomes visible to the async proxy."""
        np.maximum(self.v[row], self.v[ORDERED], out=self.v[row])
        if self.abroad is not None and row == ASYNC_VISIBLE_OUTSIDE:
            self.abroad = {home: np.maximum(rows, rows[ORDERED]) for home, rows in self.abroad.items()}


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The later time of each component."""
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    joined = a.copy()
    np.maximum(joined[:, : b.shape[1]], b, out=joined[:, : b.shape[1]])
    return joined
