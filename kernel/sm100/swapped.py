"""The kernel with operands swapped, for few heads: K and V are the A operands, heads are N.

S' = K Q' has a key in a lane and a head in a column of tensor memory, O' = V' P' a column of V in a lane and a head in
a column. N is the number of heads, so that no rows are padded; unswapped, heads are padded to M = 64 rows. Columns of
tensor memory, fp32 each, with N heads (16, 32 or 64):

    |  S'0, S'1 N  |  O' columns 0-127 of V: N  |  128-255: N  |  256-383: N  |  384-511: N  |  slices of K  |

S' has 64 keys: in each quarter of the lanes, S'0 has lanes 0-15 and S'1 lanes 16-31, for the 16 keys of a warp. Keys
are in shared memory as without swapping: QK reads them as a K-major A, PV as an M-major A.
Converted keys are also in tensor memory, as the A operand of S': 64 columns for each slice, in the lanes of the tile's
S'. Four slices fit, or three with 64 heads. P' is B, in shared memory as blocks of 8 keys and 8 heads. Roles and
mbarriers are those of kernel.fmha and the following; a_empty exists if keys are converted for 64 heads:

    load         -------k_full------>   softmax              which keys of a KV tile exist, with its first slice
    mma          ------a_empty------>   load                 S'[i] has read the first slice of K in tensor memory
    mma          ------o_begun------>   queries              the row tile's first PV: O of the previous one was stored

The softmax warps also synchronize among themselves by named barriers (swapped_softmax.py).
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int8, Int32
from cutlass.experimental import primitives

from kernel.device.config import Ring
from kernel.device.cta import Cta
from kernel.device.load import LoadWarp, load_q
from kernel.device.operands import Buffers
from kernel.device.tiles import LoopInvariant
from kernel.hardware import BF16_BYTES
from kernel.sm100.config import FmhaConfig
from kernel.sm100.fmha import Blackwell
from kernel.sm100.load import load
from kernel.sm100.memory import EXCHANGED, S_STAGES, VALID_BYTES
from kernel.sm100.operands import HALF_LANES, LANE, Descriptors, Products
from kernel.sm100.swapped_load import FastWarp, SwappedCacheWarp, load_permuted_q
from kernel.sm100.swapped_mma import CORE, SwappedMmaWarp
from kernel.sm100.swapped_softmax import ColumnThread, SwappedEpilogue, SwappedSoftmax


class SwappedSmem(Buffers):
    """The buffers of shared memory."""

    def __init__(self, config: FmhaConfig) -> None:
        super().__init__(config)
        self.depth = config.smem.depth
        self.tmem_slot = self.allocator.allocate_array(Int32, 1)
        valid = cute.make_layout((config.block_n * VALID_BYTES, config.smem.depth))
        self.valid = self.allocator.allocate_tensor(Int8, valid, 4)  # (byte, KV tile of the ring)
        exchanged = cute.make_layout((config.tile_m, len(config.roles.softmax), EXCHANGED))
        self.exchange = self.allocator.allocate_tensor(Float32, exchanged, 16)  # (head, warp, statistic)
        self.allocate_operands(config)
        self.sP = self.bf16(config.smem.p_bytes)

    def valid_keys(self, number: Any) -> cute.Tensor:
        """Return VALID_BYTES for each key of the CTA's KV tile `number`: 1 if the key's index names a key, or 0."""
        return self.valid[None, number & self.depth - 1]


class SwappedFragments(LoopInvariant):
    """The operands of the two products in shared memory, and their accumulators in tensor memory."""

    def __init__(self, config: FmhaConfig, smem: SwappedSmem, tmem: Any) -> None:
        """Lay the fragments out; tmem: the first column of tensor memory that the CTA allocated."""
        self.heads = config.tile_m
        self.tmem = tmem
        self.k_cols = config.tmem.a_cols
        self.k_slices = config.tmem_slices
        self.o = tmem + config.tmem.o_start
        self.k = tmem + config.tmem.o_end  # slices of K, if keys are converted
        self.Q = Descriptors(smem.sQ, (config.tile_m, config.qk_dim))
        self.K = Descriptors(smem.sK, config.k_slice)
        self.V = Descriptors(smem.sV, config.v_slice, sums_dims=False)
        self.p_stage_bytes = config.smem.p_bytes // S_STAGES
        core_bytes = CORE * CORE * BF16_BYTES
        group_bytes = config.tile_m // CORE * core_bytes  # eight keys of all heads
        self.P = primitives.Tcgen05SmemDesc.build(smem.sP.iterator.toint(), group_bytes, core_bytes)

    def s(self, stage: Any) -> Any:
        """Return the first column of S' of a stage, in the stage's half of the lanes."""
        return self.tmem + stage * (HALF_LANES * LANE)

    def k_slice(self, stage: Any, slice_: int) -> Any:
        """Return the first column of a converted slice of K, in the lanes of S' of the tile's stage."""
        return self.k + (stage * (HALF_LANES * LANE) + slice_ % self.k_slices * self.k_cols)

    def o_block(self, block: int) -> Any:
        """Return the first column of O' of a block of V's columns."""
        return self.o + block * self.heads


class SwappedBlackwell(Blackwell):
    """The kernel of one FmhaConfig with operands swapped."""

    mma_warp = SwappedMmaWarp

    def __init__(self, config: FmhaConfig) -> None:
        super().__init__(config)
        self.load_q = load_permuted_q if config.converts_in_turn else load_q

    def products(self) -> None:
        """Return None: instructions are built from shapes."""

    def load_role(self, ring: Ring | None) -> type[LoadWarp]:
        """Return the kind of warp that loads keys."""
        return FastWarp if self.config.quantised else SwappedCacheWarp

    def memory(self, products: Products | None) -> SwappedSmem:
        """Return the buffers of shared memory."""
        return SwappedSmem(self.config)

    def fragments(self, products: Products | None, smem: SwappedSmem, tmem: Any) -> SwappedFragments:
        """Return the operands of both products; tmem: the first column of tensor memory that the CTA allocated."""
        return SwappedFragments(self.config, smem, tmem)

    @cute.jit
    def run_other_roles(self, cta: Cta, warp: Any) -> None:
        """Run a warp that is not one of softmax. Load warps keep as many registers as those of softmax."""
        config = self.config
        most, least = config.variant.registers
        if warp < config.roles.mma[0]:
            cute.arch.setmaxregister_increase(most)
            self.load(cta, warp, config.loaders[:1])
        else:
            cute.arch.setmaxregister_decrease(least)
            if warp == config.roles.queries[0]:
                load(cta, None, 0, LoadWarp, self.load_q)
            self.multiply(cta, warp)

    @cute.jit
    def softmax(self, cta: Cta) -> None:
        """Run a softmax warp for all row tiles of the CTA: P' of each KV tile, then the results."""
        thread = ColumnThread(self.config)
        kv_done = Int32(0)
        first, end, step = cta.row_tile_range
        for number in cutlass.range(first, end, step, unroll=1):
            at = cta.at_row_tile(number, kv_done)
            softmax = SwappedSoftmax(at, thread)
            softmax.run()
            SwappedEpilogue(at, thread, softmax).run()
            kv_done += at.kv_tiles.count
