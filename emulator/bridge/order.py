"""The order of operations: which of the launches, copies and operators of all streams happen before which.

A set of operations is an integer with a bit for each. A stream, an event and the host have the set of operations that
happen before whatever they do next. Operations that the host has waited for are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from ..errors import HostFault, StreamRace
from ..machine.memory.global_shadow import GlobalShadow
from ..machine.order.access import GPU
from ..machine.order.flags import in_global_memory
from ..machine.order.operations import NOTHING, By, Operation, Runs, Surroundings
from ..tensors import place, tensors_of_callers
from .callers import caller
from .driver import current

if TYPE_CHECKING:
    from ..machine.launch.launch import Launch

KEPT: Final = 1024
"""The number of operations without synchronisation that are remembered."""
SMALL: Final = 1 << 20
"""torch's allocator serves requests up to this size, and larger ones, from memory of their own."""
LEGACY: Final = (0, 1)
"""The handles of the default stream, which waits for all blocking streams, as they do for it."""
PER_THREAD: Final = 2
"""The handle of the default stream of the thread that calls: a blocking stream."""
GRAPH: Final = -1
"""Stands for the stream of nodes that a program adds to a graph one by one."""


class Piece(Protocol):
    """An allocation. stream: that for which torch allocated it. recorded: the names of other streams that use it."""

    address: int
    size: int
    stream: int | None
    recorded: set[str]

    @property
    def end(self) -> int: ...


@dataclass
class Tail:
    """The sets of operations that come before a stream's next one.

    submitted: all its operations, and those before them. done: those that are complete when its last operation is.
    begun: those before a launch that may start when the last one allows it. early: the next launch may start so.
    """

    blocking: bool = True
    submitted: int = 0
    done: int = 0
    begun: int = 0
    early: bool = False

    def follow(self, operations: int) -> None:
        """Let all these operations come before the next one."""
        self.submitted |= operations
        self.done |= self.submitted
        self.begun = self.submitted

    def follow_trigger(self, other: Tail) -> None:
        """Let the next launch start when the last one of another tail allows it."""
        self.begun |= other.begun
        self.done |= other.done
        self.submitted |= other.submitted
        self.early = True

    def shift(self, first: int) -> None:
        """Forget the first operations, and count from 0 again."""
        self.submitted, self.done, self.begun = (s >> first for s in (self.submitted, self.done, self.begun))


