"""Happens-before as vector clocks.

A component is anything that can be waited for: a warp, the tensor core as one thread drives it, the tensor-memory loads
or stores of a warp, an mbarrier (its time is the number of completed phases), a bulk group. A clock holds, for each
component, the time up to which its owner has seen everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import gt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...native.memory_layout import TIME_BITS, address_of, component_of

if TYPE_CHECKING:
    from ...ptx.syntax import Instr

ORDERED: Final = 0
ASYNC_VISIBLE: Final = 1
ASYNC_VISIBLE_OUTSIDE: Final = 2
"""The rows of a clock: accesses that happened before, and the generic ones among them that the async proxy sees, of
shared and of global memory."""
ROWS: Final = 3


Remote = Mapping[Any, np.ndarray]
"""Clock rows of other clusters, by the cluster's index. Never changed."""


@dataclass(frozen=True, slots=True)
class Unsynced:
    """The times of a warp's component that some of its lanes released, although the lanes had not synchronised.

    times: what the clock would hold if they had, by row. by: the instruction that released. apart: the accesses,
    by `Instr.place`, that other lanes may have made: only these need the synchronisation.
    """

    times: tuple[int, ...]
    by: Instr
    apart: frozenset[Any]


class Clock:
    """A vector clock, int32[ROWS, components]; components beyond its length are at time 0.

    cluster_id: the cluster whose components these are. remote: clocks of other clusters, None for nothing seen.
    unsynced: by component, later times than in `v`, see `Unsynced`. Never changed in place; None if there are none.
    """

    __slots__ = ("_address", "_lent", "_of", "cluster_id", "remote", "unsynced", "v")

    def __init__(self, components: int, cluster_id: Any = None) -> None:
        self.v = np.zeros((ROWS, components), np.int32)
        self.cluster_id = cluster_id
        self.remote: Remote | None = None
        self.unsynced: Mapping[int, Unsynced] | None = None
        self._of: np.ndarray | None = None
        self._lent = False
        """True if `v` belongs to another clock too and must be replaced, not changed."""

    @property
    def address(self) -> int:
        """The address of the rows."""
        if self._of is not self.v:
            self._of, self._address = self.v, address_of(self.v)
        return self._address

    def merge(self, other: Clock) -> None:
        """Take the later time of each component of both clocks."""
        if other.remote is not None:
            self._merge_remote(other.remote)
        if self.unsynced is not other.unsynced:
            self._merge_unsynced(other)
        a, b = self.v, other.v
        n = b.shape[1]
        if a.shape[1] == n:
            self.v, self._lent = np.maximum(a, b, out=None if self._lent else a), False
            return
        if not a.shape[1]:
            self.v, self._lent = b.copy(), False
            return
        if a.shape[1] < n:
            self.v, self._lent = np.zeros_like(b), False
            self.v[:, : a.shape[1]] = a
        self._own()
        np.maximum(self.v[:, :n], b, out=self.v[:, :n])

    def _own(self) -> None:
        """Copy `v` if it belongs to another clock too."""
        if self._lent:
            self.v, self._lent = self.v.copy(), False

    def copy(self) -> Clock:
        """Return an independent clock with the same times."""
        new = Clock.__new__(Clock)
        new.v, new._of, new._lent = self.v.copy(), None, False
        new.cluster_id, new.remote, new.unsynced = self.cluster_id, self.remote, self.unsynced
        return new

    def lend(self) -> Clock:
        """Return a clock with the same times. Later `merge` and `advance` change neither by way of the other."""
        new = Clock.__new__(Clock)
        new.v, new._of, new._lent = self.v, None, True
        new.cluster_id, new.remote, new.unsynced = self.cluster_id, self.remote, self.unsynced
        self._lent = True
        return new

    def times(self, component: int) -> tuple[int, ...]:
        """Return the times of a component, by row."""
        return tuple(self.v[:, component].tolist()) if component < self.v.shape[1] else (0,) * ROWS

    def without(self, later: Mapping[int, int], by: Instr, apart: frozenset[Any]) -> Clock:
        """Return a copy without the times of components after `later`, which it keeps as unsynced ones."""
        new, unsynced = self.copy(), dict(self.unsynced or {})
        for component, time in later.items():
            known = self.times(component)
            if max(known) > time:
                unsynced[component] = Unsynced(known, by, apart)
                new.v[:, component] = [min(each, time) for each in known]
        new.unsynced = unsynced or None
        return new

    def shares(self, component: int, time: int, row: int, place: Any) -> bool:
        """Return whether an access is covered by unsynced times and was made by the lanes that released them."""
        found = (self.unsynced or {}).get(component)
        return found is not None and found.times[row] >= time and place not in found.apart

    def _merge_unsynced(self, other: Clock) -> None:
        """Keep the unsynced times that neither clock knows. Called before the known times are merged."""
        ours, theirs = self.unsynced or {}, other.unsynced or {}
        merged: dict[int, Unsynced] = {}
        for component in ours.keys() | theirs.keys():
            mine, others = ours.get(component), theirs.get(component)
            known = list(map(max, self.times(component), other.times(component)))
            found = (mine,) if mine is others else (mine, others)
            left = [each for each in found if each is not None and any(map(gt, each.times, known))]
            if len(left) == 1:
                merged[component] = left[0]
            elif left:
                times = tuple(map(max, *(each.times for each in left)))
                merged[component] = Unsynced(times, left[0].by, left[0].apart | left[1].apart)
        self.unsynced = merged or None

    def _merge_remote(self, seen: Remote) -> None:
        known = dict(self.remote or {})
        for cluster_id, rows in seen.items():
            mine = self.v if cluster_id == self.cluster_id else known.get(cluster_id)
            if mine is rows:
                continue
            joined = rows if mine is None else _joined(mine, rows)
            if cluster_id == self.cluster_id:
                self.v = joined
            else:
                known[cluster_id] = joined
        self.remote = known

    def for_other_clusters(self) -> Clock:
        """Return the clock as clusters other than its own keep it."""
        new, rows = Clock(0), self.v.copy()
        for component, unsynced in (self.unsynced or {}).items():
            rows[:, component] = np.maximum(rows[:, component], unsynced.times)
        new.remote = {**(self.remote or {}), self.cluster_id: rows}
        return new

    def at(self, component: int, row: int = ORDERED) -> int:
        """Return the time of a component."""
        return self.v.item(row, component) if component < self.v.shape[1] else 0

    def misses(self, epochs: np.ndarray) -> np.ndarray:
        """Return a mask of the accesses that did not happen before, by their epochs or their notes of shared memory."""
        missed: np.ndarray = epochs >> TIME_BITS > self.v[ORDERED, component_of(epochs)]
        return missed

    def advance(self, component: int, time: int, visible: bool = True) -> None:
        """Advance `component` to `time`, in all rows or, if not visible, in the first only."""
        if component >= self.v.shape[1]:
            wider = np.zeros((ROWS, component + 64), np.int32)
            wider[:, : self.v.shape[1]] = self.v
            self.v, self._lent = wider, False
        self._own()
        v = self.v
        if v.item(ORDERED, component) < time:
            v[ORDERED, component] = time
        if visible:
            for row in (ASYNC_VISIBLE, ASYNC_VISIBLE_OUTSIDE):
                if v.item(row, component) < time:
                    v[row, component] = time

    def publish(self, row: int) -> None:
        """Make everything seen of this row's memory visible to the async proxy: fence.proxy.async."""
        self._own()
        np.maximum(self.v[row], self.v[ORDERED], out=self.v[row])
        if self.remote is not None and row == ASYNC_VISIBLE_OUTSIDE:
            self.remote = {cluster_id: np.maximum(rows, rows[ORDERED]) for cluster_id, rows in self.remote.items()}


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the later time of each component."""
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    joined = a.copy()
    np.maximum(joined[:, : b.shape[1]], b, out=joined[:, : b.shape[1]])
    return joined
