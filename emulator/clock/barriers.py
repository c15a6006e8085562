"""Barriers in modelled time: arrivals, missing bytes and waiting warps."""

from __future__ import annotations

from typing import Any

from ..ptx.syntax import Instr


class TimedMBarrier:
    """One mbarrier. `phase` counts completed phases from 0. init: its instruction."""

    def __init__(self, name: str, count: int, init: Instr) -> None:
        self.name, self.init = name, init
        self.expected = self.pending = count
        self.tx = self.phase = 0
        self.waiters: list[Any] = []

    def is_over(self, wanted: int, parity: bool) -> bool:
        """Return True if a wait for a phase number, or for a phase parity, ends."""
        return (self.phase & 1) != (wanted & 1) if parity else self.phase > wanted

    def arrive(self, count: int) -> list[Any]:
        """Count arrivals; return the warps whose wait ends."""
        self.pending -= count
        return self._released()

    def expect(self, tx: int) -> None:
        """Add to the bytes that this phase waits for."""
        self.tx += tx

    def complete(self, tx: int) -> list[Any]:
        """Count bytes that arrived; return the warps whose wait ends."""
        self.tx -= tx
        return self._released()

    def _released(self) -> list[Any]:
        if self.pending > 0 or self.tx:
            return []
        self.phase += 1
        self.pending += self.expected
        released, self.waiters = self.waiters, []
        return released


class TimedBarrier:
    """A bar, barrier.cta or barrier.cluster. It completes when `needed` threads or warps have arrived.

    needed: by the last arrival; None for all threads or warps that have not ended.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrived = self.generation = 0
        self.needed: int | None = None
        self.votes = self.result = (0, 0)
        """(votes that are true, all votes), of the open phase and of the last one."""
        self.over = 0.0
        """The time at which the last phase ended, for a warp that begins its wait after that."""
        self.waiters: list[Any] = []

    def arrive(self, count: int, needed: int | None, running: int) -> list[Any] | None:
        """Count arrivals; return the warps whose wait ends, or None while arrivals are missing.

        running: the threads or warps that have not ended.
        """
        self.arrived, self.needed = self.arrived + count, needed
        return self.completed(running)

    def completed(self, running: int) -> list[Any] | None:
        """Return the warps whose wait ends, or None while arrivals are missing or there are none."""
        if not self.arrived or self.arrived < (running if self.needed is None else self.needed):
            return None
        self.arrived = 0
        self.generation += 1
        self.result, self.votes = self.votes, (0, 0)
        released, self.waiters = self.waiters, []
        return released