class Order:
    """The operations of a session that the host has not waited for."""

    def __init__(self) -> None:
        self._live: dict[int, Operation] = {}
        self._freed: list[tuple[int, int]] = []
        self._forgotten = 0
        """Bytes that were freed since: start, end. And how many of them are no longer listed."""
        self._reusable: list[_Reusable] = []
        self._next = 0
        self._alive = self._host = self._on_host = self._denied = 0
        self._tails: dict[int, Tail] = {0: Tail()}
        self._events: dict[int, Tail] = {}
        self._node: Tail | None = None
        self._threads: dict[int, int] = {}
        self.per_thread = False
        """True while the program calls a function that it compiled with --default-stream per-thread."""
        self.pinned: Callable[[], Iterable[Piece]] = lambda: ()
        """Returns the allocations of pinned and managed memory."""
        self.concurrent = False
        """True once there are streams that do not wait for each other."""

    def create(self, stream: int, blocking: bool) -> None:
        """Record that a stream exists."""
        self._tails[stream] = Tail(blocking)
        self.concurrent |= not blocking or sum(tail.blocking for tail in self._tails.values()) > 2

    def own(self, stream: Any) -> int:
        """Return the handle of a stream, where the default stream may be that of the calling thread."""
        if stream == PER_THREAD or (stream == 0 and self.per_thread):
            return PER_THREAD + (self._threads.setdefault(get_ident(), len(self._threads)) << 32)
        return int(stream)

    def _tail(self, stream: int) -> Tail:
        if self._node is not None:
            return self._node
        stream = 0 if stream in LEGACY else stream
        if stream not in self._tails:
            self.create(stream, blocking=True)
        return self._tails[stream]

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
        """Return the operations that are not in `before`, the set of those that happen before; newest first."""
        found = list(self._of(self._alive & ~before))
        for operation in found:
            operation.forget(self._freed[operation.frees - self._forgotten :])
            operation.frees = self._forgotten + len(self._freed)
        return found

    def _of(self, operations: int) -> Iterator[Operation]:
        """Yield the operations of a set, the newest first."""
        while operations:
            number = operations.bit_length() - 1
            operations ^= 1 << number
            yield self._live[number]

    def _add(
        self, name: str, stream: int, find: Callable[[], Runs], before: int, triggers: bool = False, at: object = None
    ) -> int:
        """Remember an operation. Return it as a set."""
        number, self._next = self._next, self._next + 1
        self._alive |= 1 << number
        frees = self._forgotten + len(self._freed)
        made = Operation(number, name, stream_name(stream), at or caller(), find, triggers, frees, before)
        self._live[number] = made
        return 1 << number

    def _forget_oldest(self) -> None:
        """Forget operations beyond `KEPT`: they come before everything. Count from 0 again after many."""
        while len(self._live) > KEPT:
            number = next(iter(self._live))
            del self._live[number]
            self._host |= 1 << number
            self._alive &= ~(1 << number)
        if self._next > 8 * KEPT and self._node is None:
            first = next(iter(self._live), self._next)
            self._next -= first
            sets = self._alive, self._host, self._on_host, self._denied
            self._alive, self._host, self._on_host, self._denied = (s >> first for s in sets)
            self._events = {event: tail for event, tail in self._events.items() if tail.submitted >> first}
            for tail in (*self._tails.values(), *self._events.values()):
                tail.shift(first)
            for operation in self._live.values():
                operation.number -= first
                operation.before >>= first
            self._live = {operation.number: operation for operation in self._live.values()}
            kept = min((operation.frees for operation in self._live.values()), default=self._forgotten)
            self._freed, self._forgotten = self._freed[kept - self._forgotten :], kept

    # Operations

    def submit(
        self, stream: int, name: str, find: Callable[[], Runs], at: object = None, on_host: bool = False
    ) -> None:
        """Check an operation that is not a launch against the concurrent ones, and record it.

        find: returns its footprint. at: where the program submitted it, if not here. on_host: in pinned memory too.
        """
        self._forget_oldest()
        stream = self.own(stream)
        before = self._before(stream)
        unordered = self._unordered(before) if self.concurrent or self._on_host else []
        self._check(name, stream_name(stream), find() if unordered else NOTHING, unordered)
        made = self._add(name, stream, find, before, at=at)
        self._on_host |= made * on_host
        tail = self._tail(stream)
        tail.follow(before | made)
        tail.done, tail.early = tail.submitted, False

    def write_word(
        self, stream: int, name: str, span: tuple[int, int], at: object, on_host: bool, fenced: bool
    ) -> None:
        """Record that a stream writes a word (address, size) that others wait for. fenced: with all work before it."""
        self.submit(stream, name, partial(_word, name, span, at, True), at, on_host)
        made = self._live[self._next - 1]
        made.released, made.before = ((in_global_memory(span[0]),), made.before) if fenced else ((), 0)

    def wait_for_word(self, stream: int, name: str, span: tuple[int, int], at: object, on_host: bool) -> None:
        """Let a stream wait for the word (address, size) that is there: for the operation that wrote it last."""
        own, address = self.own(stream), span[0]
        for other in self._unordered(self._before(own)):
            runs = other.footprint.within(address, address + span[1])
            wrote = [runs.by[which] for which in runs.which[runs.writes].tolist()]
            if wrote:
                # What a copy or a fill wrote is complete. A kernel must write in system scope, as for the host.
                if all(access.system or access.what == other.name for access in wrote):
                    self._tail(own).follow(1 << other.number | other.before)
                break
        self.submit(stream, name, partial(_word, name, span, at, False), at, on_host)

    def access(self, name: str, footprint: Runs) -> None:
        """Check an access of the host. What a kernel writes in system scope counts as its flag."""
        unordered = self._unordered(self._host)
        for other in unordered:
            found = footprint.conflict(other.footprint)
            if found is not None and other.footprint.system(found[1]):
                self._wait_for(sum(1 << o.number for o in unordered if o.stream == other.stream))
                return
        self._check(name, "the host", footprint, unordered)

    def footprints_on_host(self) -> list[Runs]:
        """Return the footprints of the operations in pinned memory that the host has not waited for."""
        return [one.footprint for one in self._unordered(self._host) if self._on_host >> one.number & 1]

    @property
    def on_host(self) -> bool:
        """True while there are operations in pinned memory that the host has not waited for."""
        return bool(self._on_host & ~self._host)

    def _check(self, name: str, by: str, footprint: Runs, unordered: Iterable[Operation]) -> None:
        for other in unordered if footprint.starts.size else ():
            found = footprint.conflict(other.footprint)
            if found is not None and not (footprint.system(found[0]) and other.footprint.system(found[1])):
                report(self._race(name, by, footprint, other, *found))

    def _race(self, name: str, by: str, footprint: Runs, other: Operation, mine: int, theirs: int) -> StreamRace:
        first = max(footprint.starts[mine], other.footprint.starts[theirs])
        last = min(footprint.ends[mine], other.footprint.ends[theirs]) - 1
        access = other.footprint.by[other.footprint.which[theirs]]
        did, verb = ("wrote", "written") if other.footprint.writes[theirs] else ("reads", "read")
        what = f"{name} on {by}"
        return StreamRace(
            f"{what} {'writes' if footprint.writes[mine] else 'reads'} memory {first:#x} to {last:#x}{_named(first)}, "
            f"not ordered after {access.of(other)}, which {did} it",
            (
                ("at", str(caller())),
                (f"{verb} at", str(access.place())),
                *((("submitted at", str(other.at)),) if access.place() is not other.at else ()),
                ("missing", missing_between(other.stream, by)),
            ),
        )

    # Launches

    def begin(self, stream: int, programmatic: bool, triggers: bool) -> Surroundings | None:
        """Return the operations that are concurrent with a launch that starts now; None if all happen before.

        programmatic: it may start when the launch before allows it. triggers: it may allow that to the launch after it.
        """
        stream = self.own(stream)
        if not (self.concurrent or programmatic or triggers or self._tail(stream).early):
            return None
        self._forget_oldest()
        begun = waited = self._before(stream)
        tail = self._tail(stream)
        programmatic |= tail.early
        if programmatic:
            outside = begun & ~tail.submitted | self._host
            begun, waited = tail.begun | outside, tail.done | outside
        operations, missing = [], []
        for operation in self._unordered(self._host):
            if not begun >> operation.number & 1:
                needed = missing_between(operation.stream, stream_name(stream))
                if (tail.submitted | tail.done) >> operation.number & 1:
                    waits = waited >> operation.number & 1
                    needed = "griddepcontrol.wait" if waits else "griddepcontrol.wait in the launch between them"
                operations.append(operation)
                missing.append(needed)
            elif programmatic and operation.triggers:
                operations.append(operation)
                missing.append("griddepcontrol.wait")
        return Surroundings(operations, missing, begun, waited)

    def end(self, launch: Launch, stream: int, event: int = 0, at_start: bool = False) -> None:
        """Remember a launch that has run.

        event: recorded when its dependents may start. at_start: they may start when all its CTAs have.
        """
        stream = self.own(stream)
        shadow, tail, before = GlobalShadow.of(launch), self._tail(stream), self._before(stream)
        around = launch.surroundings or Surroundings(begun=before, waited=before)
        made = shadow.written() if launch.surroundings is None else shadow.accessed()
        if launch.surroundings is None and self._is_on_host(made):
            made = shadow.accessed()
        # Without a trigger the dependents start when all CTAs have ended. But only a wait makes the writes visible.
        late = np.array([by.late for by in made.by], bool)[made.which] if around.triggered else made.writes
        completes = around.waited if around.has_waited else around.begun
        name = f"kernel {launch.kernel.name}"
        seen = before | completes
        first = self._add(name, stream, lambda: made.part(~late), seen, bool(around.triggered)) if not late.all() else 0
        rest = self._add(name, stream, lambda: made.part(late), seen) if late.any() else 0
        self._on_host |= (first | rest) * self._is_on_host(made)
        for operation in self._of(first | rest) if launch.surroundings else ():
            operation.released = shadow.flags.of_the_device()
        tail.submitted = before | completes | first | rest
        tail.done = completes | first | rest
        tail.begun = first | (around.waited if around.triggers_waited else around.begun)
        tail.early = False
        if not around.triggered:
            tail.begun = first | completes
        if event:
            begun = around.begun if at_start else tail.begun
            self._events[event] = Tail(submitted=begun, done=tail.done, begun=begun, early=True)

    def _is_on_host(self, accessed: Runs) -> bool:
        return any(accessed.within(piece.address, piece.end).starts.size for piece in self.pinned())

    # Synchronisation

    def record(self, event: Any, stream: Any) -> None:
        """Record an event on a stream."""
        self._events[int(event)] = Tail(submitted=self._before(self.own(stream)))

    def wait(self, stream: Any, event: Any) -> None:
        """Let a stream wait for an event."""
        tail, seen = self._tail(self.own(stream)), self._events.get(int(event))
        if seen is not None:
            tail.follow(seen.submitted)
            if seen.early:
                tail.done |= seen.done
                tail.early = True

    def join(self, stream: int, others: Iterable[int]) -> None:
        """Let a stream wait for others."""
        for other in others:
            self._tail(stream).follow(self._before(other))

    def synchronize(self, stream: Any = None) -> None:
        """Let the host wait for a stream, None for all."""
        self._wait_for((1 << self._next) - 1 if stream is None else self._of_stream(stream))

    def _of_stream(self, stream: Any) -> int:
        stream = self.own(stream)
        return self._before(0) if stream in LEGACY else self._tail(stream).submitted

    def synchronize_event(self, event: Any) -> None:
        """Let the host wait for an event."""
        if (seen := self._events.get(int(event))) is not None:
            self._wait_for(seen.submitted)

    def query(self, stream: Any) -> bool:
        """Return whether a stream has done its work: at first no, as a GPU may answer, and then yes."""
        return self._answer(self._of_stream(stream))

    def query_event(self, event: Any) -> bool:
        """Return whether an event has happened, as `query` does."""
        seen = self._events.get(int(event))
        return seen is None or self._answer(seen.submitted)

    def _answer(self, operations: int) -> bool:
        pending = operations & self._alive & ~self._host
        if pending & ~self._denied:
            self._denied |= pending
            return False
        self._wait_for(operations)
        return True

    def _wait_for(self, operations: int) -> None:
        self._host |= operations
        for ended in list(self._of(self._alive & operations)):
            del self._live[ended.number]
        self._alive &= ~operations
        if not self._live:  # numbers start again
            self._next = self._host = self._on_host = self._denied = 0
            self._forgotten += len(self._freed)
            self._freed.clear()
            self._reusable.clear()
            self._events.clear()
            for tail in self._tails.values():
                tail.submitted = tail.done = tail.begun = 0

    # Memory

    def freed(self, piece: Piece) -> None:
        """Record that memory was freed. Memory of torch is then used for new tensors of the same stream."""
        if not self._live:
            return
        if self.concurrent and piece.stream is not None:
            span = Runs.of([(np.array([piece.address]), np.array([piece.end]), True, 0)], ())
            unordered = self._unordered(self._before(piece.stream))
            users = [one for one in unordered if span.conflict(one.footprint) and one.stream not in piece.recorded]
            if users:
                self._reusable.append(_Reusable(piece, users))
        self._freed.append((piece.address, piece.end))

    def allocated(self, size: int, stream: int) -> None:
        """Check new memory of torch: it may have been freed while another stream still uses it."""
        before = self._before(stream)
        for one in list(self._reusable):
            known = (user for user in one.users if self._live.get(user.number) is user)
            one.users = [user for user in known if not before >> user.number & 1]
            small = max(size, one.piece.size) <= SMALL
            if not one.users:
                self._reusable.remove(one)
            elif one.piece.stream == stream and size <= one.piece.size and (small or size > SMALL):
                self._reusable.remove(one)
                report(_race_of_reuse(one, size, stream))

    # Graphs

    def wait_for_replay(self, stream: int, graph: int) -> None:
        """Let a stream wait for the last replay of a graph: an executable graph never runs beside itself."""
        if graph in self._events:
            self._tail(self.own(stream)).follow(self._events[graph].submitted)

    def tail_of_graph(self, stream: int) -> Tail:
        """Return what the first operations of a graph come after that is launched on a stream."""
        found = Tail()
        found.follow(self._before(self.own(stream)))
        return found

    def end_graph(self, stream: int, operations: int) -> None:
        """Let a stream's next operation come after all of a graph."""
        self._tail(self.own(stream)).follow(operations)

    @contextmanager
    def node(self, tail: Tail) -> Iterator[None]:
        """Submit operations inside as a node of a graph, whatever their stream."""
        outer, self._node = self._node, tail
        try:
            yield
        finally:
            self._node = outer


