"""NVIDIA's CUDA runtime and driver in loaded libraries. Their functions jump to the emulated ones during a session.

Wheels such as those of CuPy and Warp contain the static runtime without its symbols. Each function of its API passes
its own name to profilers, so the only code that refers to the name is the function. Exception tables list where
functions begin (System V ABI for x86-64, 4.2.4; Linux Standard Base, 10.6.2).

On a machine with a GPU a CUDA build of torch loads NVIDIA's driver, and whoever then opens it by name, as Triton does,
gets that library.
"""

from __future__ import annotations

import _imp
import ctypes
import mmap
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..bridge.elf import EXCEPTIONS, EXECUTE, LOAD, Segment, segments
from ..patching import Patches
from .c_library import FOLDER
from .libcudart import LibCudart
from .loaded import STRINGS, STRINGS_SIZE, Loaded, loaded_objects, make_writable

_IMPORTS: Final = (b"\0dlsym\0", b"\0dlclose\0", b"\0shm_unlink\0", b"\0sem_timedwait\0")
"""Functions that every library with the static runtime imports, and few others do."""
JUMP: Final = struct.Struct("<2sQ2s")
"""`movabs $address, %rax; jmp *%rax`."""
_NAME: Final = re.compile(rb"\0cuda[A-Z]\w+(?=\0)")
_LEA, _CALL = 7, 5
"""The bytes of `lea name(%rip), register` and of `call function`."""
_PROLOGUE: Final = 128
"""The bytes in which a function of the runtime calls the function that initialises it."""
_HEADER: Final = 12
"""The bytes of .eh_frame_hdr before its table of (function, entry), both relative to it."""
_SORTED_TABLE: Final = bytes((1, 0x1B, 0x03, 0x3B))
_WRITE: Final = 2
"""A flag of the segments that hold no constants."""
_BLOCK: Final = 1 << 18
"""The bytes of code that are searched at once."""


class Redirection:
    """The functions that jump to the emulated runtime, and the code that they had before."""

    def __init__(self, runtime: LibCudart) -> None:
        self._runtime = runtime
        self._seen: set[int] = set()
        self._before: list[tuple[int, bytes]] = []

    def update(self) -> None:
        """Redirect the functions of libraries that were loaded since the last call."""
        for library in loaded_objects():
            if library.base in self._seen or not library.base:
                continue
            self._seen.add(library.base)
            path = Path(library.name)
            if path.name.startswith("libnvrtc.so"):
                self._keep_ptx(ctypes.CDLL(library.name))
            elif path.name.startswith("libcuda.so") and path.parent != FOLDER:
                self._replace_driver(ctypes.CDLL(library.name))
            elif path.parent != FOLDER and _may_have_runtime(library):
                functions = runtime_functions(library.base)
                for address, name in functions.items():
                    if target := self._runtime.of_static_runtime(name):
                        self._redirect(address, target)
                if functions:
                    self._runtime.redirected[library.base, library.base + end_of(library.base)] = library.name

    def _keep_ptx(self, nvrtc: ctypes.CDLL) -> None:
        """Let NVRTC return PTX where it is asked for machine code. It makes PTX of every program first."""
        for suffix in ("", "Size"):
            functions = (nvrtc[f"nvrtcGet{kind}{suffix}"] for kind in ("CUBIN", "PTX"))
            code, ptx = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
            self._redirect(code, ptx)

    def _replace_driver(self, loaded: ctypes.CDLL) -> None:
        """Redirect the driver's functions, as many as are emulated."""
        driver = self._runtime.driver
        for name in driver.functions:
            if function := getattr(loaded, name, None):
                self._redirect(ctypes.cast(function, ctypes.c_void_p).value or 0, driver.address(name))

    def _redirect(self, address: int, target: int) -> None:
        make_writable(address, JUMP.size, executable=True)
        self._before.append((address, ctypes.string_at(address, JUMP.size)))
        ctypes.memmove(address, jump(target), JUMP.size)

    def undo(self) -> None:
        """Give the functions their own code back."""
        self._runtime.redirected.clear()
        while self._before:
            address, code = self._before.pop()
            ctypes.memmove(address, code, len(code))


