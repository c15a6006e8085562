"""Stream capture: work submitted to capturing streams is stored in a graph and done when the graph is replayed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..bridge.order import GRAPH, Order, Tail
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

Work = Callable[[], None]
_HANDLES: Final = itertools.count(0x1000)


def new_handle() -> int:
    """Return a new handle for a driver object. It is not an address and never 0."""
    return next(_HANDLES)


@dataclass
class Node:
    """Work of a graph.

    after: the nodes (bits) that happen before it. early: those among them of which only what comes before their
    griddepcontrol.launch_dependents happens before it.
    """

    work: Work
    after: int
    early: int = 0


@dataclass(eq=False)
class Graph:
    """Captured work in order of submission, or nodes in order of their creation, and the driver's handle."""

    nodes: list[Node] = field(default_factory=list)
    handle: int = field(default_factory=new_handle)
    pool: list[Any] = field(default_factory=list)
    """Memory that was allocated during the capture. The graph keeps it."""

    def copy(self) -> Graph:
        """Return the graph as it is now, with a handle of its own: an executable graph."""
        return Graph([replace(node) for node in self.nodes], pool=self.pool)

    def replay(self, order: Order, stream: int) -> None:
        """Do all the work once, on a stream, after the graph's last replay on any stream."""
        order.wait_for_replay(stream, self.handle)
        first, ends = order.tail_of_graph(stream), dict[int, Tail]()
        for number in self._in_order():
            node, tail = self.nodes[number], replace(first)
            left = node.after & ~node.early
            while left:
                latest = left.bit_length() - 1
                tail.follow(ends[latest].submitted)
                left &= ~(self.nodes[latest].after | 1 << latest)
            for each in range(node.early.bit_length()):
                if node.early >> each & 1:
                    tail.follow_trigger(ends[each])
            ends[number] = tail
            try:
                with order.node(tail):
                    node.work()
            finally:
                order.end_graph(stream, tail.submitted)
        order.record(self.handle, stream)

    def _in_order(self) -> list[int]:
        """Return the nodes, each behind those that happen before it. An edge may lead to a node that is older."""
        found, left, done = list[int](), list(range(len(self.nodes))), 0
        while left:
            number = next(each for each in left if not self.nodes[each].after & ~done)
            left.remove(number)
            found.append(number)
            done |= 1 << number
        return found