Extent = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""A tensor's address, sizes, strides in elements, and bytes of an element."""


def extent_of(tensor: Any) -> Extent:
    """Return where a torch tensor lies."""
    return tensor.data_ptr(), tuple(tensor.size()), tuple(tensor.stride()), tensor.element_size()


def runs_of(name: str, at: object, extents: Iterable[tuple[Extent, bool]]) -> Runs:
    """Return the footprint of an operator on tensors, each with whether it is written."""
    runs = []
    for (address, sizes, strides, width), write in extents:
        if 0 in sizes:
            continue
        starts = np.array([address])
        for stride, size in sorted((stride * width, size) for stride, size in zip(strides, sizes, strict=True)):
            if size == 1 or not stride:
                continue
            if starts.size == 1 and stride <= width:  # the dimensions so far have no gaps
                width += stride * (size - 1)
            else:
                starts = (starts[:, None] + stride * np.arange(size)).reshape(-1)
        runs.append((starts, starts + width, write, 0))
    return Runs.of(runs, [By(name, lambda: at)])


def _word(name: str, span: tuple[int, int], at: object, write: bool) -> Runs:
    """Return the footprint of a stream's access of one word, which is in system scope."""
    start = np.array([span[0]])
    return Runs.of([(start, start + span[1], write, 0)], [By(name, lambda: at, GPU, system=True)])


