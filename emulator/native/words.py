"""Arrays of numbers at an address, for the restricted Python of `native`.

Python and numba run the same source: here an array is a pointer of ctypes, in machine code one of LLVM.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol


class Words(Protocol):
    """An array of numbers. Indices are not checked."""

    def __getitem__(self, index: int) -> int: ...

    def __setitem__(self, index: int, value: int) -> None: ...


def _array(address: int, element: Any) -> Words:
    found: Words = ctypes.cast(address, ctypes.POINTER(element))
    return found


def i64(address: int) -> Words:
    """Return the array of int64 at an address."""
    return _array(address, ctypes.c_int64)


def i32(address: int) -> Words:
    """Return the array of int32 at an address."""
    return _array(address, ctypes.c_int32)


def u32(address: int) -> Words:
    """Return the array of uint32 at an address."""
    return _array(address, ctypes.c_uint32)


def u16(address: int) -> Words:
    """Return the array of uint16 at an address."""
    return _array(address, ctypes.c_uint16)


def u8(address: int) -> Words:
    """Return the array of uint8 at an address."""
    return _array(address, ctypes.c_uint8)
