"""libcuda.so.1: the driver's C functions on the emulated device, over the state that cuda.bindings' have."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

from ..bridge.driver import NotEmulated
from ..bridge.launchconfig import COOPERATIVE, LaunchConfig
from . import code
from .c_library import FLOAT, INT, LONG, UINT, CLibrary, entry, put
from .captures import CAPTURED_EVENT, INVALIDATED, MERGE, UNJOINED, UNMATCHED, UNSUPPORTED, Captures, new_handle
from .errors import TEXTS, not_emulated
from .memory import INVALID_VALUE, Kind
from .properties import BUS

NO_BINARY, INVALID_DEVICE, INVALID_HANDLE, NOT_FOUND, NOT_REGISTERED = 209, 101, 400, 500, 713
_OF_CAPTURES: Final = {
    **{UNSUPPORTED: "STREAM_CAPTURE_UNSUPPORTED", INVALIDATED: "STREAM_CAPTURE_INVALIDATED"},
    **{MERGE: "STREAM_CAPTURE_MERGE", UNMATCHED: "STREAM_CAPTURE_UNMATCHED"},
    **{UNJOINED: "STREAM_CAPTURE_UNJOINED", CAPTURED_EVENT: "CAPTURED_EVENT"},
}
_ERRORS: Final = {
    0: (b"CUDA_SUCCESS", b"no error"),
    1: (b"CUDA_ERROR_INVALID_VALUE", b"invalid argument"),
    100: (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device is detected"),
    101: (b"CUDA_ERROR_INVALID_DEVICE", b"invalid device ordinal"),
    209: (b"CUDA_ERROR_NO_BINARY_FOR_GPU", b"no kernel image is available for execution on the device"),
    400: (b"CUDA_ERROR_INVALID_HANDLE", b"invalid resource handle"),
    500: (b"CUDA_ERROR_NOT_FOUND", b"named symbol not found"),
    713: (b"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", b"pointer does not correspond to a registered memory region"),
    719: (b"CUDA_ERROR_LAUNCH_FAILED", b"unspecified launch failure"),
    720: (b"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", b"too many blocks in cooperative launch"),
    801: (b"CUDA_ERROR_NOT_SUPPORTED", b"operation not supported"),
    **{code: (f"CUDA_ERROR_{name}".encode(), TEXTS[code].encode()) for code, name in _OF_CAPTURES.items()},
}
_OF_NVRTC: Final = bytes.fromhex("da9151d33ae6cc41a5c04f26d533e328")
_UNKNOWN: Final = (b"CUDA_ERROR_UNKNOWN", b"unknown error")
_STRINGS: Final = {code: tuple(map(ctypes.c_char_p, texts)) for code, texts in (*_ERRORS.items(), (-1, _UNKNOWN))}

_LIMITS: Final = {0: 1024, 1: 1 << 20, 2: 8 << 20}
"""By CUlimit: bytes of a thread's stack, of printf's buffer, of malloc's heap. None of them is needed here."""


def error_text(error: int, which: int) -> int:
    """The address of an error's name (0) or its sentence (1)."""
    text = _STRINGS.get(error, _STRINGS[-1])[which]
    return ctypes.cast(text, ctypes.c_void_p).value or 0


