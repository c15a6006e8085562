"""Stream capture: work submitted to capturing streams is stored in a graph and done when the graph is replayed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .errors import (
    CAPTURED_EVENT,
    INVALID_VALUE,
    INVALIDATED,
    MERGE,
    UNJOINED,
    UNMATCHED,
    UNSUPPORTED,
    CudaError,
    not_emulated,
)
from .order import Order, Tail

Work = Callable[[], None]
_HANDLES: Final = itertools.count(0x1000)


def new_handle() -> int:
    """Return a new handle for a driver object. It is not an address and never 0."""
    return next(_HANDLES)


@dataclass(frozen=True)
class Node:
    """Captured work. after: the nodes (bits) that happen before it. previous: the only such node, if there is one."""

    work: Work
    after: int
    previous: int | None


@dataclass(eq=False)
class Graph:
    """Captured work in order of submission, and the driver's handle of the graph."""

    nodes: list[Node] = field(default_factory=list)
    handle: int = field(default_factory=new_handle)
    pool: list[Any] = field(default_factory=list)
    """Memory that was allocated during the capture. The graph keeps it."""

    def replay(self, order: Order, stream: int) -> None:
        """Do all the work once, on a stream."""
        first, ends = order.tail_of_graph(stream), list[Tail]()
        for node in self.nodes:
            tail, left = replace(first), node.after
            while left:
                latest = left.bit_length() - 1
                tail.follow(ends[latest].submitted)
                left &= ~(self.nodes[latest].after | 1 << latest)
            if node.previous is not None:
                tail.done, tail.begun = ends[node.previous].done, ends[node.previous].begun
            ends.append(tail)
            try:
                with order.node(tail):
                    node.work()
            finally:
                order.end_graph(stream, tail.submitted)


@dataclass(eq=False)
class _Capture:
    """An open capture.

    seen: for each stream, the nodes (bits) that happen before its next operation. last: its last node, None if it
    has waited since.
    """

    origin: int
    graph: Graph = field(default_factory=Graph)
    seen: dict[int, int] = field(default_factory=dict)
    last: dict[int, int | None] = field(default_factory=dict)
    valid: bool = True

    def submit(self, stream: int, work: Work) -> None:
        if not self.valid:
            raise CudaError(INVALIDATED)
        number, nodes = len(self.graph.nodes), self.graph.nodes
        nodes.append(Node(work, self.seen[stream], self.last.get(stream)))
        self.seen[stream] |= 1 << number
        self.last[stream] = number

    def wait(self, stream: int, nodes: int) -> None:
        """Let a stream's next operation come after these nodes."""
        self.seen[stream] = self.seen.get(stream, 0) | nodes
        self.last[stream] = None

    def joined(self) -> bool:
        """Return True if the origin stream is ordered after all work of the other streams."""
        return not any(seen & ~self.seen[self.origin] for seen in self.seen.values())


class Captures:
    """The streams that are capturing, and all captured graphs, each by handle.

    A stream that waits for an event of a capture joins the capture until the origin stream ends it. A call that CUDA
    forbids during a capture raises CudaError and invalidates the capture.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Capture] = {}
        self._recorded: dict[int, tuple[_Capture, int]] = {}
        self._past_events: set[int] = set()
        self.graphs: dict[int, Graph] = {}
        self.order = Order()

    def capturing(self, stream: Any) -> bool:
        """Return True if this stream is capturing."""
        return int(stream) in self._open

    def status(self, stream: Any) -> int:
        """Return the cudaStreamCaptureStatus: 0 none, 1 active, 2 invalidated."""
        capture = self._open.get(int(stream))
        return 0 if capture is None else 1 if capture.valid else 2

    def graph_of(self, stream: Any) -> Graph | None:
        """Return the graph that this stream captures into, None if it is not capturing."""
        capture = self._open.get(int(stream))
        return capture.graph if capture else None

    def submit(self, stream: Any, work: Work) -> None:
        """Do `work` now, or store it in the graph if the stream is capturing."""
        capture = self._open.get(int(stream))
        if capture is None:
            work()
        else:
            capture.submit(int(stream), work)

    def synchronize(self, stream: Any = None) -> None:
        """Check that synchronising with or querying a stream (None: the device) is allowed.

        Raises CudaError if the stream (or any stream) is capturing, and invalidates the capture.
        """
        asked = [capture for handle, capture in self._open.items() if stream is None or handle == int(stream)]
        if asked:
            raise self._invalidated(UNSUPPORTED, *asked)
        self.order.synchronize(stream)

    def synchronize_event(self, event: Any) -> None:
        """Check that synchronising with or querying an event is allowed.

        Raises CudaError if the event was last recorded in a capture, whether that capture is open or has ended.
        """
        self._reject_past_event(event)
        if int(event) in self._recorded:
            raise self._invalidated(CAPTURED_EVENT, self._recorded[int(event)][0])
        self.order.synchronize_event(event)

    def begin(self, stream: Any) -> None:
        """Start capturing. Raises NotEmulated for the default stream and for a stream that is already capturing."""
        if int(stream) == 0 or self.capturing(stream):
            raise not_emulated(f"capturing stream {int(stream):#x}", "it is the default stream or is already capturing")
        self._open[int(stream)] = capture = _Capture(int(stream), seen={int(stream): 0})
        self.graphs[capture.graph.handle] = capture.graph

    def record(self, event: Any, stream: Any) -> None:
        """Record an event: it represents the stream's work so far and belongs to the stream's capture."""
        capture = self._open.get(int(stream))
        self._past_events.discard(int(event))
        if capture is not None:
            self._recorded[int(event)] = capture, capture.seen[int(stream)]
        else:
            self._recorded.pop(int(event), None)
            self.order.record(event, stream)

    def wait(self, stream: Any, event: Any) -> None:
        """Make a stream wait for an event. If the event belongs to a capture, the stream joins it."""
        self._reject_past_event(event)
        if int(event) not in self._recorded:
            self.order.wait(stream, event)
            return
        capture, seen = self._recorded[int(event)]
        if not capture.valid:
            raise CudaError(INVALIDATED)
        own = self._open.setdefault(int(stream), capture)
        if own is not capture:
            raise self._invalidated(MERGE, own, capture)
        capture.wait(int(stream), seen)

    def end(self, stream: Any) -> Graph | None:
        """Stop capturing and return the graph, None if the stream was not capturing."""
        capture = self._open.get(int(stream))
        if capture is None:
            return None
        if capture.origin != int(stream):
            raise self._invalidated(UNMATCHED, capture)
        self._open = {other: into for other, into in self._open.items() if into is not capture}
        self._past_events.update(event for event, into in self._recorded.items() if into[0] is capture)
        self._recorded = {event: into for event, into in self._recorded.items() if into[0] is not capture}
        if not capture.valid:
            raise CudaError(INVALIDATED)
        if not capture.joined():
            raise CudaError(UNJOINED)
        return capture.graph

    def _reject_past_event(self, event: Any) -> None:
        """Raise CudaError for an event last recorded in a capture that has ended (as an H200 does)."""
        if int(event) in self._past_events:
            raise CudaError(INVALID_VALUE)

    def _invalidated(self, error: int, *captures: _Capture) -> CudaError:
        for capture in captures:
            capture.valid = False
        return CudaError(error)
