"""CUDA graphs on the emulated device: work submitted to a capturing stream is kept, and done when it is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .refusal import not_emulated
from .streams import Current, Stream, new_handle

Work = Callable[[], None]


@dataclass
class Graph:
    """Captured work in the order of its submission, and the number by which the driver knows it."""

    nodes: list[Work] = field(default_factory=list)
    handle: int = field(default_factory=new_handle)

    def replay(self) -> None:
        """Do all of it once."""
        for work in self.nodes:
            work()


class Captures:
    """The streams that are capturing now, by handle, and every graph that was captured, by handle."""

    def __init__(self) -> None:
        self._open: dict[int, Graph] = {}
        self.graphs: dict[int, Graph] = {}

    @property
    def active(self) -> bool:
        """Whether any stream is capturing."""
        return bool(self._open)

    def capturing(self, stream: Any) -> bool:
        """Whether this stream is capturing."""
        return int(stream) in self._open

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
        self._open[int(stream)] = Graph()

    def end(self, stream: Any) -> Graph | None:
        """Stop capturing and answer the graph, None if the stream was not capturing."""
        graph = self._open.pop(int(stream), None)
        if graph is not None:
            self.graphs[graph.handle] = graph
        return graph


class TorchGraphs:
    """The three names of torch.cuda that capture: CUDAGraph, graph and is_current_stream_capturing."""

    def __init__(self, captures: Captures) -> None:
        self.names: dict[str, Any] = {
            "CUDAGraph": _cuda_graph(captures),
            "graph": _graph(captures),
            "is_current_stream_capturing": lambda: captures.capturing(Current.stream.cuda_stream),
        }


def _cuda_graph(captures: Captures) -> type:
    class CUDAGraph:
        """torch.cuda.CUDAGraph."""

        def __init__(self, keep_graph: bool = False) -> None:
            self._graph = Graph()

        def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
            captures.begin(Current.stream.cuda_stream)

        def capture_end(self) -> None:
            self._graph = captures.end(Current.stream.cuda_stream) or Graph()

        def replay(self) -> None:
            self._graph.replay()

        def reset(self) -> None:
            self._graph = Graph()

        def pool(self) -> tuple[int, int]:
            return (0, self._graph.handle)

    return CUDAGraph


def _graph(captures: Captures) -> type:
    class graph:
        """torch.cuda.graph(cuda_graph, pool, stream): captures on `stream`, or on a stream of its own."""

        def __init__(
            self, cuda_graph: Any, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
        ) -> None:
            self._graph, self._stream = cuda_graph, stream or Stream()

        def __enter__(self) -> None:
            self._stream.__enter__()
            self._graph.capture_begin()

        def __exit__(self, *error: object) -> None:
            self._graph.capture_end()
            self._stream.__exit__(*error)

    return graph


def runtime_functions(runtime: Any, captures: Captures) -> dict[str, Callable[..., Any]]:
    """cuda.bindings.runtime's capture and graph calls."""
    error = runtime.cudaError_t
    ok = error.cudaSuccess

    def begin(stream: Any, mode: Any) -> Any:
        captures.begin(stream)
        return (ok,)

    def end(stream: Any) -> Any:
        graph = captures.end(stream)
        if graph is None:
            return error.cudaErrorStreamCaptureInvalidated, None
        return ok, runtime.cudaGraph_t(graph.handle)

    def nodes(graph: Any, limit: int = 0) -> Any:
        count = len(captures.graphs[int(graph)].nodes)
        return ok, [runtime.cudaGraphNode_t(new_handle()) for _ in range(min(limit, count))], count

    def instantiate(graph: Any, *_flags: Any) -> Any:
        return ok, runtime.cudaGraphExec_t(int(graph))

    def launch(graph: Any, stream: Any) -> Any:
        captures.submit(stream, captures.graphs[int(graph)].replay)
        return (ok,)

    def nothing(*_args: Any) -> Any:
        return (ok,)

    return {
        "cudaStreamBeginCapture": begin,
        "cudaStreamEndCapture": end,
        "cudaGraphGetNodes": nodes,
        "cudaGraphInstantiate": instantiate,
        "cudaGraphLaunch": launch,
        **dict.fromkeys(("cudaGraphDestroy", "cudaGraphExecDestroy", "cudaGraphUpload"), nothing),
    }
