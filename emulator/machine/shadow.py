"""Who wrote and who read each cell of a memory last: the check of every access against happens-before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from emulator.machine.access import Access
from emulator.machine.clocks import ASYNC_VISIBLE, ORDERED, Clock

if TYPE_CHECKING:
    from emulator.machine.descriptors import Pattern
    from emulator.machine.history import History

UNWRITTEN: Final = 0
MBARRIER: Final = 1
OUTSIDE: Final = 2
SPECIAL: Final = 3
"""Below SPECIAL a writer's number is no access: never written, an mbarrier object, not the program's to use."""

SORT_ABOVE = 512


class Blame(Protocol):
    """Raises or notes the fault for an access `me` that may not touch `cells` because of the access `number`."""

    def __call__(self, me: Access, clock: Clock, verb: str, cells: Any, number: int, kind: str) -> None: ...


def distinct(numbers: np.ndarray) -> Any:
    """The different values of an array, cheap when there is only one."""
    if numbers.size == 0:
        return ()
    first = numbers.item(0)
    if (numbers == first).all():
        return (first,)
    if numbers.size > SORT_ABOVE:
        return np.unique(numbers).tolist()
    return set(numbers.ravel().tolist())


class Mixed(Protocol):
    """Deferred that `me` reads by one pattern those of `cells` that the access `number` wrote by another."""

    def __call__(self, me: Access, pattern: Pattern, cells: Any, number: int) -> None: ...


class Deferred(Protocol):
    """What accesses that are machine code noted, and did not tell the shadow yet."""

    def settle(self, cells: Any, write: bool) -> None:
        """Move what was noted of cells (any numpy index) to the shadow. write: it will not hold any longer."""

    def end(self) -> None:
        """Move all to the shadow, for good."""


class Shadow:
    """The last writer and the last reader(s) of each cell, as numbers of a history."""

    def __init__(
        self, shape: int | tuple[int, ...], history: History, blame: Blame, mixed: Mixed | None = None
    ) -> None:
        self.writer = np.zeros(shape, np.int32)
        self.reader = np.zeros(shape, np.int32)
        self.history, self.blame, self.mixed = history, blame, mixed
        self.notes: Deferred | None = None

    def read(self, cells: Any, me: Access, clock: Clock, pattern: Pattern | None = None) -> None:
        """Check a read of `cells` (any numpy index), then note it. Raises what `blame` raises.

        pattern: by which swizzle the cells are read.
        """
        if self.notes is not None:
            self.notes.settle(cells, write=False)
        accesses = self.history.accesses
        writers = self.writer[cells]
        row = ORDERED if me.generic else ASYNC_VISIBLE
        for number in distinct(writers):
            other = accesses[number]
            if other is None or not me.orders(other, clock, row if other.generic else ORDERED):
                self.blame(me, clock, "reads", cells, number, "write")
            elif pattern is not None and other.pattern is not None and other.pattern != pattern and self.mixed:
                self.mixed(me, pattern, cells, number)
        self.note_read(cells, me, clock)

    def note_read(self, cells: Any, me: Access, clock: Clock) -> None:
        """Note a read that is in order."""
        history = self.history
        mine = history.record(me)
        readers = self.reader[cells]
        earlier = distinct(readers)
        replaced = {number: self._joined(number, mine, me, clock) for number in earlier}
        if len(replaced) <= 1 or all(new == mine for new in replaced.values()):
            self.reader[cells] = next(iter(replaced.values()), mine)
            return
        new = readers.copy()
        for old, number in replaced.items():
            new[readers == old] = number
        self.reader[cells] = new

    def _joined(self, number: int, mine: int, me: Access, clock: Clock) -> int:
        """What stands for the readers `number` and `mine` together: `mine` alone when it covers the others."""
        other = self.history.accesses[number]
        if other is None or me.orders(other, clock):
            return mine
        kept = tuple(p for p in (other.parts or (other,)) if not me.orders(p, clock))
        joint = Access(-1, 0, me.generic, me.instr, me.warp, me.what, parts=(*kept, me))
        return self.history.record(joint)

    def write(self, cells: Any, me: Access, clock: Clock) -> None:
        """Check a write of `cells` (any numpy index), then note it. Raises what `blame` raises."""
        if self.notes is not None:
            self.notes.settle(cells, write=True)
        accesses = self.history.accesses
        row = ORDERED if me.generic else ASYNC_VISIBLE
        for number in distinct(self.writer[cells]):
            other = accesses[number]
            if other is None:
                if number != UNWRITTEN:
                    self.blame(me, clock, "writes", cells, number, "write")
            elif not me.orders(other, clock, row if other.generic else ORDERED):
                self.blame(me, clock, "writes", cells, number, "write")
        for number in distinct(self.reader[cells]):
            other = accesses[number]
            if other is not None and not me.orders(other, clock):
                self.blame(me, clock, "writes", cells, number, "read")
        self.writer[cells] = self.history.record(me)
        self.reader[cells] = 0
