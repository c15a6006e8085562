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

AT_ONCE: Final = 64
"""So many events of a track at most are under way at a time."""
STEPS: Final = 1 << 14
"""Of a microsecond."""

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

    def _arrows(self, laned: Sequence[tuple[Event, int]], ghz: float) -> Iterator[dict[str, Any]]:
        """The flows, each from what ended last of what its track had begun, to the wait that it ended."""
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
            for phase, (cta, tid), cycle in (("s", (flow.by[0], track), begin), ("f", flow.on, flow.end)):
                yield {
                    "name": flow.what,
                    "cat": "barrier",
                    "ph": phase,
                    "bp": "e",
                    "id": number,
                    "ts": _us(cycle, ghz),
                    "pid": cta,
                    "tid": tid,
                }

    def _add(self, warp: Any, track: int, name: str, start: float, end: float, line: int) -> None:
        self.events.append(Event(warp.cta.rank, track, name, start, end, line))

    def _close(self, running: list[Any] | None) -> None:
        if running is not None:
            warp, start, end, line = running
            self._add(warp, warp.index, "runs", start, end, line)

    def json(self, ghz: float) -> str:
        """The trace, times in microseconds at a rate of cycles."""
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
                    "ts": (start := _us(event.start, ghz)),
                    "dur": _us(event.end, ghz) - start,
                    "pid": event.cta,
                    "tid": track,
                    "args": {"PTX line": event.line, "cycle": round(event.start)},
                }
            )
        shown += self._arrows(laned, ghz)
        for (cta, track), name in named.items():
            shown.append({"name": "thread_name", "ph": "M", "pid": cta, "tid": track, "args": {"name": name}})
        for cta in {cta for cta, _ in named}:
            shown.append({"name": "process_name", "ph": "M", "pid": cta, "args": {"name": f"CTA {cta} of its cluster"}})
        return json.dumps({"traceEvents": shown, "displayTimeUnit": "ns"})


def _us(cycle: float, ghz: float) -> float:
    """Microseconds, in steps that sums of floating-point numbers keep: events that touch must not overlap."""
    return round(cycle / ghz / 1e3 * STEPS) / STEPS


def _track(number: int) -> str:
    return {TENSOR_CORE: "tensor core", COPIES: "copies"}.get(number, f"warp {number}")
