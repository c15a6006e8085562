"""Tensor maps: the 128 bytes that host code writes, and the boxes that TMA moves between global and shared memory.

The bit layout was found by varying one argument of cute.nvgpu.cpasync.make_tiled_tma_atom at a time.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import add
from typing import Final, NamedTuple

import numpy as np

from ..launch.globalmem import Allocation
from .descriptors import B32, B64, B128, B128_ATOM32, B128_ATOM64, NONE, Pattern, Swizzle
from .numbers import bf16_from, bf16_to

MAP_BYTES: Final = 128
LIVE_WORDS: Final = 8
KIND: Final = 64
"""The first of the four bits that hold the mode of a map."""
TILED: Final = 2
IM2COL: Final = 1
"""The emulator's own code for im2col mode, as no real one is known. Fields that only such maps have are its own too."""
SWIZZLES: Final = {(0, 0): NONE, (1, 0): B32, (2, 0): B64, (3, 0): B128, (3, 1): B128_ATOM32, (3, 3): B128_ATOM64}
"""Swizzles by mode and atomicity: PTX ISA 9.1, table 33, without the 32-byte atoms whose halves are exchanged."""
TF32: Final = 80
"""The bit that makes loads round float32 to tf32."""
NAN_FILL: Final = 79
"""The bit that makes loads fill with NaN outside the tensor, as cuTensorMapEncodeTiled sets it for an H200."""
DTYPES: Final = {
    0: "u1", 1: "u2", 2: "u4", 3: "i4", 4: "u8", 5: "i8", 6: "f2", 7: "f4", 8: "f4", 9: "f8", 10: "bf16",
}  # fmt: skip
FLOAT32: Final = 7
BF16: Final = 10
ADDRESSES: Final = (1 << 64) - 1
"""Mask of an address."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Elements smaller than a byte: `elements` of them take `words` words of `dtype` in global memory.

    padding: the bytes that follow them in shared memory.
    """

    elements: int
    words: int
    dtype: str
    padding: int = 0


