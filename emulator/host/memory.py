"""Device memory that a script allocates through CUDA itself: CPU memory, kept until it is freed."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

ALIGNMENT: Final = 512
_POISON: Final = 0xCB


class Allocations:
    """The device's memory: what lives in it, by address, each piece aligned to 512 bytes as cudaMalloc does."""

    def __init__(self) -> None:
        self._held: dict[int, np.ndarray] = {}
        self._live: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        """The address of `size` bytes, poisoned, until `free`."""
        piece = self._piece(size)
        piece.fill(_POISON)
        self._held[piece.ctypes.data] = piece
        return piece.ctypes.data

    def free(self, pointer: Any) -> bool:
        """Whether `pointer` was an allocation; it no longer is one. Freeing the null pointer does nothing."""
        return address_of(pointer) == 0 or self._held.pop(address_of(pointer), None) is not None

    def storage(self, size: int) -> torch.UntypedStorage:
        """`size` bytes, undefined, that live as long as the storage."""
        return torch.from_numpy(self._piece(size)).untyped_storage()

    def all(self) -> list[tuple[int, int]]:
        """(address, bytes) of everything that lives."""
        return list(self._live.items())

    def holding(self, address: int) -> tuple[int, int] | None:
        """(address, bytes) of what lives around an address, None where nothing does."""
        return next(((at, size) for at, size in self.all() if at <= address < at + max(size, 1)), None)

    def _piece(self, size: int) -> np.ndarray:
        room = np.empty(max(size, 1) + ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        piece = room[start : start + max(size, 1)]
        self._live[piece.ctypes.data] = size
        weakref.finalize(piece, self._live.pop, piece.ctypes.data)
        return piece


def address_of(pointer: Any) -> int:
    """The address in a CUdeviceptr, an int, a ctypes object or a buffer."""
    if isinstance(pointer, bytes):
        return ctypes.cast(ctypes.c_char_p(pointer), ctypes.c_void_p).value or 0
    if isinstance(pointer, ctypes.c_void_p):
        return pointer.value or 0
    if isinstance(pointer, ctypes.Array | ctypes.Structure | ctypes._SimpleCData):
        return ctypes.addressof(pointer)
    if isinstance(pointer, np.ndarray):
        return pointer.ctypes.data
    if isinstance(pointer, bytearray | memoryview):
        return np.frombuffer(pointer, np.uint8).ctypes.data
    return int(pointer)


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
