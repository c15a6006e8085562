"""cuda.bindings.runtime on the emulated device: calls of the functions of the emulated libcudart.so.

A function of the bindings returns a tuple of the error and the values that the C function writes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from .captures import new_handle
from .libcudart import LibCudart
from .memory import address_of
from .properties import BUS

FUNCTIONS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    (): (
        *("cudaSetDevice", "cudaDeviceSynchronize", "cudaFree", "cudaFreeAsync", "cudaFreeHost", "cudaMemcpy"),
        *("cudaMemcpyAsync", "cudaMemset", "cudaMemsetAsync", "cudaStreamSynchronize", "cudaStreamQuery"),
        *("cudaStreamWaitEvent", "cudaStreamBeginCapture", "cudaEventRecord", "cudaEventRecordWithFlags"),
        *("cudaEventSynchronize", "cudaEventQuery", "cudaGraphLaunch", "cudaGetLastError", "cudaPeekAtLastError"),
    ),
    ("int",): (
        *("cudaGetDeviceCount", "cudaGetDevice", "cudaDeviceGetAttribute", "cudaDriverGetVersion"),
        *("cudaRuntimeGetVersion", "cudaMalloc", "cudaMallocAsync", "cudaMallocHost", "cudaHostAlloc"),
        "cudaMallocManaged",
    ),
    ("int", "int"): ("cudaMemGetInfo",),
    ("float",): ("cudaEventElapsedTime",),
    ("cudaStream_t",): ("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority"),
    ("cudaEvent_t",): ("cudaEventCreate", "cudaEventCreateWithFlags"),
    ("cudaGraphExec_t",): ("cudaGraphInstantiate",),
}
"""Functions by the types of the values that they write to their first parameters, which the bindings do not have."""
QUIET: Final = (
    *("cudaDeviceReset", "cudaLibraryUnload", "cudaStreamDestroy", "cudaEventDestroy", "cudaGraphDestroy"),
    *("cudaGraphExecDestroy", "cudaGraphUpload"),
)
"""Functions that succeed and do nothing."""


def functions(runtime: ModuleType, library: LibCudart) -> dict[str, Callable[..., Any]]:
    """Make the replacements of the functions of cuda.bindings.runtime, by name."""
    success = runtime.cudaError_t.cudaSuccess

    def end_capture(stream: Any) -> Any:
        graph = ctypes.c_uint64()
        error = library.calls["cudaStreamEndCapture"](int(stream), ctypes.addressof(graph))
        return runtime.cudaError_t(error or 0), None if error else runtime.cudaGraph_t(graph.value)

    def graph_nodes(graph: Any, limit: int = 0) -> Any:
        count = len(library.session.captures.graphs[int(graph)].nodes)
        return success, [runtime.cudaGraphNode_t(new_handle()) for _ in range(min(limit, count))], count

    def properties(device: int) -> Any:
        found = runtime.cudaDeviceProp()
        name = "cudaGetDeviceProperties_v2" if hasattr(found, "clockRate") else "cudaGetDeviceProperties"  # CUDA 12, 13
        library.calls[name](found.getPtr(), device)
        return success, found

    def error_name(error: Any) -> Any:
        return success, error.name.encode()

    return {
        **{name: _called(library.calls[name], kinds, runtime) for kinds, names in FUNCTIONS.items() for name in names},
        **dict.fromkeys(QUIET, lambda *_: (success,)),
        **dict.fromkeys(("cudaGetErrorName", "cudaGetErrorString"), error_name),
        "cudaStreamEndCapture": end_capture,
        "cudaGraphGetNodes": graph_nodes,
        "cudaGetDeviceProperties": properties,
        "cudaDeviceGetPCIBusId": lambda length, device: (success, BUS.encode()),
    }


def _called(function: Callable[..., Any], outputs: tuple[str, ...], runtime: ModuleType) -> Callable[..., Any]:
    """Wrap a C function. It gets addresses for its outputs, and then the arguments."""
    kinds = {"int": int, "float": float}
    makers = [kinds.get(name) or getattr(runtime, name) for name in outputs]

    def call(*arguments: Any) -> tuple[Any, ...]:
        places = [ctypes.c_float() if name == "float" else ctypes.c_uint64() for name in outputs]
        error = function(*map(ctypes.addressof, places), *map(address_of, arguments))
        if error:
            return runtime.cudaError_t(error), *[None] * len(outputs)
        return runtime.cudaError_t.cudaSuccess, *(make(at.value) for make, at in zip(makers, places, strict=True))

    return call
