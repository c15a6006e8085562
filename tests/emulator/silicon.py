"""The GPU of this machine, through its driver: launches run there as well as on the emulator, and both compared."""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from emulator.machine import scheduler
from emulator.machine.launch import Dim3, Launch
from emulator.machine.statistics import Stats
from emulator.machine.tensormap import TensorMap

LOG_BYTES = 16384
PATIENCE_S = 20.0
PLACE, SHOWN = 16, 6
NEWEST_PTX = (9, 0)
MAP_BYTES, NEWER_MAP, ATOMICITY, LAST_ELEMENT = 128, 2, 3 << 19, 10
"""Bits of tensor maps for sm_100 that those for sm_90 must not have; the last element type of sm_90."""
Span = tuple[int, int]
"""(address, bytes)"""
Move = tuple[int, int, int]
"""(address on the host, bytes, address on the GPU)"""
Same = Callable[[np.ndarray, np.ndarray], str]
"""What is wrong with bytes from silicon (second) beside the emulator's (first); nothing if they agree."""

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
    """A call of the driver failed. `code` is its CUresult, LOST if the kernel did not end or ended the process."""

    def __init__(self, call: str, code: int, said: str = "") -> None:
        super().__init__(call, code, said)
        self.code, self.said = code, said


@dataclass(frozen=True)
class Job:
    """A launch for the GPU: PTX, what is launched how, and the memory of the host that it works on.

    parameters: the bytes of each. spans: where memory lies on the host; before: what it holds.
    maps: which spans hold tensor maps. optimisation: the level of the driver's compiler.
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
    """The first GPU. `target` is what its PTX is compiled for, as in sm_90a."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        major, minor = (self._attribute(a) for a in (CAPABILITY_MAJOR, CAPABILITY_MINOR))
        self.target = f"sm_{major}{minor}a"

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the driver. Raises DriverError."""
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise DriverError(name, code)

    def _attribute(self, which: int) -> int:
        found = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(found), which, 0)
        return found.value

    def run(self, job: Job) -> tuple[list[Move], list[bytes]]:
        """Run a launch: where its memory was, and what it holds afterwards. Raises DriverError."""
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
        said = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 3)(ERROR_LOG, ERROR_LOG_BYTES, OPTIMISATION)
        values = (ctypes.c_void_p * 3)(ctypes.addressof(said), LOG_BYTES, optimisation)
        module = ctypes.c_void_p()
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode(), 3, options, values)
        except DriverError as error:
            raise DriverError("cuModuleLoadDataEx", error.code, said.value.decode(errors="replace")) from None
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
        """A parameter, with this GPU's addresses in the place of the host's."""
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


class Worker:
    """A GPU in a process of its own, since a kernel's fault ends all use of the GPU in the process that it is in."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.target = str(self._answer())

    def run(self, job: Job) -> tuple[list[Move], list[bytes]]:
        """As Gpu.run. A kernel that does not end within PATIENCE_S is a DriverError too."""
        try:
            self._pipe.send(job)
            answer = self._answer()
        except DriverError as error:
            if error.code not in (NO_BINARY, INVALID_PTX):
                self.stop()
                self._start()
            raise
        return answer  # type: ignore[no-any-return]

    def _answer(self) -> Any:
        try:
            if not self._pipe.poll(PATIENCE_S):
                raise DriverError(f"no end within {PATIENCE_S} s", LOST)
            answer = self._pipe.recv()
        except EOFError:
            raise DriverError("the process with the GPU ended", LOST) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    try:
        gpu = Gpu()
        pipe.send(gpu.target)
        with suppress(EOFError):
            while True:
                try:
                    pipe.send(gpu.run(pipe.recv()))
                except DriverError as error:
                    pipe.send(error)
    except (DriverError, OSError) as error:
        pipe.send(error)


def retargeted(text: str, target: str) -> str:
    """PTX for another target, in a version that its driver knows."""

    def older(found: re.Match[str]) -> str:
        major, minor = min((int(found[1]), int(found[2])), NEWEST_PTX)
        return f".version {major}.{minor}"

    return re.sub(r"\.version\s+(\d+)\.(\d+)", older, re.sub(r"\.target\s+sm_\w+", f".target {target}", text))


