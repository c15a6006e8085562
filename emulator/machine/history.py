"""What happened in one cluster: who takes part in its clocks, and the accesses that were made."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from .clocks import Clock

if TYPE_CHECKING:
    from .access import Access


class History:
    """The components of the clocks and the accesses of one cluster. An access is known by its number in `accesses`."""

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
