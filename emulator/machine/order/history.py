"""The history of one cluster: its clock components, and the accesses that were made."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ...native.memory_layout import COMPONENT_BITS, COMPONENTS_MAX, TIME_BITS, address_of
from ...native.shadow_check import NOT_KNOWN, PATTERN_BITS
from .access import Access
from .clocks import Clock

INITIAL_CAPACITY: Final = 4096
"""The number of accesses that the epoch table of a new history can hold."""


class History:
    """The clock components and the accesses of one cluster. An access is known by its number in `accesses`.

    components: the number of components set aside for each of the CTAs. They are neighbours, so that a clock which has
    seen nothing of other CTAs stays short.
    """

    def __init__(self, components: int, cluster_id: Any = None, ctas: int = 1) -> None:
        share = self._share = min(components, COMPONENTS_MAX // ctas)
        self.cluster_id = cluster_id
        self.width = share * ctas
        """Components below this number fit into every clock of a warp and every epoch."""
        self._next = [cta * share for cta in range(ctas)]
        self._more = self.width
        self.accesses: list[Access | None] = [None, None, None]
        self._index: dict[tuple[Hashable, ...], int] = {}
        self._word = np.zeros(1, np.uint64)
        self.epochs = address_of(self._word)
        """The address of a word that holds the address of `table`, for `native.shadow_check`."""
        self.table: np.ndarray
        """The epochs of accesses, int64, by their numbers."""
        self._resize(np.full(INITIAL_CAPACITY, NOT_KNOWN))

    def component(self, cta: int, *key: Hashable) -> int:
        """Return the component of `key` in the CTA of this rank, created on first use."""
        found = self._index.get((cta, *key))
        if found is None:
            self._index[cta, *key] = found = self.components(cta, 1)
        return found

    def components(self, cta: int, number: int) -> int:
        """Create `number` neighbouring components in the CTA of this rank. Return the first."""
        first = self._next[cta]
        if first + number > (cta + 1) * self._share:
            self._more += number
            return self._more - number
        self._next[cta] = first + number
        return first

    def clock(self, components: int = 0) -> Clock:
        """Return a clock that has seen nothing. It grows as it is merged with others."""
        return Clock(components, self.cluster_id, self._share)

    def record(self, access: Access) -> int:
        """Return the number of an access, a new one unless it is the access recorded last."""
        return self.record_all((access,))

    def record_all(self, accesses: Sequence[Access]) -> int:
        """Record several accesses with consecutive numbers, unless they were recorded last. Return the first number."""
        made = self.accesses
        if made[-1] is accesses[-1] and made[-len(accesses)] is accesses[0]:
            return len(made) - len(accesses)
        first = len(made)
        made += accesses
        if len(made) > len(self._epochs):
            self._resize(np.concatenate([self.table, np.full(len(made), NOT_KNOWN)]))
        for number, access in enumerate(accesses, first):
            component, pattern = access.component, access.pattern
            if 0 <= component < self.width:  # others fit no epoch
                epoch = access.time << TIME_BITS | component << COMPONENT_BITS | access.generic
                self._epochs[number] = epoch if pattern is None else epoch | pattern.number << PATTERN_BITS
        return first

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
