"""Reasons to stop a launch: a line, an mbarrier's arrivals, a change of memory, of a register or of a phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..machine.synchronisation.mbarrier import MBarrier
from ..machine.topology import Cluster, Cta, Warp
from ..tensors import register_text
from .places import barrier_name, is_named, mbarriers


@dataclass(frozen=True)
class Who:
    """The warps that a stop is about: warp indices and CTAs; None for all."""

    warps: frozenset[int] | None = None
    ctas: frozenset[tuple[int, int, int]] | None = None

    def has(self, warp: Warp) -> bool:
        """Return whether a warp is one of them."""
        return (self.warps is None or warp.index in self.warps) and self.has_cta(warp.cta)

    def has_cta(self, cta: Cta) -> bool:
        """Return whether a CTA is one of theirs."""
        return self.ctas is None or cta.ctaid in self.ctas

    def __str__(self) -> str:
        warps = "" if self.warps is None else f" of warp {', '.join(map(str, sorted(self.warps)))}"
        ctas = "" if self.ctas is None else f" of CTA {', '.join(map(str, sorted(self.ctas)))}"
        return warps + ctas


@dataclass
class Stop:
    """A reason to stop. number: by which the user names it."""

    number: int
    text: str
    who: Who

    def __str__(self) -> str:
        return f"{self.number}: {self.text}{self.who}"

    def reset(self) -> None:
        """Forget what happened, because the launch starts again."""

    def before(self, warp: Warp, at: int) -> bool:
        """Return whether to stop before the instruction `at` of a warp."""
        return False

    def change(self, cluster: Cluster, warp: Warp | None) -> str | None:
        """Describe a new event in a cluster. warp: that executed an instruction; None after asynchronous work."""
        return None

    def prime(self, cluster: Cluster) -> None:
        """Skip the events in a cluster until now."""
        while self.change(cluster, None) is not None:
            pass


@dataclass
class Breakpoint(Stop):
    """Stops before an instruction. after: the number of hits to pass first."""

    instructions: frozenset[int]
    after: int = 0
    hits: int = 0

    def __str__(self) -> str:
        return f"{super().__str__()}, hit {self.hits} times"

    def reset(self) -> None:
        self.hits = 0

    def before(self, warp: Warp, at: int) -> bool:
        if at not in self.instructions or not self.who.has(warp):
            return False
        self.hits += 1
        return self.hits > self.after


@dataclass
class ArrivalStop(Stop):
    """Stops when an mbarrier of a name has seen its n-th arrival, counted over all phases."""

    name: str
    arrival: int
    _done: set[int] = field(default_factory=set)

    def reset(self) -> None:
        self._done.clear()

    def change(self, cluster: Cluster, warp: Warp | None) -> str | None:
        for barrier in mbarriers([cta for cta in cluster.ctas if self.who.has_cta(cta)]):
            new = id(barrier) not in self._done and is_named(barrier, self.name)
            if new and arrivals(barrier) >= self.arrival:
                self._done.add(id(barrier))
                return f"arrival {self.arrival} at {barrier.state()}"
        return None


def arrivals(barrier: MBarrier) -> int:
    """Count the arrivals at an mbarrier since its initialisation, if its count has not changed."""
    return barrier.phase * barrier.count + barrier.expected - barrier.pending


@dataclass
class Watch(Stop):
    """Stops when a value of a CTA changes.

    read: the value, None while there is none. describe: of a change (before, after).
    """

    read: Callable[[Cta], np.ndarray | None]
    describe: Callable[[np.ndarray, np.ndarray], str]
    _seen: dict[Any, np.ndarray | None] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.number}: watch {self.text}{self.who}"

    def reset(self) -> None:
        self._seen.clear()

    def change(self, cluster: Cluster, warp: Warp | None) -> str | None:
        for cta in cluster.ctas:
            if self.who.has_cta(cta) and (change := _changed(self._seen, cta.ctaid, self.read(cta))):
                return f"{self.text} of CTA {cta.name} changes: {self.describe(*change)}"
        return None


@dataclass
class RegisterWatch(Stop):
    """Stops when a register of a warp changes. read: its value, None if the warp does not keep it."""

    read: Callable[[Warp], np.ndarray | None]
    _seen: dict[Any, np.ndarray | None] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.number}: watch register {self.text}{self.who}"

    def reset(self) -> None:
        self._seen.clear()

    def change(self, cluster: Cluster, warp: Warp | None) -> str | None:
        if warp is None or not self.who.has(warp):
            return None
        change = _changed(self._seen, (warp.cta.ctaid, warp.index), self.read(warp))
        if change is None:
            return None
        lanes = np.flatnonzero(change[0] != change[1])
        before, new = (register_text(values[lanes[0]]) for values in change)
        return f"{self.text} of {warp} changes in {lanes.size} lanes; lane {int(lanes[0])}: {before} to {new}"


def _changed(
    seen: dict[Any, np.ndarray | None], key: object, new: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Replace a known value. Return it with the new one if both exist and differ."""
    before, seen[key] = seen.get(key), new
    return None if before is None or new is None or np.array_equal(before, new) else (before, new)


def phases(name: str, ctas: Sequence[Cta]) -> np.ndarray | None:
    """Return the phases of the mbarriers of a name; None if there are none yet."""
    found = [b.phase for b in mbarriers(ctas) if is_named(b, name)]
    return np.array(found) if found else None


def barrier_line(barrier: MBarrier) -> str:
    """Describe an mbarrier in one line: phase, arrivals, bytes, waiting warps."""
    name = barrier_name(barrier)
    seen = f"{barrier.expected - barrier.pending} of {barrier.expected} arrivals"
    waiting = ", ".join(f"{warp.index}" for warp in barrier.waiters)
    last = f", last arrival: {barrier.last}" if barrier.last is not None else ""
    waits = f", waiting: warp {waiting}" if waiting else ""
    return (
        f"{name} (#{barrier.order} at {barrier.cta.window + barrier.offset:#x}): phase {barrier.phase}, {seen}, "
        f"{barrier.tx} bytes outstanding{waits}{last}"
    )
