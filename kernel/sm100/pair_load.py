"""The load roles for quantised keys where keys are the N of QK: four warps convert K.

In a CTA pair four others convert V. Such a CTA converts half of the keys for K, and half of the columns of all keys for
V.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from kernel.device.convert import KeysWarp, Listed, Part
from kernel.device.operands import CHUNK
from kernel.layouts import QUANTISED


class PairValuesWarp(KeysWarp):
    """One of the warps that convert V: it converts the CTA's half of the columns of a slice's keys."""

    @property
    def warps_of_slice(self) -> int:
        """Number of warps that convert the keys of a slice."""
        return 1

    def slice_number(self, n: int) -> Int32:
        """Return the number of the warp's slice."""
        return self.warp

    def first_entry(self, i: Int32) -> Int32:
        """Return the number of the index of the first key of tile `i` in a slot."""
        return i * self.cta.config.block_n + self.warp * self.ring.box[0]

    @cute.jit
    def convert_tile(self, cache: cutlass.Constexpr[int], i: Int32, listed: Listed, number: Int32) -> None:
        """Convert the CTA's half of the columns. The halves differ in code only if one of them has columns in bf16."""
        half = self.ring.box[1] // CHUNK
        layout = QUANTISED[self.cta.config.caches[cache].layout]
        if cutlass.const_expr(not layout.has_others):
            self.convert(Part(cache, range(half), self.rank * half), i, listed, number)
        else:
            if self.rank == 0:
                self.convert(Part(cache, range(half)), i, listed, number)
            else:
                self.convert(Part(cache, range(half, 2 * half)), i, listed, number)
