"""cuda.bindings.runtime on the emulated device. It shares the driver's state."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import cuda.bindings.driver as driver

from . import graphs
from .captures import new_handle
from .errors import CudaError
from .properties import BUS, DeviceProperties
from .state import DriverState


def functions(runtime: ModuleType, state: DriverState) -> dict[str, Callable[..., Any]]:
    """Return the replacement functions by name. Each returns the tuple (cudaError_t, values...) of the original."""
    success = runtime.cudaError_t.cudaSuccess

    def ok(*values: Any) -> tuple[Any, ...]:
        return (success, *values)

    calls = {
        **_device_calls(runtime, state.properties, ok),
        **_stream_calls(runtime, state, ok),
        **_memory_calls(runtime, state, ok),
        **graphs.runtime_functions(runtime, state.captures),
    }
    return {name: _checked(call, runtime) for name, call in calls.items()}


def _checked(call: Callable[..., Any], runtime: ModuleType) -> Callable[..., Any]:
    """Return a function that returns the code of a CudaError as the binding's error tuple."""

    def checked(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except CudaError as error:
            return (runtime.cudaError_t(error.code),)

    return checked


_Ok = Callable[..., tuple[Any, ...]]


def _device_calls(t: ModuleType, p: DeviceProperties, ok: _Ok) -> dict[str, Callable[..., Any]]:
    def error_name(error: Any) -> Any:
        return ok(error.name.encode())

    def set_device(ordinal: int) -> Any:
        return ok() if int(ordinal) == 0 else (t.cudaError_t.cudaErrorInvalidDevice,)

    def attribute(which: Any, device: int) -> Any:
        # The runtime numbers its attributes as the driver does.
        return ok(p.attribute(driver.CUdevice_attribute(int(which)).name))

    def done(*_args: Any) -> Any:
        return ok()

    return {
        "cudaGetDeviceCount": lambda: ok(1),
        "cudaGetDevice": lambda: ok(0),
        "cudaSetDevice": set_device,
        "cudaDeviceGetAttribute": attribute,
        "cudaDeviceGetPCIBusId": lambda length, device: ok(BUS.encode()),
        "cudaGetDeviceProperties": lambda device: ok(_properties(t, p)),
        "cudaDriverGetVersion": lambda: ok(p.driver_version),
        "cudaRuntimeGetVersion": lambda: ok(p.driver_version),
        "cudaGetErrorName": error_name,
        "cudaGetErrorString": error_name,
        "cudaGetLastError": done,
        "cudaPeekAtLastError": done,
        "cudaDeviceReset": done,
        "cudaLibraryUnload": done,
    }


def _stream_calls(t: ModuleType, state: DriverState, ok: _Ok) -> dict[str, Callable[..., Any]]:
    def record(event: Any, stream: Any, *_flags: Any) -> Any:
        state.record(event, stream)
        return ok()

    def wait(stream: Any, event: Any, *_flags: Any) -> Any:
        state.captures.wait(stream, event)
        return ok()

    def synchronize(stream: Any = None) -> Any:
        state.captures.synchronize(stream)
        return ok()

    def synchronize_event(event: Any) -> Any:
        state.captures.synchronize_event(event)
        return ok()

    def elapsed(start: Any, end: Any) -> Any:
        ms = state.elapsed_ms(start, end)
        return (t.cudaError_t.cudaErrorInvalidResourceHandle, None) if ms is None else ok(ms)

    streams = ("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority")
    events = ("cudaEventCreate", "cudaEventCreateWithFlags")
    return {
        **{name: lambda *_: ok(t.cudaStream_t(new_handle())) for name in streams},
        **{name: lambda *_: ok(t.cudaEvent_t(new_handle())) for name in events},
        **{name: lambda *_: ok() for name in ("cudaStreamDestroy", "cudaEventDestroy")},
        **dict.fromkeys(("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaStreamQuery"), synchronize),
        **dict.fromkeys(("cudaEventSynchronize", "cudaEventQuery"), synchronize_event),
        "cudaStreamWaitEvent": wait,
        "cudaEventRecord": record,
        "cudaEventRecordWithFlags": record,
        "cudaEventElapsedTime": elapsed,
    }


def _memory_calls(t: ModuleType, state: DriverState, ok: _Ok) -> dict[str, Callable[..., Any]]:
    held = state.allocations

    def allocate(size: int, *_rest: Any) -> Any:
        return ok(held.allocate(int(size)))

    def free(pointer: Any, *_stream: Any) -> Any:
        return ok() if held.free(pointer) else (t.cudaError_t.cudaErrorInvalidValue,)

    def copy(destination: Any, source: Any, size: int, kind: Any, stream: Any = 0) -> Any:
        state.copy(destination, source, size, int(kind), stream)
        return ok()

    def clear(destination: Any, value: int, count: int, stream: Any = 0) -> Any:
        state.fill(destination, value, count, 1, stream)
        return ok()

    total = state.properties.total_memory
    return {
        **dict.fromkeys(
            ("cudaMalloc", "cudaMallocAsync", "cudaMallocHost", "cudaHostAlloc", "cudaMallocManaged"),
            allocate,
        ),
        **dict.fromkeys(("cudaFree", "cudaFreeAsync", "cudaFreeHost"), free),
        **dict.fromkeys(("cudaMemcpy", "cudaMemcpyAsync"), copy),
        **dict.fromkeys(("cudaMemset", "cudaMemsetAsync"), clear),
        "cudaMemGetInfo": lambda: ok(total, total),
    }


def _properties(t: ModuleType, p: DeviceProperties) -> Any:
    answer = t.cudaDeviceProp()
    answer.name = p.name.encode().ljust(256, b"\0")
    answer.major, answer.minor = p.major, p.minor
    answer.totalGlobalMem = p.total_memory
    answer.multiProcessorCount = p.multi_processor_count
    answer.warpSize = p.warp_size
    answer.maxThreadsPerBlock = p.max_threads_per_block
    answer.maxThreadsPerMultiProcessor = p.max_threads_per_multi_processor
    answer.regsPerBlock = answer.regsPerMultiprocessor = p.regs_per_multiprocessor
    answer.sharedMemPerBlock = p.shared_memory_per_block
    answer.sharedMemPerBlockOptin = p.shared_memory_per_block_optin
    answer.sharedMemPerMultiprocessor = p.shared_memory_per_multiprocessor
    answer.l2CacheSize = p.L2_cache_size
    answer.clusterLaunch = answer.cooperativeLaunch = 1
    return answer
