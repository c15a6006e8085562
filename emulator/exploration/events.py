"""The synchronisation events of a launch, and which pairs of them have an order that matters."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Process = tuple[Hashable, ...]
"""A warp, by cluster, CTA and index, or asynchronous work, by the warp that issued it and its number."""


@dataclass(frozen=True, slots=True)
class Touch:
    """An effect of a step on a barrier or a location.

    arrive: counts in `phase` of a barrier, and perhaps `ends` it. wait: has seen the phases before `phase` complete.
    read, write, add: of a location by strong accesses; two of `add` commute.
    """

    kind: Literal["arrive", "wait", "read", "write", "add"]
    place: Hashable
    phase: int = 0
    ends: bool = False


@dataclass
class Step:
    """A piece of one process, up to its next synchronisation instruction.

    options: the processes that could have gone on, the step's own at `chosen`, at `default` without a search.
    """

    options: Sequence[Process]
    default: int
    chosen: int
    touches: tuple[Touch, ...] = ()
    clock: dict[Process, int] = field(default_factory=dict)
    """Number of steps of each process that happen before this one, itself included."""

    @property
    def process(self) -> Process:
        """The process that took the step."""
        return self.options[self.chosen]


def ordered(first: Touch, later: Touch) -> bool:
    """Return whether the order of two touches is part of what happened."""
    if first.place != later.place:
        return False
    if {first.kind, later.kind} == {"arrive", "wait"}:
        return first.phase < later.phase if first.kind == "arrive" else later.ends
    return swappable(first, later)


def swappable(first: Touch, later: Touch) -> bool:
    """Return whether the other order of two touches, if nothing else orders them, is possible and has another effect.

    A wait could not have come before the arrival that ended its phase. Before the arrival that ended the phase before
    that one, its parity would have been right too.
    """
    if first.place != later.place:
        return False
    kinds = (first.kind, later.kind)
    if kinds == ("arrive", "arrive"):
        return first.phase != later.phase
    if kinds == ("wait", "arrive"):
        return later.ends
    if kinds == ("arrive", "wait"):
        return first.ends and first.phase == later.phase - 2
    return "write" in kinds or set(kinds) == {"read", "add"}


def independent(a: Sequence[Touch], b: Sequence[Touch]) -> bool:
    """Return whether two steps have the same effect in either order."""
    return not any(ordered(x, y) or ordered(y, x) for x in a for y in b)


def set_clocks(steps: Sequence[Step], issued: dict[Process, int]) -> list[tuple[int, int]]:
    """Set the clock of each step. Return the pairs (earlier, later) of steps whose order could have been the other.

    issued: the step that issued each asynchronous work. The end of a phase comes after all its arrivals, whichever of
    them was the last.
    """
    pairs, of_place, count = list[tuple[int, int]](), dict[Hashable, list[int]](), dict[Process, int]()
    last = dict[Process, dict[Process, int]]()
    for at, step in enumerate(steps):
        start = issued.get(step.process)
        clock = dict(last.get(step.process) or ({} if start is None else steps[start].clock))
        others = sorted({i for touch in step.touches for i in of_place.get(touch.place, ())}, reverse=True)
        ending = dict(clock)
        for other in others:
            if any(_one_phase(x, y) for x in steps[other].touches for y in step.touches):
                _join(ending, steps[other].clock)
        for other in others:
            earlier = steps[other]
            both = [(x, y) for x in earlier.touches for y in step.touches if ordered(x, y)]
            if not both or earlier.process == step.process:
                continue
            time = earlier.clock[earlier.process]
            if any(
                swappable(x, y) and (ending if x.kind == "wait" else clock).get(earlier.process, 0) < time
                for x, y in both
            ):
                pairs.append((other, at))
            _join(clock, earlier.clock)
        count[step.process] = clock[step.process] = count.get(step.process, 0) + 1
        step.clock = last[step.process] = clock
        for place in {touch.place for touch in step.touches}:
            of_place.setdefault(place, []).append(at)
    return pairs


def _one_phase(x: Touch, y: Touch) -> bool:
    return x.kind == y.kind == "arrive" and x.place == y.place and x.phase == y.phase


def _join(clock: dict[Process, int], other: dict[Process, int]) -> None:
    for process, time in other.items():
        if clock.get(process, 0) < time:
            clock[process] = time


def happens_before(earlier: Step, later: Step) -> bool:
    """Return whether one step happens before another, by their clocks."""
    return later.clock.get(earlier.process, 0) >= earlier.clock[earlier.process]
