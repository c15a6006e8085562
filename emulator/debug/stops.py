"""Reasons to stop a launch: a line, an mbarrier's arrivals, a change of memory, of a register or of a phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..tensors import register_text
from .places import barrier_name, is_named, mbarriers

if TYPE_CHECKING:
    from ..machine.synchronisation.mbarrier import MBarrier
    from ..machine.topology import Cluster, Cta, Warp


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


class Stop(Protocol):
    """A reason to stop. `number`: by which the user names it."""

    number: int

    def reset(self) -> None:
        """Forget what happened, because the launch starts again."""

    def __str__(self) -> str: ...


@dataclass
class Breakpoint:
    """Stops before an instruction. after: the number of hits to pass first."""

    number: int
    text: str
    instructions: frozenset[int]
    who: Who
    after: int = 0
    hits: int = 0

    def __str__(self) -> str:
        return f"{self.number}: {self.text}{self.who}, hit {self.hits} times"

    def reset(self) -> None:
        self.hits = 0

    def stops(self, warp: Warp, at: int) -> bool:
        """Return whether to stop before the instruction `at` of a warp."""
        if at not in self.instructions or not self.who.has(warp):
            return False
        self.hits += 1
        return self.hits > self.after


@dataclass
class ArrivalStop:
    """Stops when an mbarrier has seen its n-th arrival, counted over all phases."""

    number: int
    name: str
    arrival: int
    who: Who
    _done: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.number}: arrival {self.arrival} at mbarrier {self.name}{self.who}"

    def reset(self) -> None:
        self._done.clear()

    def change(self, cluster: Cluster) -> str | None:
        """Return a sentence if the arrival has happened, once for each mbarrier of the name."""
        for barrier in mbarriers([cta for cta in cluster.ctas if self.who.has_cta(cta)]):
            new = id(barrier) not in self._done and is_named(barrier, self.name)
            if new and arrivals(barrier) >= self.arrival:
                self._done.add(id(barrier))
                return f"arrival {self.arrival} at {barrier.state()}"
        return None


def arrivals(barrier: MBarrier) -> int:
    """Return the arrivals at an mbarrier since its initialisation, if its count has not changed."""
    return barrier.phase * barrier.count + barrier.expected - barrier.pending


Reading = Callable[["Cta"], "np.ndarray | None"]
"""A function that reads the watched value of a CTA, None while it does not exist."""


@dataclass
class Watch:
    """Stops when a value changes. read: of each CTA; describe: of a change (before, after)."""

    number: int
    text: str
    read: Reading
    describe: Callable[[np.ndarray, np.ndarray], str]
    who: Who
    _seen: dict[Any, np.ndarray | None] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.number}: watch {self.text}{self.who}"

    def reset(self) -> None:
        self._seen.clear()

    def change(self, cluster: Cluster) -> str | None:
        """Return a sentence if the value has changed since the last call."""
        for cta in cluster.ctas:
            if not self.who.has_cta(cta):
                continue
            new = self.read(cta)
            before = self._seen.get(cta.ctaid)
            self._seen[cta.ctaid] = new
            if before is not None and new is not None and not np.array_equal(before, new):
                return f"{self.text} of CTA {cta.name} changes: {self.describe(before, new)}"
        return None

    def first_seen(self, cluster: Cluster) -> None:
        """Note the values before anything ran."""
        for cta in cluster.ctas:
            self._seen[cta.ctaid] = self.read(cta)


@dataclass
class RegisterWatch:
    """Stops when a register of a warp changes. read: its value, None if the warp does not keep it."""

    number: int
    name: str
    read: Callable[[Warp], np.ndarray | None]
    who: Who
    _seen: dict[Any, np.ndarray] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.number}: watch register {self.name}{self.who}"

    def reset(self) -> None:
        self._seen.clear()

    def change(self, warp: Warp) -> str | None:
        """Return a sentence if the instruction that the warp executed changed the register."""
        if not self.who.has(warp):
            return None
        key, new = (warp.cta.ctaid, warp.index), self.read(warp)
        before = self._seen.get(key)
        if new is None:
            return None
        self._seen[key] = new
        if before is None or np.array_equal(before, new):
            return None
        lanes = np.flatnonzero(before != new)
        first = int(lanes[0])
        change = f"{register_text(before[first])} to {register_text(new[first])}"
        return f"{self.name} of {warp} changes in {lanes.size} lanes; lane {first}: {change}"


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