class LibCuda(CLibrary):
    """The driver."""

    sonames = ("libcuda.so.1",)
    quiet = (
        *("cuInit", "cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuCtxDestroy_v2", "cuCtxSetLimit"),
        *("cuCtxSetFlags", "cuCtxEnablePeerAccess", "cuCtxSetCacheConfig", "cuCtxResetPersistingL2Cache"),
        *("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxReset_v2"),
        *("cuStreamDestroy_v2", "cuStreamSetAttribute", "cuEventDestroy_v2"),
        *("cuFuncSetAttribute", "cuFuncSetCacheConfig", "cuFuncSetSharedMemConfig", "cuKernelSetAttribute"),
        *("cuFuncLoad", "cuProfilerStart", "cuProfilerStop", "cuMemAdvise", "cuMemPrefetchAsync", "cuMemPoolDestroy"),
        *("cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemPoolSetAccess", "cuDeviceSetMemPool", "cuGraphDestroy"),
        *("cuGraphExecDestroy", "cuGraphUpload", "cuKernelSetCacheConfig", "cuPointerSetAttribute"),
        *("cuUserObjectRetain", "cuUserObjectRelease", "cuGraphRetainUserObject", "cuGraphReleaseUserObject"),
    )

    # The device and its context

    @entry("p", "cuDriverGetVersion")
    def driver_version(self, version: int) -> None:
        put(version, INT, self.session.properties.driver_version)

    @entry("ip", "cuGetErrorName")
    def error_name(self, error: int, text: int) -> None:
        put(text, LONG, error_text(error, 0))

    @entry("ip", "cuGetErrorString")
    def error_string(self, error: int, text: int) -> None:
        put(text, LONG, error_text(error, 1))

    @entry("ppinp", "cuGetProcAddress_v2", "cuGetProcAddress", always=True)
    def proc_address(self, name: int, function: int, version: int, _flags: int, found: int) -> int | None:
        asked = ctypes.string_at(name).decode()
        newest = sorted((n for n in self.functions if n == asked or n.startswith(f"{asked}_v")), reverse=True)
        at = self.address(newest[0]) if newest else 0
        put(function, LONG, at)
        if version >= 12000:  # before, there was no such argument
            put(found, INT, 0 if at else 1)
        return None if at else NOT_FOUND

    @entry("pp", "cuGetExportTable")
    def export_table(self, table: int, identity: int) -> int:
        """Functions that NVIDIA's own libraries call past the documented ones. NVRTC does without."""
        put(table, LONG, 0)
        if ctypes.string_at(identity, len(_OF_NVRTC)) != _OF_NVRTC:
            what = "a CUDA library that calls undocumented functions of the driver, as the static runtime does"
            raise not_emulated(what, "let nvcc link with -cudart shared")
        return NOT_FOUND

    @entry("pi", "cuDeviceGet")
    def get_device(self, device: int, ordinal: int) -> int | None:
        put(device, INT, 0)
        return INVALID_DEVICE if ordinal else None

    @entry("p", "cuDeviceGetCount")
    def device_count(self, count: int) -> None:
        put(count, INT, 1)

    @entry("p", "cuCtxGetDevice")
    def current_device(self, device: int) -> None:
        put(device, INT, 0)

    @entry("pii", "cuDeviceGetName")
    def device_name(self, text: int, length: int, _device: int) -> None:
        name = self.session.properties.name.encode()[: length - 1]
        ctypes.memmove(text, name.ljust(length, b"\0"), length)

    @entry("pi", "cuDeviceGetUuid", "cuDeviceGetUuid_v2")
    def device_uuid(self, uuid: int, _device: int) -> None:
        ctypes.memmove(uuid, b"emulated B200".ljust(16, b"\0"), 16)

    @entry("pii", "cuDeviceGetPCIBusId")
    def device_bus(self, text: int, length: int, _device: int) -> None:
        name = BUS.encode()[: length - 1] + b"\0"
        ctypes.memmove(text, name, len(name))

    @entry("pi", "cuDeviceTotalMem_v2")
    def total_memory(self, size: int, _device: int) -> None:
        put(size, LONG, self.session.properties.total_memory)

    @entry("pii", "cuDeviceGetAttribute")
    def device_attribute(self, value: int, attribute: int, _device: int) -> None:
        put(value, INT, self.session.properties.numbered(attribute))

    @entry("ppi", "cuDeviceComputeCapability")
    def compute_capability(self, major: int, minor: int, _device: int) -> None:
        put(major, INT, self.session.properties.major)
        put(minor, INT, self.session.properties.minor)

    @entry("pii", "cuDeviceCanAccessPeer")
    def can_access_peer(self, can: int, _device: int, _peer: int) -> None:
        put(can, INT, 0)

    @entry("ipp", "cuDevicePrimaryCtxGetState")
    def context_state(self, _device: int, flags: int, active: int) -> None:
        put(flags, UINT, 0)
        put(active, INT, 1)

    @entry(
        "p",
        *("cuCtxGetCurrent", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRetain"),
        *("cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4"),
    )
    def context(self, context: int) -> None:
        put(context, LONG, self.session.context)

    @entry("pp", "cuCtxGetApiVersion")
    def api_version(self, _context: int, version: int) -> None:
        put(version, UINT, self.session.properties.driver_version)

    @entry("pi", "cuCtxGetLimit")
    def limit(self, value: int, which: int) -> None:
        put(value, LONG, _LIMITS.get(which, 0))

    @entry("pp", "cuCtxGetStreamPriorityRange")
    def priority_range(self, least: int, greatest: int) -> None:
        put(least, INT, 0)
        put(greatest, INT, 0)

    # Memory

    @entry(
        "pn",
        *("cuMemAlloc_v2", "cuMemAllocHost_v2", "cuMemAllocManaged", "cuMemHostAlloc"),
        *("cuMemAllocAsync", "cuMemAllocFromPoolAsync"),
    )
    def allocate(self, pointer: int, size: int) -> None:
        put(pointer, LONG, self.session.allocations.allocate(size))

    @entry(
        "p",
        *("cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", "cuMemPoolCreate"),
        *("cuMemGetDefaultMemPool", "cuMemGetMemPool"),
    )
    def pool(self, pool: int) -> None:
        """All pools are one: the device's memory."""
        put(pool, LONG, self.session.context)

    @entry("pip", "cuMemPoolGetAttribute")
    def pool_attribute(self, _pool: int, _attribute: int, value: int) -> None:
        put(value, LONG, 0)

    @entry("ppi", "cuMemHostGetDevicePointer_v2")
    def mapped(self, pointer: int, of_host: int, _flags: int) -> None:
        put(pointer, LONG, of_host)

    @entry("p", "cuMemFree_v2", "cuMemFreeHost", "cuMemFreeAsync")
    def free(self, pointer: int) -> int | None:
        return None if self.session.allocations.free(pointer) else INVALID_VALUE

    @entry("pn", "cuMemHostRegister_v2")
    def register(self, address: int, size: int) -> None:
        self.session.allocations.register(address, size)

    @entry("p", "cuMemHostUnregister")
    def unregister(self, address: int) -> int | None:
        return None if self.session.allocations.unregister(address) else NOT_REGISTERED

    @entry("ppn", "cuMemcpy")
    @entry("ppnp", "cuMemcpyAsync")
    def copy(self, destination: int, source: int, size: int, stream: int | None = None) -> None:
        self.session.copy(destination, source, size, Kind.DEFAULT, stream)

    @entry("ppn", "cuMemcpyHtoD_v2")
    @entry("ppnp", "cuMemcpyHtoDAsync_v2")
    def copy_to_device(self, destination: int, source: int, size: int, stream: int | None = None) -> None:
        self.session.copy(destination, source, size, Kind.TO_DEVICE, stream)

    @entry("ppn", "cuMemcpyDtoH_v2")
    @entry("ppnp", "cuMemcpyDtoHAsync_v2")
    def copy_to_host(self, destination: int, source: int, size: int, stream: int | None = None) -> None:
        self.session.copy(destination, source, size, Kind.TO_HOST, stream)

    @entry("ppn", "cuMemcpyDtoD_v2")
    @entry("ppnp", "cuMemcpyDtoDAsync_v2")
    def copy_on_device(self, destination: int, source: int, size: int, stream: int | None = None) -> None:
        self.session.copy(destination, source, size, Kind.ON_DEVICE, stream)

    @entry("pun", "cuMemsetD8_v2")
    @entry("punp", "cuMemsetD8Async")
    def fill8(self, destination: int, value: int, count: int, stream: int | None = None) -> None:
        self.session.fill(destination, value, count, 1, stream)

    @entry("pun", "cuMemsetD16_v2")
    @entry("punp", "cuMemsetD16Async")
    def fill16(self, destination: int, value: int, count: int, stream: int | None = None) -> None:
        self.session.fill(destination, value, count, 2, stream)

    @entry("pun", "cuMemsetD32_v2")
    @entry("punp", "cuMemsetD32Async")
    def fill32(self, destination: int, value: int, count: int, stream: int | None = None) -> None:
        self.session.fill(destination, value, count, 4, stream)

    @entry("pp", "cuMemGetInfo_v2")
    def memory_info(self, free: int, total: int) -> None:
        put(free, LONG, self.session.properties.total_memory)
        put(total, LONG, self.session.properties.total_memory)

    @entry("ppp", "cuMemGetAddressRange_v2")
    def address_range(self, start: int, size: int, pointer: int) -> int | None:
        found = self.session.allocations.containing(pointer)
        if found is None:
            return INVALID_VALUE
        put(start, LONG, found[0])
        put(size, LONG, found[1])
        return None

    @entry("pip", "cuPointerGetAttribute")
    def pointer_attribute(self, data: int, attribute: int, pointer: int) -> int | None:
        return None if self._about(data, attribute, pointer) else INVALID_VALUE

    @entry("uppp", "cuPointerGetAttributes")
    def pointer_attributes(self, count: int, attributes: int, data: int, pointer: int) -> None:
        for i in range(count):
            at = LONG.from_address(data + 8 * i).value
            self._about(at, INT.from_address(attributes + 4 * i).value, pointer)

    def _about(self, data: int, attribute: int, pointer: int) -> bool:
        """Write one of a pointer's attributes. False if it is none of the device's."""
        found = self.session.allocations.containing(pointer)
        if found is None:
            return False
        start, size = found
        device_memory = 2
        wide = {1: self.session.context, 3: pointer, 4: pointer, 11: start, 12: size}
        narrow = {2: device_memory, 13: 1}
        if attribute in wide:
            put(data, LONG, wide[attribute])
        else:
            put(data, INT, narrow.get(attribute, 0))
        return True

    # Streams, events and graphs

    @entry("p", "cuStreamCreate", "cuStreamCreateWithPriority", "cuEventCreate", "cuUserObjectCreate")
    def new(self, handle: int) -> None:
        put(handle, LONG, new_handle())

    @entry("pp", "cuStreamIsCapturing")
    def is_capturing(self, stream: int, status: int) -> None:
        put(status, INT, self.session.captures.status(stream))

    @entry("pp", "cuStreamGetCtx")
    def stream_context(self, _stream: int, context: int) -> None:
        put(context, LONG, self.session.context)

    @entry("pp", "cuStreamGetPriority", "cuStreamGetFlags")
    def stream_default(self, _stream: int, value: int) -> None:
        put(value, INT, 0)

    @entry("pp", "cuStreamGetId")
    def stream_id(self, stream: int, number: int) -> None:
        put(number, LONG, stream)

    @entry("ppp", "cuLaunchHostFunc")
    def call_host(self, stream: int, function: int, data: int) -> None:
        self.session.captures.submit(stream, lambda: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data))

    @entry("pp", "cuStreamGetDevice")
    def stream_device(self, _stream: int, device: int) -> None:
        put(device, INT, 0)

    @entry("p", "cuStreamBeginCapture_v2", "cuStreamBeginCapture")
    def begin_capture(self, stream: int) -> None:
        self.session.captures.begin(stream)

    @entry("pp", "cuStreamEndCapture")
    def end_capture(self, stream: int, graph: int) -> int | None:
        return end_capture(self.session.captures, stream, graph)

    @entry("pp", "cuGraphInstantiateWithFlags", "cuGraphInstantiate_v2")
    def instantiate(self, executable: int, graph: int) -> None:
        put(executable, LONG, graph)

    @entry("pp", "cuGraphLaunch")
    def launch_graph(self, graph: int, stream: int) -> None:
        captures = self.session.captures
        captures.submit(stream, captures.graphs[graph].replay)

    @entry("pppppp", "cuStreamGetCaptureInfo_v2")
    def capture_info(self, stream: int, status: int, number: int, graph: int, before: int, count: int) -> None:
        """What a stream captures into. What it would go on from is not told."""
        into = self.session.captures.graph_of(stream)
        put(status, INT, self.session.captures.status(stream))
        put(number, LONG, into.handle if into else 0)
        put(graph, LONG, into.handle if into else 0)
        put(before, LONG, 0)
        put(count, LONG, 0)

    @entry("ppppppp", "cuStreamGetCaptureInfo_v3")
    def capture_info_with_edges(self, *given: int) -> None:
        *those_of_before, edges, count = given
        self.capture_info(*those_of_before, count)
        put(edges, LONG, 0)

    @entry("ppp", "cuGraphInstantiateWithParams")
    def instantiate_with(self, executable: int, graph: int, parameters: int) -> None:
        self.instantiate(executable, graph)
        put(parameters + 24, INT, 0)  # success

    @entry("pp", "cuEventRecord", "cuEventRecordWithFlags")
    def record(self, event: int, stream: int) -> None:
        self.session.record(event, stream)

    @entry("pp", "cuStreamWaitEvent")
    def wait(self, stream: int, event: int) -> None:
        self.session.captures.wait(stream, event)

    @entry("p", "cuStreamSynchronize", "cuStreamQuery")
    def synchronize(self, stream: int) -> None:
        self.session.captures.synchronize(stream)

    @entry("p", "cuEventSynchronize", "cuEventQuery")
    def synchronize_event(self, event: int) -> None:
        self.session.captures.synchronize_event(event)

    @entry("", "cuCtxSynchronize")
    def synchronize_all(self) -> None:
        self.session.captures.synchronize()

    @entry("ppp", "cuEventElapsedTime", "cuEventElapsedTime_v2")
    def elapsed(self, ms: int, start: int, end: int) -> int | None:
        found = self.session.elapsed_ms(start, end)
        put(ms, FLOAT, found or 0.0)
        return INVALID_HANDLE if found is None else None

    # Code

    @entry("pp", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary")
    def load(self, module: int, image: int) -> int | None:
        try:
            put(module, LONG, code.load_module(image))
        except NotEmulated as error:
            code.device().error = error
            return NO_BINARY
        return None

    @entry("pp", "cuLibraryLoadData")
    def load_library(self, library: int, image: int) -> None:
        put(library, LONG, code.load_library(image))

    @entry("p", "cuModuleUnload", "cuLibraryUnload")
    def unload(self, module: int) -> None:
        code.unload(module)

    @entry("ppp", "cuModuleGetFunction", "cuLibraryGetKernel")
    def function(self, function: int, module: int, name: int) -> int | None:
        handle = code.kernel_handle(code.module(module), ctypes.string_at(name).decode())
        put(function, LONG, handle or 0)
        return NOT_FOUND if handle is None else None

    @entry("pp", "cuFuncGetName", "cuKernelGetName")
    def function_name(self, name: int, function: int) -> None:
        put(name, LONG, code.name_at(function))

    @entry("pnpp", "cuFuncGetParamInfo", "cuKernelGetParamInfo")
    def parameter(self, function: int, number: int, offset: int, size: int) -> int | None:
        parameters = code.kernel(function).params
        if number >= len(parameters):
            return INVALID_VALUE
        put(offset, LONG, parameters[number].offset)
        put(size, LONG, parameters[number].size)
        return None

    @entry("pppp", "cuModuleGetGlobal_v2", "cuLibraryGetGlobal")
    def variable(self, address: int, size: int, module: int, name: int) -> int | None:
        found = code.variable(module, ctypes.string_at(name).decode())
        if found is None:
            return NOT_FOUND
        put(address, LONG, found[0])
        put(size, LONG, found[1])
        return None

    @entry("pp", "cuLibraryGetModule", "cuKernelGetFunction")
    def same(self, found: int, handle: int) -> None:
        put(found, LONG, handle)

    @entry("pp", "cuFuncGetModule", "cuKernelGetLibrary")
    def home(self, module: int, function: int) -> None:
        put(module, LONG, code.home(function))

    @entry("pp", "cuLibraryGetKernelCount", "cuModuleGetFunctionCount")
    def kernel_count(self, count: int, module: int) -> None:
        put(count, UINT, len(code.module(module).syntax.kernels))

    @entry("pup", "cuLibraryEnumerateKernels", "cuModuleEnumerateFunctions")
    def kernels(self, kernels: int, count: int, module: int) -> None:
        for i, handle in enumerate(code.kernel_handles(module, count)):
            put(kernels + 8 * i, LONG, handle)

    @entry("pip", "cuFuncGetAttribute", "cuKernelGetAttribute")
    def function_attribute(self, value: int, attribute: int, function: int) -> None:
        put(value, INT, code.attribute(function, attribute, self.session.properties))

    @entry("puuuuuuuppp", "cuLaunchKernel")
    def launch(self, function: int, *shape: int) -> None:
        *sizes, shared, stream, arguments, extra = shape
        code.launch(function, _config(sizes, shared, stream), arguments, extra)

    @entry("puuuuuuupp", "cuLaunchCooperativeKernel")
    def launch_cooperative(self, function: int, *shape: int) -> None:
        *sizes, shared, stream, arguments = shape
        code.launch(function, _config(sizes, shared, stream, cooperative=True), arguments)

    @entry("pppp", "cuLaunchKernelEx")
    def launch_ex(self, config: int, function: int, arguments: int, extra: int) -> None:
        code.launch(function, LaunchConfig.read(config), arguments, extra)

    @entry(
        "ppin", "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
    )
    def active_blocks(self, count: int, function: int, threads: int, shared: int) -> None:
        put(count, INT, code.active_blocks(function, threads, shared, self.session.properties))

    @entry("ppp", "cuOccupancyMaxActiveClusters")
    def active_clusters(self, count: int, _function: int, config: int) -> None:
        x, y, z = LaunchConfig.read(config).cluster or (1, 1, 1)
        put(count, INT, self.session.properties.active_clusters(x * y * z))

    @entry("ppii", "cuOccupancyAvailableDynamicSMemPerBlock")
    def available_shared(self, size: int, *_: int) -> None:
        put(size, LONG, self.session.properties.shared_memory_per_block_optin)

    @entry("piupppppiiii", "cuTensorMapEncodeTiled")
    def tensor_map(self, *fields: int) -> int | None:
        return _encoded(code.device().encode_tensor_map, fields)

    @entry("piupppppuupiiii", "cuTensorMapEncodeIm2col")
    def im2col_map(self, *fields: int) -> int | None:
        return _encoded(code.device().encode_im2col_map, fields)


def _encoded(encode: Callable[..., None], fields: Sequence[int]) -> int | None:
    """Write a tensor map; an error of CUDA where no map can hold the fields."""
    try:
        encode(*fields)
    except ValueError:
        return INVALID_VALUE
    return None


def end_capture(captures: Captures, stream: int, graph: int) -> int | None:
    """Write the handle of what a stream captured; an error of CUDA if it captured nothing."""
    put(graph, LONG, 0)
    found = captures.end(stream)
    put(graph, LONG, found.handle if found else 0)
    return None if found else INVALIDATED


def _config(sizes: list[int], shared: int, stream: int, cooperative: bool = False) -> LaunchConfig:
    x, y, z, bx, by, bz = sizes
    attributes = (COOPERATIVE,) if cooperative else ()
    return LaunchConfig((x, y, z), (bx, by, bz), None, shared, attributes, stream, cooperative)
