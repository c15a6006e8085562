"""Encode a tensor map's 128 bytes from the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from ..machine.formats.tensormap import CORNER_BITS, IM2COL, NAN_FILL, TILED

_ELEMENT_CODES: Final = {
    0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 9, 9: 10, 10: 8, 11: 7, 13: 11, 14: 12, 15: 13,
}  # fmt: skip
"""CUtensorMapDataType to the element code in the map.

The codes 12 and 13, of padded 4- and 6-bit elements, are the emulator's own: no real map that has them was seen.
"""
_TF32: Final = 11
_SWIZZLES: Final = {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (3, 0), 4: (3, 1), 6: (3, 3)}
"""CUtensorMapSwizzle to the map's swizzle mode and atomicity."""
_NAN_FILL: Final = 1
_LARGE_BYTES: Final = 131072


def encode_tiled(
    element: int,
    rank: int,
    address: int,
    sizes_at: int,
    strides_at: int,
    box_at: int,
    steps_at: int,
    interleave: int,
    swizzle: int,
    _promotion: int,
    fill: int,
) -> bytes:
    """Encode a map in tiled mode. The arguments ending in `_at` are addresses of arrays; strides are in bytes.

    The bit positions are those that CuTeDSL's host code writes. Raises ValueError for values that a map cannot hold.
    """
    q = _words(element, rank, address, sizes_at, strides_at, interleave, swizzle, fill)
    box, steps = _array(ctypes.c_uint32, rank, box_at), _array(ctypes.c_uint32, rank, steps_at)
    if any(not 0 < b <= 256 for b in box) or set(steps) != {1}:
        raise ValueError(f"tensor map with box {box}, element strides {steps}")
    q[1] |= TILED
    for i, extent in enumerate(box):
        _set(q, 6 * 64 + 56 + 8 * i, extent - 1)
    return _bytes(q)


def encode_im2col(
    element: int,
    rank: int,
    address: int,
    sizes_at: int,
    strides_at: int,
    low_at: int,
    high_at: int,
    channels: int,
    pixels: int,
    steps_at: int,
    interleave: int,
    swizzle: int,
    _promotion: int,
    fill: int,
) -> bytes:
    """Encode a map in im2col mode. The corner arrays at `low_at` and `high_at` have rank - 2 elements.

    Raises ValueError for values that a map cannot hold.
    """
    places = rank - 2
    if places not in CORNER_BITS:
        raise ValueError(f"tensor map in im2col mode of rank {rank}")
    q = _words(element, rank, address, sizes_at, strides_at, interleave, swizzle, fill)
    bits, steps = CORNER_BITS[places], _array(ctypes.c_uint32, rank, steps_at)
    low, high = _array(ctypes.c_int32, places, low_at), _array(ctypes.c_int32, places, high_at)
    if any(not -1 << bits - 1 <= corner < 1 << bits - 1 for corner in (*low, *high)):
        raise ValueError(f"tensor map of rank {rank} with corners {low} and {high}: they have {bits} bits each")
    known = 0 < channels <= 256 and 0 < pixels <= 1024
    if not known or any(not 0 < step <= 8 for step in steps) or steps[0] != 1 or steps[-1] != 1:
        raise ValueError(f"tensor map with {channels} channels, {pixels} pixels, element strides {steps}")
    q[1] |= IM2COL
    _set(q, 6 * 64 + 56, channels - 1)
    _set(q, 7 * 64 + 32, pixels - 1)
    for i in range(places):
        _set(q, 7 * 64 + bits * i, low[i] & (1 << bits) - 1)
        _set(q, 7 * 64 + 16 + bits * i, high[i] & (1 << bits) - 1)
        _set(q, 6 * 64 + 35 + 3 * i, steps[i + 1] - 1)
    return _bytes(q)


def _words(
    element: int, rank: int, address: int, sizes_at: int, strides_at: int, interleave: int, swizzle: int, fill: int
) -> list[int]:
    """Encode the fields that both modes share, as 64-bit words."""
    if not 1 <= rank <= 5 or element not in _ELEMENT_CODES or swizzle not in _SWIZZLES or interleave:
        raise ValueError(f"tensor map of rank {rank}, data type {element}, swizzle {swizzle}, interleave {interleave}")
    mode, atomicity = _SWIZZLES[swizzle]
    sizes, strides = _array(ctypes.c_uint64, rank, sizes_at), _array(ctypes.c_uint64, rank - 1, strides_at)
    if any(stride % 16 for stride in strides):
        raise ValueError(f"tensor map with strides {strides} bytes")
    q = [0] * 16
    q[0] = address
    q[1] = rank - 1 << 4 | _ELEMENT_CODES[element] << 7 | mode << 13 | 1 << 18 | atomicity << 19
    q[1] |= (element == _TF32) << 16 | (fill == _NAN_FILL) << NAN_FILL - 64
    q[1] |= (max([1, *strides]) * sizes[-1] >= _LARGE_BYTES) << 21
    for i, stride in enumerate(strides):
        _set(q, 96 + 32 * i, stride >> 4 & 0xFFFF_FFFF)
        _set(q, 3 * 64 + 32 + 4 * i, stride >> 36 & 15)
    for i, size in enumerate(sizes):
        _set(q, 4 * 64 + 32 * i, size - 1)
    return q


def _array(kind: Any, count: int, address: int) -> list[int]:
    return list((kind * count).from_address(address)) if count else []


def _bytes(words: list[int]) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words)


def _set(words: list[int], bit: int, value: int) -> None:
    """OR a value into the words at an absolute bit position. It must not cross a word boundary."""
    words[bit // 64] |= value << bit % 64
