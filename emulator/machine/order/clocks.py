"""Vector clocks, which represent happens-before.

A component is anything that can be waited for: a warp, the tensor core's work issued by one thread, the tensor-memory
loads or stores of a warp, an mbarrier (its time is the number of completed phases), a bulk group. A clock holds, for
each component, the time up to which all of the component's accesses happen before the clock's owner.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import gt
from typing import Any, Final

import numpy as np

from ...chip import ALL_LANES
from ...native.memory_layout import TIME_BITS, address_of, component_of
from ...ptx.syntax import Instr

ORDERED: Final = 0
ASYNC_VISIBLE: Final = 1
ASYNC_VISIBLE_OUTSIDE: Final = 2
"""The rows of a clock: accesses that happened before, and the generic ones among them that the async proxy sees, of
shared and of global memory."""
EVERY_ROW: Final = (ORDERED, ASYNC_VISIBLE, ASYNC_VISIBLE_OUTSIDE)
ROWS: Final = len(EVERY_ROW)

NOTHING: Final = sys.maxsize
"""`Clock.low` of a clock that has seen nothing."""

Remote = Mapping[Any, np.ndarray]
"""Clock rows of other clusters, by the cluster's index. Never changed."""


@dataclass(frozen=True, slots=True)
class Unsynced:
    """The times of a warp's component that some of its lanes released, although the lanes had not synchronised.

    times: the clock's entry if the lanes had synchronised, by row. by: the instruction that released. uncovered: the
    accesses, by `Instr.place`, that other lanes may have made: only these need the synchronisation. lanes: those that
    released, as bits.
    """

    times: tuple[int, ...]
    by: Instr
    uncovered: frozenset[Any]
    lanes: int

    def merged(self, other: Unsynced) -> Unsynced:
        """Merge the releases of both sets of lanes. All lanes together leave no access out."""
        times, lanes = tuple(map(max, self.times, other.times)), self.lanes | other.lanes
        return Unsynced(times, self.by, frozenset() if lanes == ALL_LANES else self.uncovered | other.uncovered, lanes)


