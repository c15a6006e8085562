"""The order of operations: which of the launches, copies and operators of all streams happen before which.

A set of operations is an integer with a bit for each. A stream, an event and the host have the set of operations that
happen before whatever they do next. What the host has waited for happens before all that follows, and is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..bridge.driver import current
from ..errors import StreamRace
from ..machine.memory.global_shadow import GlobalShadow
from ..machine.order.operations import By, Operation, Runs, Surroundings
from .callers import caller

if TYPE_CHECKING:
    from ..machine.launch.launch import Launch

KEPT: Final = 1024
"""The number of operations without synchronisation that are remembered."""
LEGACY: Final = (0, 1)
"""The handles of the default stream, which waits for all blocking streams, as they do for it."""


@dataclass
class Tail:
    """What a stream's next operation comes after.

    submitted: all its operations and what they came after. done: what has completed when its last operation has. begun:
    what comes before a launch that may start when the last one allows it. last: the last operation is a launch.
    """

    blocking: bool = True
    submitted: int = 0
    done: int = 0
    begun: int = 0

    def follow(self, operations: int) -> None:
        """Let all these operations come before the next one."""
        self.submitted |= operations
        self.done = self.begun = self.submitted


class Order:
    """The operations of a session that the host has not waited for."""

    def __init__(self) -> None:
        self._live: dict[int, Operation] = {}
        self._next = 0
        self._host = 0
        self._tails: dict[int, Tail] = {0: Tail()}
        self._events: dict[int, int] = {}
        self._node: Tail | None = None
        self.concurrent = False
        """True once there are streams that do not wait for each other."""

    def create(self, stream: int, blocking: bool) -> None:
        """Record that a stream exists."""
        self._tails[stream] = Tail(blocking)
        self.concurrent |= not blocking or sum(tail.blocking for tail in self._tails.values()) > 2

    def _tail(self, stream: int) -> Tail:
        if self._node is not None:
            return self._node
        return self._tails.setdefault(0 if stream in LEGACY else stream, Tail())

    def _before(self, stream: int) -> int:
        """Return the operations that come before a stream's next one."""
        tail = self._tail(stream)
        found = tail.submitted | self._host
        if tail.blocking and self._node is None:
            waited = self._tails.values() if stream in LEGACY else (self._tails[0],)
            for other in waited:
                found |= other.submitted if other.blocking else 0
        return found

    def _unordered(self, before: int) -> list[Operation]:
        """Return the operations that are not among those that come before, the newest first."""
        return [operation for number, operation in reversed(self._live.items()) if not before >> number & 1]

    def _add(self, name: str, stream: int, footprint: Runs, triggers: bool = False) -> int:
        """Remember an operation. Return it as a set."""
        number, self._next = self._next, self._next + 1
        self._live[number] = Operation(number, name, stream_name(stream), caller(), footprint, triggers)
        return 1 << number

    def _forget_oldest(self) -> None:
        """Forget operations beyond `KEPT`: they come before everything. Count from 0 again after many."""
        while len(self._live) > KEPT:
            number = next(iter(self._live))
            del self._live[number]
            self._host |= 1 << number
        if self._next > 8 * KEPT and self._node is None:
            first = next(iter(self._live), self._next)
            self._next, self._host = self._next - first, self._host >> first
            self._events = {event: seen >> first for event, seen in self._events.items()}
            for tail in self._tails.values():
                tail.submitted, tail.done, tail.begun = (s >> first for s in (tail.submitted, tail.done, tail.begun))
            for operation in self._live.values():
                operation.number -= first
            self._live = {operation.number: operation for operation in self._live.values()}

    # Operations

    def submit(self, stream: int, name: str, footprint: Runs) -> None:
        """Check an operation that is not a launch against those beside it, and remember it."""
        self._forget_oldest()
        before = self._before(stream)
        self._check(name, stream_name(stream), footprint, before)
        tail = self._tail(stream)
        tail.follow(before | self._add(name, stream, footprint))

    def access(self, name: str, footprint: Runs) -> None:
        """Check what the host accesses now."""
        self._check(name, "the host", footprint, self._host)

    def _check(self, name: str, by: str, footprint: Runs, before: int) -> None:
        if not footprint.starts.size:
            return
        for other in self._unordered(before):
            found = footprint.conflict(other.footprint)
            if found is not None:
                _report(self._race(name, by, footprint, other, *found))

    def _race(self, name: str, by: str, footprint: Runs, other: Operation, mine: int, theirs: int) -> StreamRace:
        first = max(footprint.starts[mine], other.footprint.starts[theirs])
        last = min(footprint.ends[mine], other.footprint.ends[theirs]) - 1
        access = other.footprint.by[other.footprint.which[theirs]]
        did, verb = ("wrote", "written") if other.footprint.writes[theirs] else ("reads", "read")
        what = f"{name} on {by}" if by != "the host" else f"the host's {name}"
        return StreamRace(
            f"{what} {'writes' if footprint.writes[mine] else 'reads'} memory {first:#x} to {last:#x}, "
            f"not ordered after {access.what} of {other}, which {did} it",
            (
                ("at", str(caller())),
                (f"{verb} at", str(access.place())),
                ("submitted at", str(other.at)),
                ("missing", missing_between(other.stream, by)),
            ),
        )

    # Launches

    def begin(self, stream: int, programmatic: bool, triggers: bool) -> Surroundings | None:
        """Return the operations beside a launch that starts now; None if all happen before.

        programmatic: it may start when the launch before allows it. triggers: it may allow that to the launch after it.
        """
        if not (self.concurrent or programmatic or triggers):
            return None
        self._forget_oldest()
        begun = waited = self._before(stream)
        tail = self._tail(stream)
        if programmatic:
            outside = begun & ~tail.submitted | self._host
            begun, waited = tail.begun | outside, tail.done | outside
        operations, missing = [], []
        for operation in reversed(self._live.values()):
            if not begun >> operation.number & 1:
                needed = missing_between(operation.stream, stream_name(stream))
                if tail.submitted >> operation.number & 1:
                    waits = waited >> operation.number & 1
                    needed = "griddepcontrol.wait" if waits else "griddepcontrol.wait in the launch between them"
                operations.append(operation)
                missing.append(needed)
            elif programmatic and operation.triggers and not self._host >> operation.number & 1:
                operations.append(operation)
                missing.append("griddepcontrol.wait")
        return Surroundings(operations, missing, begun, waited)

    def end(self, launch: Launch, stream: int) -> None:
        """Remember a launch that has run."""
        around, shadow, tail = launch.surroundings, GlobalShadow.of(launch), self._tail(stream)
        name, before = f"kernel {launch.kernel.name}", self._before(stream)
        if around is None:
            tail.follow(before | self._add(name, stream, shadow.written()))
            return
        made = shadow.accessed()
        late = np.array([by.late for by in made.by], bool)[made.which] if made.by else made.writes
        completes = around.waited if around.has_waited else around.begun
        first = self._add(name, stream, made.part(~late), bool(around.triggered))
        rest = self._add(name, stream, made.part(late)) if late.any() else 0
        tail.submitted = before | first | rest
        tail.done = completes | first | rest
        tail.begun = tail.done
        if around.triggered:
            tail.begun = first | (around.waited if around.triggers_waited else around.begun)

    # Synchronisation

    def record(self, event: Any, stream: Any) -> None:
        """Record an event on a stream."""
        self._events[int(event)] = self._before(int(stream))

    def wait(self, stream: Any, event: Any) -> None:
        """Let a stream wait for an event."""
        self._tail(int(stream)).follow(self._events.get(int(event), 0))

    def synchronize(self, stream: Any = None) -> None:
        """Let the host wait for a stream, None for all."""
        if stream is None:
            self._wait_for((1 << self._next) - 1)
        else:
            self._wait_for(self._before(0) if int(stream) in LEGACY else self._tail(int(stream)).submitted)

    def synchronize_event(self, event: Any) -> None:
        """Let the host wait for an event."""
        self._wait_for(self._events.get(int(event), 0))

    def _wait_for(self, operations: int) -> None:
        self._host |= operations
        for number in [number for number in self._live if operations >> number & 1]:
            del self._live[number]
        if not self._live:  # numbers start again
            self._next = self._host = 0
            self._events.clear()
            for tail in self._tails.values():
                tail.submitted = tail.done = tail.begun = 0

    # Graphs

    def tail_of_graph(self, stream: int) -> Tail:
        """Return what the first operations of a graph come after that is launched on a stream."""
        found = Tail()
        found.follow(self._before(stream))
        return found

    def end_graph(self, stream: int, operations: int) -> None:
        """Let a stream's next operation come after all of a graph."""
        self._tail(stream).follow(operations)

    @contextmanager
    def node(self, tail: Tail) -> Iterator[None]:
        """Submit operations inside as a node of a graph, whatever their stream."""
        outer, self._node = self._node, tail
        try:
            yield
        finally:
            self._node = outer


