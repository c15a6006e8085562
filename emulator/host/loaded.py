"""The objects that glibc's loader has loaded into this process."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

NEEDED, STRINGS, SYMBOLS, RELOCATIONS, RELOCATIONS_SIZE, STRINGS_SIZE = 1, 5, 6, 7, 8, 10
_RELATIVE_COUNT: Final = 0x6FFFFFF9
_RELOCATION: Final = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_SYMBOL_BYTES: Final = 24
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PROGRAM: Final = ctypes.CDLL(None)


class _Link(ctypes.Structure):
    """The beginning of glibc's struct link_map."""


_Link._fields_ = [
    ("base", ctypes.c_uint64),
    ("name", ctypes.c_char_p),
    ("dynamic", ctypes.c_uint64),
    ("next", ctypes.POINTER(_Link)),
    ("previous", ctypes.POINTER(_Link)),
]


@dataclass(frozen=True)
class Loaded:
    """A loaded object: its path, base address, and the entries of its dynamic section."""

    name: str
    base: int
    entries: Sequence[tuple[int, int]]

    def __getitem__(self, tag: int) -> int:
        return next((value for each, value in self.entries if each == tag), 0)

    def string(self, offset: int) -> bytes:
        """Return a string of the dynamic string table."""
        return ctypes.string_at(self[STRINGS] + offset)

    def relocations(self) -> np.ndarray:
        """Return the relocations that name a symbol, which follow the relative ones."""
        count = self[RELOCATIONS_SIZE] // _RELOCATION.itemsize
        if not count:
            return np.empty(0, _RELOCATION)
        data = (ctypes.c_uint8 * (count * _RELOCATION.itemsize)).from_address(self[RELOCATIONS])
        found: np.ndarray = np.ctypeslib.as_array(data).view(_RELOCATION)
        return found[self[_RELATIVE_COUNT] :]

    def symbol(self, index: int) -> tuple[bytes, int]:
        """Return the name and the size of a symbol."""
        at = self[SYMBOLS] + index * _SYMBOL_BYTES
        return self.string(ctypes.c_uint32.from_address(at).value), ctypes.c_uint64.from_address(at + 16).value


def loaded_object(library: ctypes.CDLL) -> Loaded:
    """Return a library that was loaded by ctypes."""
    return _object(_Link.from_address(library._handle))


def loaded_objects() -> Iterator[Loaded]:
    """Yield all objects, in the order in which they were loaded."""
    link = _Link.from_address(_PROGRAM._handle)
    while True:
        if link.dynamic and b"vdso" not in (link.name or b""):
            yield _object(link)
        if not link.next:
            return
        link = link.next.contents


def _object(link: _Link) -> Loaded:
    """Return an object with its dynamic section, in which glibc has replaced addresses by those in memory."""
    found: list[tuple[int, int]] = []
    pair = ctypes.c_uint64 * 2
    at = link.dynamic
    while True:
        tag, value = pair.from_address(at)
        if not tag:
            return Loaded((link.name or b"").decode(), link.base, found)
        found.append((tag, value))
        at += 16


def make_writable(address: int, size: int, executable: bool = False) -> None:
    """Make memory writable that the loader has protected after relocating it."""
    page = address & -mmap.PAGESIZE
    access = _READ | _WRITE | (_EXECUTE if executable else 0)
    _PROGRAM.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(address + size - page), access)
