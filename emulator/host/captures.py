"""What streams capture: work that is kept, to be done when it is replayed, on one stream or on several that joined."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from .memory import INVALID_VALUE
from .refusal import CudaError, not_emulated

Work = Callable[[], None]
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, CAPTURED_EVENT = 900, 901, 902, 903, 904, 907
_HANDLES: Final = itertools.count(0x1000)


def new_handle() -> int:
    """A number that stands for a driver object; it is no address and is never 0."""
    return next(_HANDLES)


@dataclass(eq=False)
class Graph:
    """Captured work in the order of its submission, and the number by which the driver knows it."""

    nodes: list[Work] = field(default_factory=list)
    handle: int = field(default_factory=new_handle)

    def replay(self) -> None:
        """Do all of it once."""
        for work in self.nodes:
            work()


@dataclass(eq=False)
class _Capture:
    """A capture that goes on. seen: by stream, how much of each stream's work comes before what it does next."""

    origin: int
    graph: Graph = field(default_factory=Graph)
    seen: dict[int, Counter[int]] = field(default_factory=dict)
    valid: bool = True

    def submit(self, stream: int, work: Work) -> None:
        if not self.valid:
            raise CudaError(INVALIDATED)
        self.graph.nodes.append(work)
        self.seen[stream][stream] += 1

    def joined(self) -> bool:
        """Whether the stream that began comes after all work of the others."""
        return all(self.seen[self.origin][stream] >= seen[stream] for stream, seen in self.seen.items())


class Captures:
    """The streams that are capturing now, by handle, and every graph that is or was captured, by handle.

    A stream that waits for an event of a capture takes part in it, until the stream that began ends it. What CUDA
    forbids meanwhile raises CudaError, and the capture is of no use from then on.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Capture] = {}
        self._recorded: dict[int, tuple[_Capture, Counter[int]]] = {}
        self._past: set[int] = set()
        self.graphs: dict[int, Graph] = {}

    def capturing(self, stream: Any) -> bool:
        """Whether this stream is capturing."""
        return int(stream) in self._open

    def status(self, stream: Any) -> int:
        """cudaStreamCaptureStatus: 0 for none, 1 for a capture, 2 for one that was invalidated."""
        capture = self._open.get(int(stream))
        return 0 if capture is None else 1 if capture.valid else 2

    def graph_of(self, stream: Any) -> Graph | None:
        """What this stream captures into, None if it does not."""
        capture = self._open.get(int(stream))
        return capture.graph if capture else None

    def submit(self, stream: Any, work: Work) -> None:
        """Do `work` now, or keep it if the stream is capturing."""
        capture = self._open.get(int(stream))
        if capture is None:
            work()
        else:
            capture.submit(int(stream), work)

    def synchronize(self, stream: Any = None) -> None:
        """To wait for a stream, or to ask whether it is done, is forbidden while it captures; None: for the device."""
        asked = [capture for handle, capture in self._open.items() if stream is None or handle == int(stream)]
        if asked:
            raise self._invalidated(UNSUPPORTED, *asked)

    def synchronize_event(self, event: Any) -> None:
        """The same for an event, which is forbidden if a capture recorded it last: for good, once that has ended."""
        self._refuse_past(event)
        if int(event) in self._recorded:
            raise self._invalidated(CAPTURED_EVENT, self._recorded[int(event)][0])

    def begin(self, stream: Any) -> None:
        """Start to capture. Raises NotEmulated for the default stream and for a stream that is capturing."""
        if int(stream) == 0 or self.capturing(stream):
            raise not_emulated(f"capturing stream {int(stream):#x}", "it is the default stream or captures already")
        self._open[int(stream)] = capture = _Capture(int(stream), seen={int(stream): Counter()})
        self.graphs[capture.graph.handle] = capture.graph

    def record(self, event: Any, stream: Any) -> None:
        """An event stands for what its stream has done, and for its capture."""
        capture = self._open.get(int(stream))
        self._past.discard(int(event))
        if capture is not None:
            self._recorded[int(event)] = capture, Counter(capture.seen[int(stream)])
        else:
            self._recorded.pop(int(event), None)

    def wait(self, stream: Any, event: Any) -> None:
        """A stream that waits for an event goes on within the event's capture."""
        self._refuse_past(event)
        if int(event) not in self._recorded:
            return
        capture, seen = self._recorded[int(event)]
        if not capture.valid:
            raise CudaError(INVALIDATED)
        own = self._open.setdefault(int(stream), capture)
        if own is not capture:
            raise self._invalidated(MERGE, own, capture)
        capture.seen[int(stream)] = capture.seen.get(int(stream), Counter()) | seen

    def end(self, stream: Any) -> Graph | None:
        """Stop capturing and answer the graph, None if the stream was not capturing."""
        capture = self._open.get(int(stream))
        if capture is None:
            return None
        if capture.origin != int(stream):
            raise self._invalidated(UNMATCHED, capture)
        self._open = {other: into for other, into in self._open.items() if into is not capture}
        self._past.update(event for event, into in self._recorded.items() if into[0] is capture)
        self._recorded = {event: into for event, into in self._recorded.items() if into[0] is not capture}
        if not capture.valid:
            raise CudaError(INVALIDATED)
        if not capture.joined():
            raise CudaError(UNJOINED)
        return capture.graph

    def _refuse_past(self, event: Any) -> None:
        """What an event of a capture stood for is gone with it, until it is recorded again: seen on an H200."""
        if int(event) in self._past:
            raise CudaError(INVALID_VALUE)

    def _invalidated(self, error: int, *captures: _Capture) -> CudaError:
        for capture in captures:
            capture.valid = False
        return CudaError(error)
