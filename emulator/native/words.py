"""Arrays of numbers at an address, for the restricted Python of `native`.

Python and numba run the same source: here an array is a pointer of ctypes, in machine code one of LLVM.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol


class Words(Protocol):
    """An array of numbers. Indices are not checked."""

    def __getitem__(self, index: int) -> int: ...

    def __setitem__(self, index: int, value: int) -> None: ...


def _array(element: Any) -> Callable[[int], Words]:
    """Return the function that returns the array of these numbers at an address."""

    def at(address: int) -> Words:
        found: Words = ctypes.cast(address, ctypes.POINTER(element))
        return found

    return at


i64, i32 = _array(ctypes.c_int64), _array(ctypes.c_int32)
u32, u16, u8 = _array(ctypes.c_uint32), _array(ctypes.c_uint16), _array(ctypes.c_uint8)
