"""The layout of tensor memory and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.device import config
from kernel.device.config import MAX_DEPTH
from kernel.hardware import BF16_BYTES, FP32_BYTES, SMEM_ALIGN, SMEM_BYTES, SWIZZLE_BYTES, WARP
from kernel.problem import PPath
from kernel.sm100.hardware import TMEM_COLS
from kernel.sm100.variants import Variant

S_STAGES = 2  # stages of S and P: softmax works on one while the tensor core computes the other
EXCHANGED = 5  # statistics that softmax warps exchange: maxima of a KV tile and of all, sum, largest logit, a factor
VALID_BYTES = 4  # swapped: flags per key, 1 if it exists: one for each thread that has a part of the key


@dataclass(frozen=True)
class TensorMemory:
    """Columns of tensor memory: S0, S1, O of each Q tile, then P0, P1 if P is there and has its own columns.

    Swapped, S0 and S1 share columns: each has half of the lanes. a_slices: slices of QK's A operand that are in
    tensor memory too, behind O: slices of Q or, swapped, of a KV tile, in the lanes of the tile's S.
    """

    variant: Variant
    head_dim: int
    p_path: PPath
    a_slices: int = 0

    @property
    def s_cols(self) -> int:
        """Columns of S: one per key, one per two keys if both halves of the lanes have a row; swapped, one per row."""
        if self.variant.swapped:
            return self.variant.tile_m
        return self.variant.block_n // 2 if self.variant.row_spans_warps else self.variant.block_n

    @property
    def p_cols(self) -> int:
        """Columns of P, which is bf16: two keys each."""
        return self.variant.block_n // 2

    @property
    def o_cols(self) -> int:
        """Columns of O of a Q tile."""
        return self.head_dim // self.variant.threads_per_row

    @property
    def o_start(self) -> int:
        """First column of O."""
        return self.s_cols if self.variant.swapped else S_STAGES * self.s_cols

    @property
    def o_end(self) -> int:
        """First column after O."""
        return self.o_start + self.variant.q_tiles * self.o_cols

    @property
    def p_over_s(self) -> bool:
        """True if P takes the columns of the logits that it was computed from, because no others are free."""
        return self.p_path == "tmem" and self.o_end + S_STAGES * self.p_cols > TMEM_COLS

    @property
    def p_start(self) -> int:
        """First column of P."""
        return 0 if self.p_over_s else self.o_end

    @property
    def p_stride(self) -> int:
        """Columns from P of one stage to P of the next."""
        return self.variant.block_n if self.p_over_s else self.p_cols

    @property
    def cols(self) -> int:
        """Columns that are used."""
        own_p = self.p_path == "tmem" and not self.p_over_s
        return self.o_end + own_p * S_STAGES * self.p_cols + self.a_slices * self.a_cols

    @property
    def a_cols(self) -> int:
        """Columns of tensor memory for a slice of K or Q: one per two bf16 columns."""
        return self.head_dim // self.variant.slices // 2

    @property
    def alloc_cols(self) -> int:
        """Columns that are allocated: a power of two."""
        return 1 << (self.cols - 1).bit_length()


@dataclass(frozen=True)
class SharedMemory(config.SharedMemory):
    """Bytes of the buffers in shared memory."""

    variant: Variant
    head_dim: int
    p_path: PPath
    rings: int
    rope_dim: int = 0

    @property
    def reserved_bytes(self) -> int:
        """Barriers, the tensor-memory address, and the exchange between threads of a row."""
        if self.variant.swapped:
            return SMEM_ALIGN + -(-self.exchange_bytes // SMEM_ALIGN) * SMEM_ALIGN
        return SMEM_ALIGN * (2 if self.variant.row_spans_warps else 1)

    @property
    def exchange_bytes(self) -> int:
        """Swapped: the statistics of each row by each softmax warp."""
        return EXCHANGED * len(self.variant.roles.softmax) * self.variant.tile_m * FP32_BYTES

    @property
    def p_bytes(self) -> int:
        """Both stages of P."""
        return S_STAGES * self.variant.tile_m * self.variant.block_n * BF16_BYTES if self.p_path == "smem" else 0

    @property
    def o_staging_bytes(self) -> int:
        """The part of O that is staged at a time: a swizzled row per softmax thread."""
        return len(self.variant.roles.softmax) * WARP * SWIZZLE_BYTES

    @property
    def o_bytes(self) -> int:
        """Staging buffer of O; 0 if P's buffer has the space for it, or if O is stored from registers."""
        if self.variant.swapped:
            return 0
        return self.o_staging_bytes if self.o_staging_bytes > self.p_bytes else 0

    @property
    def o_stages(self) -> int:
        """Number of staging buffers of O in P's buffer: with two, one is filled while the other is stored.

        Two buffers are used an even number of times per row tile, so that each row tile begins with the same one.
        """
        o_cols = self.head_dim // self.variant.threads_per_row
        even = o_cols * BF16_BYTES % (2 * SWIZZLE_BYTES) == 0
        return 2 if even and self.p_bytes >= 2 * self.o_staging_bytes else 1

    @property
    def depth(self) -> int:
        """KV tiles that a ring holds: a power of two, as many as fit."""
        free = SMEM_BYTES - self.reserved_bytes - self.q_bytes - self.rope_bytes - self.p_bytes - self.o_bytes
        fits = min(MAX_DEPTH, free // (self.kv_tile_bytes * self.rings))
        return 1 << fits.bit_length() - 1