class Clock:
    """A vector clock. All components outside `low` to `high` - 1 are at time 0.

    block: clocks grow by multiples of this number of components, those of one CTA.
    v: int32[ROWS, components], from component `first` on. A warp's clock has every component of its cluster from 0 on,
    because compiled code reads any of them; other clocks have the components that they need.
    cluster_id: the cluster whose components these are. remote: clocks of other clusters, None for nothing seen.
    unsynced: by component, later times than in `v`, see `Unsynced`. far: those of `remote`, by cluster and component.
    Neither is changed in place; None if there are none.
    """

    __slots__ = ("_address", "_of", "block", "cluster_id", "far", "first", "high", "low", "remote", "unsynced", "v")

    def __init__(self, components: int, cluster_id: Any = None, block: int = 64) -> None:
        """Create a clock that has seen nothing. components: a multiple of `block`."""
        self.v, self.block = np.zeros((ROWS, components), np.int32), block
        self.first, self.low, self.high = 0, NOTHING, 0
        self.cluster_id = cluster_id
        self.remote: Remote | None = None
        self.unsynced: Mapping[int, Unsynced] | None = None
        self.far: Mapping[tuple[Any, int], Unsynced] | None = None
        self._of: np.ndarray | None = None

    @property
    def address(self) -> int:
        """The address of the rows."""
        if self._of is not self.v:
            self._of, self._address = self.v, address_of(self.v)
        return self._address

    def merge(self, other: Clock) -> None:
        """Take the later time of each component of both clocks."""
        if other.remote is not None and other.remote is not self.remote:
            self._merge_remote(other.remote)
        if other.far is not None and other.far is not self.far:
            self._merge_far(other.far)
        if self.unsynced is not other.unsynced:
            self._merge_unsynced(other)
        mine, theirs, low, high = self.v, other.v, other.low, other.high
        if self.first == other.first and mine.shape == theirs.shape:
            self.low = low if low < self.low else self.low
            self.high = high if high > self.high else self.high
        elif high:
            mine, theirs = self._own(low, high), other.seen
        else:
            return
        np.maximum(mine, theirs, out=mine)

    def _own(self, low: int, high: int) -> np.ndarray:
        """Return the components `low` to `high` - 1 to be changed: a view of `v`, which grows to hold them."""
        v, first, block = self.v, self.first, self.block
        held = v.shape[1]
        if low < first or high > first + held:
            start, end = (min(low, first), max(high, first + held)) if held else (low, high)
            start, end = start // block * block, -(-end // block) * block
            wider = np.zeros((ROWS, end - start), np.int32)
            wider[:, first - start : first - start + held] = v
            self.v, self.first = wider, start
        if low < self.low:
            self.low = low // block * block
        if high > self.high:
            self.high = -(-high // block) * block
        return self.v[:, low - self.first : high - self.first]

    @property
    def seen(self) -> np.ndarray:
        """The times of the components `low` to `high` - 1."""
        return self.v[:, self.low - self.first : self.high - self.first]

    def copy(self) -> Clock:
        """Return an independent clock with the same times and the same components."""
        return self._like(self.v.copy(), self.first)

    def compact(self) -> Clock:
        """Return an independent clock with the same times and no components but those seen."""
        return self._like(self.seen.copy(), min(self.low, self.high))

    def _like(self, v: np.ndarray, first: int) -> Clock:
        """Return a clock that has seen the same, with `v` and `first` of its own."""
        new = Clock.__new__(Clock)
        new.v, new.first, new._of = v, first, None
        new.low, new.high, new.block = self.low, self.high, self.block
        new.cluster_id, new.remote, new.unsynced, new.far = self.cluster_id, self.remote, self.unsynced, self.far
        return new

    def times(self, component: int) -> tuple[int, ...]:
        """Return the times of a component, by row."""
        at = component - self.first
        return tuple(self.v[:, at].tolist()) if 0 <= at < self.v.shape[1] else (0,) * ROWS

    def without(self, later: Mapping[int, int], by: Instr, uncovered: frozenset[Any], lanes: int) -> Clock:
        """Return a copy without the times of components after `later`, which it keeps as unsynced ones."""
        new, unsynced = self.copy(), dict(self.unsynced or {})
        for component, time in later.items():
            known = self.times(component)
            # An elected lane releases its own accesses, and those of other lanes up to their last synchronisation.
            if max(known) > time:
                unsynced[component] = Unsynced(known, by, uncovered, lanes)
                new.limit(component, time)
        new.unsynced = unsynced or None
        return new

    def shares(self, component: int, time: int, row: int, place: Any) -> bool:
        """Return whether an access is covered by unsynced times and was made by the lanes that released them."""
        found = (self.unsynced or {}).get(component)
        return found is not None and found.times[row] >= time and place not in found.uncovered

    def _merge_unsynced(self, other: Clock) -> None:
        """Keep the unsynced times that neither clock knows. Called before the known times are merged."""
        ours, theirs = self.unsynced or {}, other.unsynced or {}
        merged: dict[int, Unsynced] = {}
        for component in ours.keys() | theirs.keys():
            mine, others = ours.get(component), theirs.get(component)
            known = list(map(max, self.times(component), other.times(component)))
            found = (mine,) if mine is others else (mine, others)
            left = [each for each in found if each is not None and any(map(gt, each.times, known))]
            if left:
                merged[component] = reduce(Unsynced.merged, left)
        self.unsynced = merged or None

    def _merge_far(self, theirs: Mapping[tuple[Any, int], Unsynced]) -> None:
        """Keep the unsynced times of other clusters that either clock has."""
        merged = dict(self.far or {})
        for key, other in theirs.items():
            mine = merged.get(key, other)
            merged[key] = mine if mine is other else mine.merged(other)
        self.far = merged

    def shares_remote(self, cluster_id: Any, component: int, time: int, row: int, place: Any) -> bool:
        """Return whether lanes of another cluster released an access of theirs, as in `shares`."""
        found = (self.far or {}).get((cluster_id, component))
        return found is not None and found.times[row] >= time and place not in found.uncovered

    def _merge_remote(self, seen: Remote) -> None:
        known, later = self.remote or {}, {}
        for cluster_id, rows in seen.items():
            mine = known.get(cluster_id)
            if cluster_id == self.cluster_id:
                own = self._own(0, rows.shape[1])
                np.maximum(own, rows, out=own)
            elif mine is not rows:
                joined = rows if mine is None else _joined(mine, rows)
                if joined is not mine:
                    later[cluster_id] = joined
        if later:
            self.remote = {**known, **later}

    def for_other_clusters(self) -> Clock:
        """Return the clock as clusters other than its own keep it."""
        new, rows = Clock(0), np.zeros((ROWS, self.high), np.int32)
        rows[:, self.high - self.seen.shape[1] :] = self.seen
        new.remote = {**(self.remote or {}), self.cluster_id: rows}
        if self.unsynced or self.far:
            own = {(self.cluster_id, component): unsynced for component, unsynced in (self.unsynced or {}).items()}
            new.far = {**(self.far or {}), **own}
        return new

    def at(self, component: int, row: int = ORDERED) -> int:
        """Return the time of a component."""
        at = component - self.first
        return self.v.item(row, at) if 0 <= at < self.v.shape[1] else 0

    def misses(self, epochs: np.ndarray) -> np.ndarray:
        """Return a mask of the accesses that did not happen before, by their epochs or their records of shared memory.

        Only for a warp's clock or a copy of it.
        """
        missed: np.ndarray = epochs >> TIME_BITS > self.v[ORDERED, component_of(epochs)]
        return missed

    def advance(self, component: int, time: int, visible: bool = True) -> None:
        """Advance `component` to `time`, in all rows or, if not visible, in the first only."""
        if not self.low <= component < self.high:
            self._own(component, component + 1)
        v, at = self.v, component - self.first
        for row in EVERY_ROW if visible else (ORDERED,):
            if v.item(row, at) < time:
                v[row, at] = time

    def begin(self, warp: int) -> None:
        """Set the components of a warp whose clock this is: its own, and the one of its lanes' synchronisations."""
        self._own(warp, warp + 2)[ORDERED, 0] = 1

    def limit(self, component: int, time: int) -> None:
        """Forget the times of a component after `time`."""
        times = self._own(component, component + 1)
        np.minimum(times, time, out=times)

    def publish(self, row: int) -> None:
        """Make everything seen of this row's memory visible to the async proxy: fence.proxy.async."""
        if self.high:
            # fence.proxy.async: the async proxy sees what happened before the fence (test_pairs.py::test_good).
            seen = self._own(self.low, self.high)
            np.maximum(seen[row], seen[ORDERED], out=seen[row])
        # Only global memory is reached from other clusters
        # (test_a_proxy_fence_covers_what_was_acquired_from_another_cluster).
        if self.remote is not None and row == ASYNC_VISIBLE_OUTSIDE:
            self.remote = {cluster_id: np.maximum(rows, rows[ORDERED]) for cluster_id, rows in self.remote.items()}


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the later time of each component.

    It is one of the two arrays if that has all later times, so that clocks that saw the same share it.
    """
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    shared = a[:, : b.shape[1]]
    if (shared >= b).all():
        return a
    if a.shape == b.shape and (b >= a).all():
        return b
    joined = a.copy()
    np.maximum(shared, b, out=joined[:, : b.shape[1]])
    return joined
