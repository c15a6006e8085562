"""Device memory: CPU memory that CUDA's functions allocate, copy, fill and free."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numpy as np
import torch

from .errors import INVALID_VALUE, CudaError

ALIGNMENT: Final = 512
POISON: Final = 0xCB
Range = tuple[int, int]
"""Address, size in bytes."""


class Kind(IntEnum):
    """The direction of a copy: cudaMemcpyKind."""

    HOST_TO_HOST = 0
    TO_DEVICE = 1
    TO_HOST = 2
    ON_DEVICE = 3
    DEFAULT = 4


class Allocations:
    """The device's live allocations, by address. Each is aligned to 512 bytes, as cudaMalloc aligns.

    variable: returns the range of the module variable that contains an address; copies and fills may access it too.
    """

    def __init__(self, variable: Callable[[int], Range | None] = lambda address: None) -> None:
        self._buffers: dict[int, np.ndarray] = {}
        self._live: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        self._variable = variable

    def allocate(self, size: int) -> int:
        """Allocate `size` poisoned bytes and return their address."""
        piece = self._aligned_buffer(size)
        piece.fill(POISON)
        self._buffers[piece.ctypes.data] = piece
        return piece.ctypes.data

    def free(self, pointer: Any) -> bool:
        """Free an allocation and return True; return False if there is none. Freeing a null pointer does nothing."""
        return address_of(pointer) == 0 or self._buffers.pop(address_of(pointer), None) is not None

    def storage(self, size: int) -> torch.UntypedStorage:
        """Allocate `size` uninitialised bytes for a torch storage, which owns them."""
        return torch.from_numpy(self._aligned_buffer(size)).untyped_storage()

    def register(self, address: int, size: int) -> None:
        """Let the device access a range of host memory until `unregister`."""
        self._registered[address] = size

    def unregister(self, address: int) -> bool:
        """Undo `register` and return True; return False if no range was registered at this address."""
        return self._registered.pop(address, None) is not None

    def ranges(self) -> list[Range]:
        """Return the ranges of all live allocations and of registered host memory."""
        return [*self._live.items(), *(piece for piece in self._registered.items() if piece[0] not in self._live)]

    def containing(self, address: int) -> Range | None:
        """Return the range of the allocation that contains an address, None if there is none."""
        if address in self._live:
            return address, self._live[address]
        return next(((at, size) for at, size in self.ranges() if at <= address < at + max(size, 1)), None)

    def copy(self, destination: Any, source: Any, size: Any, kind: int = Kind.DEFAULT) -> None:
        """Copy `size` bytes between any two of host and device memory. Raises CudaError."""
        self.copy_rows(destination, 0, source, 0, size, 1, kind)

    def copy_rows(
        self, destination: Any, to_pitch: int, source: Any, pitch: int, width: Any, height: int, kind: int
    ) -> None:
        """Copy `height` rows of `width` bytes that start a pitch of bytes apart. Raises CudaError."""
        to, at, width = address_of(destination), address_of(source), int(width)
        if not width or not height:
            return
        self._check(to, (height - 1) * to_pitch + width, kind in (Kind.TO_DEVICE, Kind.ON_DEVICE))
        self._check(at, (height - 1) * pitch + width, kind in (Kind.TO_HOST, Kind.ON_DEVICE))
        for row in range(height):
            ctypes.memmove(to + row * to_pitch, at + row * pitch, width)

    def fill(self, destination: Any, value: int, count: Any, width: int = 1) -> None:
        """Write `count` values of `width` bytes on the device. Raises CudaError."""
        to, count = address_of(destination), int(count)
        if not count:
            return
        self._check(to, count * width, on_device=True)
        pattern = (int(value) & (1 << 8 * width) - 1).to_bytes(width, "little")
        if len(set(pattern)) == 1:
            ctypes.memset(to, pattern[0], count * width)
        else:
            ctypes.memmove(to, pattern * count, count * width)

    def _check(self, address: int, size: int, on_device: bool) -> None:
        """Raise CudaError if the bytes leave the allocation of the first, or must be the device's and are not."""
        found = self.containing(address) or self._variable(address)
        if address + size > sum(found) if found else on_device or not address:
            raise CudaError(INVALID_VALUE, f": {size} bytes at {address:#x} are not the device's")

    def _aligned_buffer(self, size: int) -> np.ndarray:
        buffer = np.empty(max(size, 1) + ALIGNMENT, np.uint8)
        start = -buffer.ctypes.data % ALIGNMENT
        piece = buffer[start : start + max(size, 1)]
        self._live[piece.ctypes.data] = size
        weakref.finalize(piece, self._live.pop, piece.ctypes.data)
        return piece


def address_of(pointer: Any) -> int:
    """Return the address that a CUdeviceptr, an int, a ctypes object or a buffer stands for."""
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
