"""Happens-before: vector clocks, and the accesses that they order.

A component is whatever can be waited for: a warp, the tensor core as one thread drives it, the tensor-memory loads or
stores of a warp, an mbarrier (its time is the number of completed phases), a bulk group. A clock says up to which time
of each component its owner has seen everything.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from emulator.machine.descriptors import Pattern
    from emulator.machine.warp import Warp
    from emulator.ptx.syntax import Instr

ORDERED: Final = 0
ASYNC_VISIBLE: Final = 1
"""The rows of a clock: what happened before, and which generic accesses of it the async proxy may see."""


class Clock:
    """A vector clock of two rows, int64[2, components]; components beyond its length are at time 0."""

    __slots__ = ("v",)

    def __init__(self, components: int) -> None:
        self.v = np.zeros((2, components), np.int64)

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
        new.v = self.v.copy()
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


class Agent:
    """Work that completes after it was issued, of which a warp learns by waiting."""

    def settled(self, access: Access) -> bool:
        """Whether the warp that issued `access` waited for it itself, whatever others know."""
        return False


@dataclass(slots=True, eq=False)
class Access:
    """One instruction's access by one warp or the agent that it set to work.

    component, time: where on the clocks its completion shows. generic: made through the generic proxy. follows:
    components whose earlier accesses it is ordered after by the hardware's pipeline. via: the mbarrier or group that
    tells of its completion. strong: an atomic or ordered access, which does not race with others of its kind. parts:
    for reads that nothing orders among themselves, each of them. pattern: how TMA laid down what it wrote.
    """

    component: int
    time: int
    generic: bool
    instr: Instr
    warp: Warp
    what: str
    follows: tuple[int, ...] = ()
    via: Any = None
    strong: bool = False
    parts: tuple[Access, ...] = ()
    pattern: Pattern | None = None

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        """Whether the owner of `clock` is ordered after this access."""
        if self.parts:
            return all(part.seen_by(clock, row) for part in self.parts)
        return clock.at(self.component, row) >= self.time

    def orders(self, earlier: Access, clock: Clock, row: int = ORDERED) -> bool:
        """Whether this access, issued under `clock`, comes after `earlier`."""
        if earlier.parts:
            return all(self.orders(part, clock, row) for part in earlier.parts)
        if earlier.component in self.follows or (self.strong and earlier.strong) or earlier.seen_by(clock, row):
            return True
        return earlier.warp is self.warp and isinstance(earlier.via, Agent) and earlier.via.settled(earlier)

    def origin(self) -> str:
        """Who made it, for a report."""
        return f"{self.what} of {self.warp}, PTX line {self.instr.line}"

    def late(self, earlier: Access, clock: Clock) -> Access:
        """The part of `earlier` that this access is not ordered after, for the report."""
        return next((p for p in earlier.parts if not self.orders(p, clock)), earlier)


def handed_over(warp: Warp, waiting_for: str, me: Access) -> str:
    """What orders `me` after something that only `warp` waited for, for the report of a conflict."""
    return (
        f"a barrier that {warp} arrives on after its {waiting_for} and {me.warp} waits for "
        f"before PTX line {me.instr.line}"
    )


class Ledger:
    """The components and the accesses of one cluster. An access is known by its number in `accesses`."""

    def __init__(self, components: int) -> None:
        self.width = components
        self.accesses: list[Access | None] = [None, None, None]
        self._index: dict[Hashable, int] = {}

    def component(self, key: Hashable) -> int:
        """The component of `key`, made on first use."""
        return self._index.setdefault(key, len(self._index))

    def clock(self) -> Clock:
        """A clock that has seen nothing."""
        return Clock(self.width)

    def record(self, access: Access) -> int:
        """The number of a new access."""
        self.accesses.append(access)
        return len(self.accesses) - 1