@dataclass
class _Reusable:
    """Freed memory of torch, and the operations of other streams that may still use it."""

    piece: Piece
    users: list[Operation]


def _race_of_reuse(found: _Reusable, size: int, stream: int) -> StreamRace:
    piece, user = found.piece, found.users[0]
    return StreamRace(
        f"a new tensor of {size} bytes on {stream_name(stream)} may get the memory of a tensor of {piece.size} bytes "
        f"that was freed while {user} may still use it",
        (
            ("at", str(caller())),
            ("freed", str(piece)),
            ("used at", str(user.at)),
            ("missing", f"record_stream of the freed tensor for {user.stream}, or a wait for it before the new tensor"),
        ),
    )


def missing_between(other: str, me: str) -> str:
    """Describe what would order an operation of one stream before another."""
    if other == me == stream_name(GRAPH):
        return "an edge from the one node to the other (cudaGraphAddDependencies)"
    synchronized = f"a synchronisation with {other} (cudaStreamSynchronize, torch's synchronize)"
    if me == "the host":
        return f"{synchronized} before the host's access"
    return f"an event of {other} that {me} waits for (cudaStreamWaitEvent, torch's wait_stream), or {synchronized}"


def stream_name(stream: int) -> str:
    """Return a stream's name for reports."""
    if stream == GRAPH:
        return "a node of a graph"
    if stream & 0xFFFF_FFFF == PER_THREAD:
        return "the per-thread default stream"
    return "the default stream" if stream in LEGACY else f"stream {stream:#x}"


Rows = tuple[int, int, int, int]
"""The address of the first row, the bytes from one row to the next, the bytes of a row, the number of rows."""


def footprint_of(name: str, at: object, reads: Iterable[Rows] = (), writes: Iterable[Rows] = ()) -> Runs:
    """Return the footprint of an operation. at: where the program submitted it."""
    runs = []
    for rows, write in ((reads, False), (writes, True)):
        for address, pitch, width, height in rows:
            starts = address + pitch * np.arange(height)
            runs.append((starts, starts + width, write, 0))
    return Runs.of(runs, [By(name, lambda: at)])


def _named(address: int) -> str:
    """Return the variable of the program that holds a tensor there, for a report."""
    found = place(tensors_of_callers(), address)
    return "" if found is None else f" of {found[0].name}"


def report(race: HostFault, stop: bool = True) -> None:
    """Raise an error, or record it if the device continues after findings. stop: False to raise it at the end."""
    device: Any = current()
    if device is not None:
        device.fail(race)
        if getattr(device, "diagnostics", "stop") == "report":
            return
    if stop:
        raise race
    if device is not None:
        device.error = device.error or race
