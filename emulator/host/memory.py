"""Device memory that a script allocates through CUDA itself: CPU memory, kept until it is freed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

_ALIGN: Final = 512
_POISON: Final = 0xCB


class Allocations:
    """The live allocations by address, each aligned to 512 bytes as cudaMalloc does, its bytes poisoned at first."""

    def __init__(self) -> None:
        self._live: dict[int, tuple[ctypes.Array[ctypes.c_char], int]] = {}

    def allocate(self, size: int) -> int:
        """The address of `size` bytes."""
        buffer = ctypes.create_string_buffer(max(size, 1) + _ALIGN)
        address = -(-ctypes.addressof(buffer) // _ALIGN) * _ALIGN
        ctypes.memset(address, _POISON, size)
        self._live[address] = (buffer, size)
        return address

    def free(self, pointer: Any) -> bool:
        """Whether `pointer` was an allocation; it no longer is one. Freeing the null pointer does nothing."""
        return address_of(pointer) == 0 or self._live.pop(address_of(pointer), None) is not None


def address_of(pointer: Any) -> int:
    """The address in a CUdeviceptr, an int, a ctypes object or anything with a writable or bytes buffer."""
    if isinstance(pointer, bytes):
        return ctypes.cast(ctypes.c_char_p(pointer), ctypes.c_void_p).value or 0
    if isinstance(pointer, ctypes.c_void_p):
        return pointer.value or 0
    if isinstance(pointer, ctypes.Array | ctypes.Structure | ctypes._SimpleCData):
        return ctypes.addressof(pointer)
    try:
        return int(pointer)
    except TypeError:
        return ctypes.addressof(ctypes.c_char.from_buffer(pointer))


def copy(destination: Any, source: Any, size: Any) -> None:
    """Copy `size` bytes between any two of host and device memory."""
    ctypes.memmove(address_of(destination), address_of(source), int(size))


def fill(width: int) -> Callable[[Any, int, int], None]:
    """A function that writes `count` values of `width` bytes at an address."""

    def write(destination: Any, value: int, count: int) -> None:
        pattern = (int(value) & (1 << 8 * width) - 1).to_bytes(width, "little")
        if len(set(pattern)) == 1:
            ctypes.memset(address_of(destination), pattern[0], int(count) * width)
        else:
            ctypes.memmove(address_of(destination), pattern * int(count), int(count) * width)

    return write
