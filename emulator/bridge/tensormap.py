"""cuTensorMapEncodeTiled: a tensor map's 128 bytes from the driver API's arguments."""

from __future__ import annotations

import ctypes
from typing import Final

from ..machine.tensormap import NAN_FILL

_ELEMENT_CODES: Final = {
    0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 9, 9: 10, 10: 8, 11: 7, 13: 11, 14: 12, 15: 13,
}  # fmt: skip
"""CUtensorMapDataType to the code in the map (f64 and bf16 come before f32 with flushing in the driver's order).

The codes 12 and 13, of padded 4- and 6-bit elements, are not known from any map: the emulator's own.
"""
_TF32: Final = 11
_SWIZZLES: Final = {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (3, 0), 4: (3, 1), 6: (3, 3)}
"""CUtensorMapSwizzle to a map's swizzle mode and atomicity."""
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
    """The map's bytes. Sizes, strides (bytes, of dimensions 1 and up), box and steps are addresses of arrays.

    Bit positions as CuTeDSL's host code writes them. Raises ValueError for what no map can hold.
    """
    if not 1 <= rank <= 5 or element not in _ELEMENT_CODES or swizzle not in _SWIZZLES or interleave:
        raise ValueError(f"tensor map of rank {rank}, data type {element}, swizzle {swizzle}, interleave {interleave}")
    mode, atomicity = _SWIZZLES[swizzle]
    sizes = list((ctypes.c_uint64 * rank).from_address(sizes_at))
    strides = list((ctypes.c_uint64 * (rank - 1)).from_address(strides_at)) if rank > 1 else []
    box = list((ctypes.c_uint32 * rank).from_address(box_at))
    steps = list((ctypes.c_uint32 * rank).from_address(steps_at))
    if any(stride % 16 for stride in strides) or any(not 0 < b <= 256 for b in box) or set(steps) != {1}:
        raise ValueError(f"tensor map with strides {strides} bytes, box {box}, element strides {steps}")
    q = [0] * 16
    q[0] = address
    q[1] = 2 | rank - 1 << 4 | _ELEMENT_CODES[element] << 7 | mode << 13 | 1 << 18 | atomicity << 19
    q[1] |= (element == _TF32) << 16 | (fill == _NAN_FILL) << NAN_FILL - 64
    q[1] |= (max([1, *strides]) * sizes[-1] >= _LARGE_BYTES) << 21
    for i, stride in enumerate(strides):
        _set(q, 96 + 32 * i, stride >> 4 & 0xFFFF_FFFF)
        _set(q, 3 * 64 + 32 + 4 * i, stride >> 36 & 15)
    for i, size in enumerate(sizes):
        _set(q, 4 * 64 + 32 * i, size - 1)
    for i, extent in enumerate(box):
        _set(q, 6 * 64 + 56 + 8 * i, extent - 1)
    return b"".join(word.to_bytes(8, "little") for word in q)


def _set(words: list[int], bit: int, value: int) -> None:
    """Or a value into the words from an absolute bit position on, within one word."""
    words[bit // 64] |= value << bit % 64