@contextmanager
def redirected(runtime: LibCudart, patches: Patches) -> Iterator[None]:
    """Redirect the functions of all libraries, also of those that Python loads while the context is open."""
    found = Redirection(runtime)

    def loading(load: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            library = load(*arguments, **named)
            found.update()
            return library

        return wrapped

    for module, name in ((_imp, "create_dynamic"), (ctypes, "_dlopen")):
        patches.set(module, name, loading(getattr(module, name)))
    found.update()
    try:
        yield
    finally:
        found.undo()


def _may_have_runtime(library: Loaded) -> bool:
    strings = ctypes.string_at(library[STRINGS], library[STRINGS_SIZE])
    return all(name in strings for name in _IMPORTS)


def jump(target: int) -> bytes:
    """Return code that jumps to an address."""
    return JUMP.pack(b"\x48\xb8", target, b"\xff\xe0")


def end_of(base: int) -> int:
    """Return the size of a loaded library's constants and code."""
    parts = segments(ctypes.string_at(base, mmap.PAGESIZE))
    return max(part.address + part.size for part in parts if _is_constant(part))


def runtime_functions(base: int) -> dict[int, str]:
    """Return the functions of the static runtime in a loaded library, by address; none if it has no runtime.

    A function of the runtime refers to one name and calls, at its beginning, the function that all others call.
    """
    parts = list(segments(ctypes.string_at(base, mmap.PAGESIZE)))
    starts = _starts_of_functions(base, parts)
    names = {base + part.address + at: name for part in parts if _is_constant(part) for at, name in _names(base, part)}
    if not starts.size or not names:
        return {}
    known, found = np.array(sorted(names)), defaultdict[int, set[str]](set)
    for at, target in _references(base, parts, starts):
        for place, name in zip(*_chosen(at, target, known), strict=True):
            found[int(starts[np.searchsorted(starts, place, "right") - 1])].add(names[int(name)])
    calls = {start: _calls(start, starts) for start, referred in found.items() if len(referred) == 1}
    common = Counter(target for targets in calls.values() for target in targets).most_common(1)
    return {start: next(iter(found[start])) for start, targets in calls.items() if common and common[0][0] in targets}


def _is_constant(part: Segment) -> bool:
    return part.kind == LOAD and not part.flags & _WRITE


def _bytes(address: int, size: int) -> np.ndarray:
    """Return memory as uint8[size]."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _names(base: int, part: Segment) -> Iterator[tuple[int, str]]:
    """Yield the names of CUDA's runtime in a segment, with their offsets."""
    for match in _NAME.finditer(_bytes(base + part.address, part.size).data):
        yield match.start() + 1, match[0][1:].decode()


def _starts_of_functions(base: int, parts: list[Segment]) -> np.ndarray:
    """Return the addresses of functions, sorted, from the table for exceptions: int64[n]."""
    part = next((each for each in parts if each.kind == EXCEPTIONS), None)
    if part is None or ctypes.string_at(base + part.address, 4) != _SORTED_TABLE:
        return np.empty(0, np.int64)
    table = _bytes(base + part.address + _HEADER, part.size - _HEADER)
    count = ctypes.c_uint32.from_address(base + part.address + 8).value
    return table[: 8 * count].view(np.int32)[::2].astype(np.int64) + base + part.address


def _references(base: int, parts: list[Segment], starts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the addresses of `lea` instructions and what they refer to, of the code near `starts`."""
    for part in parts:
        if part.kind == LOAD and part.flags & EXECUTE:
            inside = starts[(starts >= base + part.address) & (starts < base + part.address + part.size)]
            for block in np.unique((inside - base - part.address) // _BLOCK).tolist():
                first, last = block * _BLOCK, min((block + 1) * _BLOCK + _LEA, part.size)
                code = _bytes(base + part.address + first, last - first)
                at = np.flatnonzero((code[1:-5] == 0x8D) & (code[:-6] & 0xFB == 0x48) & (code[2:-4] & 0xC7 == 5))
                offset = code[at[:, None] + np.arange(3, _LEA)].view(np.int32)[:, 0].astype(np.int64)
                at = at + (base + part.address + first)
                yield at, at + _LEA + offset


def _chosen(at: np.ndarray, target: np.ndarray, known: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the references to known names."""
    chosen = np.isin(target, known)
    return at[chosen].tolist(), target[chosen].tolist()


def _calls(start: int, starts: np.ndarray) -> set[int]:
    """Return the functions that a function may call at its beginning."""
    after = starts[np.searchsorted(starts, start, "right") :]
    size = min(int(after[0]) - start if after.size else _PROLOGUE, _PROLOGUE)
    code = _bytes(start, size)
    at = np.flatnonzero(code[: max(size - _CALL + 1, 0)] == 0xE8)
    offset = code[at[:, None] + np.arange(1, _CALL)].view(np.int32)[:, 0].astype(np.int64)
    return set((start + at + _CALL + offset).tolist())
