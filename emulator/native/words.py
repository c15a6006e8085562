"""Arrays of numbers at an address, for the restricted Python of `native`.

Python and numba run the same source: here an array is a pointer of ctypes, in machine code one of LLVM.
"""

from __future__ import annotations

import ctypes
from typing import Any


def i64(address: int) -> Any:
    """Return the array of int64 at an address."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))


def i32(address: int) -> Any:
    """Return the array of int32 at an address."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_int32))


def u32(address: int) -> Any:
    """Return the array of uint32 at an address."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_uint32))


def u16(address: int) -> Any:
    """Return the array of uint16 at an address."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_uint16))


def u8(address: int) -> Any:
    """Return the array of uint8 at an address."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8))
