"""Device memory that a script allocates through CUDA itself: CPU memory, kept until it is freed."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numpy as np
import torch

from .refusal import CudaError

ALIGNMENT: Final = 512
POISON: Final = 0xCB
INVALID_VALUE: Final = 1
Range = tuple[int, int]
"""Address, bytes."""


class Kind(IntEnum):
    """Between which memories a copy goes, as cudaMemcpyKind numbers it."""

    HOST_TO_HOST = 0
    TO_DEVICE = 1
    TO_HOST = 2
    ON_DEVICE = 3
    DEFAULT = 4


class Allocations:
    """The device's memory: what lives in it, by address, each piece aligned to 512 bytes as cudaMalloc does.

    variable: (address, bytes) of a module's variable around an address, which copies and fills may name too.
    """

    def __init__(self, variable: Callable[[int], Range | None] = lambda address: None) -> None:
        self._held: dict[int, np.ndarray] = {}
        self._live: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        self._variable = variable

    def allocate(self, size: int) -> int:
        """The address of `size` bytes, poisoned, until `free`."""
        piece = self._piece(size)
        piece.fill(POISON)
        self._held[piece.ctypes.data] = piece
        return piece.ctypes.data

    def free(self, pointer: Any) -> bool:
        """Whether `pointer` was an allocation; it no longer is one. Freeing the null pointer does nothing."""
        return address_of(pointer) == 0 or self._held.pop(address_of(pointer), None) is not None

    def storage(self, size: int) -> torch.UntypedStorage:
        """`size` bytes, not written, that live as long as the storage."""
        return torch.from_numpy(self._piece(size)).untyped_storage()

    def register(self, address: int, size: int) -> None:
        """The device may reach these bytes of the host, too, until `unregister`."""
        self._registered[address] = size

    def unregister(self, address: int) -> bool:
        """Whether memory of the host was registered there; it no longer is."""
        return self._registered.pop(address, None) is not None

    def all(self) -> list[Range]:
        """(address, bytes) of everything that lives, and of what of the host is registered outside of it."""
        return [*self._live.items(), *(piece for piece in self._registered.items() if piece[0] not in self._live)]

    def holding(self, address: int) -> Range | None:
        """(address, bytes) of what lives around an address, None where nothing does."""
        if address in self._live:
            return address, self._live[address]
        return next(((at, size) for at, size in self.all() if at <= address < at + max(size, 1)), None)

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
        """Refuse bytes that leave what lives around the first of them, and of the device where nothing does."""
        found = self.holding(address) or self._variable(address)
        if address + size > sum(found) if found else on_device or not address:
            raise CudaError(INVALID_VALUE, f": {size} bytes at {address:#x} are not the device's")

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
