"""Operands of both products: tiled MMAs, buffers, shared-memory descriptors and accumulators in tensor memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.experimental import primitives
from cutlass.utils import blackwell_helpers as sm100

from kernel.device.operands import CHUNK, Buffers, cta_group
from kernel.device.tiles import LoopInvariant
from kernel.hardware import BF16_BYTES, SMEM_ALIGN, SWIZZLE_BYTES, VECTOR_BYTES
from kernel.sm100.config import FmhaConfig
from kernel.sm100.hardware import MMA_K, MMA_N, TMEM_LANES
from kernel.sm100.memory import S_STAGES

LANE = 1 << 16  # step of a tensor-memory address to the next lane
HALF_LANES = 16  # with 64 rows, the second half of O's columns lies this many lanes further
LOAD_COLS = 32  # columns that a thread loads from tensor memory at once
tmem_pointer = functools.partial(cutlass.inttoptr, mem_space=cute.AddressSpace.tmem, dtype=Float32)


class Products(NamedTuple):
    """The tiled MMAs of Q K' and P V, and the layout of P: ((box), stage), swizzled in shared memory."""

    qk: cute.TiledMma
    pv: cute.TiledMma
    p: cute.ComposedLayout


def products(config: FmhaConfig) -> Products:
    """Build both tiled MMAs and P's layout."""
    bf16 = (BFloat16, BFloat16)
    ctas = cta_group(config)
    q_and_k_majors = (OperandMajorMode.K, OperandMajorMode.K)
    p_and_v_majors = (OperandMajorMode.K, OperandMajorMode.MN)
    p_source = tcgen05.OperandSource.TMEM if config.p_path == "tmem" else tcgen05.OperandSource.SMEM
    pv_tiler = (config.pv_tiler[0], min(config.mma_ctas * config.v_slice[1], MMA_N))
    qk = sm100.make_trivial_tiled_mma(*bf16, *q_and_k_majors, Float32, ctas, config.qk_tiler)
    pv = sm100.make_trivial_tiled_mma(*bf16, *p_and_v_majors, Float32, ctas, pv_tiler, p_source)
    stages = S_STAGES if config.p_path == "smem" else 1
    return Products(qk, pv, sm100.make_smem_layout_a(pv, config.pv_tiler, BFloat16, stages))


class Smem(Buffers):
    """The buffers of shared memory."""

    def __init__(self, config: FmhaConfig, products: Products) -> None:
        super().__init__(config)
        self.tmem_slot = self.allocator.allocate_array(Int32, 1)
        self.sMax = None  # exchange of maxima and sums between threads that share a row: (thread, parity)
        if config.variant.row_spans_warps:
            self.sMax = self.allocator.allocate_tensor(Float32, cute.make_layout((TMEM_LANES, 2)), 16)
        self.allocate_operands(config)
        p = BFloat16, products.p.outer, SMEM_ALIGN, products.p.inner
        self.sP = self.allocator.allocate_tensor(*p) if config.p_path == "smem" else None
        # O is staged in P's buffer if it fits there.
        self.sO = self.bf16(config.smem.o_bytes) if config.smem.o_bytes else self.sP


