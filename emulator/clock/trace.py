"""Traces of the executed SMs in the Trace Event format, which Perfetto and Chrome open."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..ptx.syntax import Instr
from .segment import LONG_SCOREBOARD

TENSOR_CORE: Final = 100
COPIES: Final = 101
"""Track numbers that do not belong to a warp."""
THREADS: Final = 1000
"""Multiplier of the process number that separates the track numbers of CTAs. Viewers require unique thread numbers."""

AT_ONCE: Final = 64
"""The maximum number of events of a track that overlap."""

Track = tuple[int, int]
"""(the CTA's rank in its cluster, the track number)"""


@dataclass(frozen=True, slots=True)
class Event:
    """An event on a track of a CTA. start, end: cycles."""

    cta: int
    track: int
    name: str
    start: float
    end: float
    line: int


@dataclass(frozen=True, slots=True)
class Flow:
    """An event on track `by` at `start` that ended a wait on track `on`, whose warp continued at `end`."""

    what: str
    by: Track
    start: float
    on: Track
    end: float


class Trace:
    """The events of executed clusters. Warps are `TimedWarp`s."""

    def __init__(self) -> None:
        self.source: Callable[[int], str] = lambda _line: ""
        """Returns the source line of a PTX line, "" if it is not known."""
        self.events: list[Event] = []
        self.flows: list[Flow] = []
        self._running: dict[int, list[Any]] = {}

    def ran(self, warp: Any, start: float, end: float, waits: bool = False) -> None:
        """Record that a warp executed ordinary instructions. Adjacent intervals become one event.

        waits: it waited for a value from L2 or HBM.
        """
        if end == start:
            return
        name = f"waits for {LONG_SCOREBOARD}" if waits else "runs"
        open_ = self._running.get(id(warp))
        if open_ is not None and open_[2] == start and open_[4] == name:
            open_[2] = end
            return
        self._close(open_)
        self._running[id(warp)] = [warp, start, end, warp.segment.line, name]

    def waited(self, warp: Any, instr: Instr, what: str, start: float, end: float) -> None:
        """Record a wait of a warp."""
        self._add(warp, warp.index, f"waits for {what}", start, end, instr.line)

    def ended(self, warp: Any, what: str, start: float, end: float, by: Track | None) -> None:
        """Record the cause of a wait's end, if it is known."""
        if by is not None:
            self.flows.append(Flow(what, by, start, (warp.cta.rank, warp.index), end))

    def tensor(self, warp: Any, instr: Instr, start: float, end: float) -> None:
        """Record that one instruction occupied the tensor core."""
        self._add(warp, TENSOR_CORE, instr.opcode, start, end, instr.line)

    def copied(self, warp: Any, instr: Instr, start: float, end: float, size: int) -> None:
        """Record a copy in flight."""
        self._add(warp, COPIES, f"{size} bytes", start, end, instr.line)

    def _with_tracks(self) -> Iterator[tuple[Event, int]]:
        """Yield the events by start time with their track number. Overlapping copies get separate tracks."""
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
        """Yield the arrows of flows.

        An arrow goes from the event that ended last on the causing track to the event that follows the wait.
        It starts one cycle before the end: in the next cycle a viewer would attach it to the following event.
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
        warp, start, end, line, name = running
        if round(start) < round(end):
            self._add(warp, warp.index, name, start, end, line)

    def json(self) -> str:
        """Return the trace as JSON. One microsecond in it is one cycle.

        Viewers round to whole nanoseconds, at which adjacent events would overlap.
        """
        for running in self._running.values():
            self._close(running)
        self._running.clear()
        named: dict[Track, str] = {}
        shown: list[dict[str, Any]] = []
        laned = list(self._with_tracks())
        for event, track in laned:
            named.setdefault((event.cta, track), _track(event.track))
            source = self.source(event.line)
            shown.append(
                {
                    "name": event.name,
                    "ph": "X",
                    "ts": round(event.start),
                    "dur": round(event.end) - round(event.start),
                    "args": {"PTX line": event.line} | ({"source": source} if source else {}),
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
    """Return process and thread number of a track. A CTA is a process; numbers start at 1 and threads are unique."""
    return {"pid": cta + 1, "tid": THREADS * (cta + 1) + track}


def _track(number: int) -> str:
    return {TENSOR_CORE: "tensor core", COPIES: "copies"}.get(number, f"warp {number}")
