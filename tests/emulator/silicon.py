"""The GPU of this machine, through its driver: launches run there as well as on the emulator, and both compared."""

from __future__ import annotations

import ctypes
import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from emulator.machine import scheduler
from emulator.machine.cta import Launch
from emulator.machine.statistics import Stats
from emulator.machine.tensormap import TensorMap

LOG_BYTES = 16384
PATIENCE_S = 20.0
PLACE, SHOWN = 16, 6
NEWEST_PTX = (9, 0)
MAP_BYTES, NEWER_MAP, LAST_ELEMENT = 128, 2, 10
"""A bit that tensor maps for sm_100 have and those for sm_90 must not have; the last element type of sm_90."""
Span = tuple[int, int]
"""(address, bytes)"""
Move = tuple[int, int, int]
"""(address on the host, bytes, address on the GPU)"""
Same = Callable[[np.ndarray, np.ndarray], str]
"""What is wrong with bytes from silicon (second) beside the emulator's (first); nothing if they agree."""

NOT_READY, NO_BINARY, INVALID_PTX = 600, 209, 218
ERROR_LOG, ERROR_LOG_BYTES, OPTIMISATION = 5, 6, 7
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76
DYNAMIC_SHARED = 8
CLUSTER = 4
PARAM_POINTER, PARAM_BYTES = 1, 2


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
    """A call of the driver failed. `code` is its CUresult."""

    def __init__(self, call: str, code: int, said: str = "") -> None:
        super().__init__(f"{call} answers {code}. {said}".strip())
        self.code, self.said = code, said


class Gpu:
    """The first GPU. `target` is what its PTX is compiled for, as in sm_90a, `optimisation` the compiler's level."""

    def __init__(self) -> None:
        self.optimisation = 4
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self._start()
        major, minor = (self._answer("cuDeviceGetAttribute", a, 0) for a in (CAPABILITY_MAJOR, CAPABILITY_MINOR))
        self.target = f"sm_{major}{minor}a"

    def _start(self) -> None:
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def restart(self) -> None:
        """A context anew, after an error that ended the last."""
        self._cuda.cuDevicePrimaryCtxReset_v2(0)  # answers with the error that it clears
        self._start()

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the driver. Raises DriverError."""
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise DriverError(name, code)

    def _answer(self, name: str, *arguments: Any) -> int:
        found = ctypes.c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def load(self, text: str) -> ctypes.c_void_p:
        """A module of PTX text. Raises DriverError with the compiler's words."""
        said = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 3)(ERROR_LOG, ERROR_LOG_BYTES, OPTIMISATION)
        values = (ctypes.c_void_p * 3)(ctypes.addressof(said), LOG_BYTES, self.optimisation)
        module = ctypes.c_void_p()
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode(), 3, options, values)
        except DriverError as error:
            raise DriverError("cuModuleLoadDataEx", error.code, said.value.decode(errors="replace")) from None
        return module

    def run(
        self, launch: Launch, spans: Sequence[Span], before: Sequence[bytes], after: Sequence[bytes]
    ) -> list[tuple[bytes, bytes]]:
        """Run a launch with `before` in the place of the host's `spans`.

        The answer is, for each, `after` with this GPU's addresses in it, and what the GPU left.
        Raises DriverError. A kernel that does not end within PATIENCE_S ends the tests.
        """
        module = self.load(self.retargeted("\n".join(launch.kernel.source)))
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, launch.kernel.name.encode())
        places = [self._allocated(size) for _, size in spans]
        moved = [(start, size, place) for (start, size), place in zip(spans, places, strict=True)]
        try:
            for place, content in zip(places, before, strict=True):
                self._fill(place, self._translated(content, moved))
            self._launch(function, launch, self._parameters(launch, moved))
            return [
                (self._translated(wanted, moved), self._fetched(place, len(wanted)))
                for place, wanted in zip(places, after, strict=True)
            ]
        except DriverError:
            self.restart()
            places, module = [], ctypes.c_void_p()
            raise
        finally:
            for place in places:
                self.call("cuMemFree_v2", ctypes.c_uint64(place))
            if module:
                self.call("cuModuleUnload", module)

    def retargeted(self, text: str) -> str:
        """The PTX for this GPU, in a version that its driver knows."""
        text = re.sub(r"\.target\s+sm_\w+", f".target {self.target}", text)
        return re.sub(r"\.version\s+(\d+)\.(\d+)", lambda m: _older(int(m[1]), int(m[2])), text)

    def _allocated(self, size: int) -> int:
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place.value

    def _fill(self, place: int, content: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(place), content, ctypes.c_size_t(len(content)))

    def _fetched(self, place: int, size: int) -> bytes:
        content = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(place), ctypes.c_size_t(size))
        return content.raw

    def _parameters(self, launch: Launch, moved: Sequence[Move]) -> bytearray:
        """The launch's parameters, with this GPU's addresses in the place of the host's."""
        raw = bytearray(launch.param_bytes)
        for param in launch.kernel.params:
            part = slice(param.offset, param.offset + param.size)
            raw[part] = self._translated(bytes(raw[part]), moved)
        return raw

    def _translated(self, content: bytes, moved: Sequence[Move]) -> bytes:
        """Words of 8 bytes that are addresses of the host, and tensor maps, as they are on this GPU."""
        words = np.frombuffer(content[: len(content) // 8 * 8], np.uint64).copy()
        for start, size, place in moved:
            words[(words >= start) & (words < start + size)] += np.uint64((place - start) % (1 << 64))
        if len(content) == MAP_BYTES and _is_map(content) and self.target == "sm_90a":
            if (element := int(words[1]) >> 7 & 15) > LAST_ELEMENT:
                raise DriverError("a tensor map", INVALID_PTX, f"element type {element}")
            words[1] &= ~np.uint64(NEWER_MAP)
        return words.tobytes() + content[words.nbytes :]

    def _launch(self, function: ctypes.c_void_p, launch: Launch, parameters: bytearray) -> None:
        attribute = _Attribute(CLUSTER, 0, (*launch.cluster, *[0] * 13))
        clustered = launch.cluster != (1, 1, 1) and launch.kernel.reqnctapercluster is None
        shared = launch.dynamic_shared_bytes
        if shared:
            self.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, shared)
        config = _Config(launch.grid, launch.block, shared, None, ctypes.pointer(attribute), int(clustered))
        buffer = (ctypes.c_char * max(len(parameters), 1)).from_buffer(parameters or bytearray(1))
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(PARAM_POINTER, ctypes.addressof(buffer), PARAM_BYTES, ctypes.addressof(size), 0)
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, None, extra)
        deadline = time.monotonic() + PATIENCE_S
        while (code := self._cuda.cuStreamQuery(None)) == NOT_READY:
            if time.monotonic() > deadline:
                pytest.exit(f"the GPU did not end {launch.kernel.name}:\n" + "\n".join(launch.kernel.source), 3)
        if code:
            raise DriverError("the kernel", code)


