"""torch's CUDA graphs, built on stream capture."""

from __future__ import annotations

from typing import Any

from .captures import Graph
from .streams import Current, Stream


class CUDAGraph:
    """torch.cuda.CUDAGraph."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph = Graph()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        Current.captures.begin(Current.stream.cuda_stream)

    def capture_end(self) -> None:
        self._graph = Current.captures.end(Current.stream.cuda_stream) or Graph()

    def replay(self) -> None:
        stream = Current.stream.cuda_stream
        Current.captures.submit(stream, lambda: self._graph.replay(Current.captures.order, stream))

    def reset(self) -> None:
        self._graph = Graph()

    def pool(self) -> tuple[int, int]:
        return (0, self._graph.handle)


class graph:
    """torch.cuda.graph(cuda_graph, pool, stream): capture on `stream`, or on a new stream."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        self._graph, self._stream = cuda_graph, stream or Stream()

    def __enter__(self) -> None:
        Current.captures.synchronize()  # as torch does
        self._stream.__enter__()
        self._graph.capture_begin()

    def __exit__(self, *error: object) -> None:
        try:
            self._graph.capture_end()
        finally:
            self._stream.__exit__(*error)
