"""Facts of sm_100 and the B200 that the kernel is built on."""

from __future__ import annotations

WARP = 32  # threads
WARPGROUP = 4  # warps
SMS = 148
TMEM_LANES = 128
TMEM_COLS = 512  # columns of tensor memory of an SM, 32 bits wide each
SMEM_BYTES = 227 * 1024  # shared memory that a CTA may have
SWIZZLE_BYTES = 128  # width of a swizzled row of shared memory
SMEM_ALIGN = 1024  # eight swizzled rows: the period of the pattern
MBARRIER_BYTES = 8
BF16_BYTES = 2
FP32_BYTES = 4
MMA_K = 16  # bf16 of the summed dimension per tensor-core instruction
MMA_N = 256  # columns that a tensor-core instruction writes at most
#: Clusters that run at a time on a B200, by CTAs per cluster: its GPCs have 18 or 20 SMs.
CLUSTERS_AT_ONCE = {1: 148, 2: 74, 4: 34, 8: 16, 16: 8}
