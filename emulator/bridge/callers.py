"""The place in the program that called a function of the emulated host."""

from __future__ import annotations

import ctypes
import linecache
import os
import re
import sys
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from ..tensors import PACKAGE, is_the_users
from .elf import symbols

_FRAMES: Final = 64
_WRAPPER: Final = re.compile("__device_stub|cudaLaunch|^_Z(L|N|St)?.*cudaM")
"""Functions that nvcc or its headers put between a program's call and the runtime's."""
_COMMANDS: Final = f"{PACKAGE}/commands/"
"""The folder of the functions that run a program. Its frames, and those outside of it, are not the program's."""
PROGRAMS: Final = "emulator-cuda-"
"""Prefix of the folder with the emulated libraries and the C++ programs that run."""


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
    while frame is not None and not frame.f_code.co_filename.startswith(_COMMANDS):
        if _is_the_programs(frame.f_code.co_filename):
            return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return c_caller()


@cache
def _is_the_programs(file: str) -> bool:
    inside = Path(file).is_relative_to(PACKAGE) or file.startswith((f"{sys.base_prefix}/lib", "<"))
    return not inside and is_the_users(file)


class _CPlace(NamedTuple):
    """Calls in a C++ program: its file, and the offset of each call, the innermost first. str() shows a function."""

    file: str
    offsets: tuple[int, ...]

    def __str__(self) -> str:
        known = sorted((symbol.address, symbol.name) for symbol in symbols(Path(self.file).read_bytes()))
        before = (bisect(known, (offset, "~")) - 1 for offset in self.offsets)
        names = [known[at][1] if at >= 0 else "a function" for at in before]
        chosen = next((i for i, name in enumerate(names) if not _WRAPPER.search(name)), 0)
        return f"{names[chosen]} in {os.path.basename(self.file)}, offset {self.offsets[chosen]:#x}"


def c_caller(innermost: Sequence[int] = ()) -> object:
    """Return the C function that called. innermost: addresses of calls that the stack does not show."""
    libc, addresses = ctypes.CDLL(None), (ctypes.c_void_p * _FRAMES)()
    offsets = dict[str, list[int]]()
    for address in (*innermost, *addresses[: libc.backtrace(addresses, _FRAMES)]):
        found = _Symbol()
        if address and libc.dladdr(ctypes.c_void_p(address), ctypes.byref(found)) and found.file:
            file = found.file.decode()
            if f"/{PROGRAMS}" in file and not os.path.basename(file).startswith("lib"):
                offsets.setdefault(file, []).append(address - (found.base or 0))
    return next((_CPlace(file, tuple(calls)) for file, calls in offsets.items()), "an unknown place")
