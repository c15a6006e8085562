"""What streams capture: work that is kept, to be done when it is replayed, on one stream or on several that joined."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from .refusal import not_emulated

Work = Callable[[], None]
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


class Captures:
    """The streams that are capturing now, by handle, and every graph that is or was captured, by handle.

    A stream that waits for an event of a capture takes part in it, until the stream that began ends it.
    """

    def __init__(self) -> None:
        self._open: dict[int, Graph] = {}
        self._recorded: dict[int, Graph] = {}
        self.graphs: dict[int, Graph] = {}

    def capturing(self, stream: Any) -> bool:
        """Whether this stream is capturing."""
        return int(stream) in self._open

    def graph_of(self, stream: Any) -> Graph | None:
        """What this stream captures into, None if it does not."""
        return self._open.get(int(stream))

    def submit(self, stream: Any, work: Work) -> None:
        """Do `work` now, or keep it if the stream is capturing."""
        graph = self._open.get(int(stream))
        if graph is None:
            work()
        else:
            graph.nodes.append(work)

    def begin(self, stream: Any) -> None:
        """Start to capture. Raises NotEmulated for the default stream and for a stream that is capturing."""
        if int(stream) == 0 or self.capturing(stream):
            raise not_emulated(f"capturing stream {int(stream):#x}", "it is the default stream or captures already")
        self._open[int(stream)] = graph = Graph()
        self.graphs[graph.handle] = graph

    def record(self, event: Any, stream: Any) -> None:
        """An event stands for what its stream has done, and for its capture."""
        graph = self._open.get(int(stream))
        if graph is not None:
            self._recorded[int(event)] = graph
        else:
            self._recorded.pop(int(event), None)

    def wait(self, stream: Any, event: Any) -> None:
        """A stream that waits for an event goes on within the event's capture."""
        graph = self._recorded.get(int(event))
        if graph is not None:
            self._open[int(stream)] = graph

    def end(self, stream: Any) -> Graph | None:
        """Stop capturing and answer the graph, None if the stream was not capturing."""
        graph = self._open.get(int(stream))
        self._open = {other: into for other, into in self._open.items() if into is not graph}
        self._recorded = {event: into for event, into in self._recorded.items() if into is not graph}
        return graph