def _older(major: int, minor: int) -> str:
    major, minor = min((major, minor), NEWEST_PTX)
    return f".version {major}.{minor}"


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

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.tally: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.same: Same = equal
        self._run = scheduler.run
        self._done: set[str] = set()

    def __call__(self, launch: Launch, *arguments: Any, **named: Any) -> Stats:
        spans = [(a, n) for a, n, _ in launch.allocations if n] + _mapped(launch)
        before = [ctypes.string_at(*span) for span in spans]
        stats = self._run(launch, *arguments, **named)
        key = hashlib.sha256(repr((launch.kernel.source, launch.grid, launch.cluster, before)).encode()).hexdigest()
        if key in self._done or launch.findings:
            self.tally["again, or with findings"] += 1
            return stats
        self._done.add(key)
        try:
            after = [ctypes.string_at(*span) for span in spans]
            results = self.gpu.run(launch, spans, before, after)
        except DriverError as error:
            if error.code not in (NO_BINARY, INVALID_PTX):
                raise AssertionError(f"{error}\n" + "\n".join(launch.kernel.source)) from None
            self.tally["refused by its compiler"] += 1
            self.refusals[error.said.split(";")[-1].strip().split("\n")[0]] += 1
            return stats
        self.tally["launches"] += 1
        self.tally["warp-instructions"] += stats.instructions
        for wanted, seen in results:
            self.tally["bytes"] += len(wanted)
            wrong = self.same(np.frombuffer(wanted, np.uint8), np.frombuffer(seen, np.uint8))
            if wrong:
                raise AssertionError("\n".join([wrong, *launch.kernel.source]))
        return stats


def _is_map(raw: bytes) -> bool:
    try:
        TensorMap.decode(raw)
    except ValueError:
        return False
    return True


def _mapped(launch: Launch) -> list[Span]:
    """The tensors behind the launch's tensor maps that are no allocations of it."""
    found: dict[int, int] = {}
    for param in launch.kernel.params:
        if param.size == MAP_BYTES:
            raw = launch.param_bytes[param.offset : param.offset + MAP_BYTES]
            if not _is_map(raw):
                continue
            tensor = TensorMap.decode(raw)
            if not any(a <= tensor.address < a + n for a, n, _ in launch.allocations):
                found[tensor.address] = tensor.dims[-1] * tensor.strides[-1]
    return sorted(found.items())