def translated(address: int, moved: Sequence[Move]) -> int:
    """An address of the host as it is on the GPU; any other number as it is."""
    return next((address - start + place for start, size, place in moved if start <= address < start + size), address)


def translated_map(raw: bytes, moved: Sequence[Move], target: str) -> bytes:
    """A tensor map as it is on the GPU. Raises DriverError for an element type that it does not know."""
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
    """Whether bytes are a tensor map."""
    try:
        return len(raw) == MAP_BYTES and bool(TensorMap.decode(raw))
    except ValueError:
        return False


def equal(emulated: np.ndarray, seen: np.ndarray) -> str:
    """Every bit."""
    different = np.flatnonzero(emulated != seen)
    if not different.size:
        return ""
    places = np.unique(different // PLACE)[:SHOWN] * PLACE
    shown = "; ".join(f"at {at} {_hex(emulated, at)} and {_hex(seen, at)}" for at in places)
    return f"{different.size} of {seen.size} bytes differ, emulator and silicon have: {shown}"


def _hex(content: np.ndarray, at: int) -> str:
    return content[at : at + PLACE].tobytes().hex()


class Comparison:
    """Takes the place of scheduler.run: launches run on both sides.

    Raises AssertionError where they differ by `same`. `tally` counts launches by what became of them, and what was
    executed and compared.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.tally: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.same: Same = equal
        self.optimisation = 4
        self._run = scheduler.run
        self._done: set[str] = set()

    def __call__(self, launch: Launch, *arguments: Any, **named: Any) -> Stats:
        spans = [(a, n) for a, n, _ in launch.allocations if n]
        job = self.job(launch, spans + mapped(launch, spans))
        stats = self._run(launch, *arguments, **named)
        key = hashlib.sha256(repr((job.text, job.grid, job.cluster, job.before)).encode()).hexdigest()
        if key in self._done or launch.findings:
            self.tally["again, or with findings"] += 1
            return stats
        self._done.add(key)
        try:
            moved, seen = self.worker.run(job)
        except DriverError as error:
            if error.code not in (NO_BINARY, INVALID_PTX):
                raise AssertionError(f"{error}\n{job.text}") from None
            self.tally["refused by its compiler"] += 1
            self.refusals[error.said.split(";")[-1].strip().split("\n")[0]] += 1
            return stats
        self.tally["launches"] += 1
        self.tally["warp-instructions"] += stats.instructions
        for i, (span, content) in enumerate(zip(job.spans, seen, strict=True)):
            wanted = ctypes.string_at(*span)
            wanted = translated_map(wanted, moved, self.worker.target) if i in job.maps else wanted
            self.tally["bytes"] += len(wanted)
            if wrong := self.same(np.frombuffer(wanted, np.uint8), np.frombuffer(content, np.uint8)):
                raise AssertionError(f"{wrong}\n{job.text}")
        return stats

    def job(self, launch: Launch, spans: Sequence[Span]) -> Job:
        """What the GPU is to do for a launch, with the memory as it is now."""
        before = tuple(ctypes.string_at(*span) for span in spans)
        raw, kernel = launch.param_bytes, launch.kernel
        clustered = launch.cluster != (1, 1, 1) and kernel.reqnctapercluster is None
        return Job(
            "\n".join(kernel.source),
            kernel.name,
            launch.grid,
            launch.block,
            launch.cluster if clustered else None,
            launch.dynamic_shared_bytes,
            tuple(raw[p.offset : p.offset + p.size] for p in kernel.params),
            tuple(spans),
            before,
            frozenset(i for i, content in enumerate(before) if is_map(content)),
            self.optimisation,
        )


def mapped(launch: Launch, known: Sequence[Span]) -> list[Span]:
    """The tensors behind the launch's tensor maps that are no allocations of it."""
    found: dict[int, int] = {}
    for param in launch.kernel.params:
        raw = launch.param_bytes[param.offset : param.offset + param.size]
        if is_map(raw):
            tensor = TensorMap.decode(raw)
            if not any(start <= tensor.address < start + size for start, size in known):
                found[tensor.address] = tensor.dims[-1] * tensor.strides[-1]
    return sorted(found.items())
