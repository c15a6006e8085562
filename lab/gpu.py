"""Run launches and microbenchmarks on this machine's GPU through the CUDA driver."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emulator.machine.formats.tensormap import TensorMap
from emulator.machine.launch.launch import Dim3
from lab.microbenchmarks import Micro

LOG_BYTES = 16384
NEWEST_PTX = (9, 0)
MAP_BYTES, NEWER_MAP, ATOMICITY, LAST_ELEMENT = 128, 2, 3 << 19, 10
"""Size of a tensor map; bits that only tensor maps for sm_100 may have; the last element type of sm_90."""
FP32 = 7
FLUSHED = 1 << 28
"""Bytes to write so that L2 holds nothing else."""
Span = tuple[int, int]
"""Address, size in bytes."""
Move = tuple[int, int, int]
"""Address on the host, size in bytes, address on the GPU."""
NO_BINARY, INVALID_PTX, LOST = 209, 218, -1
ERROR_LOG, ERROR_LOG_BYTES, OPTIMISATION = 5, 6, 7
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
DYNAMIC_SHARED = 8
CLUSTER = 4


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class DriverError(Exception):
    """A failed driver call. code: its CUresult; LOST if the kernel hung or killed the process. log: of the compiler."""

    def __init__(self, call: str, code: int, log: str = "") -> None:
        super().__init__(call, code, log)
        self.code, self.log = code, log


@dataclass(frozen=True)
class Job:
    """A launch for the GPU, and the host memory that it works on.

    parameters: the bytes of each parameter. spans: the memory's host ranges. before: their contents. maps: indices of
    spans that are tensor maps. optimisation: the level of the driver's compiler.
    """

    text: str
    name: str
    grid: Dim3
    block: Dim3
    cluster: Dim3 | None
    shared: int
    parameters: tuple[bytes, ...]
    spans: tuple[Span, ...]
    before: tuple[bytes, ...]
    maps: frozenset[int]
    optimisation: int


class Gpu:
    """The first GPU. target: the PTX target, such as sm_90a."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        major, minor = (self._attribute(a) for a in (CAPABILITY_MAJOR, CAPABILITY_MINOR))
        self.target = f"sm_{major}{minor}a"

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function. Raises DriverError."""
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise DriverError(name, code)

    def _attribute(self, which: int) -> int:
        found = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(found), which, 0)
        return found.value

    def run(self, job: Job) -> tuple[list[Move], list[bytes]]:
        """Run a launch. Returns the placement and the final contents of its memory. Raises DriverError."""
        module = self._load(retargeted(job.text, self.target), job.optimisation)
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, job.name.encode())
        moved = [(start, size, self._allocated(size)) for start, size in job.spans]
        for i, ((_, size, place), content) in enumerate(zip(moved, job.before, strict=True)):
            content = translated_map(content, moved, self.target) if i in job.maps else content
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(place), content, ctypes.c_size_t(size))
        self._launch(function, job, [self._parameter(content, moved) for content in job.parameters])
        after = [self._fetched(place, size) for _, size, place in moved]
        for _, _, place in moved:
            self.call("cuMemFree_v2", ctypes.c_uint64(place))
        self.call("cuModuleUnload", module)
        return moved, after

    def _load(self, text: str, optimisation: int) -> ctypes.c_void_p:
        log = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 3)(ERROR_LOG, ERROR_LOG_BYTES, OPTIMISATION)
        values = (ctypes.c_void_p * 3)(ctypes.addressof(log), LOG_BYTES, optimisation)
        module = ctypes.c_void_p()
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode(), 3, options, values)
        except DriverError as error:
            raise DriverError("cuModuleLoadDataEx", error.code, log.value.decode(errors="replace")) from None
        return module

    def _allocated(self, size: int) -> int:
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place.value

    def _fetched(self, place: int, size: int) -> bytes:
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(place), ctypes.c_size_t(size))
        return content.raw

    def _parameter(self, content: bytes, moved: Sequence[Move]) -> bytes:
        """Return a parameter with host addresses replaced by this GPU's."""
        if is_map(content):
            return translated_map(content, moved, self.target)
        if len(content) == 8:
            return translated(int.from_bytes(content, "little"), moved).to_bytes(8, "little")
        return content

    def _launch(self, function: ctypes.c_void_p, job: Job, parameters: Sequence[bytes]) -> None:
        if job.shared:
            self.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, job.shared)
        attribute = _Attribute(CLUSTER, 0, (*(job.cluster or (1, 1, 1)), *[0] * 13))
        config = _Config(job.grid, job.block, job.shared, None, ctypes.pointer(attribute), int(job.cluster is not None))
        buffers = [ctypes.create_string_buffer(content, len(content)) for content in parameters]
        given = (ctypes.c_void_p * (len(buffers) + 1))(*(ctypes.addressof(b) for b in buffers))
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, given, None)
        self.call("cuCtxSynchronize")


