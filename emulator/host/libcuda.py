"""libcuda.so.1: the driver's C functions on the emulated device. cuda.bindings.driver calls them too."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from ..bridge.driver import NotEmulated, put
from ..bridge.launchconfig import COOPERATIVE, LaunchConfig
from ..bridge.prototypes import names
from . import code
from .c_library import FLOAT, INT, LONG, UINT, CLibrary, entry
from .captures import new_handle
from .errors import (
    ERRORS,
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    INVALIDATED,
    NO_BINARY,
    NOT_FOUND,
    NOT_READY,
    NOT_REGISTERED,
    CudaError,
    not_emulated,
    unsupported,
)
from .graph_nodes import GraphNodes, box_of_driver, rows_of_driver
from .memory import ALIGNMENT, Kind
from .properties import BUS, PROPERTIES

_OF_NVRTC: Final = bytes.fromhex("da9151d33ae6cc41a5c04f26d533e328")
_UNKNOWN: Final = ("CUDA_ERROR_UNKNOWN", "unknown error")
_NO_BARRIER: Final = 1
"""The flag of a stream's write of a word that does not publish the work before it."""
_CONDITIONS: Final[tuple[Callable[[int, int, int], bool], ...]] = (
    lambda wanted, bits, found: not found - wanted >> bits - 1 & 1,
    lambda wanted, bits, found: not (found ^ wanted) & (1 << bits) - 1,
    lambda wanted, bits, found: bool(found & wanted),
    lambda wanted, bits, found: bool(~(found | wanted) & (1 << bits) - 1),
)
"""Conditions of a wait, by CUstreamWaitValue_flags: a cyclic >=, ==, a common bit, a bit that both lack."""
_WORD: Final = struct.Struct("<I4xQQI20x")
_OF_WORDS: Final = {1: ("wait", 4), 2: ("write", 4), 4: ("wait", 8), 5: ("write", 8)}
_FENCES: Final = (3, 6)
"""CUstreamBatchMemOpType: accesses of words, and fences, which the emulator does not need."""
_STRINGS: Final = {
    code: tuple(ctypes.c_char_p(text.encode()) for text in texts) for code, texts in (*ERRORS.items(), (-1, _UNKNOWN))
}
_NON_BLOCKING: Final = 1
_EXTERNAL: Final = 1
"""The flag of an event that a graph records, or waits for, when it is replayed."""
_LIMITS: Final = {0: 1024, 1: 1 << 20, 2: 8 << 20}
"""Sizes in bytes by CUlimit: thread stack, printf buffer, malloc heap. The emulator does not need them."""

_SINCE: Final = {"cuStreamGetCaptureInfo_v3": 12030}
"""The CUDA version in which a function got further parameters."""
_COPIES: Final = {
    **dict.fromkeys(("cuMemcpy", "cuMemcpyAsync"), Kind.DEFAULT),
    **dict.fromkeys(("cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2"), Kind.TO_DEVICE),
    **dict.fromkeys(("cuMemcpyDtoH_v2", "cuMemcpyDtoHAsync_v2"), Kind.TO_HOST),
    **dict.fromkeys(("cuMemcpyDtoD_v2", "cuMemcpyDtoDAsync_v2"), Kind.ON_DEVICE),
}
_FILLS: Final = {
    **dict.fromkeys(("cuMemsetD8_v2", "cuMemsetD8Async"), 1),
    **dict.fromkeys(("cuMemsetD16_v2", "cuMemsetD16Async"), 2),
    **dict.fromkeys(("cuMemsetD32_v2", "cuMemsetD32Async"), 4),
}


def unversioned(name: str) -> str:
    """Return the name of a function of the driver without its version suffix."""
    return name.partition("_v")[0]


