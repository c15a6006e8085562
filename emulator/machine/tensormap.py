"""Tensor maps: the 128 bytes that host code writes, and the boxes that TMA moves between global and shared memory.

The layout of the bits was found by varying one argument of cute.nvgpu.cpasync.make_tiled_tma_atom at a time.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from emulator.machine.descriptors import B32, B64, B128, NONE, Swizzle
from emulator.machine.globalmem import host_bytes
from emulator.machine.numbers import bf16_from, bf16_to

MAP_BYTES: Final = 128
LIVE_WORDS: Final = 8
TILED: Final = 2
SWIZZLES: Final = (NONE, B32, B64, B128)
DTYPES: Final = {
    0: "u1", 1: "u2", 2: "u4", 3: "i4", 4: "u8", 5: "i8", 6: "f2", 7: "f4", 8: "f4", 9: "f8", 10: "bf16",
}  # fmt: skip
BF16: Final = 10


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map; dimensions innermost first, strides in bytes (of the innermost: the element's size)."""

    address: int
    element: int
    swizzle: Swizzle
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return 2 if self.element == BF16 else np.dtype(DTYPES[self.element]).itemsize

    @property
    def box_bytes(self) -> int:
        """Bytes of a whole box in shared memory."""
        return int(np.prod(self.box)) * self.width

    @classmethod
    def decode(cls, raw: bytes) -> TensorMap:
        """From its 128 bytes. Raises ValueError for what is no tiled map or has a type that is not implemented."""
        q = struct.unpack("<8Q", raw[: 8 * LIVE_WORDS])
        rank = (q[1] >> 4 & 7) + 1
        element = q[1] >> 7 & 15
        if q[1] & 15 != TILED or rank > 5 or not q[0]:
            raise ValueError(f"no tiled tensor map: first words {q[0]:#018x} {q[1]:#018x}")
        if element not in DTYPES:
            raise ValueError(f"tensor map of element type {element}; implemented are {sorted(DTYPES)}")
        if q[1] >> 11 & 3 or q[6] >> 32 & 0xFFFFFF:
            raise ValueError("tensor map with interleave or element strides, which is not implemented")
        low = (q[1] >> 32, q[2] & 0xFFFFFFFF, q[2] >> 32, q[3] & 0xFFFFFFFF)
        strides = tuple((s | (q[3] >> 32 + 4 * i & 15) << 32) << 4 for i, s in enumerate(low))
        dims = tuple((q[4 + i // 2] >> 32 * (i % 2) & 0xFFFFFFFF) + 1 for i in range(5))
        box = ((q[6] >> 56) + 1, *((q[7] >> 8 * i & 0xFF) + 1 for i in range(4)))
        width = 2 if element == BF16 else np.dtype(DTYPES[element]).itemsize
        return cls(q[0], element, SWIZZLES[q[1] >> 13 & 3], dims[:rank], (width, *strides[: rank - 1]), box[:rank])

    def within(self, coordinates: tuple[int, ...]) -> tuple[slice, ...] | None:
        """The part of the box at `coordinates` that lies in the tensor, outermost first; None if nothing does."""
        parts = []
        for at, box, dim in zip(coordinates, self.box, self.dims, strict=True):
            low, high = max(0, -at), min(box, dim - at)
            if high <= low:
                return None
            parts.append(slice(low, high))
        return tuple(reversed(parts))

    def span(self, coordinates: tuple[int, ...], part: tuple[slice, ...]) -> tuple[int, int]:
        """First byte of a part of a box in global memory, and the byte past its last."""
        low = high = self.address
        for at, stride, s in zip(coordinates, self.strides, reversed(part), strict=True):
            low += (at + s.start) * stride
            high += (at + s.stop - 1) * stride
        return low, high + self.width

    def tensor(self, coordinates: tuple[int, ...], part: tuple[slice, ...]) -> np.ndarray:
        """A part of a box in global memory as a view, outermost dimension first, elements as unsigned integers."""
        low, high = self.span(coordinates, part)
        shape = tuple(s.stop - s.start for s in part)
        return np.ndarray(shape, f"u{self.width}", host_bytes(low, high - low), 0, tuple(reversed(self.strides)))

    def read(self, coordinates: tuple[int, ...]) -> np.ndarray:
        """The box at `coordinates`, zero outside the tensor: unsigned, outermost dimension first, contiguous."""
        part = self.within(coordinates)
        box = np.zeros(tuple(reversed(self.box)), f"u{self.width}")
        if part is not None:
            box[part] = self.tensor(coordinates, part)
        return box

    def write(self, coordinates: tuple[int, ...], box: np.ndarray, reduction: str | None = None) -> None:
        """Write a box (or fold it in with a reduction); what lies outside the tensor is dropped."""
        part = self.within(coordinates)
        if part is None:
            return
        there, new = self.tensor(coordinates, part), box.reshape(tuple(reversed(self.box)))[part]
        there[...] = new if reduction is None else reduced(there, new, DTYPES[self.element], reduction)


def reduced(old: np.ndarray, new: np.ndarray, dtype: str, reduction: str) -> np.ndarray:
    """`old` and `new`, bits of elements of `dtype`, folded elementwise. Raises KeyError for an unknown reduction."""
    if dtype == "bf16":
        return bf16_to(reduced_values(bf16_from(old), bf16_from(new), reduction))
    a, b = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype)
    return reduced_values(a, b, reduction).astype(dtype).view(old.dtype)


def reduced_values(a: np.ndarray, b: np.ndarray, reduction: str) -> np.ndarray:
    """Two arrays of numbers folded elementwise; inc and dec as PTX's red has them."""
    match reduction:
        case "inc":
            return np.where(a >= b, 0, a + 1)
        case "dec":
            return np.where((a == 0) | (a > b), b, a - 1)
    fold = {
        "add": np.add, "min": np.fmin, "max": np.fmax,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[reduction]  # fmt: skip
    return fold(a, b)


@lru_cache(maxsize=4096)
def swizzled_chunks(offset: int, size: int, swizzle: Swizzle) -> np.ndarray:
    """Where each 16-byte chunk of `size` contiguous bytes at a shared-memory offset lies, as chunk numbers."""
    return swizzle.apply(offset + np.arange(0, size, 16)) // 16
