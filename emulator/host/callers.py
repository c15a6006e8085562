"""The place in the program that called a function of the emulated host."""

from __future__ import annotations

import ctypes
import linecache
import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from ..tensors import PACKAGE, is_the_users

_FRAMES: Final = 64
_NOT_THE_PROGRAMS: Final = ("libpython", "python", "libffi", "_ctypes", "libc.so", "libcudart", "libcuda.so")


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class Place(NamedTuple):
    """A line of the program's Python code. str() shows it."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        relative = os.path.relpath(self.file)
        text = linecache.getline(self.file, self.line).strip()
        return f"{self.file if relative.startswith('..') else relative}:{self.line} in {self.function}: {text}"


def caller() -> object:
    """Return the line of the program's Python code that runs, or the C function that called, to be shown by str()."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_the_programs(frame.f_code.co_filename):
            return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return _c_caller()


@cache
def _is_the_programs(file: str) -> bool:
    inside = Path(file).is_relative_to(PACKAGE) or file.startswith((f"{sys.base_prefix}/lib", "<"))
    return not inside and is_the_users(file)


def _c_caller() -> str:
    libc, addresses = ctypes.CDLL(None), (ctypes.c_void_p * _FRAMES)()
    for address in addresses[: libc.backtrace(addresses, _FRAMES)]:
        found = _Symbol()
        if not address or not libc.dladdr(ctypes.c_void_p(address), ctypes.byref(found)) or not found.file:
            continue
        file = os.path.basename(found.file.decode())
        if not file.startswith(_NOT_THE_PROGRAMS):
            name = found.name.decode() if found.name else "a function"
            return f"{name} of {file}, at offset {address - (found.base or 0):#x}"
    return "an unknown place"
