"""libcudart.so: the runtime's C functions on the emulated device, and what nvcc's host code registers with it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..bridge.driver import LAUNCH_FAILURE, SUCCESS
from ..bridge.launchconfig import COOPERATIVE, LaunchConfig
from . import code
from .c_library import INT, LONG, CLibrary, entry, put
from .captures import new_handle
from .libcuda import INVALID_DEVICE, INVALID_HANDLE, LibCuda, end_capture, error_text
from .memory import INVALID_VALUE
from .properties import DeviceProperties

INVALID_FUNCTION, INVALID_SYMBOL = 98, 13
_MEMORY_TYPE_HOST, _MEMORY_TYPE_DEVICE = 0, 2
Shape = tuple[int, int, int]


@dataclass
class _FatBinary:
    """What host code registered: the image, its module once it is asked for, and what addresses of the host name."""

    image: int
    module: int = 0
    kernels: dict[int, str] = field(default_factory=dict)
    variables: dict[int, str] = field(default_factory=dict)

    def loaded(self) -> int:
        """The module's handle."""
        if not self.module:
            self.module = code.load_module(self.image)
        return self.module


class LibCudart(CLibrary):
    """The runtime. Programs register their code when they are loaded, before any session."""

    sonames = ("libcudart.so.12", "libcudart.so.13")
    versioned = True
    quiet = (
        *("__cudaRegisterFatBinaryEnd", "__cudaInitModule", "cudaDeviceReset", "cudaSetDeviceFlags"),
        "cudaStreamDestroy",
        *(
            "cudaEventDestroy",
            "cudaFuncSetAttribute",
            "cudaFuncSetCacheConfig",
        ),
        *(
            "cudaGraphDestroy",
            "cudaGraphExecDestroy",
            "cudaGraphUpload",
            "cudaDeviceSetCacheConfig",
            "cudaDeviceSetLimit",
        ),
        *(
            "cudaDeviceEnablePeerAccess",
            "cudaProfilerStart",
            "cudaProfilerStop",
        ),
        *("cudaMemPrefetchAsync", "cudaMemAdvise", "cudaCtxResetPersistingL2Cache", "cudaStreamSetAttribute"),
        *("cudaMemPoolDestroy", "cudaMemPoolSetAttribute", "cudaMemPoolTrimTo", "cudaDeviceSetMemPool"),
    )

    def __init__(self, driver: LibCuda) -> None:
        self._driver = driver
        self._registered: dict[int, _FatBinary] = {}
        self._configurations: list[tuple[Shape, Shape, int, int]] = []
        super().__init__()

    # What nvcc's host code says of itself

    @entry("p", "__cudaRegisterFatBinary", always=True)
    def register(self, image: int) -> int:
        handle = new_handle()
        self._registered[handle] = _FatBinary(image)
        return handle

    @entry("p", "__cudaUnregisterFatBinary", always=True)
    def unregister(self, handle: int) -> None:
        self._registered.pop(handle, None)

    @entry("pppp", "__cudaRegisterFunction", always=True)
    def register_function(self, handle: int, host: int, _device: int, name: int) -> None:
        self._registered[handle].kernels[host] = ctypes.string_at(name).decode()

    @entry("pppp", "__cudaRegisterVar", always=True)
    def register_variable(self, handle: int, host: int, _device: int, name: int) -> None:
        self._registered[handle].variables[host] = ctypes.string_at(name).decode()

    @entry("pupupp", "__cudaPushCallConfiguration")
    def push_configuration(self, xy: int, z: int, block_xy: int, block_z: int, shared: int, stream: int) -> None:
        self._configurations.append((_shape(xy, z), _shape(block_xy, block_z), shared, stream))

    @entry("pppp", "__cudaPopCallConfiguration")
    def pop_configuration(self, grid_at: int, block_at: int, shared_at: int, stream_at: int) -> None:
        grid, block, shared, stream = self._configurations.pop()
        for at, shape in ((grid_at, grid), (block_at, block)):
            ctypes.memmove(at, struct.pack("<3I", *shape), 12)
        put(shared_at, LONG, shared)
        put(stream_at, LONG, stream)

    # Kernels: by the address of the host's function, or by the handle that newer host code asks for once

    @entry("pp", "__cudaGetKernel", "cudaGetKernel", "cudaGetFuncBySymbol")
    def get_kernel(self, handle: int, function: int) -> int | None:
        found = self._kernel(function)
        put(handle, LONG, found or 0)
        return None if found else self.failed(INVALID_FUNCTION)

    @entry("ppupuppp", "cudaLaunchKernel", "__cudaLaunchKernel")
    def launch(
        self, function: int, xy: int, z: int, bxy: int, bz: int, arguments: int, shared: int, stream: int
    ) -> int | None:
        config = LaunchConfig(_shape(xy, z), _shape(bxy, bz), None, shared, (), stream)
        return self._launch(function, config, arguments)

    @entry("ppupuppp", "cudaLaunchCooperativeKernel")
    def launch_cooperative(
        self, function: int, xy: int, z: int, bxy: int, bz: int, arguments: int, shared: int, stream: int
    ) -> int | None:
        config = LaunchConfig(_shape(xy, z), _shape(bxy, bz), None, shared, (COOPERATIVE,), stream, cooperative=True)
        return self._launch(function, config, arguments)

    @entry("ppp", "cudaLaunchKernelExC")
    def launch_ex(self, config: int, function: int, arguments: int) -> int | None:
        return self._launch(function, LaunchConfig.read(config), arguments)

    def _launch(self, function: int, config: LaunchConfig, arguments: int) -> int | None:
        handle = self._kernel(function)
        if handle is None:
            return self.failed(INVALID_FUNCTION)
        before = self.session.last_error
        self.session.last_error = LAUNCH_FAILURE  # of what raises; undone if nothing does
        code.launch(handle, config, arguments)
        self.session.last_error = before
        return None

    def _kernel(self, function: int) -> int | None:
        """The handle of a kernel by what names it on the host."""
        for binary in self._registered.values():
            if function in binary.kernels:
                return code.kernel_handle(code.module(binary.loaded()), binary.kernels[function])
        return function if code.is_kernel(function) else None

    @entry("pp", "cudaFuncGetAttributes")
    def function_attributes(self, attributes: int, function: int) -> int | None:
        handle = self._kernel(function)
        if handle is None:
            return self.failed(INVALID_FUNCTION)
        driver_numbers = (1, 2, 3, 0, 4, 5, 6, 7, 8)
        values = [code.attribute(handle, number, self.session.properties) for number in driver_numbers]
        ctypes.memmove(attributes, struct.pack("<QQQ6i", *values).ljust(144, b"\0"), 144)
        return None

    @entry(
        "ppin",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    )
    def active_blocks(self, count: int, function: int, threads: int, shared: int) -> int | None:
        handle = self._kernel(function)
        if handle is None:
            return self.failed(INVALID_FUNCTION)
        put(count, INT, code.active_blocks(handle, threads, shared, self.session.properties))
        return None

    @entry("ppp", "cudaOccupancyMaxActiveClusters")
    def active_clusters(self, count: int, function: int, config: int) -> None:
        self._driver.active_clusters(count, function, config)

    # Errors

    def failed(self, error: int) -> int:
        self.session.last_error = error
        return error

    @entry("", "cudaGetLastError")
    def last_error(self) -> int:
        error, self.session.last_error = self.session.last_error, 0
        return error

    @entry("", "cudaPeekAtLastError")
    def peek_error(self) -> int:
        return self.session.last_error

    @entry("", "cudaDeviceSynchronize", "cudaThreadSynchronize")
    def synchronize(self) -> int:
        self.session.captures.synchronize()
        return self.session.last_error if self.session.last_error == LAUNCH_FAILURE else SUCCESS

    @entry("p", "cudaStreamSynchronize", "cudaStreamQuery")
    def synchronize_stream(self, stream: int) -> None:
        self.session.captures.synchronize(stream)

    @entry("p", "cudaEventSynchronize", "cudaEventQuery")
    def synchronize_event(self, event: int) -> None:
        self.session.captures.synchronize_event(event)

    @entry("i:p", "cudaGetErrorString")
    def error_string(self, error: int) -> int:
        return error_text(error, 1)

    @entry("i:p", "cudaGetErrorName")
    def error_name(self, error: int) -> int:
        return error_text(error, 0)

    # The device

    @entry("p", "cudaGetDeviceCount")
    def device_count(self, count: int) -> None:
        put(count, INT, 1)

    @entry("p", "cudaGetDevice")
    def get_device(self, device: int) -> None:
        put(device, INT, 0)

    @entry("i", "cudaSetDevice", "cudaInitDevice")
    def set_device(self, device: int) -> int | None:
        return self.failed(INVALID_DEVICE) if device else None

    @entry("pii", "cudaDeviceGetAttribute")
    def device_attribute(self, value: int, attribute: int, _device: int) -> None:
        put(value, INT, self.session.properties.numbered(attribute))

    @entry("pii", "cudaDeviceCanAccessPeer")
    def can_access_peer(self, can: int, _device: int, _peer: int) -> None:
        put(can, INT, 0)

    @entry("pi", "cudaGetDeviceProperties_v2")
    def properties_of_12(self, at: int, _device: int) -> None:
        _write_properties(at, self.session.properties, _PROPERTIES_OF_12, 1032)

    @entry("pi", "cudaGetDeviceProperties")
    def properties_of_13(self, at: int, _device: int) -> None:
        _write_properties(at, self.session.properties, _PROPERTIES_OF_13, 1008)

    @entry("p", "cudaDriverGetVersion", "cudaRuntimeGetVersion")
    def version(self, version: int) -> None:
        put(version, INT, self.session.properties.driver_version)

    @entry("pp", "cudaDeviceGetStreamPriorityRange")
    def priority_range(self, least: int, greatest: int) -> None:
        put(least, INT, 0)
        put(greatest, INT, 0)

    @entry("pii", "cudaDeviceGetPCIBusId")
    def device_bus(self, text: int, length: int, device: int) -> None:
        self._driver.device_bus(text, length, device)

    @entry("pppp", "cudaGetDriverEntryPoint")
    def driver_entry(self, name: int, function: int, flags: int, found: int) -> None:
        self._driver.proc_address(name, function, 12000, flags, found)

    @entry("ppupp", "cudaGetDriverEntryPointByVersion")
    def driver_entry_by_version(self, name: int, function: int, _version: int, flags: int, found: int) -> None:
        self._driver.proc_address(name, function, 12000, flags, found)

    # Memory

    @entry("p", "cudaDeviceGetDefaultMemPool", "cudaDeviceGetMemPool", "cudaMemPoolCreate")
    def pool(self, pool: int) -> None:
        self._driver.pool(pool)

    @entry(
        "pn",
        *("cudaMalloc", "cudaMallocAsync", "cudaMallocFromPoolAsync"),
        *("cudaMallocHost", "cudaHostAlloc", "cudaMallocManaged"),
    )
    def allocate(self, pointer: int, size: int) -> None:
        put(pointer, LONG, self.session.allocations.allocate(size))

    @entry("p", "cudaFree", "cudaFreeAsync", "cudaFreeHost")
    def free(self, pointer: int) -> int | None:
        return None if self.session.allocations.free(pointer) else self.failed(INVALID_VALUE)

    @entry("pn", "cudaHostRegister")
    def register_host(self, address: int, size: int) -> None:
        self._driver.register(address, size)

    @entry("p", "cudaHostUnregister")
    def unregister_host(self, address: int) -> int | None:
        error = self._driver.unregister(address)
        return self.failed(error) if error else None

    @entry("ppni", "cudaMemcpy")
    @entry("ppnip", "cudaMemcpyAsync")
    def copy(self, destination: int, source: int, size: int, kind: int, stream: int | None = None) -> None:
        self.session.copy(destination, source, size, kind, stream)

    @entry("pnpnnni", "cudaMemcpy2D")
    def copy_rows(self, to: int, to_pitch: int, source: int, pitch: int, width: int, height: int, kind: int) -> None:
        self.session.allocations.copy_rows(to, to_pitch, source, pitch, width, height, kind)

    @entry("pnpnnnip", "cudaMemcpy2DAsync")
    def copy_rows_async(self, *given: int) -> None:
        *rows, stream = given
        self.session.captures.submit(stream, lambda: self.copy_rows(*rows))

    @entry("pin", "cudaMemset")
    @entry("pinp", "cudaMemsetAsync")
    def fill(self, destination: int, value: int, count: int, stream: int | None = None) -> None:
        self.session.fill(destination, value, count, 1, stream)

    @entry("ppnni", "cudaMemcpyToSymbol")
    @entry("ppnnip", "cudaMemcpyToSymbolAsync")
    def copy_to_symbol(
        self, symbol: int, source: int, size: int, offset: int, kind: int, stream: int | None = None
    ) -> int | None:
        return self._with_variable(symbol, lambda at: self.session.copy(at + offset, source, size, kind, stream))

    @entry("ppnni", "cudaMemcpyFromSymbol")
    @entry("ppnnip", "cudaMemcpyFromSymbolAsync")
    def copy_from_symbol(
        self, destination: int, symbol: int, size: int, offset: int, kind: int, stream: int | None = None
    ) -> int | None:
        return self._with_variable(symbol, lambda at: self.session.copy(destination, at + offset, size, kind, stream))

    def _with_variable(self, symbol: int, work: Callable[[int], None]) -> int | None:
        """Do what needs the address of a variable; an error of CUDA if the symbol names none."""
        found = self._variable(symbol)
        if found is None:
            return self.failed(INVALID_SYMBOL)
        work(found[0])
        return None

    @entry("pp", "cudaGetSymbolAddress")
    def symbol_address(self, address: int, symbol: int) -> int | None:
        found = self._variable(symbol)
        put(address, LONG, found[0] if found else 0)
        return None if found else self.failed(INVALID_SYMBOL)

    @entry("pp", "cudaGetSymbolSize")
    def symbol_size(self, size: int, symbol: int) -> int | None:
        found = self._variable(symbol)
        put(size, LONG, found[1] if found else 0)
        return None if found else self.failed(INVALID_SYMBOL)

    def _variable(self, symbol: int) -> tuple[int, int] | None:
        """Address and bytes of a variable by its shadow on the host."""
        binary = next((b for b in self._registered.values() if symbol in b.variables), None)
        return code.variable(binary.loaded(), binary.variables[symbol]) if binary else None

    @entry("pp", "cudaMemGetInfo")
    def memory_info(self, free: int, total: int) -> None:
        self._driver.memory_info(free, total)

    @entry("pp", "cudaPointerGetAttributes")
    def pointer_attributes(self, attributes: int, pointer: int) -> None:
        kind = _MEMORY_TYPE_DEVICE if self.session.allocations.containing(pointer) else _MEMORY_TYPE_HOST
        ctypes.memmove(attributes, struct.pack("<iiQQ", kind, 0, pointer, pointer), 24)

    # Streams, events and graphs

    @entry(
        "p",
        *("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority"),
        *("cudaEventCreate", "cudaEventCreateWithFlags"),
    )
    def new(self, handle: int) -> None:
        put(handle, LONG, new_handle())

    @entry("pp", "cudaEventRecord", "cudaEventRecordWithFlags")
    def record(self, event: int, stream: int) -> None:
        self.session.record(event, stream)

    @entry("pp", "cudaStreamWaitEvent")
    def wait(self, stream: int, event: int) -> None:
        self.session.captures.wait(stream, event)

    @entry("ppp", "cudaEventElapsedTime", "cudaEventElapsedTime_v2")
    def elapsed(self, ms: int, start: int, end: int) -> int | None:
        code_of_driver = self._driver.elapsed(ms, start, end)
        return self.failed(INVALID_HANDLE) if code_of_driver else None

    @entry("ppp", "cudaLaunchHostFunc")
    def call_host(self, stream: int, function: int, data: int) -> None:
        self._driver.call_host(stream, function, data)

    @entry("ppi", "cudaHostGetDevicePointer")
    def mapped(self, pointer: int, of_host: int, flags: int) -> None:
        self._driver.mapped(pointer, of_host, flags)

    @entry("pp", "cudaStreamIsCapturing")
    def is_capturing(self, stream: int, status: int) -> None:
        self._driver.is_capturing(stream, status)

    @entry("p", "cudaStreamBeginCapture")
    def begin_capture(self, stream: int) -> None:
        self.session.captures.begin(stream)

    @entry("pp", "cudaStreamEndCapture")
    def end_capture(self, stream: int, graph: int) -> int | None:
        return end_capture(self.session.captures, stream, graph)

    @entry("pp", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags")
    def instantiate(self, executable: int, graph: int) -> None:
        put(executable, LONG, graph)

    @entry("pp", "cudaGraphLaunch")
    def launch_graph(self, graph: int, stream: int) -> None:
        self._driver.launch_graph(graph, stream)


def _shape(xy: int, z: int) -> Shape:
    """A dim3 as it is passed by value: two numbers in one register, the third in another."""
    return xy & 0xFFFF_FFFF, xy >> 32, z


_Places = Mapping[int, tuple[int, int]]
_PLACES: Final[_Places] = {
    **{8: (296, 8), 12: (304, 4), 10: (308, 4), 11: (312, 8), 1: (320, 4), 2: (324, 4), 3: (328, 4), 4: (332, 4)},
    **{5: (336, 4), 6: (340, 4), 7: (344, 4), 9: (352, 8), 75: (360, 4), 76: (364, 4)},
}
"""Where cudaDeviceProp has which attribute, in how many bytes; as driver_types.h of CUDA 12 and 13 lay it out."""
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


def _write_properties(at: int, properties: DeviceProperties, places: _Places, size: int) -> None:
    image = bytearray(size)
    name = properties.name.encode()
    image[: len(name)] = name
    image[288:296] = properties.total_memory.to_bytes(8, "little")
    for attribute, (place, width) in places.items():
        image[place : place + width] = properties.numbered(attribute).to_bytes(width, "little")
    ctypes.memmove(at, bytes(image), size)