def error_text(error: int, which: int) -> int:
    """Return the address of an error's name (0) or text (1)."""
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
        *("cuFuncLoad", "cuProfilerStart", "cuProfilerStop", "cuMemPoolDestroy"),
        *("cuMemAdvise", "cuMemAdvise_v2", "cuMemPrefetchAsync", "cuMemPrefetchAsync_v2"),
        *("cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemPoolSetAccess", "cuDeviceSetMemPool", "cuGraphDestroy"),
        *("cuGraphExecDestroy", "cuGraphUpload", "cuKernelSetCacheConfig", "cuPointerSetAttribute"),
        *("cuUserObjectRetain", "cuUserObjectRelease", "cuGraphRetainUserObject", "cuGraphReleaseUserObject"),
    )

    answers: ClassVar = {
        "cuDriverGetVersion": ((0, INT, "driver_version"),),
        "cuDeviceGetCount": ((0, INT, 1),),
        "cuDeviceTotalMem_v2": ((0, LONG, "total_memory"),),
        "cuDeviceComputeCapability": ((0, INT, "major"), (1, INT, "minor")),
        "cuDeviceCanAccessPeer": ((0, INT, 0),),
        "cuDevicePrimaryCtxGetState": ((1, UINT, 0), (2, INT, 1)),
        "cuCtxGetDevice": ((0, INT, 0),),
        "cuCtxGetDevice_v2": ((0, INT, 0),),
        "cuCtxGetApiVersion": ((1, UINT, "driver_version"),),
        "cuCtxGetStreamPriorityRange": ((0, INT, 0), (1, INT, 0)),
        "cuMemGetInfo_v2": ((0, LONG, "total_memory"), (1, LONG, "total_memory")),
        "cuMemPoolGetAttribute": ((2, LONG, 0),),
        "cuStreamGetDevice": ((1, INT, 0),),
        "cuStreamGetFlags": ((1, INT, 0),),
        "cuStreamGetPriority": ((1, INT, 0),),
        "cuOccupancyAvailableDynamicSMemPerBlock": ((0, LONG, "shared_memory_per_block_optin"),),
    }

    def _add_more(self) -> None:
        for name, kind in _COPIES.items():
            self._add(name, partial(self.copy, kind=kind))
        for name, width in _FILLS.items():
            self._add(name, partial(self.fill, width=width))
            self._add(name.replace("D", "D2D"), partial(self.fill_rows, width=width))
        for name, by in (("Free_v2", "Free"), ("FreeHost", "FreeHost"), ("FreeAsync", "FreeAsync")):
            self._add(f"cuMem{name}", partial(self.free, by=f"cuda{by}"))
        graphs = GraphNodes(self, lambda kernel: kernel, box_of_driver)
        for name, method in graphs.functions.items():
            for version in ("_v2",) if name in graphs.versioned else ("", "_v2"):
                self._add(f"cu{name}{version}", method)
        for width in (4, 8):
            for verb, method in (("Write", self.write_word), ("Wait", self.wait_for_word)):
                for version in ("", "_v2"):
                    self._add(f"cuStream{verb}Value{8 * width}{version}", partial(method, width))
        self.known = {unversioned(name) for name in self.functions}
        for name in names("cu"):  # so that a program that asks for all functions, or links them, can start
            if name[2].isupper() and unversioned(name) not in self.known:
                for version in ("", "" if "_v" in name else "_v2"):
                    self._add(name + version, unsupported(name, "the emulated driver has no such function"))

    # The device and its context

    @entry("cuGetErrorName", always=True)
    def error_name(self, error: int, text: int) -> None:
        put(text, LONG, error_text(error, 0))

    @entry("cuGetErrorString", always=True)
    def error_string(self, error: int, text: int) -> None:
        put(text, LONG, error_text(error, 1))

    @entry("cuGetProcAddress_v2", "cuGetProcAddress", always=True)
    def proc_address(self, name: int, function: int, version: int, _flags: int, found: int) -> None:
        has_result = version >= 12000  # older versions of this function have no parameter `found`
        if not self.find_function(name, function, found if has_result else 0, version):
            raise CudaError(NOT_FOUND)

    def find_function(self, name: int, function: int, found: int, version: int) -> bool:
        """Write a function's address and a CUdriverProcAddressQueryResult. Return False if the function is missing.

        version: the CUDA version whose parameters the caller passes.
        """
        wanted = ctypes.string_at(name).decode()
        known = (n for n in self.functions if n == wanted or n.startswith(f"{wanted}_v"))
        newest = max((n for n in known if _SINCE.get(n, 0) <= version), default="")
        address = self.address(newest)
        put(function, LONG, address)
        put(found, INT, 0 if address else 1)
        return address != 0

    @entry("cuGetExportTable")
    def export_table(self, table: int, identity: int) -> None:
        """Reject requests for undocumented functions. NVRTC asks for a table and works without it."""
        put(table, LONG, 0)
        if ctypes.string_at(identity, len(_OF_NVRTC)) != _OF_NVRTC:
            what = "a CUDA library that calls undocumented functions of the driver, such as cuBLAS,"
            raise not_emulated(what, "use torch's functions; if the library is yours, link it with nvcc -cudart shared")
        raise CudaError(NOT_FOUND)

    @entry("cuDeviceGet")
    def get_device(self, device: int, ordinal: int) -> None:
        put(device, INT, 0)
        if ordinal:
            raise CudaError(INVALID_DEVICE)

    @entry("cuDeviceGetName")
    def device_name(self, text: int, length: int, _device: int) -> None:
        name = PROPERTIES.name.encode()[: length - 1]
        ctypes.memmove(text, name.ljust(length, b"\0"), length)

    @entry("cuDeviceGetUuid", "cuDeviceGetUuid_v2")
    def device_uuid(self, uuid: int, _device: int) -> None:
        ctypes.memmove(uuid, b"emulated B200".ljust(16, b"\0"), 16)

    @entry("cuDeviceGetPCIBusId")
    def device_bus(self, text: int, length: int, _device: int) -> None:
        name = BUS.encode()[: length - 1] + b"\0"
        ctypes.memmove(text, name, len(name))

    @entry("cuDeviceGetAttribute")
    def device_attribute(self, value: int, attribute: int, _device: int) -> None:
        put(value, INT, PROPERTIES.attribute(attribute))

    @entry(
        *("cuCtxGetCurrent", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRetain"),
        *("cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4"),
    )
    def context(self, context: int) -> None:
        put(context, LONG, self.session.context)

    @entry("cuCtxGetLimit")
    def limit(self, value: int, which: int) -> None:
        put(value, LONG, _LIMITS.get(which, 0))

    # Memory

    @entry("cuMemAlloc_v2")
    def allocate(self, pointer: int, size: int) -> None:
        put(pointer, LONG, self.session.allocations.allocate(size))

    @entry("cuMemAllocAsync")
    def allocate_in_order(self, pointer: int, size: int, stream: int) -> None:
        put(pointer, LONG, self.session.allocate_in_order(size, stream))

    @entry("cuMemAllocFromPoolAsync")
    def allocate_from_pool(self, pointer: int, size: int, _pool: int, stream: int) -> None:
        self.allocate_in_order(pointer, size, stream)

    @entry("cuMemAllocHost_v2", "cuMemAllocManaged", "cuMemHostAlloc")
    def allocate_host(self, pointer: int, size: int) -> None:
        put(pointer, LONG, self.session.allocations.allocate(size, host=True))

    @entry(
        *("cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", "cuMemPoolCreate"),
        *("cuMemGetDefaultMemPool", "cuMemGetMemPool"),
    )
    def pool(self, pool: int) -> None:
        """Write a handle of the only memory pool: the device's memory."""
        put(pool, LONG, self.session.context)

    def free(self, pointer: int, stream: int | None = None, *, by: str) -> None:
        if not self.session.free(pointer, by, stream):
            raise CudaError(INVALID_VALUE)

    @entry("cuMemHostRegister_v2")
    def register(self, address: int, size: int) -> None:
        self.session.allocations.register(address, size)

    @entry("cuMemHostUnregister")
    def unregister(self, address: int) -> None:
        if not self.session.allocations.unregister(address):
            raise CudaError(NOT_REGISTERED)

    @entry("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2")
    def copy_box(self, given: int, stream: int | None = None) -> None:
        self.session.copy_box(*box_of_driver(given), stream)

    def copy(self, destination: int, source: int, size: int, stream: int | None = None, *, kind: Kind) -> None:
        self.session.copy(destination, source, size, kind, stream)

    @entry("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2")
    def copy_rows(self, given: int, stream: int | None = None) -> None:
        self.session.copy_box(*rows_of_driver(given), stream)

    @entry("cuMemAllocPitch_v2")
    def allocate_rows(self, pointer: int, pitch: int, width: int, height: int) -> None:
        step = -(-width // ALIGNMENT) * ALIGNMENT
        put(pitch, LONG, step)
        self.allocate(pointer, step * height)

    def fill(self, destination: int, value: int, count: int, stream: int | None = None, *, width: int) -> None:
        self.session.fill(destination, 0, value, width, count, 1, stream)

    def fill_rows(self, to: int, pitch: int, value: int, *given: int, width: int) -> None:
        count, height, *stream = given
        self.session.fill(to, pitch, value, width, count, height, *stream)

    @entry("cuMemcpyPeer", "cuMemcpyPeerAsync")
    def copy_across(self, to: int, _1: int, source: int, _2: int, size: int, stream: int | None = None) -> None:
        self.session.copy(to, source, size, Kind.ON_DEVICE, stream)

    @entry("cuMemGetAddressRange_v2")
    def address_range(self, start: int, size: int, pointer: int) -> None:
        found = self.session.allocations.containing(pointer)
        if found is None:
            raise CudaError(INVALID_VALUE)
        put(start, LONG, found.address)
        put(size, LONG, found.size)

    @entry("cuPointerGetAttribute")
    def pointer_attribute(self, data: int, attribute: int, pointer: int) -> None:
        if not self._write_attribute(data, attribute, pointer):
            raise CudaError(INVALID_VALUE)

    @entry("cuPointerGetAttributes")
    def pointer_attributes(self, count: int, attributes: int, data: int, pointer: int) -> None:
        for i in range(count):
            at = LONG.from_address(data + 8 * i).value
            self._write_attribute(at, INT.from_address(attributes + 4 * i).value, pointer)

    def _write_attribute(self, data: int, attribute: int, pointer: int) -> bool:
        """Write a CUpointer_attribute. Return False if the pointer is not the device's."""
        found = self.session.allocations.containing(pointer)
        if found is None:
            return False
        device_memory = 2
        wide = {1: self.session.context, 3: pointer, 4: pointer, 11: found.address, 12: found.size}
        narrow = {2: device_memory, 13: 1}
        if attribute in wide:
            put(data, LONG, wide[attribute])
        else:
            put(data, INT, narrow.get(attribute, 0))
        return True

    # Streams, events and graphs

    @entry("cuEventCreate", "cuUserObjectCreate")
    def new(self, handle: int) -> None:
        put(handle, LONG, new_handle())

    @entry("cuStreamCreate", "cuStreamCreateWithPriority")
    def new_stream(self, handle: int, flags: int) -> None:
        stream = new_handle()
        self.session.order.create(stream, blocking=not flags & _NON_BLOCKING)
        put(handle, LONG, stream)

    @entry("cuStreamIsCapturing")
    def is_capturing(self, stream: int, status: int) -> None:
        put(status, INT, self.session.captures.status(stream))

    @entry("cuStreamGetCtx", "cuStreamGetCtx_v2")
    def stream_context(self, _stream: int, context: int) -> None:
        put(context, LONG, self.session.context)

    @entry("cuStreamGetId")
    def stream_id(self, stream: int, number: int) -> None:
        put(number, LONG, stream)

    @entry("cuLaunchHostFunc")
    def call_host(self, stream: int, function: int, data: int) -> None:
        self._call(stream, lambda: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data))

    @entry("cuStreamAddCallback")
    def call_back(self, stream: int, function: int, data: int) -> None:
        called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, INT, ctypes.c_void_p)(function)
        self._call(stream, lambda: called(stream, 0, data))

    def _call(self, stream: int, function: Callable[[], None]) -> None:
        session = self.session
        session.captures.submit(stream, lambda: session.guard.call(stream, function))

    @entry("cuStreamBeginCapture_v2", "cuStreamBeginCapture")
    def begin_capture(self, stream: int) -> None:
        self.session.captures.begin(stream)

    @entry("cuStreamEndCapture")
    def end_capture(self, stream: int, graph: int) -> None:
        put(graph, LONG, 0)
        found = self.session.captures.end(stream)
        if found is None:
            raise CudaError(INVALIDATED)
        put(graph, LONG, found.handle)

    @entry("cuGraphLaunch")
    def launch_graph(self, graph: int, stream: int) -> None:
        captures = self.session.captures
        found = captures.graph(graph)
        captures.submit(stream, lambda: found.replay(captures.order, stream))

    @entry("cuStreamGetCaptureInfo_v2")
    def capture_info(self, stream: int, status: int, number: int, graph: int, before: int, count: int) -> None:
        """Write a stream's capture status and graph. No dependencies are reported."""
        into = self.session.captures.graph_of(stream)
        put(status, INT, self.session.captures.status(stream))
        for at, value in ((number, into), (graph, into), (before, None), (count, None)):
            put(at, LONG, value.handle if value else 0)

    @entry("cuStreamGetCaptureInfo_v3")
    def capture_info_with_edges(self, *given: int) -> None:
        *shared, edges, count = given
        self.capture_info(*shared, count)
        put(edges, LONG, 0)

    @entry("cuGraphInstantiateWithFlags", "cuGraphInstantiate_v2")
    def instantiate(self, executable: int, graph: int) -> None:
        put(executable, LONG, self.session.captures.copied(graph))

    @entry("cuGraphInstantiateWithParams")
    def instantiate_with(self, executable: int, graph: int, parameters: int) -> None:
        self.instantiate(executable, graph)
        put(parameters + 24, INT, 0)  # success

    @entry("cuEventRecord")
    def record(self, event: int, stream: int) -> None:
        self.session.record(event, stream)

    @entry("cuEventRecordWithFlags")
    def record_with_flags(self, event: int, stream: int, flags: int) -> None:
        self.session.record(event, stream, external=bool(flags & _EXTERNAL))

    @entry("cuStreamWaitEvent")
    def wait(self, stream: int, event: int, flags: int) -> None:
        self.session.captures.wait(stream, event, external=bool(flags & _EXTERNAL))

    @entry("cuStreamSynchronize")
    def synchronize(self, stream: int) -> None:
        self.session.captures.synchronize(stream)

    @entry("cuStreamQuery")
    def query(self, stream: int) -> int:
        return 0 if self.session.captures.query(stream) else NOT_READY

    @entry("cuEventSynchronize")
    def synchronize_event(self, event: int) -> None:
        self.session.captures.synchronize_event(event)

    @entry("cuEventQuery")
    def query_event(self, event: int) -> int:
        return 0 if self.session.captures.query_event(event) else NOT_READY

    @entry("cuCtxSynchronize", "cuCtxSynchronize_v2")
    def synchronize_all(self) -> None:
        self.session.captures.synchronize()

    @entry("cuEventElapsedTime", "cuEventElapsedTime_v2")
    def elapsed(self, ms: int, start: int, end: int) -> None:
        found = self.session.elapsed_ms(start, end)
        put(ms, FLOAT, found or 0.0)
        if found is None:
            raise CudaError(INVALID_HANDLE)

    # Words that a stream writes, or waits for

    def write_word(self, width: int, stream: int, address: int, value: int, flags: int) -> None:
        self.session.write_word(stream, address, value, width, fenced=not flags & _NO_BARRIER)

    def wait_for_word(self, width: int, stream: int, address: int, value: int, flags: int) -> None:
        self.session.wait_for_word(stream, address, width, partial(_CONDITIONS[flags & 3], value, 8 * width))

    @entry("cuStreamBatchMemOp", "cuStreamBatchMemOp_v2")
    def on_words(self, stream: int, count: int, given: int) -> None:
        """Do memory operations, each of which is a struct of `_WORD`."""
        for at in range(given, given + count * _WORD.size, _WORD.size):
            operation, address, value, flags = _WORD.unpack(ctypes.string_at(at, _WORD.size))
            if operation in _OF_WORDS:
                verb, width = _OF_WORDS[operation]
                (self.write_word if verb == "write" else self.wait_for_word)(width, stream, address, value, flags)
            elif operation not in _FENCES:
                raise not_emulated(f"operation {operation} of cuStreamBatchMemOp", "a stream may write and wait")

    # Code

    @entry("cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary")
    def load(self, module: int, image: int) -> None:
        try:
            put(module, LONG, code.load_module(image))
        except NotEmulated as error:
            code.device().error = error
            raise CudaError(NO_BINARY) from error

    @entry("cuLibraryLoadData")
    def load_library(self, library: int, image: int) -> None:
        put(library, LONG, code.load_library(image))

    @entry("cuModuleUnload", "cuLibraryUnload")
    def unload(self, module: int) -> None:
        code.unload(module)

    @entry("cuModuleGetFunction", "cuLibraryGetKernel")
    def function(self, function: int, module: int, name: int) -> None:
        handle = code.kernel_handle(code.module(module), ctypes.string_at(name).decode())
        put(function, LONG, handle or 0)
        if handle is None:
            raise CudaError(NOT_FOUND)

    @entry("cuFuncGetName", "cuKernelGetName")
    def function_name(self, name: int, function: int) -> None:
        put(name, LONG, code.name_at(function))

    @entry("cuFuncGetParamInfo", "cuKernelGetParamInfo")
    def parameter(self, function: int, number: int, offset: int, size: int) -> None:
        parameters = code.kernel(function).params
        if number >= len(parameters):
            raise CudaError(INVALID_VALUE)
        put(offset, LONG, parameters[number].offset)
        put(size, LONG, parameters[number].size)

    @entry("cuModuleGetGlobal_v2", "cuLibraryGetGlobal")
    def variable(self, address: int, size: int, module: int, name: int) -> None:
        found = code.variable(module, ctypes.string_at(name).decode())
        if found is None:
            raise CudaError(NOT_FOUND)
        put(address, LONG, found[0])
        put(size, LONG, found[1])

    @entry("cuLibraryGetModule", "cuKernelGetFunction", "cuMemHostGetDevicePointer_v2")
    def same_handle(self, found: int, handle: int) -> None:
        put(found, LONG, handle)

    @entry("cuFuncGetModule", "cuKernelGetLibrary")
    def module_of(self, module: int, function: int) -> None:
        put(module, LONG, code.module_of(function))

    @entry("cuLibraryGetKernelCount", "cuModuleGetFunctionCount")
    def kernel_count(self, count: int, module: int) -> None:
        put(count, UINT, len(code.module(module).syntax.kernels))

    @entry("cuLibraryEnumerateKernels", "cuModuleEnumerateFunctions")
    def kernels(self, kernels: int, count: int, module: int) -> None:
        for i, handle in enumerate(code.kernel_handles(module, count)):
            put(kernels + 8 * i, LONG, handle)

    @entry("cuFuncGetAttribute", "cuKernelGetAttribute")
    def function_attribute(self, value: int, attribute: int, function: int) -> None:
        put(value, INT, code.attribute(function, attribute))

    @entry("cuLaunchKernel")
    def launch(self, function: int, *shape: int) -> None:
        *sizes, shared, stream, arguments, extra = shape
        code.launch(function, launch_config(sizes, shared, stream), arguments, extra)

    @entry("cuLaunchCooperativeKernel")
    def launch_cooperative(self, function: int, *shape: int) -> None:
        *sizes, shared, stream, arguments = shape
        code.launch(function, launch_config(sizes, shared, stream, cooperative=True), arguments)

    @entry("cuLaunchKernelEx")
    def launch_ex(self, config: int, function: int, arguments: int, extra: int) -> None:
        code.launch(function, LaunchConfig.read(config), arguments, extra)

    @entry("cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
    def active_blocks(self, count: int, function: int, threads: int, shared: int) -> None:
        put(count, INT, code.active_blocks(function, threads, shared))

    @entry("cuOccupancyMaxActiveClusters")
    def active_clusters(self, count: int, _function: int, config: int) -> None:
        x, y, z = LaunchConfig.read(config).cluster or (1, 1, 1)
        put(count, INT, PROPERTIES.active_clusters(x * y * z))

    @entry("cuTensorMapEncodeTiled")
    def tensor_map(self, *fields: int) -> None:
        _encode(code.device().encode_tensor_map, fields, (0, 4, 6, 7))

    @entry("cuTensorMapEncodeIm2col")
    def im2col_map(self, *fields: int) -> None:
        _encode(code.device().encode_im2col_map, fields, (0, 4, 6, 7, 10))


def _encode(encode: Callable[..., None], fields: Sequence[int], pointers: Sequence[int]) -> None:
    """Write a tensor map. Raises CudaError if a map cannot hold the fields, or one of the `pointers` is null."""
    rank, strides = fields[2], fields[5]
    if not all(fields[i] for i in pointers) or (rank > 1 and not strides):
        raise CudaError(INVALID_VALUE)
    try:
        encode(*fields)
    except ValueError as error:
        raise CudaError(INVALID_VALUE) from error


def launch_config(sizes: list[int], shared: int, stream: int, cooperative: bool = False) -> LaunchConfig:
    """Make the configuration of a launch without attributes. sizes: of the grid and of a block, (x, y, z) each."""
    x, y, z, bx, by, bz = sizes
    attributes = (COOPERATIVE,) if cooperative else ()
    return LaunchConfig((x, y, z), (bx, by, bz), None, shared, attributes, stream, cooperative)