class Descriptors(LoopInvariant):
    """Shared-memory matrix descriptors of the slices in a buffer, one for each 16 of the summed dimension."""

    def __init__(self, buffer: cute.Tensor, box: tuple[int, int], sums_dims: bool = True) -> None:
        """Build the descriptor of the first slice; box: rows and dims of a slice.

        sums_dims: the product sums over dims, which are adjacent in memory; else over rows.
        """
        self.sums_dims = sums_dims
        self.chunk = box[0] * SWIZZLE_BYTES // VECTOR_BYTES  # 128 bytes of every row, in the descriptor's 16 bytes
        self.chunks = box[1] // CHUNK
        leading_bytes = VECTOR_BYTES if sums_dims else box[0] * SWIZZLE_BYTES
        stride_bytes = 8 * SWIZZLE_BYTES
        swizzle = primitives.Tcgen05SmemSwizzle.SWIZZLE_128B
        address = buffer.iterator.toint()
        self.first = primitives.Tcgen05SmemDesc.build(address, leading_bytes, stride_bytes, layout=swizzle)

    def at(self, slot: Any, dim: int = 0) -> Callable[[int], Any]:
        """Descriptors of the slice in a slot from a dim on, by the instruction's number along the summed dimension."""
        begin = self.first + slot * (self.chunk * self.chunks)
        if not self.sums_dims:
            return lambda k: begin + (dim // CHUNK * self.chunk + MMA_K * k * SWIZZLE_BYTES // VECTOR_BYTES)
        dims = range(dim, CHUNK * self.chunks, MMA_K)
        return lambda k: begin + (dims[k] // CHUNK * self.chunk + dims[k] % CHUNK * BF16_BYTES // VECTOR_BYTES)


class Fragments(LoopInvariant):
    """The operands of the two products in shared or tensor memory, and their accumulators in tensor memory."""

    def __init__(self, config: FmhaConfig, products: Products, smem: Smem, tmem: Any) -> None:
        """Lay the fragments out; tmem: the first column of tensor memory that the CTA allocated."""
        self.config = config
        self.products = products
        qk = products.qk.get_slice(0)
        pv = products.pv.get_slice(0)
        s_layout = qk.make_fragment_C(qk.partition_shape_C(config.qk_tiler)).layout
        self.tStS = cute.make_tensor(tmem, s_layout)  # of stage 0
        self.o = tmem + config.tmem.o_start
        self.q_tmem = tmem + config.tmem.o_end
        if config.p_path == "smem":
            self.tOrP = pv.make_fragment_A(smem.sP)
            self.P = Descriptors(smem.sP, (config.tile_m, config.block_n))
        else:  # columns of stage 0
            p_layout = pv.make_fragment_A(cute.make_tensor(tmem, products.p.outer)).layout
            self.tOrP = cute.make_tensor(cute.recast_ptr(tmem + config.tmem.p_start, dtype=BFloat16), p_layout)
        self.Q = Descriptors(smem.sQ, (config.tile_m, config.qk_dim))
        self.K = Descriptors(smem.sK, config.k_slice)
        self.V = Descriptors(smem.sV, config.v_slice, sums_dims=False)
        self.rope = Descriptors(smem.sRope, (config.block_n, config.rope_dim)) if config.rope_dim else None

    def s(self, stage: Any, part: Any = None) -> cute.Tensor:
        """Return the logits of a stage: all of them, or the part that is `part` in stage 0."""
        part = self.tStS if part is None else part
        return cute.make_tensor(part.iterator + stage * self.config.tmem.s_cols, part.layout)

    def p(self, stage: Any, first_step: int = 0) -> Callable[[int], Any]:
        """P of a stage by the instruction's number along the keys, counted from `first_step`."""
        if self.config.p_path == "smem":
            return self.P.at(stage, MMA_K * first_step)
        first = self.tOrP.iterator + stage * (2 * self.config.tmem.p_stride)
        return lambda k: tmem_pointer((first + cute.crd2idx((0, 0, k, 0), self.tOrP.layout)).toint())

    def q(self, slice_: int) -> Callable[[int], Any]:
        """Q of a slice in tensor memory by the instruction's number along the dims."""
        config = self.config
        first = self.q_tmem + (slice_ - config.slices + config.tmem_slices) * config.tmem.a_cols
        return lambda k: tmem_pointer((first + k * (MMA_K // 2)).toint())

    def o_blocks(self, q_tile: Any) -> cute.Tensor:
        """O as (lane, column, block) with LOAD_COLS columns a block; a lane has a row or half of a row's columns."""
        columns = self.config.tmem.o_cols
        layout = cute.make_layout((TMEM_LANES, LOAD_COLS, columns // LOAD_COLS), stride=(LANE, 1, LOAD_COLS))
        return cute.make_tensor(self.o + q_tile * columns, layout)
