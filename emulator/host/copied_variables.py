"""Variables of libraries that an executable holds copies of, such as std::cout, where the executable is loaded late.

An executable's code addresses such a variable in the executable itself (R_X86_64_COPY, ELF's psABI for x86-64, 4.4).
The system's loader copies it and lets all libraries use the copy, but not for an executable that dlopen loads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from .loaded import NEEDED, Loaded, loaded_object, loaded_objects, make_writable

_ABSOLUTE, _COPY, _GLOBAL_DATA = 1, 5, 6
"""Kinds of relocations that hold the address of a variable, and of those that are its copy."""


def copy_variables(program: ctypes.CDLL) -> None:
    """Copy the variables of libraries that a loaded executable holds, and let the libraries use the copies.

    The executable's own constructors must not have run yet.
    """
    own = loaded_object(program)
    libraries = [ctypes.CDLL(own.string(value).decode()) for tag, value in own.entries if tag == NEEDED]
    moved: dict[bytes, tuple[int, int]] = {}
    for each in own.relocations():
        if each["kind"] != _COPY:
            continue
        name, size = own.symbol(int(each["symbol"]))
        original, copy = _address(libraries, name), own.base + int(each["offset"])
        make_writable(copy, size)
        ctypes.memmove(copy, original, size)
        moved[name] = original, copy
    for library in loaded_objects() if moved else ():
        if library.base != own.base:
            _use_copies(library, moved)


def _use_copies(library: Loaded, moved: Mapping[bytes, tuple[int, int]]) -> None:
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
            make_writable(at, 8)
            slot.value = copy + added


def _address(libraries: Sequence[ctypes.CDLL], name: bytes) -> int:
    """Return the address of a variable. Raises ValueError if no library has it."""
    for library in libraries:
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(library, name.decode()))
        except ValueError:
            continue
    raise ValueError(f"no library has {name.decode()}")
