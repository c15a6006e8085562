"""The load roles for quantised keys on sm_90, which has no packed fp32, and does not convert ue8m0."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from kernel.hardware import WARP
from kernel.sm100.dequantise import BATCH, CODES, QuantisedWarp
from kernel.sm100.load import wait_empty

MANTISSA_BITS = 23
LEAST_SCALE = 1 << MANTISSA_BITS - 1  # bits of 2^-127 in fp32, which is subnormal
NAN_SCALE, NAN = 0xFF, 0x7FFFFFFF


class V4Warp(QuantisedWarp):
    """A load warp that converts keys of V4."""

    @cute.jit
    def convert_keys(self, found: list[Any], words: list[Any], first: Int32, number: Int32) -> Int32:
        """Convert some keys after the other in a loop: unrolled, loads of several turns would be in registers.

        found, words: addresses and scales of the slice's keys, in the lanes that have their indices. first: the slice's
        column. Returns the slot.
        """
        keys, dims = self.ring.box
        lane = cute.arch.lane_idx()
        lanes = dims // CODES  # that convert a key together
        column, step = first + lane % lanes * CODES, WARP // lanes
        slot = wait_empty(self.cta, self.ring, self.warp, number)
        for begin in cutlass.range(0, keys, step * BATCH, unroll=1):
            own = [begin + n * step + lane // lanes for n in range(BATCH)]
            place, word = (cutlass.select_(begin < WARP, *each) for each in (found, words))
            places = [cute.arch.shuffle_sync(place, key % WARP) for key in own]
            scales = [cute.arch.shuffle_sync(word, key % WARP) for key in own]
            codes = [self.codes(each, column) for each in places]
            self.write(slot, own, places, codes, scales, column)
        return slot

    def scaled(self, pair: tuple[Float32, Float32], scale: Float32) -> tuple[Float32, Float32]:
        """Return two values times a scale."""
        return pair[0] * scale, pair[1] * scale

    def scale_of(self, byte: Int32) -> Float32:
        """Return the power of two of the ue8m0 in the lowest byte, which is an exponent of fp32; NaN for 255."""
        exponent = byte & 0xFF
        bits = cute.make_rmem_tensor(1, Int32)
        bits[0] = cutlass.select_(exponent == 0, Int32(LEAST_SCALE), exponent << MANTISSA_BITS)
        bits[0] = cutlass.select_(exponent == NAN_SCALE, Int32(NAN), bits[0])
        return cute.recast_tensor(bits, Float32)[0]
