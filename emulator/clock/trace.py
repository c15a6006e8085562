"""What happened when on the SMs that were executed, in the Trace Event format that Perfetto and Chrome open."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..ptx.syntax import Instr

TENSOR_CORE: Final = 100
COPIES: Final = 101
"""Numbers of tracks that are no warp's."""
THREADS: Final = 1000
"""A CTA's tracks are numbered from so many times its process on: viewers know one thread of each number."""

AT_ONCE: Final = 64
"""So many events of a track at most are under way at a time."""

Track = tuple[int, int]
"""The CTA's rank in its cluster, and the number."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something on a track of a CTA, from one cycle to another."""

    cta: int
    track: int
    name: str
    start: float
    end: float
    line: int


@dataclass(frozen=True, slots=True)
class Flow:
    """What happened on a track at `start` ended a wait on another, whose warp went on at `end`."""

    what: str
    by: Track
    start: float
    on: Track
    end: float


class Recorder:
    """The events of what is executed. Warps are those of the machine in modelled time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.flows: list[Flow] = []
        self._running: dict[int, list[Any]] = {}

    def clear(self) -> None:
        """Forget what happened: it is executed once more, at another rate."""
        self.events, self.flows, self._running = [], [], {}

    def ran(self, warp: Any, start: float, end: float) -> None:
        """A warp executed ordinary instructions; what follows without a pause is one event."""
        open_ = self._running.get(id(warp))
        if open_ is not None and open_[2] == start:
            open_[2] = end
            return
        self._close(open_)
        self._running[id(warp)] = [warp, start, end, warp.stretch.line]

    def waited(self, warp: Any, instr: Instr, what: str, start: float, end: float) -> None:
        """A warp waited for something."""
        self._add(warp, warp.index, f"waits for {what}", start, end, instr.line)

    def ended(self, warp: Any, what: str, start: float, end: float, by: Track | None) -> None:
        """A wait ended, and by what if that is known."""
        if by is not None:
            self.flows.append(Flow(what, by, start, (warp.cta.rank, warp.index), end))

    def tensor(self, warp: Any, instr: Instr, start: float, end: float) -> None:
        """The tensor core was taken by one instruction."""
        self._add(warp, TENSOR_CORE, instr.opcode, start, end, instr.line)

    def copied(self, warp: Any, instr: Instr, start: float, end: float, size: int) -> None:
        """A copy was under way."""
        self._add(warp, COPIES, f"{size} bytes", start, end, instr.line)

    def _laned(self) -> Iterator[tuple[Event, int]]:
        """The events by their start, and the number of the track: copies that overlap have tracks of their own."""
        lanes: dict[int, list[float]] = {}
        for event in sorted(self.events, key=lambda event: event.start):
            track = event.track
            if track == COPIES:
                ends = lanes.setdefault(event.cta, [])
                lane = next((i for i, end in enumerate(ends) if end <= event.start), len(ends))
                ends[lane : lane + 1] = [event.end]
                track += lane
            yield event, track

    def _arrows(self, laned: Sequence[tuple[Event, int]]) -> Iterator[dict[str, Any]]:
        """The flows, each from what ended last of what its track had begun, to what follows the wait that it ended.

        They begin in the last cycle: at the next one a viewer sees what comes after.
        """
        events: dict[Track, list[tuple[Event, int]]] = {}
        for event, track in laned:
            events.setdefault((event.cta, event.track), []).append((event, track))
        for number, flow in enumerate(self.flows):
            known = events.get(flow.by, [])
            past = bisect_right(known, flow.start, key=lambda one: one[0].start)
            if not past:
                continue
            begun = known[max(0, past - AT_ONCE) : past]
            begin, _, track = max((min(event.end, flow.start), -event.end, track) for event, track in begun)
            for phase, (cta, tid), cycle in (("s", (flow.by[0], track), begin - 1), ("f", flow.on, flow.end)):
                yield {
                    "name": flow.what,
                    "cat": "barrier",
                    "ph": phase,
                    "bp": "e",
                    "id": number,
                    "ts": round(cycle),
                    **_of(cta, tid),
                }

    def _add(self, warp: Any, track: int, name: str, start: float, end: float, line: int) -> None:
        self.events.append(Event(warp.cta.rank, track, name, start, end, line))

    def _close(self, running: list[Any] | None) -> None:
        if running is None:
            return
        warp, start, end, line = running
        if round(start) < round(end):
            self._add(warp, warp.index, "runs", start, end, line)

    def json(self) -> str:
        """The trace. A microsecond is a cycle: viewers have whole nanoseconds, in which events that touch overlap."""
        for running in self._running.values():
            self._close(running)
        self._running.clear()
        named: dict[Track, str] = {}
        shown: list[dict[str, Any]] = []
        laned = list(self._laned())
        for event, track in laned:
            named.setdefault((event.cta, track), _track(event.track))
            shown.append(
                {
                    "name": event.name,
                    "ph": "X",
                    "ts": round(event.start),
                    "dur": round(event.end) - round(event.start),
                    "args": {"PTX line": event.line},
                    **_of(event.cta, track),
                }
            )
        shown += self._arrows(laned)
        for (cta, track), name in named.items():
            shown.append({"name": "thread_name", "ph": "M", "args": {"name": name}, **_of(cta, track)})
        for cta in {cta for cta, _ in named}:
            shown.append({"name": "process_name", "ph": "M", "args": {"name": f"CTA {cta} of its cluster"}, **_of(cta)})
        return json.dumps({"traceEvents": shown})


def _of(cta: int, track: int = 0) -> dict[str, int]:
    """A CTA as a process, what it has as threads; no process is 0, and no two threads are the same."""
    return {"pid": cta + 1, "tid": THREADS * (cta + 1) + track}


def _track(number: int) -> str:
    return {TENSOR_CORE: "tensor core", COPIES: "copies"}.get(number, f"warp {number}")
