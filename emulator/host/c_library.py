"""CUDA's libraries for C code: generated shared libraries whose functions are implemented in Python.

A library stays loaded until the process ends, because programs linked to it do. Each session provides its state.
C++ destructors may call a library after Python has shut down. From then on each function returns 0 and does nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..bridge.driver import callback
from ..bridge.sharedobject import RETURN_ZERO, TABLE, shared_object
from .errors import CudaError
from .state import DriverState

NO_DEVICE: Final = 100
INT, UINT, LONG, FLOAT = ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_float
_KINDS: Final = {"p": ctypes.c_size_t, "n": ctypes.c_size_t, "i": INT, "u": UINT}
"""Pointers and sizes, 32-bit integers with a sign and without."""
_folder = tempfile.TemporaryDirectory(prefix="emulator-cuda-")
FOLDER: Final = Path(_folder.name)
"""The folder of the libraries, for linkers and for programs that open them by path."""

Function = Callable[..., Any]


@dataclass(frozen=True)
class _Entry:
    takes: str
    names: tuple[str, ...]
    always: bool


def entry(takes: str, *names: str, always: bool = False) -> Callable[[Function], Function]:
    """Marks a method as the C functions of these names. takes: its arguments by letter: p, n, i, u, and what it answers
    behind a colon, where that is no error code (None is 0). always: outside of any session too. A method may be marked
    several times, for functions that take more or less."""

    def mark(function: Function) -> Function:
        function.__dict__.setdefault("c_entries", []).append(_Entry(takes, names, always))
        return function

    return mark


def put(address: int, kind: Any, value: float) -> None:
    """Write an output parameter. A null address is skipped: the caller does not want the value."""
    if address:
        kind.from_address(address).value = value


class CLibrary:
    """One emulated library. sonames: the names that programs link to. quiet: functions that return 0 and do nothing."""

    sonames: tuple[str, ...] = ()
    versioned = False
    quiet: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.state: DriverState | None = None
        self.functions = dict.fromkeys(self.quiet, self._callback(lambda: None, _Entry("", (), False)))
        for method in vars(type(self)).values():
            for found in getattr(method, "c_entries", ()):
                self.functions.update(dict.fromkeys(found.names, self._callback(method.__get__(self), found)))
        self._loaded = [self._load(soname) for soname in self.sonames]

    def address(self, name: str) -> int:
        """Return the address of a function, 0 if the library has none of that name."""
        return _address(self._loaded[0][name]) if name in self.functions else 0

    @property
    def session(self) -> DriverState:
        """The state of the open session."""
        assert self.state is not None
        return self.state

    def failed(self, error: int) -> int:
        """Return the CUDA error code of a failed call. Subclasses also record it."""
        return error

    def _callback(self, function: Function, entry: _Entry) -> Any:
        takes, _, answers = entry.takes.partition(":")

        def answer(*arguments: Any) -> int | None:
            if self.state is None and not entry.always:
                return NO_DEVICE
            try:
                code: int | None = function(*arguments)
            except CudaError as error:
                code = self.failed(error.code)
            return code

        return callback(answer, [_KINDS[kind] for kind in takes], _KINDS[answers or "i"])

    def _load(self, soname: str) -> ctypes.CDLL:
        path = FOLDER / soname
        path.write_bytes(shared_object(soname, list(self.functions), soname if self.versioned else ""))
        library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        table = (ctypes.c_size_t * len(self.functions)).in_dll(library, TABLE)
        table[:] = [_address(function) for function in self.functions.values()]
        atexit.register(_fill, table, _address(library[RETURN_ZERO]))
        return library


def _fill(table: ctypes.Array[ctypes.c_size_t], function: int) -> None:
    table[:] = [function] * len(table)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
