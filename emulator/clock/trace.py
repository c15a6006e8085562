"""What happened when on the SMs that were executed, in the Trace Event format that Perfetto and Chrome open."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..ptx.syntax import Instr

TENSOR_CORE: Final = 100
COPIES: Final = 101
"""Numbers of tracks that are no warp's."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something on a track of a CTA, from one cycle to another."""

    cta: int
    track: int
    name: str
    start: float
    end: float
    line: int


class Recorder:
    """The events of what is executed. Warps are those of the machine in modelled time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
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

    def tensor(self, warp: Any, instr: Instr, start: float, end: float) -> None:
        """The tensor core was taken by one instruction."""
        self._add(warp, TENSOR_CORE, instr.opcode, start, end, instr.line)

    def copied(self, warp: Any, instr: Instr, start: float, end: float, size: int) -> None:
        """A copy was under way."""
        self._add(warp, COPIES, f"{size} bytes", start, end, instr.line)

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
        named: dict[tuple[int, int], str] = {}
        shown: list[dict[str, Any]] = []
        for event in self.events:
            named.setdefault((event.cta, event.track), _track(event.track))
            shown.append(
                {
                    "name": event.name,
                    "ph": "X",
                    "ts": event.start / ghz / 1e3,
                    "dur": (event.end - event.start) / ghz / 1e3,
                    "pid": event.cta,
                    "tid": event.track,
                    "args": {"PTX line": event.line, "cycle": round(event.start)},
                }
            )
        for (cta, track), name in named.items():
            shown.append({"name": "thread_name", "ph": "M", "pid": cta, "tid": track, "args": {"name": name}})
        for cta in {cta for cta, _ in named}:
            shown.append({"name": "process_name", "ph": "M", "pid": cta, "args": {"name": f"CTA {cta} of its cluster"}})
        return json.dumps({"traceEvents": shown, "displayTimeUnit": "ns"})


def _track(number: int) -> str:
    return {TENSOR_CORE: "tensor core", COPIES: "copies"}.get(number, f"warp {number}")