def missing_between(other: str, me: str) -> str:
    """Describe what would order an operation of one stream before another."""
    synchronized = f"a synchronisation with {other} (cudaStreamSynchronize, torch's synchronize)"
    if me == "the host":
        return f"{synchronized} before the host's access"
    return f"an event of {other} that {me} waits for (cudaStreamWaitEvent, torch's wait_stream), or {synchronized}"


def stream_name(stream: int) -> str:
    """Return a stream's name for reports."""
    return "the default stream" if stream in LEGACY else f"stream {stream:#x}"


Rows = tuple[int, int, int, int]
"""The address of the first row, the bytes from one row to the next, the bytes of a row, the number of rows."""


def footprint_of(name: str, reads: Iterable[Rows] = (), writes: Iterable[Rows] = ()) -> Runs:
    """Return the footprint of an operation that the program submits here."""
    at = caller()
    runs = []
    for rows, write in ((reads, False), (writes, True)):
        for address, pitch, width, height in rows:
            starts = address + pitch * np.arange(height)
            runs.append((starts, starts + width, write, 0))
    return Runs.of(runs, [By(name, lambda: at)])


def _report(race: StreamRace) -> None:
    """Raise a race, or record it if the device continues after findings."""
    device = current()
    if device is not None:
        device.fail(race)
        if getattr(device, "diagnostics", "stop") == "report":
            return
    raise race
