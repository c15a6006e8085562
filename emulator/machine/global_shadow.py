"""Who wrote and read the global memory that agents write during a launch: the check of accesses against their waits.

The invariant: from an agent's first write to an allocation until the launch ends the allocation is watched, and every
access of it comes here: compiled loads and stores leave it to their handlers. What agents write is only listed until
something else touches the allocation in the same cluster: an output that is written once costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .report import conflict
from .shadow import UNWRITTEN, Shadow

if TYPE_CHECKING:
    from .access import Access
    from .clocks import Clock
    from .globalmem import Allocation
    from .history import History
    from .launch import Launch

CELL = 4
"""Writers and readers are kept for so many bytes. What narrower stores write is not noted."""


class GlobalShadow:
    """Of one cluster: the watched allocations, by address."""

    def __init__(self, launch: Launch, history: History) -> None:
        self._launch, self._history = launch, history
        self._areas: dict[int, _Area] = {}

    def read(self, addresses: np.ndarray, size: int, me: Access, clock: Clock) -> None:
        """Check and note a read of `size` bytes at each address (uint64[n])."""
        for area, cells in self._touched(addresses, size):
            area.shadow.read(cells, me, clock)

    def write(self, addresses: np.ndarray, size: int, me: Access, clock: Clock) -> None:
        """Check and note a write of `size` bytes at each address (uint64[n])."""
        if size >= CELL:
            for area, cells in self._touched(addresses, size):
                area.shadow.write(cells, me, clock)

    def write_by_agent(self, addresses: np.ndarray, size: int, me: Access, clock: Clock) -> None:
        """Note that an agent will write `size` bytes at each address. Nothing orders such writes among themselves."""
        memory = self._launch.memory
        found = memory.known(int(addresses.min()), int(addresses.max()) + size)
        if found is None:
            return
        memory.watch(found)
        me.strong = True
        self._area(found).write_by_agent(addresses, size, me, clock)

    def _touched(self, addresses: np.ndarray, size: int) -> list[tuple[_Area, np.ndarray]]:
        memory = self._launch.memory
        found = memory.known(int(addresses.min()), int(addresses.max()) + size)
        if found is None or found.address not in memory.watched:
            return []
        area = self._area(found)
        return [(area, area.cells(addresses, size))]

    def _area(self, allocation: Allocation) -> _Area:
        area = self._areas.get(allocation.address)
        if area is None:
            area = self._areas[allocation.address] = _Area(allocation, self._history)
        return area


class _Area:
    """A watched allocation, and what agents wrote to it before anything else touched it."""

    def __init__(self, allocation: Allocation, history: History) -> None:
        self._allocation, self._history = allocation, history
        self._listed: list[tuple[np.ndarray, int, Access]] = []
        self._shadow: Shadow | None = None

    @property
    def shadow(self) -> Shadow:
        """With all that was listed."""
        if self._shadow is None:
            self._shadow = Shadow(-(-self._allocation.size // CELL) + 1, self._history, self._blame)
            for addresses, size, me in self._listed:
                self._shadow.writer[self.cells(addresses, size)] = self._history.record(me)
            self._listed.clear()
        return self._shadow

    def write_by_agent(self, addresses: np.ndarray, size: int, me: Access, clock: Clock) -> None:
        """List it; or check and note it, once others touched the allocation."""
        if self._shadow is None:
            self._listed.append((addresses, size, me))
        else:
            self._shadow.write(self.cells(addresses, size), me, clock)

    def cells(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """The cells that hold `size` bytes at each address."""
        base = self._allocation.address & -CELL
        first = (addresses - np.uint64(base)).astype(np.intp) // CELL
        return first[:, None] + np.arange(-(-size // CELL))

    def _blame(self, me: Access, clock: Clock, verb: str, cells: Any, number: int, kind: str) -> None:
        if number == UNWRITTEN:
            return
        shadow, base = self.shadow, self._allocation.address & -CELL
        numbers = (shadow.writer if kind == "write" else shadow.reader)[cells]
        where = cells[numbers == number]
        first, last = base + CELL * int(where.min()), base + CELL * int(where.max()) + CELL - 1
        shown = f"global memory {first:#x} to {last:#x} of {self._allocation.name} ({CELL * where.size} bytes)"
        conflict(me, clock, verb, shown, self._history, number, kind)
