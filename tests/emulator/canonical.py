"""CuTe's canonical layouts of MMA operands in shared memory, written with tensor-layouts: an oracle for descriptors.

The layouts are those in cute/arch/mma_sm100_desc.hpp above make_umma_desc, in elements, before swizzling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tensor_layouts import Layout, Swizzle

# swizzle span in bytes, descriptor code, Swizzle of byte addresses
SWIZZLES = {
    "none": (16, 0, None),
    "32B": (32, 6, Swizzle(1, 4, 3)),
    "64B": (64, 4, Swizzle(2, 4, 3)),
    "128B": (128, 2, Swizzle(3, 4, 3)),
    "128B of 32B": (128, 1, Swizzle(2, 5, 2)),
}
"""The last one is for MN-major operands of 32 bits only, whose core matrices have 4 rows of K."""


@dataclass(frozen=True)
class Operand:
    """[mn, k] elements of `bits` in shared memory, from byte `start`. `outer` and `inner` are strides of core matrices.

    For K-major operands `outer` is the byte stride between groups of 8 rows (SBO), `inner` the one between 16-byte
    columns of an unswizzled operand (LBO). For MN-major operands `outer` is the stride between rows of MN of one span,
    `inner` the one between groups of 8 (of 4) of K.
    """

    bits: int
    mn: int
    k: int
    mn_major: bool
    swizzle: str
    start: int
    outer: int
    inner: int

    @property
    def descriptor(self) -> int:
        """Return the 64-bit matrix descriptor for tcgen05.mma."""
        code = SWIZZLES[self.swizzle][1]
        if self.mn_major:
            leading, stride = (self.outer, self.inner) if self.swizzle != "none" else (self.inner, self.outer)
        else:
            leading, stride = self.inner, self.outer
        return self.start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | code << 61

    def byte(self) -> np.ndarray:
        """Return the byte address of element [mn, k]: int[mn, k]."""
        size = self.bits // 8
        span, _, swizzle = SWIZZLES[self.swizzle]
        t = 16 // size
        w, outer, inner = span // size, self.outer // size, self.inner // size
        if self.mn_major:
            mn = Layout((w, max(self.mn // w, 1)), (1, outer))
            rows = 4 if self.swizzle == "128B of 32B" else 8
            k = Layout((rows, max(self.k // rows, 1)), (w, inner))
        else:
            mn = Layout((8, self.mn // 8), (w, outer))
            k = Layout((t, max(self.k // t, 1)), (1, inner if self.swizzle == "none" else t))
        offset = np.array([mn(i) for i in range(self.mn)])[:, None] + np.array([k(j) for j in range(self.k)])[None, :]
        address = self.start + offset * size
        return address if swizzle is None else np.vectorize(swizzle)(address)
