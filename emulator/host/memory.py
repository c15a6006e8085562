"""Device memory: CPU memory that CUDA's functions allocate, copy, fill and free."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from mmap import PAGESIZE, mmap
from typing import Any, Final

import numpy as np

from ..bridge.callers import caller
from ..errors import UseAfterFree
from .errors import INVALID_VALUE, CudaError

ALIGNMENT: Final = 512
POISON: Final = 0xCB
FREED_KEPT: Final = 256
"""The number of freed allocations that reports can name."""
RESTING: Final = 1 << 16
"""The addresses of freed allocations up to this size are not used again as long as reports can name them."""
Range = tuple[int, int]
"""Address, size in bytes."""


class Kind(IntEnum):
    """The direction of a copy: cudaMemcpyKind."""

    HOST_TO_HOST = 0
    TO_DEVICE = 1
    TO_HOST = 2
    ON_DEVICE = 3
    DEFAULT = 4


@dataclass(eq=False)
class Piece:
    """An allocation. host: pinned or managed memory. stream: that for which torch allocated it, None if not torch.

    pages: the addresses of pages that hold nothing else, which `guard` may protect. unguarded: those of a pinned
    tensor, until the program takes an array of it. recorded: the names of other
    streams, by record_stream. freed: by what; empty while it lives. at: where. memory: keeps its addresses from being
    used again.
    """

    address: int
    size: int
    host: bool = False
    stream: int | None = None
    pages: range = range(0)
    unguarded: range = range(0)
    recorded: set[str] = field(default_factory=set)
    freed: str = ""
    at: object = None
    memory: np.ndarray | None = None

    @property
    def end(self) -> int:
        return self.address + self.size

    def __str__(self) -> str:
        return f"{self.address:#x} to {self.end - 1:#x} ({self.size} bytes), freed by {self.freed} at {self.at}"


def _is_mapped(address: int) -> bool:
    """Return whether the process may access an address: pinned memory that was freed is not mapped."""
    page = ctypes.c_void_p(address & -PAGESIZE)
    return not ctypes.CDLL(None).mincore(page, ctypes.c_size_t(1), ctypes.byref(ctypes.c_ubyte()))


class Allocations:
    """The device's live allocations, by address. Each is aligned to 512 bytes, as cudaMalloc aligns.

    variable: returns the range of the module variable that contains an address; copies and fills may access it too.
    """

    def __init__(self, variable: Callable[[int], Range | None] = lambda address: None) -> None:
        self._buffers: dict[int, np.ndarray] = {}
        self._live: dict[int, Piece] = {}
        self._registered: dict[int, Piece] = {}
        self._freed: deque[Piece] = deque(maxlen=FREED_KEPT)
        self._variable = variable
        self._gone: Sequence[Piece] = ()
        self.exposed = False
        """True once the program has an array of a pinned tensor."""
        self._of_graphs: dict[int, Piece] = {}
        self.on_free: Callable[[Piece], None] = lambda piece: None
        self.report: Callable[[UseAfterFree], None] = lambda error: None

    def allocate(self, size: int, host: bool = False) -> int:
        """Allocate `size` poisoned bytes and return their address. host: pinned or managed memory."""
        buffer = self._aligned_buffer(size, host, guarded=host)
        buffer.fill(POISON)
        self._buffers[buffer.ctypes.data] = buffer
        return buffer.ctypes.data

    def free(self, pointer: Any, by: str = "cudaFree") -> bool:
        """Free an allocation and return True; return False if there is none. Freeing a null pointer does nothing."""
        address = address_of(pointer)
        if address in self._of_graphs and address in self._live:
            self._end(address, by)
            return True
        if address in self._buffers and address in self._live:
            self._live[address].freed = by
        elif address:
            self._report_freed(address, f"{by} of {address:#x}")
        return address == 0 or self._buffers.pop(address, None) is not None

    def keep(self, address: int) -> None:
        """Let a graph own an allocation: `free` keeps its buffer, and `renew` makes it live again."""
        self._of_graphs[address] = self._live[address]

    def renew(self, address: int) -> None:
        """Allocate memory of a graph again."""
        piece = self._live[address] = self._of_graphs[address]
        piece.freed = ""
        if piece in self._freed:
            self._freed.remove(piece)
        self._buffers[address].fill(POISON)

    def storage(self, size: int, host: bool = False, stream: int | None = None) -> np.ndarray:
        """Allocate `size` uninitialised bytes for a torch storage, which owns them."""
        buffer = self._aligned_buffer(size, host, stream, guarded=host)
        piece = self._live[buffer.ctypes.data]
        piece.unguarded, piece.pages = piece.pages, range(0)
        return buffer

    def expose(self, piece: Piece) -> None:
        """Let `guard` protect the memory of a pinned tensor, which the program accesses by another name from now on."""
        if piece.unguarded:
            piece.pages, piece.unguarded, self.exposed = piece.unguarded, range(0), True

    def at(self, address: int) -> Piece | None:
        """Return the allocation that begins at an address, None if there is none."""
        return self._live.get(address)

    def register(self, address: int, size: int) -> None:
        """Let the device access a range of host memory until `unregister`."""
        pages = range(address + -address % PAGESIZE, address + size & -PAGESIZE, PAGESIZE)
        self._registered[address] = Piece(address, size, host=True, pages=pages)

    def unregister(self, address: int) -> bool:
        """Undo `register` and return True; return False if no range was registered at this address."""
        return self._registered.pop(address, None) is not None

    def pieces(self) -> list[Piece]:
        """Return all live allocations, and registered host memory."""
        return [*self._live.values(), *(one for one in self._registered.values() if one.address not in self._live)]

    def ranges(self) -> list[Range]:
        """Return the ranges of all live allocations and of registered host memory."""
        gone = self._gone
        return [
            (piece.address, piece.size)
            for piece in self.pieces()
            if not any(piece.address < other.end and other.address < piece.end for other in gone)
        ]

    @contextmanager
    def without(self, gone: Sequence[Piece]) -> Iterator[None]:
        """Leave what lies where these freed allocations were out of `ranges` while the context is open."""
        self._gone = gone
        try:
            yield
        finally:
            self._gone = ()

    def containing(self, address: int) -> Piece | None:
        """Return the allocation that contains an address, None if there is none."""
        if address in self._live:
            return self._live[address]
        return next((one for one in self.pieces() if one.address <= address < one.address + max(one.size, 1)), None)

    def freed_at(self, address: int) -> str:
        """Describe the allocation that contained an address and was freed last; empty if none is known."""
        return str(self._freed_piece(address) or "")

    def _freed_piece(self, address: int) -> Piece | None:
        return next((one for one in reversed(self._freed) if one.address <= address < one.end), None)

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
        piece = self.containing(address)
        found = self._variable(address) if piece is None else (piece.address, piece.size)
        freed = self._freed_piece(address) if found is None else None
        gone = not address or (freed is not None and (freed.memory is not None or not _is_mapped(address)))
        if address + size > sum(found) if found else on_device or gone:
            if piece is None:
                self._report_freed(address, f"an operation on {size} bytes at {address:#x}")
            raise CudaError(INVALID_VALUE, f": {size} bytes at {address:#x} are not the device's")

    def _report_freed(self, address: int, what: str) -> None:
        """Report a use of memory that CUDA's functions freed."""
        freed = self.freed_at(address)
        if freed:
            lines = ("at", str(caller())), ("freed", freed)
            self.report(UseAfterFree(f"{what}, which was freed", lines))

    def _aligned_buffer(self, size: int, host: bool, stream: int | None = None, guarded: bool = False) -> np.ndarray:
        room = max(size, 1) + ALIGNMENT
        buffer = np.frombuffer(mmap(-1, room), np.uint8) if guarded else np.empty(room, np.uint8)
        start = -buffer.ctypes.data % ALIGNMENT
        piece = buffer[start : start + max(size, 1)]
        address = piece.ctypes.data
        pages = range(address & -PAGESIZE, address + size if guarded else 0, PAGESIZE)
        memory = None if guarded or size > RESTING else buffer
        self._live[address] = Piece(address, size, host, stream, pages, memory=memory)
        weakref.finalize(piece, self._end, address).atexit = False
        return piece

    def _end(self, address: int, by: str = "the end of its last tensor") -> None:
        """Record that an allocation is gone: freed by CUDA's call, or by the end of its last tensor."""
        if address not in self._live:  # of a graph, and freed before
            return
        piece = self._live.pop(address)
        piece.freed, piece.at = piece.freed or by, caller()
        self._freed.append(piece)
        self.on_free(piece)


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
