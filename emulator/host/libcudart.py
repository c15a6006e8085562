"""libcudart.so: the runtime's C functions on the emulated device, and the registration of nvcc's host code."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from ..bridge.driver import LAUNCH_FAILURE, put
from ..bridge.launchconfig import LaunchConfig
from ..bridge.prototypes import names
from . import code
from .c_library import INT, LONG, CLibrary, entry, parameter_count
from .captures import new_handle
from .errors import INVALID_DEVICE, INVALID_FUNCTION, INVALID_SYMBOL, CudaError, not_emulated, unsupported
from .graph_nodes import GraphNodes, box_of_runtime
from .libcuda import LibCuda, error_text, launch_config
from .memory import Kind
from .properties import PROPERTIES

_PER_THREAD: Final = re.compile("_pt(sz|ds)$")
_OF_A_STREAM: Final = re.compile(
    "(__)?cuda(Mem(cpy|set)|Launch|EventRecord|GraphLaunch|(Malloc.*|Free)Async|Stream(Add|Is|Query|Synch|Wait))"
)
"""Functions that nvcc names otherwise with --default-stream per-thread."""
_MEMORY_TYPE_HOST, _MEMORY_TYPE_DEVICE = 0, 2
Shape = tuple[int, int, int]


_SAME_NAMES: Final = (
    *("DeviceCanAccessPeer", "DeviceGetAttribute", "DeviceGetDefaultMemPool", "DeviceGetMemPool"),
    *("DeviceGetPCIBusId", "DriverGetVersion", "EventCreate", "EventElapsedTime", "EventElapsedTime_v2"),
    *("EventQuery", "EventRecord", "EventRecordWithFlags", "EventSynchronize", "GraphInstantiateWithFlags"),
    *("GraphLaunch", "LaunchHostFunc", "MemPoolCreate", "OccupancyMaxActiveClusters", "StreamCreateWithPriority"),
    *("StreamAddCallback", "StreamEndCapture", "StreamGetDevice", "StreamGetId", "StreamIsCapturing"),
    *("StreamQuery", "StreamSynchronize", "StreamWaitEvent"),
)
"""Runtime functions that behave as the driver function of the same name, without their prefixes."""
_DRIVER_FUNCTIONS: Final = {
    **{f"cuda{name}": f"cu{name}" for name in _SAME_NAMES},
    "cudaDeviceGetStreamPriorityRange": "cuCtxGetStreamPriorityRange",
    "cudaEventCreateWithFlags": "cuEventCreate",
    "cudaFree": "cuMemFree_v2",
    "cudaFreeAsync": "cuMemFreeAsync",
    "cudaFreeHost": "cuMemFreeHost",
    "cudaGetDevice": "cuCtxGetDevice",
    "cudaGetDeviceCount": "cuDeviceGetCount",
    "cudaGraphInstantiate": "cuGraphInstantiateWithFlags",
    "cudaHostAlloc": "cuMemHostAlloc",
    "cudaHostGetDevicePointer": "cuMemHostGetDevicePointer_v2",
    "cudaHostRegister": "cuMemHostRegister_v2",
    "cudaHostUnregister": "cuMemHostUnregister",
    "cudaMalloc": "cuMemAlloc_v2",
    "cudaMallocAsync": "cuMemAllocAsync",
    "cudaMallocFromPoolAsync": "cuMemAllocFromPoolAsync",
    "cudaMallocHost": "cuMemAllocHost_v2",
    "cudaMallocManaged": "cuMemAllocManaged",
    "cudaMallocPitch": "cuMemAllocPitch_v2",
    "cudaMemGetInfo": "cuMemGetInfo_v2",
    "cudaMemset": "cuMemsetD8_v2",
    "cudaMemsetAsync": "cuMemsetD8Async",
    "cudaMemset2D": "cuMemsetD2D8_v2",
    "cudaMemset2DAsync": "cuMemsetD2D8Async",
    "cudaStreamBeginCapture": "cuStreamBeginCapture_v2",
    "cudaStreamCreateWithFlags": "cuStreamCreate",
}
"""Runtime functions that behave as a driver function."""


@dataclass
class _FatBinary:
    """A registered fat binary: its image, its module once loaded, and the names of registered host addresses."""

    image: int
    module: int = 0
    kernels: dict[int, str] = field(default_factory=dict)
    variables: dict[int, str] = field(default_factory=dict)

    def loaded(self) -> int:
        """Return the module's handle and load the module first if necessary."""
        if not self.module:
            self.module = code.load_module(self.image)
        return self.module


_NEWEST: Final = 13000
"""The CUDA version of functions that are asked for without one: that of the runtime."""


