"""cuda.bindings.driver on the emulated device: the calls that scripts and CuTeDSL make."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import memory
from .graphs import Captures
from .properties import DeviceProperties
from .streams import new_handle


class DriverState:
    """What the driver and the runtime remember between calls."""

    def __init__(self, properties: DeviceProperties) -> None:
        self.properties = properties
        self.allocations = memory.Allocations()
        self.context = new_handle()
        self.captures = Captures()
        self.event_times: dict[int, float] = {}

    def elapsed_ms(self, start: Any, end: Any) -> float | None:
        """Milliseconds between two recorded events, None if one was not recorded."""
        first, last = self.event_times.get(int(start)), self.event_times.get(int(end))
        return None if first is None or last is None else max((last - first) * 1e3, 1e-6)

    def record(self, event: Any) -> None:
        """An event has been reached: everything before it is done."""
        self.event_times[int(event)] = time.perf_counter()


def functions(driver: ModuleType, state: DriverState) -> dict[str, Callable[..., Any]]:
    """The stand-ins by name. Each answers the tuple (CUresult, values...) of the call that it stands for."""
    answers = _Driver(driver, state)
    names = [*_device_calls(answers), *_stream_calls(answers), *_memory_calls(answers), *_code_calls(answers)]
    return dict(names)


class _Driver:
    def __init__(self, driver: ModuleType, state: DriverState) -> None:
        self.types, self.state, self.properties = driver, state, state.properties

    def ok(self, *values: Any) -> tuple[Any, ...]:
        return (self.types.CUresult.CUDA_SUCCESS, *values)

    def fail(self, name: str, *values: Any) -> tuple[Any, ...]:
        return (getattr(self.types.CUresult, name), *values)

    def done(self, *_args: Any) -> tuple[Any, ...]:
        return self.ok()


_Calls = list[tuple[str, Callable[..., Any]]]


def _device_calls(d: _Driver) -> _Calls:
    t, p = d.types, d.properties
    context = t.CUcontext(d.state.context)

    def device(ordinal: int) -> Any:
        return d.ok(t.CUdevice(0)) if int(ordinal) == 0 else d.fail("CUDA_ERROR_INVALID_DEVICE", None)

    def name(length: int, dev: Any) -> Any:
        return d.ok(p.name.encode().ljust(length, b"\0")[:length])

    def error_name(error: Any) -> Any:
        return d.ok(error.name.encode())

    calls: _Calls = [
        ("cuInit", d.done),
        ("cuDriverGetVersion", lambda: d.ok(p.driver_version)),
        ("cuGetErrorName", error_name),
        ("cuGetErrorString", error_name),
        ("cuDeviceGetCount", lambda: d.ok(1)),
        ("cuDeviceGet", device),
        ("cuDeviceGetName", name),
        ("cuDeviceTotalMem", lambda dev: d.ok(p.total_memory)),
        ("cuDeviceComputeCapability", lambda dev: d.ok(p.major, p.minor)),
        ("cuDeviceGetAttribute", lambda attribute, dev: d.ok(p.attribute(attribute.name))),
        ("cuCtxGetDevice", lambda: d.ok(t.CUdevice(0))),
        ("cuCtxGetApiVersion", lambda ctx: d.ok(p.driver_version)),
    ]
    calls += [
        (n, lambda *_: d.ok(context))
        for n in ("cuCtxGetCurrent", "cuCtxCreate", "cuCtxPopCurrent", "cuDevicePrimaryCtxRetain")
    ]
    calls += [
        (n, d.done)
        for n in (
            "cuCtxSetCurrent",
            "cuCtxPushCurrent",
            "cuCtxDestroy",
            "cuCtxSynchronize",
            "cuDevicePrimaryCtxRelease",
        )
    ]
    return calls


def _stream_calls(d: _Driver) -> _Calls:
    t, state = d.types, d.state

    def record(event: Any, *_stream: Any) -> Any:
        state.record(event)
        return d.ok()

    def elapsed(start: Any, end: Any) -> Any:
        ms = state.elapsed_ms(start, end)
        return d.fail("CUDA_ERROR_INVALID_HANDLE", None) if ms is None else d.ok(ms)

    return [
        ("cuStreamCreate", lambda flags: d.ok(t.CUstream(new_handle()))),
        ("cuStreamCreateWithPriority", lambda flags, priority: d.ok(t.CUstream(new_handle()))),
        *((n, d.done) for n in ("cuStreamDestroy", "cuStreamSynchronize", "cuStreamQuery", "cuStreamWaitEvent")),
        ("cuEventCreate", lambda flags: d.ok(t.CUevent(new_handle()))),
        ("cuEventRecord", record),
        ("cuEventElapsedTime", elapsed),
        *((n, d.done) for n in ("cuEventDestroy", "cuEventSynchronize", "cuEventQuery")),
    ]


def _memory_calls(d: _Driver) -> _Calls:
    t, held = d.types, d.state.allocations

    def allocate(size: int, *_stream: Any) -> Any:
        return d.ok(t.CUdeviceptr(held.allocate(int(size))))

    def free(pointer: Any, *_stream: Any) -> Any:
        return d.ok() if held.free(pointer) else d.fail("CUDA_ERROR_INVALID_VALUE")

    def copy(destination: Any, source: Any, size: int, stream: Any = 0) -> Any:
        d.state.captures.submit(stream, lambda: memory.copy(destination, source, size))
        return d.ok()

    def fill(width: int) -> Callable[..., Any]:
        write = memory.fill(width)

        def call(destination: Any, value: int, count: int, stream: Any = 0) -> Any:
            d.state.captures.submit(stream, lambda: write(destination, value, count))
            return d.ok()

        return call

    total = d.properties.total_memory
    copies = [f"cuMemcpy{way}{late}" for way in ("", "HtoD", "DtoH", "DtoD") for late in ("", "Async")]
    return [
        *((n, allocate) for n in ("cuMemAlloc", "cuMemAllocAsync")),
        *((n, free) for n in ("cuMemFree", "cuMemFreeAsync", "cuMemFreeHost")),
        *((n, lambda size, *_: d.ok(held.allocate(int(size)))) for n in ("cuMemAllocHost", "cuMemHostAlloc")),
        *((n, copy) for n in copies),
        *((f"cuMemsetD{8 * w}{late}", fill(w)) for w in (1, 2, 4) for late in ("", "Async")),
        ("cuMemGetInfo", lambda: d.ok(total, total)),
    ]


def _code_calls(d: _Driver) -> _Calls:
    """Handles for code: enough to ask how many clusters fit, never to launch from them."""
    t, p = d.types, d.properties

    def clusters(function: Any, config: Any) -> Any:
        return d.ok(p.active_clusters(_cluster_size(t, config)))

    return [
        ("cuLibraryLoadData", lambda *_: d.ok(t.CUlibrary(new_handle()))),
        ("cuLibraryEnumerateKernels", lambda n, library: d.ok([t.CUkernel(new_handle()) for _ in range(n)])),
        ("cuLibraryGetKernel", lambda library, name: d.ok(t.CUkernel(new_handle()))),
        ("cuKernelGetFunction", lambda kernel: d.ok(t.CUfunction(int(kernel)))),
        *((n, d.done) for n in ("cuLibraryUnload", "cuFuncSetAttribute", "cuKernelSetAttribute")),
        ("cuOccupancyAvailableDynamicSMemPerBlock", lambda *_: d.ok(p.shared_memory_per_block_optin)),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", lambda *_: d.ok(1)),
        ("cuOccupancyMaxActiveClusters", clusters),
    ]


def _cluster_size(types: ModuleType, config: Any) -> int:
    for attribute in config.attrs[: config.numAttrs]:
        if attribute.id == types.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            dims = attribute.value.clusterDim
            return int(dims.x * dims.y * dims.z)
    return 1
