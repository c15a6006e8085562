"""Facts of sm_100 and the B200 that its kernel is built on."""

from __future__ import annotations

SMS = 148
TMEM_LANES = 128
TMEM_COLS = 512  # columns of tensor memory of an SM, 32 bits wide each
MMA_K = 16  # bf16 of the summed dimension per tensor-core instruction
MMA_N = 256  # columns that a tensor-core instruction writes at most
#: Clusters that run at a time on a B200, by CTAs per cluster: its GPCs have 18 or 20 SMs.
CLUSTERS_AT_ONCE = {1: 148, 2: 74, 4: 34, 8: 16, 16: 8}