PACKINGS: Final = {11: Packing(2, 1, "u1"), 12: Packing(16, 1, "u8", 8), 13: Packing(16, 3, "u4", 4)}
"""Dense 4-bit elements (b4x16), and padded 4- and 6-bit elements (b4x16_p64, b6x16_p32)."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The pixels of an im2col load: `pixels` of them, in a box of each image from corner `low` to `high` by `steps`.

    The corners are included. The corners have the spatial dimensions, innermost first.
    """

    pixels: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    steps: tuple[int, ...]

    def walk(self, start: tuple[int, ...], offsets: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the pixels of a load from `start` on, as (channel, place in the image, image).

        offsets: moves the pixels of each image's box.
        """
        channel, *place, image = start
        walked = []
        for _ in range(self.pixels):
            walked.append((channel, *map(add, place, offsets), image))
            for i, step in enumerate(self.steps):
                place[i] += step
                if place[i] <= self.high[i]:
                    break
                place[i] = self.low[i]
            else:
                image += 1
        return walked


class Part(NamedTuple):
    """The part of a box that lies in its tensor: bytes `low` to `high - 1` of global memory, and its place in the box.

    slices: outermost dimension first.
    """

    low: int
    high: int
    slices: tuple[slice, ...]


Box = tuple[Part, np.ndarray] | None
"""The part of a box that lies in its tensor, with its view of global memory; None for nothing."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor map. Dimensions innermost first; strides in bytes, the innermost being the element's size.

    Elements smaller than a byte are counted in words of their packing. In im2col mode a box is one pixel.
    """

    address: int
    element: int
    swizzle: Swizzle
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    outside: int = 0
    """The bits that a load fills in outside the tensor."""
    rounds: bool = False
    """True if loads round float32 to tf32."""
    columns: Columns | None = None
    """The pixels of im2col mode; None in tiled mode."""

    @cached_property
    def pattern(self) -> Pattern:
        """The layout of boxes in shared memory."""
        return Pattern(self.swizzle, 0)

    @property
    def width(self) -> int:
        """The size of an element in bytes."""
        return self.strides[0]

    @cached_property
    def box_bytes(self) -> int:
        """The bytes of a whole box without padding, as an mbarrier counts them."""
        return int(np.prod(self.box)) * self.width

    @cached_property
    def shared_bytes(self) -> int:
        """The bytes of a whole box in shared memory."""
        packing = PACKINGS.get(self.element)
        units = 0 if packing is None else int(np.prod(self.box)) // packing.words
        return self.box_bytes + (packing.padding * units if packing else 0)

    def counted(self, coordinates: tuple[int, ...]) -> tuple[int, ...]:
        """Convert coordinates in elements to this map's units. Raises ValueError if the first lies inside a word."""
        packing = PACKINGS.get(self.element)
        if packing is None:
            return coordinates
        if coordinates[0] % packing.elements:
            raise ValueError(f"coordinate {coordinates[0]} of {packing.elements} packed elements")
        return coordinates[0] // packing.elements * packing.words, *coordinates[1:]

    def _padded(self, box: np.ndarray) -> np.ndarray:
        """Return a box with the padding that follows its elements in shared memory."""
        packing = PACKINGS.get(self.element)
        if packing is None or not packing.padding:
            return box
        units = box.reshape(-1, packing.words).view(np.uint8)
        return np.pad(units, ((0, 0), (0, packing.padding)))

    @classmethod
    def decode(cls, raw: bytes) -> TensorMap:
        """Decode the 128 bytes of a map. Raises ValueError for other bytes or a type that is not implemented."""
        q = struct.unpack("<8Q", raw[: 8 * LIVE_WORDS])
        rank = (q[1] >> 4 & 7) + 1
        element = q[1] >> 7 & 15
        if q[1] & 15 not in (TILED, IM2COL) or rank > 5 or not q[0]:
            raise ValueError(f"no tensor map: first words {q[0]:#018x} {q[1]:#018x}")
        if element not in DTYPES and element not in PACKINGS:
            raise ValueError(f"tensor map of element type {element}; implemented are {sorted({*DTYPES, *PACKINGS})}")
        im2col = q[1] & 15 == IM2COL
        if q[1] >> 11 & 3 or (q[6] >> 32 & 0xFFFFFF and not im2col):
            raise ValueError("tensor map with interleave or element strides, which is not implemented")
        swizzle = SWIZZLES.get((q[1] >> 13 & 3, q[1] >> 19 & 3))
        if swizzle is None:
            raise ValueError(f"tensor map of swizzle mode {q[1] >> 13 & 3} with atomicity {q[1] >> 19 & 3}")
        low = (q[1] >> 32, q[2] & 0xFFFFFFFF, q[2] >> 32, q[3] & 0xFFFFFFFF)
        strides = tuple((s | (q[3] >> 32 + 4 * i & 15) << 32) << 4 for i, s in enumerate(low))
        dims = tuple((q[4 + i // 2] >> 32 * (i % 2) & 0xFFFFFFFF) + 1 for i in range(5))
        box = ((q[6] >> 56) + 1, *(1 if im2col else (q[7] >> 8 * i & 0xFF) + 1 for i in range(4)))
        if (packing := PACKINGS.get(element)) is not None:
            words, per = packing.words, packing.elements
            dims, box = (dims[0] * words // per, *dims[1:]), (box[0] * words // per, *box[1:])
            width = np.dtype(packing.dtype).itemsize
        else:
            width = 2 if element == BF16 else np.dtype(DTYPES[element]).itemsize
        inner = box[0] * width
        if inner % 16 or (swizzle is not NONE and inner > swizzle.span) or q[0] % 16:
            raise ValueError(
                f"tensor map of address {q[0]:#x} with {inner} bytes in the box's innermost dimension, {swizzle.name}; "
                "allowed are multiples of 16, and no more than the swizzle's span"
            )
        outside = _nan(element, width) if q[1] >> NAN_FILL - 64 & 1 else 0
        rounds = element == FLOAT32 and bool(q[1] >> TF32 - 64 & 1)
        columns = _columns(q[6], q[7], dims[1 : rank - 1]) if im2col else None
        strides, dims, box = (width, *strides[: rank - 1]), dims[:rank], box[:rank]
        return cls(q[0], element, swizzle, dims, strides, box, outside, rounds, columns)

    def part(self, coordinates: tuple[int, ...]) -> Part | None:
        """Return the part of the box at `coordinates` that lies in the tensor, or None.

        Addresses wrap modulo 2^64. Descriptors of ragged tensors rely on that: one dimension moves the box backwards.
        """
        low = self.address
        for at, last, stride in zip(coordinates, self._last, self.strides, strict=True):
            if not 0 <= at <= last:
                return self._part(coordinates)
            low += at * stride
        low &= ADDRESSES
        return Part(low, low + self._reach, self._whole)

    @cached_property
    def _last(self) -> tuple[int, ...]:
        """The greatest coordinates of a box that lies entirely in the tensor."""
        return tuple(dim - box for dim, box in zip(self.dims, self.box, strict=True))

    @cached_property
    def _reach(self) -> int:
        """The bytes from the first to the last of such a box."""
        return sum((box - 1) * stride for box, stride in zip(self.box, self.strides, strict=True)) + self.width

    @cached_property
    def _whole(self) -> tuple[slice, ...]:
        return tuple(slice(0, box) for box in self.shape)

    def _part(self, coordinates: tuple[int, ...]) -> Part | None:
        low, reach = self.address, self.width
        slices = []
        for at, box, dim, stride in zip(coordinates, self.box, self.dims, self.strides, strict=True):
            start, stop = -at if at < 0 else 0, box if at + box <= dim else dim - at
            if stop <= start:
                return None
            low += (at + start) * stride
            reach += (stop - 1 - start) * stride
            slices.append(slice(start, stop))
        low &= ADDRESSES
        return Part(low, low + reach, tuple(slices[::-1]))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of a box, outermost dimension first."""
        return self.box[::-1]

    @cached_property
    def _view(self) -> tuple[np.dtype, tuple[int, ...]]:
        return np.dtype(f"u{self.width}"), self.strides[::-1]

    def view(self, part: Part, within: Allocation) -> np.ndarray:
        """Return a part of a box in global memory, outermost dimension first, as unsigned integers."""
        dtype, strides = self._view
        shape = self.shape if part.slices is self._whole else tuple([s.stop - s.start for s in part.slices])
        return np.ndarray(shape, dtype, within.view(1)[0], part.low - within.address, strides)

    def loaded(self, box: Box) -> np.ndarray:
        """Return a box as in shared memory before swizzling: its 16-byte chunks in order, complex128 of any shape."""
        if box is not None and box[1].shape == self.shape:
            filled = box[1]
        else:
            filled = np.full(self.shape, self.outside, self._view[0])
            if box is not None:
                part, there = box
                filled[part.slices] = there
        return self._padded(_rounded(filled) if self.rounds else filled).view(np.complex128)

    def write(self, part: Part, there: np.ndarray, box: np.ndarray, reduction: str | None = None) -> None:
        """Write or reduce the part of a box into its view `there`. Elements outside the tensor are dropped."""
        new = box.reshape(self.shape)[part.slices]
        there[...] = new if reduction is None else reduced(there, new, DTYPES[self.element], reduction)


CORNER_BITS: Final = {1: 16, 2: 8, 3: 5}
"""The bits of a corner's coordinates, by their number: cuTensorMapEncodeIm2col's limits."""


def _columns(steps: int, corners: int, dims: tuple[int, ...]) -> Columns:
    """Decode the last words of a map in im2col mode, as `bridge.tensormap` writes them."""
    bits = CORNER_BITS[len(dims)]

    def corner(first: int) -> tuple[int, ...]:
        raw = (corners >> first + bits * i & (1 << bits) - 1 for i in range(len(dims)))
        return tuple(value - (value >> bits - 1 << bits) for value in raw)

    high = tuple(dim - 1 + offset for dim, offset in zip(dims, corner(16), strict=True))
    walked = tuple((steps >> 35 + 3 * i & 7) + 1 for i in range(len(dims)))
    return Columns((corners >> 32 & 0x3FF) + 1, corner(0), high, walked)


def _rounded(bits: np.ndarray) -> np.ndarray:
    """Round float32 bits to the nearest tf32, ties to even; NaN becomes 7fffe000, as on an H200."""
    nan = (bits & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    nearest = bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFF_E000)
    return np.where(nan, np.uint32(0x7FFF_E000), nearest)


def _nan(element: int, width: int) -> int:
    """Return the NaN for fills, 7ff7 in each 16 bits as on an H200. Raises ValueError for types without NaN."""
    if not (element == BF16 or DTYPES.get(element, "").startswith("f")):
        raise ValueError(f"tensor map of element type {element} filled with NaN; allowed are floats")
    return int.from_bytes(b"\xf7\x7f" * (width // 2), "little")


def reduced(old: np.ndarray, new: np.ndarray, dtype: str, reduction: str) -> np.ndarray:
    """Reduce `old` and `new`, bits of elements of `dtype`, elementwise. Raises KeyError for an unknown reduction."""
    if dtype == "bf16":
        return bf16_to(reduced_values(bf16_from(old), bf16_from(new), reduction))
    a, b = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype)
    return reduced_values(a, b, reduction).astype(dtype).view(old.dtype)


def reduced_values(a: np.ndarray, b: np.ndarray, reduction: str) -> np.ndarray:
    """Reduce two arrays of numbers elementwise; inc and dec as in PTX's red."""
    match reduction:
        case "inc":
            return np.where(a >= b, 0, a + 1)
        case "dec":
            return np.where((a == 0) | (a > b), b, a - 1)
    ufunc = {
        "add": np.add, "min": np.fmin, "max": np.fmax,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[reduction]  # fmt: skip
    result: np.ndarray = ufunc(a, b)
    return result


@lru_cache(maxsize=4096)
def swizzled_chunks(offset: int, size: int, swizzle: Swizzle, shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    """Return the swizzled place of each 16-byte chunk of `size` contiguous bytes, as chunk numbers in this shape."""
    return (swizzle.apply(offset + np.arange(0, size, 16)) // 16).reshape(shape)


@lru_cache(maxsize=1024)
def decode(raw: bytes) -> TensorMap:
    """Decode a tensor map, once for equal bytes."""
    return TensorMap.decode(raw)


FIELDS: Final = {
    "global_address": (0, 64), "rank": (68, 3), "interleave_layout": (75, 2), "swizzle_mode": (77, 2),
    "fill_mode": (NAN_FILL, 1), "swizzle_atomicity": (83, 2),
}  # fmt: skip
"""The first bit and the number of bits of fields that tensormap.replace sets directly."""
INDEXED: Final = frozenset({"global_dim", "global_stride", "box_dim", "element_stride"})
ELEMENTS: Final = {**{i: (i, 0) for i in range(11)}, 11: (7, 1), 13: (11, 0), 14: (12, 0), 15: (13, 0)}
"""A map's element type and tf32 bit, by the numbers that tensormap.replace uses."""


def replaced(raw: bytes, field: str, value: int, index: int = 0) -> bytes:
    """Return a map's bytes with one field replaced as by tensormap.replace: PTX ISA 9.1, 9.7.9.28.

    The instruction counts sizes from 1 and strides in bytes; the map counts from 0 and in units of 16. The rank is its
    number less one in both. A map of zeros becomes a tiled one, as Triton's kernels create theirs.
    Raises ValueError for a value that the field cannot hold.
    """
    words = int.from_bytes(raw, "little")
    if not words >> KIND & 15:
        words |= TILED << KIND
    for first, bits, part in _parts(field, value, index):
        if not 0 <= part < 1 << bits:
            raise ValueError(f"{field} {value} of dimension {index}: a map has {bits} bits for it")
        words = words & ~((1 << bits) - 1 << first) | part << first
    return words.to_bytes(len(raw), "little")


def _parts(field: str, value: int, index: int) -> list[tuple[int, int, int]]:
    """Return (first bit, bits, value) of each change."""
    match field:
        case "global_dim":
            return [(256 + 32 * index, 32, value - 1)]
        case "box_dim":
            return [(440 + 8 * index, 8, value - 1)]
        case "element_stride":
            return [(416 + 3 * index, 3, value - 1)]
        case "elemtype":
            if value not in ELEMENTS:
                raise ValueError(f"elemtype {value}; implemented are {sorted(ELEMENTS)}")
            return [(71, 4, ELEMENTS[value][0]), (TF32, 1, ELEMENTS[value][1])]
        case "global_stride":
            if value % 16:
                raise ValueError(f"global_stride {value} of dimension {index}: not a multiple of 16 bytes")
            return [(96 + 32 * index, 32, value >> 4 & 0xFFFFFFFF), (224 + 4 * index, 4, value >> 36)]
    return [(*FIELDS[field], value)]