class LibCudart(CLibrary):
    """The runtime. Programs register their code when they are loaded, before any session."""

    sonames = ("libcudart.so.12", "libcudart.so.13")
    versioned = True
    quiet = (
        *("__cudaRegisterFatBinaryEnd", "__cudaInitModule", "cudaDeviceReset", "cudaSetDeviceFlags"),
        *("cudaStreamDestroy", "cudaEventDestroy"),
        *("cudaGraphDestroy", "cudaGraphExecDestroy", "cudaGraphUpload", "cudaDeviceSetCacheConfig"),
        *("cudaDeviceSetLimit", "cudaDeviceEnablePeerAccess", "cudaProfilerStart", "cudaProfilerStop"),
        *("cudaMemPrefetchAsync", "cudaMemAdvise", "cudaCtxResetPersistingL2Cache", "cudaStreamSetAttribute"),
        *("cudaMemPoolDestroy", "cudaMemPoolSetAttribute", "cudaMemPoolTrimTo", "cudaDeviceSetMemPool"),
    )

    answers: ClassVar = {"cudaRuntimeGetVersion": ((0, INT, "runtime_version"),)}

    def __init__(self, driver: LibCuda) -> None:
        self.driver = driver
        self._registered: dict[int, _FatBinary] = {}
        self.redirected: dict[tuple[int, int], str] = {}
        """Addresses and paths of libraries whose runtime is redirected here, where their kernels are not registered."""
        self._configurations: list[tuple[Shape, Shape, int, int]] = []
        super().__init__()

    def _add_more(self) -> None:
        self._graphs = GraphNodes(self.driver, self._kernel, box_of_runtime)
        for name, method in self._graphs.functions.items():
            self._add(f"cuda{name}", method)
        for name, driver_name in _DRIVER_FUNCTIONS.items():
            self._add(name, self.driver.methods[driver_name])
        for name, which in (("cudaGetErrorName", 0), ("cudaGetErrorString", 1)):
            self._add(name, partial(error_text, which=which), always=True)
        for name in filter(_OF_A_STREAM.match, list(self.methods)):
            waits = name.startswith("cudaMem") and not name.endswith("Async")
            self._add(f"{name}{'_ptds' if waits else '_ptsz'}", partial(self._on_thread, self.methods[name]))
        for name in names("cuda"):  # so that a program that links to one can start, and a call says what is missing
            if name not in self.functions:
                self._add(name, unsupported(name, "it needs a CUDA runtime"))

    def of_static_runtime(self, name: str) -> int:
        """Return the address of the function that replaces one of the static runtime, 0 if there is none."""
        return self.address(name) or self.address(_PER_THREAD.sub("", name))

    def _on_thread(self, method: Callable[..., int | None], *given: int) -> int | None:
        """Call a function with the calling thread's default stream."""
        order = self.session.order
        order.per_thread = True
        try:
            return method(*given[: parameter_count(method)])
        finally:
            order.per_thread = False

    # Registration by nvcc's host code

    @entry("__cudaRegisterFatBinary", always=True)
    def register(self, image: int) -> int:
        handle = new_handle()
        self._registered[handle] = _FatBinary(image)
        return handle

    @entry("__cudaUnregisterFatBinary", always=True)
    def unregister(self, handle: int) -> None:
        self._registered.pop(handle, None)

    @entry("__cudaRegisterFunction", always=True)
    def register_function(self, handle: int, host: int, _device: int, name: int) -> None:
        self._registered[handle].kernels[host] = ctypes.string_at(name).decode()

    @entry("__cudaRegisterVar", always=True)
    def register_variable(self, handle: int, host: int, _device: int, name: int) -> None:
        self._registered[handle].variables[host] = ctypes.string_at(name).decode()

    @entry("__cudaPushCallConfiguration")
    def push_configuration(self, xy: int, z: int, block_xy: int, block_z: int, shared: int, stream: int) -> None:
        self._configurations.append((_shape(xy, z), _shape(block_xy, block_z), shared, stream))

    @entry("__cudaPopCallConfiguration")
    def pop_configuration(self, grid_at: int, block_at: int, shared_at: int, stream_at: int) -> None:
        grid, block, shared, stream = self._configurations.pop()
        for at, shape in ((grid_at, grid), (block_at, block)):
            ctypes.memmove(at, struct.pack("<3I", *shape), 12)
        put(shared_at, LONG, shared)
        put(stream_at, LONG, stream)

    # Kernels, by the address of the host function or by a handle from cudaGetKernel

    @entry("__cudaGetKernel", "cudaGetKernel", "cudaGetFuncBySymbol")
    def get_kernel(self, handle: int, function: int) -> None:
        put(handle, LONG, 0)
        put(handle, LONG, self._kernel(function))

    @entry("cudaLaunchKernel", "__cudaLaunchKernel")
    def launch(self, function: int, *given: int, cooperative: bool = False) -> None:
        xy, z, block_xy, block_z, arguments, shared, stream = given
        sizes = [*_shape(xy, z), *_shape(block_xy, block_z)]
        code.launch(self._kernel(function), launch_config(sizes, shared, stream, cooperative), arguments)

    @entry("cudaLaunchCooperativeKernel")
    def launch_cooperative(self, *given: int) -> None:
        self.launch(*given, cooperative=True)

    @entry("cudaLaunchKernelExC")
    def launch_ex(self, config: int, function: int, arguments: int) -> None:
        code.launch(self._kernel(function), LaunchConfig.read(config), arguments)

    def _kernel(self, function: int) -> int:
        """Return a kernel's handle by its host function or handle. Raises CudaError if there is none."""
        for binary in self._registered.values():
            if function in binary.kernels:
                handle = code.kernel_handle(code.module(binary.loaded()), binary.kernels[function])
                break
        else:
            handle = function if code.is_kernel(function) else None
        own = next((path for (first, end), path in self.redirected.items() if first <= function < end), None)
        if handle is None and own is not None:
            why = "a library with the static CUDA runtime can launch only kernels that it compiles when it runs"
            raise not_emulated(f"a kernel that is compiled into {own}", f"{why}; if it is yours: nvcc -cudart shared")
        if handle is None:
            raise CudaError(INVALID_FUNCTION)
        return handle

    @entry("cudaFuncGetAttributes")
    def function_attributes(self, attributes: int, function: int) -> None:
        handle = self._kernel(function)
        driver_numbers = (1, 2, 3, 0, 4, 5, 6, 7, 8)
        values = [code.attribute(handle, number) for number in driver_numbers]
        ctypes.memmove(attributes, struct.pack("<QQQ6i", *values).ljust(144, b"\0"), 144)

    @entry("cudaFuncSetAttribute", "cudaFuncSetCacheConfig")
    def set_attribute(self, function: int) -> None:
        """Accept an attribute of a kernel: none has an effect. Raises CudaError if it is no kernel."""
        self._kernel(function)

    @entry("cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
    def active_blocks(self, count: int, function: int, threads: int, shared: int) -> None:
        put(count, INT, code.active_blocks(self._kernel(function), threads, shared))

    # Errors

    def record_error(self, error: int) -> None:
        self.session.last_error = error

    @entry("cudaGetLastError")
    def last_error(self) -> int:
        error, self.session.last_error = self.session.last_error, 0
        return error

    @entry("cudaPeekAtLastError")
    def peek_error(self) -> int:
        return self.session.last_error

    @entry("cudaDeviceSynchronize", "cudaThreadSynchronize")
    def synchronize(self) -> None:
        self.session.captures.synchronize()
        if self.session.last_error == LAUNCH_FAILURE:
            raise CudaError(LAUNCH_FAILURE)

    @entry("cudaStreamCreate")
    def new_stream(self, handle: int) -> None:
        self.driver.new_stream(handle, 0)

    # The device

    @entry("cudaSetDevice", "cudaInitDevice")
    def set_device(self, device: int) -> None:
        if device:
            raise CudaError(INVALID_DEVICE)

    @entry("cudaGetDeviceProperties_v2")
    def properties_of_12(self, at: int, _device: int) -> None:
        _write_properties(at, _PROPERTIES_OF_12, 1032)

    @entry("cudaGetDeviceProperties")
    def properties_of_13(self, at: int, _device: int) -> None:
        _write_properties(at, _PROPERTIES_OF_13, 1008)

    @entry("cudaGetDriverEntryPoint", "cudaGetDriverEntryPointByVersion")
    def driver_entry(self, name: int, function: int, *given: int) -> None:
        *version, _flags, found = given
        self.driver.find_function(name, function, found, *version or (_NEWEST,))

    # Memory

    @entry("cudaMemcpy", "cudaMemcpyAsync")
    def copy(self, *given: int) -> None:
        self.session.copy(*given)

    @entry("cudaMemcpyPeer", "cudaMemcpyPeerAsync")
    def copy_across(self, to: int, a: int, source: int, b: int, size: int, stream: int | None = None) -> None:
        if a or b:
            raise CudaError(INVALID_DEVICE)
        self.session.copy(to, source, size, Kind.ON_DEVICE, stream)

    @entry("cudaMemcpy2D", "cudaMemcpy2DAsync")
    def copy_rows(self, *given: int) -> None:
        self.session.copy_rows(*given)

    @entry("cudaMemcpy3D", "cudaMemcpy3DAsync")
    def copy_box(self, given: int, stream: int | None = None) -> None:
        self.session.copy_box(*box_of_runtime(given), stream)

    @entry("cudaGraphAddMemcpyNode1D")
    def add_copy(self, node: int, graph: int, before: int, count: int, *copied: int) -> None:
        self._graphs.make(lambda stream: self.copy(*copied, stream), node, graph, before, count)

    @entry("cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync")
    def copy_to_symbol(self, symbol: int, source: int, size: int, offset: int, *kind_and_stream: int) -> None:
        self.session.copy(self._variable(symbol)[0] + offset, source, size, *kind_and_stream)

    @entry("cudaMemcpyFromSymbol", "cudaMemcpyFromSymbolAsync")
    def copy_from_symbol(self, to: int, symbol: int, size: int, offset: int, *kind_and_stream: int) -> None:
        self.session.copy(to, self._variable(symbol)[0] + offset, size, *kind_and_stream)

    @entry("cudaGetSymbolAddress")
    def symbol_address(self, address: int, symbol: int) -> None:
        put(address, LONG, 0)
        put(address, LONG, self._variable(symbol)[0])

    @entry("cudaGetSymbolSize")
    def symbol_size(self, size: int, symbol: int) -> None:
        put(size, LONG, 0)
        put(size, LONG, self._variable(symbol)[1])

    def _variable(self, symbol: int) -> tuple[int, int]:
        """Return address and size of a device variable by its host symbol. Raises CudaError if there is none."""
        binary = next((b for b in self._registered.values() if symbol in b.variables), None)
        found = code.variable(binary.loaded(), binary.variables[symbol]) if binary else None
        if found is None:
            raise CudaError(INVALID_SYMBOL)
        return found

    @entry("cudaPointerGetAttributes")
    def pointer_attributes(self, attributes: int, pointer: int) -> None:
        kind = _MEMORY_TYPE_DEVICE if self.session.allocations.containing(pointer) else _MEMORY_TYPE_HOST
        ctypes.memmove(attributes, struct.pack("<iiQQ", kind, 0, pointer, pointer), 24)


def _shape(xy: int, z: int) -> Shape:
    """Return the dim3 that was passed by value in two registers: x and y in one, z in the other."""
    return xy & 0xFFFF_FFFF, xy >> 32, z


_Places = Mapping[int, tuple[int, int]]
_PLACES: Final[_Places] = {
    **{8: (296, 8), 12: (304, 4), 10: (308, 4), 11: (312, 8), 1: (320, 4), 2: (324, 4), 3: (328, 4), 4: (332, 4)},
    **{5: (336, 4), 6: (340, 4), 7: (344, 4), 9: (352, 8), 75: (360, 4), 76: (364, 4)},
}
"""Offset and size in bytes of each attribute in cudaDeviceProp, as in driver_types.h of CUDA 12 and 13."""
_PROPERTIES_OF_13: Final[_Places] = {
    **_PLACES,
    **{16: (384, 4), 31: (560, 4), 40: (584, 4), 41: (588, 4), 37: (592, 4), 38: (596, 4), 39: (604, 4), 78: (608, 4)},
    **{79: (612, 4), 80: (616, 4), 81: (624, 8), 82: (632, 4), 95: (668, 4), 97: (672, 8), 106: (688, 4)},
    **{111: (696, 8), 120: (748, 4)},
}
_PROPERTIES_OF_12: Final[_Places] = {
    **_PLACES,
    **{13: (348, 4), 16: (388, 4), 31: (576, 4), 40: (600, 4), 41: (604, 4), 36: (608, 4), 37: (612, 4), 38: (616, 4)},
    **{39: (624, 4), 78: (628, 4), 79: (632, 4), 80: (636, 4), 81: (640, 8), 82: (648, 4), 95: (688, 4), 97: (696, 8)},
    **{106: (712, 4), 111: (720, 8), 120: (772, 4)},
}


def _write_properties(at: int, places: _Places, size: int) -> None:
    image = bytearray(size)
    name = PROPERTIES.name.encode()
    image[: len(name)] = name
    image[288:296] = PROPERTIES.total_memory.to_bytes(8, "little")
    for attribute, (place, width) in places.items():
        image[place : place + width] = PROPERTIES.attribute(attribute).to_bytes(width, "little")
    ctypes.memmove(at, bytes(image), size)
