"""What loads and stores that are machine code may touch without asking: as much as their handlers met last time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from emulator.machine.globalmem import GlobalMemory
    from emulator.machine.statistics import Stats


class Direct:
    """Of one launch: a window for each such instruction, as `native.access` has it, and the bytes loaded and stored."""

    def __init__(self, memory: GlobalMemory, count: int) -> None:
        self._memory = memory
        self._windows = np.zeros((count, 2), np.uint64)
        self._bytes = np.zeros(2, np.uint64)

    @property
    def row(self) -> list[int]:
        """What the code needs to know, as longs."""
        return [self._windows.ctypes.data, self._bytes.ctypes.data]

    def learn(self, number: int, address: int, size: int, store: bool) -> None:
        """Instruction `number` accessed `size` bytes at `address`, and may do so in all of that allocation.

        A store is not let go alone where every write has to be noted.
        """
        found = self._memory.known(address, address + size)
        if found is not None and not (store and self._memory.written is not None):
            self._windows[number] = found.address, found.size - size + 1

    def flush(self, stats: Stats) -> None:
        """Add the counts to those of the launch."""
        loaded, stored = self._bytes.tolist()
        stats.global_load_bytes += loaded
        stats.global_store_bytes += stored
        self._bytes[:] = 0
