"""CUDA graphs for torch and cuda.bindings.runtime, built on stream capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .captures import Captures, Graph, new_handle
from .errors import CudaError
from .streams import Current, Stream


class TorchGraphs:
    """The names of torch.cuda that concern capture: CUDAGraph, graph and is_current_stream_capturing."""

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
        """torch.cuda.graph(cuda_graph, pool, stream): capture on `stream`, or on a new stream."""

        def __init__(
            self, cuda_graph: Any, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
        ) -> None:
            self._graph, self._stream = cuda_graph, stream or Stream()

        def __enter__(self) -> None:
            self._stream.__enter__()
            self._graph.capture_begin()

        def __exit__(self, *error: object) -> None:
            try:
                self._graph.capture_end()
            finally:
                self._stream.__exit__(*error)

    return graph


def runtime_functions(runtime: Any, captures: Captures) -> dict[str, Callable[..., Any]]:
    """Return the capture and graph functions of cuda.bindings.runtime by name."""
    error = runtime.cudaError_t
    ok = error.cudaSuccess

    def begin(stream: Any, mode: Any) -> Any:
        captures.begin(stream)
        return (ok,)

    def end(stream: Any) -> Any:
        try:
            graph = captures.end(stream)
        except CudaError as failure:
            return error(failure.code), None
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
