"""The history of one cluster: its clock components, and the accesses that were made."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...native.memory_layout import COMPONENT_BITS, COMPONENTS_MAX, TIME_BITS, address_of
from ...native.shadow_check import NOT_KNOWN, PATTERN_BITS
from .clocks import Clock

if TYPE_CHECKING:
    from .access import Access

INITIAL_CAPACITY: Final = 4096
"""The number of accesses that the epoch table of a new history can hold."""


class History:
    """The clock components and the accesses of one cluster. An access is known by its number in `accesses`."""

    def __init__(self, components: int, cluster_id: Any = None) -> None:
        self.width, self.cluster_id = components, cluster_id
        self._known = min(components, COMPONENTS_MAX)
        """Components below this number fit into every clock and every epoch."""
        self.accesses: list[Access | None] = [None, None, None]
        self._index: dict[Hashable, int] = {}
        self._word = np.zeros(1, np.uint64)
        self.epochs = address_of(self._word)
        """The address of a word that holds the address of `table`, for `native.shadow_check`."""
        self.table: np.ndarray
        """The epochs of accesses, int64, by their numbers."""
        self._resize(np.full(INITIAL_CAPACITY, NOT_KNOWN))

    def component(self, key: Hashable) -> int:
        """Return the component of `key`, created on first use."""
        return self._index.setdefault(key, len(self._index))

    def clock(self) -> Clock:
        """Return a clock that has seen nothing. It grows as it is merged with others."""
        return Clock(0, self.cluster_id)

    def record(self, access: Access) -> int:
        """Return the number of an access, a new one unless it is the access recorded last."""
        accesses = self.accesses
        number = len(accesses)
        if accesses[-1] is access:
            return number - 1
        accesses.append(access)
        if number == len(self._epochs):
            self._resize(np.concatenate([self.table, np.full(number, NOT_KNOWN)]))
        self._epochs[number] = self._epoch(access)
        return number

    def record_all(self, accesses: Sequence[Access]) -> int:
        """Record several accesses with consecutive numbers, unless they were recorded last. Return the first number."""
        known = len(self.accesses) - len(accesses)
        if self.accesses[known] is accesses[0] and self.accesses[-1] is accesses[-1]:
            return known
        return min([self.record(access) for access in accesses])

    def _epoch(self, access: Access) -> int:
        """Return the word by which `native.shadow_check` knows an access."""
        component, pattern = access.component, access.pattern
        if not 0 <= component < self._known:
            return NOT_KNOWN
        word = access.time << TIME_BITS | component << COMPONENT_BITS | access.generic
        return word if pattern is None else word | pattern.number << PATTERN_BITS

    def unseen(self, clock: Clock, numbers: Collection[int]) -> Iterator[Access]:
        """Yield those of the accesses that do not happen before the owner of a clock, each part separately."""
        among = np.fromiter(numbers, np.intp, len(numbers))
        for number in among[clock.misses(self.table[among])].tolist():
            access = self.accesses[number]
            if access is not None:
                yield from (part for part in access.parts or (access,) if not part.seen_by(clock))

    def _resize(self, table: np.ndarray) -> None:
        self.table, self._epochs = table, memoryview(table)  # type: ignore[arg-type]
        self._word[0] = address_of(table)