@dataclass(eq=False)
class _Capture:
    """An open capture.

    seen: for each stream, the nodes (bits) that happen before its next operation. last: its last node, 0 if it has
    waited since. early: the nodes (bits) among `seen` whose trigger suffices for its next operation.
    """

    origin: int
    graph: Graph = field(default_factory=Graph)
    seen: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    early: dict[int, int] = field(default_factory=dict)
    valid: bool = True

    def submit(self, stream: int, work: Work, programmatic: bool) -> None:
        if not self.valid:
            raise CudaError(INVALIDATED)
        made, nodes = 1 << len(self.graph.nodes), self.graph.nodes
        previous = self.last.get(stream, 0) if programmatic else 0
        nodes.append(Node(work, previous or self.seen[stream], self.early.pop(stream, 0) | previous))
        self.seen[stream] |= made
        self.last[stream] = made

    def wait(self, stream: int, nodes: int, early: int) -> None:
        """Let a stream's next operation come after these nodes. early: those whose trigger suffices."""
        self.seen[stream] = self.seen.get(stream, 0) | (early or nodes)
        self.last[stream] = 0
        self.early[stream] = self.early.get(stream, 0) | early

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
        self._recorded: dict[int, tuple[_Capture, int, int]] = {}
        self._past_events: set[int] = set()
        self.graphs: dict[int, Graph] = {}
        self.nodes: dict[int, tuple[Graph, int]] = {}
        """The nodes that the program made itself, by handle: the graph and the number in it."""
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

    def submit(self, stream: Any, work: Work, programmatic: bool = False) -> None:
        """Do `work` now, or store it in the graph if the stream is capturing."""
        capture = self._open.get(int(stream))
        if capture is None:
            work()
        else:
            capture.submit(int(stream), work, programmatic)

    def add_node(self, graph: Graph, after: int, early: int, submit: Callable[[int], object]) -> Node:
        """Let `submit` submit one operation to the stream that it gets, and make that a node of a graph."""
        self._open[GRAPH] = _Capture(GRAPH, graph, {GRAPH: after}, early={GRAPH: early})
        try:
            submit(GRAPH)
        finally:
            del self._open[GRAPH]
        return graph.nodes[-1]

    def graph(self, handle: int) -> Graph:
        """Return a graph or an executable graph. Raises CudaError if there is none."""
        if handle not in self.graphs:
            raise CudaError(INVALID_VALUE)
        return self.graphs[handle]

    def copied(self, handle: int) -> int:
        """Return the handle of a copy of a graph."""
        made = self.graph(handle).copy()
        self.graphs[made.handle] = made
        return made.handle

    def synchronize(self, stream: Any = None) -> None:
        """Let the host wait for a stream (None: the device).

        Raises CudaError if the stream (or any stream) is capturing, and invalidates the capture.
        """
        self._check(stream)
        self.order.synchronize(stream)

    def query(self, stream: Any) -> bool:
        """Return whether a stream has done its work. Raises CudaError as `synchronize` does."""
        self._check(stream)
        return self.order.query(stream)

    def _check(self, stream: Any) -> None:
        asked = [capture for handle, capture in self._open.items() if stream is None or handle == int(stream)]
        if asked:
            raise self._invalidated(UNSUPPORTED, *asked)

    def synchronize_event(self, event: Any) -> None:
        """Let the host wait for an event.

        Raises CudaError if the event was last recorded in a capture, whether that capture is open or has ended.
        """
        self._check_event(event)
        self.order.synchronize_event(event)

    def query_event(self, event: Any) -> bool:
        """Return whether an event has happened. Raises CudaError as `synchronize_event` does."""
        self._check_event(event)
        return self.order.query_event(event)

    def _check_event(self, event: Any) -> None:
        self._reject_past_event(event)
        if int(event) in self._recorded:
            raise self._invalidated(CAPTURED_EVENT, self._recorded[int(event)][0])

    def begin(self, stream: Any) -> None:
        """Start capturing. Raises NotEmulated for the default stream and for a stream that is already capturing."""
        if int(stream) == 0 or self.capturing(stream):
            raise not_emulated(f"capturing stream {int(stream):#x}", "it is the default stream or is already capturing")
        self._open[int(stream)] = capture = _Capture(int(stream), seen={int(stream): 0})
        self.graphs[capture.graph.handle] = capture.graph

    def record(self, event: Any, stream: Any, early: bool = False, external: bool = False) -> None:
        """Record an event: it represents the stream's work so far and belongs to the stream's capture.

        early: of the last launch, only what comes before its dependents may start.
        external: a graph records the event whenever it is replayed.
        """
        capture = self._open.get(int(stream))
        if capture is not None and external:
            capture.submit(int(stream), lambda: self.order.record(event, stream), programmatic=False)
            return
        self._past_events.discard(int(event))
        if capture is not None:
            last = capture.last[int(stream)] if early else 0
            self._recorded[int(event)] = capture, capture.seen[int(stream)], last
        else:
            self._recorded.pop(int(event), None)
            self.order.record(event, stream)

    def wait(self, stream: Any, event: Any, external: bool = False) -> None:
        """Make a stream wait for an event. If the event belongs to a capture, the stream joins it.

        external: a graph waits for the event whenever it is replayed.
        """
        if external and self.capturing(stream):
            self.submit(stream, lambda: self.order.wait(stream, event))
            return
        self._reject_past_event(event)
        if int(event) not in self._recorded:
            self.order.wait(stream, event)
            return
        capture, seen, early = self._recorded[int(event)]
        if not capture.valid:
            raise CudaError(INVALIDATED)
        own = self._open.setdefault(int(stream), capture)
        if own is not capture:
            raise self._invalidated(MERGE, own, capture)
        capture.wait(int(stream), seen, early)

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
