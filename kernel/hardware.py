"""Facts of sm_90 and sm_100 that the kernels are built on."""

from __future__ import annotations

WARP = 32  # threads
WARPGROUP = 4  # warps
SMEM_BYTES = 227 * 1024  # shared memory that a CTA may have
SWIZZLE_BYTES = 128  # width of a swizzled row of shared memory
SMEM_ALIGN = 1024  # eight swizzled rows: the period of the pattern
MBARRIER_BYTES = 8
VECTOR_BYTES = 16  # of one access to memory
BF16_BYTES = 2
FP32_BYTES = 4
