"""Barriers in modelled time: who came, how many bytes are missing, who waits."""

from __future__ import annotations

from typing import Any


class TimedMBarrier:
    """One mbarrier. `phase` counts completed phases from 0."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.expected = self.pending = count
        self.tx = self.phase = 0
        self.waiters: list[Any] = []

    def is_over(self, wanted: int, parity: bool) -> bool:
        """Whether a wait for a phase, or its parity, ends."""
        return (self.phase & 1) != (wanted & 1) if parity else self.phase > wanted

    def arrive(self, count: int) -> list[Any]:
        """Arrivals; who waits no longer."""
        self.pending -= count
        return self._settled()

    def expect(self, tx: int) -> None:
        """Expect more bytes in this phase."""
        self.tx += tx

    def complete(self, tx: int) -> list[Any]:
        """Bytes came; who waits no longer."""
        self.tx -= tx
        return self._settled()

    def _settled(self) -> list[Any]:
        if self.pending > 0 or self.tx:
            return []
        self.phase += 1
        self.pending += self.expected
        gone, self.waiters = self.waiters, []
        return gone


class TimedBarrier:
    """bar, barrier.cta or barrier.cluster: complete when `needed` threads or warps came."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrived = self.generation = 0
        self.over = 0.0
        """When who comes late to wait may go on."""
        self.waiters: list[Any] = []

    def arrive(self, count: int, needed: int) -> list[Any] | None:
        """Arrivals; None while some are missing, else who waits no longer."""
        self.arrived += count
        if self.arrived < needed:
            return None
        self.arrived = 0
        self.generation += 1
        gone, self.waiters = self.waiters, []
        return gone