class TimedGpu(Gpu):
    """The first GPU, for timing microbenchmarks."""

    class Unsupported(Exception):
        """The GPU's compiler does not know an instruction."""

    def __init__(self) -> None:
        super().__init__()
        self._tensor, self._tensor_bytes, self._launches = 0, 0, 0
        self._out = self._allocated(1 << 16)

    def cycles(self, micro: Micro) -> float:
        """Return the cycles of one operation of a round: the mean over all CTAs, the minimum of three runs.

        Raises Unsupported, DriverError.
        """
        try:
            module = self._load(retargeted(micro.text, self.target), 4)
        except DriverError as error:
            if error.code in (NO_BINARY, INVALID_PTX):
                raise self.Unsupported(error.log.split(";")[-1].strip().split("\n")[0]) from None
            raise
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        few, many = (min(self._once(function, micro, rounds) for _ in range(3)) for rounds in micro.rounds)
        self.call("cuModuleUnload", module)
        return (many - few) / (micro.rounds[1] - micro.rounds[0]) / micro.each

    def _once(self, function: ctypes.c_void_p, micro: Micro, rounds: int) -> float:
        given = [self._out.to_bytes(8, "little"), rounds.to_bytes(4, "little")]
        if micro.tensor:
            self._fill(micro.tensor)
        if micro.box is not None:
            rows = micro.tensor // (4 * micro.box[0])
            given = [self._map(micro, rows), *given, (rows - 1).to_bytes(4, "little")]
            if micro.misses and micro.ctas == 1:
                self.call("cuMemsetD32_v2", ctypes.c_uint64(self._tensor + micro.tensor // 2), 0, FLUSHED // 4)
        elif micro.tensor:
            self._launches += 1
            seed = self._launches << 16  # the program adds numbers of lanes
            given = [self._tensor.to_bytes(8, "little"), *given, seed.to_bytes(4, "little")]
            if not micro.misses:
                self.call("cuMemsetD32_v2", ctypes.c_uint64(self._tensor), 0, ctypes.c_size_t(micro.tensor // 4))
        cluster = (micro.cluster, 1, 1) if micro.cluster > 1 else None
        grid, block = (micro.ctas, 1, 1), (micro.threads, 1, 1)
        job = Job(micro.text, "k", grid, block, cluster, micro.shared, (), (), (), frozenset(), 4)
        self._launch(function, job, given)
        raw = self._fetched(self._out, 8 * micro.ctas)
        return sum(int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)) / micro.ctas

    def _fill(self, size: int) -> None:
        """Allocate and initialise the tensor if it has fewer bytes."""
        if self._tensor_bytes < size:
            self._tensor, self._tensor_bytes = self._allocated(size), size
            self.call("cuMemsetD32_v2", ctypes.c_uint64(self._tensor), 0, ctypes.c_size_t(size // 4))

    def _map(self, micro: Micro, rows: int) -> bytes:
        """Return the tensor map of a microbenchmark."""
        assert micro.box is not None
        raw = ctypes.create_string_buffer(MAP_BYTES + 64)
        place = ctypes.addressof(raw) + -ctypes.addressof(raw) % 64
        sizes, strides = (ctypes.c_uint64 * 2)(micro.box[0], rows), (ctypes.c_uint64 * 1)(4 * micro.box[0])
        box, ones = (ctypes.c_uint32 * 2)(*micro.box), (ctypes.c_uint32 * 2)(1, 1)
        tensor = ctypes.c_uint64(self._tensor)
        self.call(
            "cuTensorMapEncodeTiled", ctypes.c_void_p(place), FP32, 2, tensor, sizes, strides, box, ones, 0, 0, 0, 0
        )
        return ctypes.string_at(place, MAP_BYTES)


def retargeted(text: str, target: str) -> str:
    """Rewrite PTX for another target, in a PTX version that its driver supports."""

    def older(found: re.Match[str]) -> str:
        major, minor = min((int(found[1]), int(found[2])), NEWEST_PTX)
        return f".version {major}.{minor}"

    return re.sub(r"\.version\s+(\d+)\.(\d+)", older, re.sub(r"\.target\s+sm_\w+", f".target {target}", text))


def translated(address: int, moved: Sequence[Move]) -> int:
    """Translate a host address to the GPU's. Any other number is returned unchanged."""
    return next((address - start + place for start, size, place in moved if start <= address < start + size), address)


def translated_map(raw: bytes, moved: Sequence[Move], target: str) -> bytes:
    """Translate a tensor map for the GPU. Raises DriverError for a field that the GPU does not support."""
    words = np.frombuffer(raw, np.uint64).copy()
    words[0] = translated(int(words[0]), moved)
    if target == "sm_90a":
        if (element := int(words[1]) >> 7 & 15) > LAST_ELEMENT:
            raise DriverError("a tensor map", INVALID_PTX, f"element type {element}")
        if int(words[1]) & ATOMICITY:
            raise DriverError("a tensor map", INVALID_PTX, "swizzle atomicity")
        words[1] &= ~np.uint64(NEWER_MAP)
    return words.tobytes()


def is_map(raw: bytes) -> bool:
    """Return True if bytes are a valid tensor map."""
    try:
        return len(raw) == MAP_BYTES and bool(TensorMap.decode(raw))
    except ValueError:
        return False
