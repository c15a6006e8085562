"""Accesses of global memory, which warps of other clusters may be ordered after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...errors import Level
from ...leniency import Grade, Leniency
from .access import Access
from .clocks import ASYNC_VISIBLE_OUTSIDE, ORDERED, Clock


@dataclass(slots=True, eq=False)
class GlobalAccess(Access):
    """An access of global memory. `cluster_id`: the cluster whose clocks have its component.

    unchanged: no write up to this one changed the bits of its cells, and the first writer had read them. same: it
    stored the bits that were there. lost: the same lanes stored other bits there before, which nothing else records.
    completed: an agent's write was performed. overlaps: unordered writes of other agents to the same cells.
    same_bits, other_bits: stores before it of the same and of other bits that it is not ordered after, see
    `equal_stores`.
    """

    visible: ClassVar = ASYNC_VISIBLE_OUTSIDE
    cluster_id: Any = field(init=False)
    unchanged: bool = False
    same: bool = False
    lost: bool = False
    completed: bool = False
    overlaps: tuple[Overlap, ...] = ()
    same_bits: tuple[StoreAt, ...] = ()
    other_bits: tuple[StoreAt, ...] = ()

    def __post_init__(self) -> None:
        Access.__post_init__(self)
        self.cluster_id = self.warp.cta.cluster_id

    @classmethod
    def of(cls, access: Access) -> GlobalAccess:
        """Return the same access as a GlobalAccess."""
        made = cls(access.component, access.time, access.generic, access.instr, access.warp, access.what)
        made.via, made.strong = access.via, access.strong
        return made

    def first(self) -> GlobalAccess:
        """Return the same access at the time at which its warp started."""
        made = type(self).of(self)
        made.time = 1
        return made

    def complete(self, perform: Callable[[], None]) -> None:
        """Perform an agent's write, then check its overlaps with complete writes for races."""
        due = [overlap for overlap in self.overlaps if overlap.is_last()]
        before = [overlap.bits() for overlap in due]
        perform()
        self.completed = True
        for overlap, bits in zip(due, before, strict=True):
            overlap.find(Level.FAULT if (overlap.bits() != bits).any() else Leniency.EQUAL_BITS)

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        """Return whether this access happens before the owner of `clock`."""
        if self.parts:
            return all(part.seen_by(clock, row) for part in self.parts)
        if clock.cluster_id == self.cluster_id:
            return Access.seen_by(self, clock, row)
        rows = None if clock.remote is None else clock.remote.get(self.cluster_id)
        if rows is not None and self.component < rows.shape[1] and int(rows[row, self.component]) >= self.time:
            return True
        return clock.shares_remote(self.cluster_id, self.component, self.time, row, self.instr.place)


@dataclass(frozen=True)
class StoreAt:
    """A store to `cells`: intp[n], sorted."""

    store: GlobalAccess
    cells: np.ndarray

    def within(self, cells: np.ndarray) -> StoreAt | None:
        """Return the same store to those of its cells that are among `cells`, None if there are none."""
        if np.array_equal(self.cells, cells):
            return self
        common = np.intersect1d(self.cells, cells)
        return StoreAt(self.store, common) if common.size else None


class Overlap:
    """Two agents' unordered writes of `cells` of `memory`: no fault if the later one changes no bit.

    find: reports them.
    """

    def __init__(self, memory: np.ndarray, cells: np.ndarray, left: int, find: Callable[[Grade], None]) -> None:
        self._memory, self._cells, self._left, self.find = memory, cells, left, find

    def is_last(self) -> bool:
        """Count one of the writes as performed now. Return whether it is the second."""
        self._left -= 1
        return not self._left

    def bits(self) -> np.ndarray:
        """Return the present contents of the cells."""
        found: np.ndarray = self._memory[self._cells]
        return found
