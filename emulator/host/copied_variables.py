"""Variables of libraries that an executable holds copies of, such as std::cout, where the executable is loaded late.

An executable's code addresses such a variable in the executable itself (R_X86_64_COPY, ELF's psABI for x86-64, 4.4).
The system's loader copies it and lets all libraries use the copy, but not for an executable that dlopen loads.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

_NEEDED, _STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_SIZE = 1, 5, 6, 7, 8
_RELATIVE_COUNT: Final = 0x6FFFFFF9
_ABSOLUTE, _COPY, _GLOBAL_DATA = 1, 5, 6
"""Kinds of relocations that hold the address of a variable, and of those that are its copy."""
_RELOCATION: Final = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
_SYMBOL_BYTES: Final = 24
_READ_WRITE: Final = 3


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
class _Loaded:
    """A loaded object: its base address, and the entries of its dynamic section."""

    base: int
    entries: Sequence[tuple[int, int]]

    def __getitem__(self, tag: int) -> int:
        return next((value for each, value in self.entries if each == tag), 0)

    def relocations(self) -> np.ndarray:
        """Return the relocations that name a symbol, which follow the relative ones."""
        count = self[_RELOCATIONS_SIZE] // _RELOCATION.itemsize
        if not count:
            return np.empty(0, _RELOCATION)
        data = (ctypes.c_uint8 * (count * _RELOCATION.itemsize)).from_address(self[_RELOCATIONS])
        found: np.ndarray = np.ctypeslib.as_array(data).view(_RELOCATION)
        return found[self[_RELATIVE_COUNT] :]

    def symbol(self, index: int) -> tuple[bytes, int]:
        """Return the name and the size of a symbol."""
        at = self[_SYMBOLS] + index * _SYMBOL_BYTES
        name = ctypes.string_at(self[_STRINGS] + ctypes.c_uint32.from_address(at).value)
        return name, ctypes.c_uint64.from_address(at + 16).value


def copy_variables(program: ctypes.CDLL) -> None:
    """Copy the variables of libraries that a loaded executable holds, and let the libraries use the copies.

    The executable's own constructors must not have run yet.
    """
    links = list(_links(program))
    own = _Loaded(links[0].base, _entries(links[0]))
    libraries = [ctypes.CDLL(_string(own, value)) for tag, value in own.entries if tag == _NEEDED]
    moved: dict[bytes, tuple[int, int]] = {}
    for each in own.relocations():
        if each["kind"] != _COPY:
            continue
        name, size = own.symbol(int(each["symbol"]))
        original, copy = _address(libraries, name), own.base + int(each["offset"])
        _make_writable(copy, size)
        ctypes.memmove(copy, original, size)
        moved[name] = original, copy
    for link in links[1:] if moved else ():
        _use_copies(_Loaded(link.base, _entries(link)), moved)


def _use_copies(library: _Loaded, moved: Mapping[bytes, tuple[int, int]]) -> None:
    """Replace the addresses of originals in a library by those of their copies."""
    table = library.relocations()
    for each in table[(table["kind"] == _ABSOLUTE) | (table["kind"] == _GLOBAL_DATA)]:
        found = moved.get(library.symbol(int(each["symbol"]))[0])
        if found is None:
            continue
        original, copy = found
        at, added = library.base + int(each["offset"]), int(each["addend"]) if each["kind"] == _ABSOLUTE else 0
        slot = ctypes.c_uint64.from_address(at)
        if slot.value == original + added:
            _make_writable(at, 8)
            slot.value = copy + added


def _make_writable(address: int, size: int) -> None:
    """Make memory writable that the loader has protected after relocating it."""
    page = address & -mmap.PAGESIZE
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(address + size - page), _READ_WRITE)


def _links(program: ctypes.CDLL) -> Iterator[_Link]:
    """Yield the program, then the other loaded objects."""
    own = _Link.from_address(program._handle)
    yield own
    link = own
    while link.previous:
        link = link.previous.contents
    while True:
        if link.dynamic and link.dynamic != own.dynamic and b"vdso" not in (link.name or b""):
            yield link
        if not link.next:
            return
        link = link.next.contents


def _entries(link: _Link) -> list[tuple[int, int]]:
    """Return the dynamic section, in which glibc has replaced addresses by those in memory."""
    found: list[tuple[int, int]] = []
    pair = ctypes.c_uint64 * 2
    at = link.dynamic
    while True:
        tag, value = pair.from_address(at)
        if not tag:
            return found
        found.append((tag, value))
        at += 16


def _string(loaded: _Loaded, offset: int) -> str:
    return ctypes.string_at(loaded[_STRINGS] + offset).decode()


def _address(libraries: Sequence[ctypes.CDLL], name: bytes) -> int:
    """Return the address of a variable. Raises ValueError if no library has it."""
    for library in libraries:
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(library, name.decode()))
        except ValueError:
            continue
    raise ValueError(f"no library has {name.decode()}")
