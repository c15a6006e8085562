"""Tensor maps of recordings on a Hopper GPU, whose format differs from the one that is recorded."""

from __future__ import annotations

import ctypes

from emulator.bridge.tensormap import encode_tiled
from emulator.machine.formats.tensormap import MAP_BYTES
from harness.judge.replay_on import hopper_map

BF16, B128 = 9, 3
"""CUtensorMapDataType and CUtensorMapSwizzle."""


def tensor_map() -> bytes:
    """Return the map of a bf16 tensor of 128 rows and 64 columns."""
    sizes, strides = (ctypes.c_uint64 * 2)(64, 128), (ctypes.c_uint64 * 1)(128)
    box, steps = (ctypes.c_uint32 * 2)(64, 64), (ctypes.c_uint32 * 2)(1, 1)
    at = ctypes.addressof
    return encode_tiled(BF16, 2, 1 << 20, at(sizes), at(strides), at(box), at(steps), 0, B128, 0, 0)


def test_a_tensor_map_loses_the_bit_that_sm_90_must_not_have() -> None:
    given = tensor_map()
    changed = [(i, a ^ b) for i, (a, b) in enumerate(zip(given, hopper_map(given), strict=True)) if a != b]
    assert changed == [(8, 2)]


def test_other_parameters_stay_as_they_are() -> None:
    for parameter in (b"\xff" * 8, bytes(MAP_BYTES), b"\xff" * MAP_BYTES):
        assert hopper_map(parameter) == parameter
