"""What the roles of a CTA share: its memories, barriers, rows, KV tiles and the fragments of both products."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, union-attr"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64
from cutlass.memory import SmemAllocator

from kernel.arguments import Arguments
from kernel.config import BF16_BYTES, SMEM_ALIGN, TMEM_LANES, FmhaConfig
from kernel.sm100.barriers import Barriers
from kernel.sm100.operands import SmemLayouts, TiledMmas
from kernel.sm100.tiles import Blocks, Branches, KvTiles, RowTile, TopkTiles, Visible
from kernel.sm100.traced import Fixed, larger, smaller

LANE = 1 << 16  # tensor-memory address of the next lane
HALF_LANES = 16  # with 64 rows, the second half of O's columns lies this many lanes further
LOAD_COLS = 32  # columns a thread takes from tensor memory at once
VECTOR = 8  # bf16 in the sixteen bytes of one shared-memory access
Trace = Callable[[str, Any], None]


@dataclass
class Smem(Fixed):
    """The buffers of shared memory, in their order."""

    barriers: cute.Pointer
    tmem_slot: cute.Pointer
    sMax: cute.Tensor | None  # what the softmax threads tell those that share their rows, (thread, turn)
    sQ: cute.Tensor
    sK: cute.Tensor
    sV: cute.Tensor
    sP: cute.Tensor | None
    sO: cute.Tensor  # where O is staged: in P's room, if it has one

    @staticmethod
    def allocate(config: FmhaConfig, layouts: SmemLayouts) -> Smem:
        smem = SmemAllocator()
        barriers = smem.allocate_array(Int64, config.barrier_count)
        tmem_slot = smem.allocate_array(Int32, 1)
        sMax = None
        if config.halves_apart:
            sMax = smem.allocate_tensor(Float32, cute.make_layout((TMEM_LANES, 2)), 16)
        sQ = smem.allocate_tensor(BFloat16, layouts.q.outer, SMEM_ALIGN, layouts.q.inner)
        sK = smem.allocate_tensor(BFloat16, layouts.k.outer, SMEM_ALIGN, layouts.k.inner)
        if config.own_v:
            sV = smem.allocate_tensor(BFloat16, layouts.v.outer, SMEM_ALIGN, layouts.v.inner)
        else:  # the bytes of a K tile and of a V tile lie alike
            sV = cute.make_tensor(cute.recast_ptr(sK.iterator, layouts.v.inner, BFloat16), layouts.v.outer)
        sP = None
        if config.p_path == "smem":
            sP = smem.allocate_tensor(BFloat16, layouts.p.outer, SMEM_ALIGN, layouts.p.inner)
        sO = sP
        if config.o_bytes:
            sO = smem.allocate_tensor(BFloat16, cute.make_layout(config.o_bytes // BF16_BYTES), SMEM_ALIGN)
        return Smem(barriers, tmem_slot, sMax, sQ, sK, sV, sP, sO)


@dataclass
class Fragments(Fixed):
    """Operands of the two products in shared or tensor memory, and their accumulators in tensor memory."""

    mmas: TiledMmas
    tSrQ: cute.Tensor  # descriptors of Q (MMA, M, K, 1)
    tSrK: cute.Tensor  # descriptors of K (MMA, N, K, stage)
    tOrP: cute.Tensor  # P: descriptors (MMA, M, K, stage), or tensor-memory columns of stage 0
    tOrV: cute.Tensor  # descriptors of V (MMA, N, K, stage)
    tStS: cute.Tensor  # logits of stage 0
    tOtO: cute.Tensor  # output
    o_cols: int  # columns of tensor memory that the output of a row tile takes

    @staticmethod
    def of(config: FmhaConfig, mmas: TiledMmas, smem: Smem, p_layout: cute.ComposedLayout, tmem: Any) -> Fragments:
        """`tmem`: where the CTA's columns of tensor memory begin."""
        thr_qk, thr_pv = mmas.qk.get_slice(0), mmas.pv.get_slice(0)
        s_layout = thr_qk.make_fragment_C(thr_qk.partition_shape_C(config.qk_tiler[:2])).layout
        o_layout = thr_pv.make_fragment_C(thr_pv.partition_shape_C(mmas.pv.shape_mnk[:2])).layout
        tStS = cute.make_tensor(tmem, s_layout)
        tOtO = cute.make_tensor(tmem + config.tmem_o, o_layout)
        if config.p_path == "smem":
            tOrP = thr_pv.make_fragment_A(smem.sP)
        else:
            p_layout = thr_pv.make_fragment_A(cute.make_tensor(tmem, p_layout.outer)).layout
            p_ptr = cute.recast_ptr(tmem + config.tmem_p, dtype=BFloat16)
            tOrP = cute.make_tensor(p_ptr, p_layout)
        tSrQ, tSrK = thr_qk.make_fragment_A(smem.sQ), thr_qk.make_fragment_B(smem.sK)
        tOrV = thr_pv.make_fragment_B(smem.sV)
        return Fragments(mmas, tSrQ, tSrK, tOrP, tOrV, tStS, tOtO, config.o_cols)

    def p(self, config: FmhaConfig, stage: Any) -> Any:
        """P of a stage (MMA, K)."""
        if config.p_path == "smem":
            return self.tOrP[None, 0, None, stage]
        first = self.tOrP[None, 0, None, 0]
        return cute.make_tensor(first.iterator + stage * (2 * config.p_stride), first.layout)

    def o_blocks(self, row_tile: Any) -> cute.Tensor:
        """O as (lane, column, block), LOAD_COLS columns a block; a lane is a row or a row's half of the columns."""
        layout = cute.make_layout((TMEM_LANES, LOAD_COLS, self.o_cols // LOAD_COLS), stride=(LANE, 1, LOAD_COLS))
        return cute.make_tensor(self.tOtO.iterator + row_tile * self.o_cols, layout)


@dataclass
class Cta(Fixed):
    """One CTA as its roles see it, at one of its row tiles. `trace` remembers a layout by name."""

    config: FmhaConfig
    bars: Barriers
    smem: Smem
    fragments: Fragments
    row_tile: RowTile
    kv_tiles: Branches
    trace: Trace
    turn: Any = 0  # KV tiles of the row tiles before


@dataclass
class RowTiles(Fixed):
    """All row tiles of a launch, and the CTA at each of them."""

    config: FmhaConfig
    bars: Barriers
    smem: Smem
    fragments: Fragments
    args: Arguments
    trace: Trace

    @property
    def numbers(self) -> tuple[Any, Any, Any]:
        """Of the CTA's row tiles: first, past the last, and step. Where keys are split it has one, with its cluster."""
        block = cute.arch.block_idx()[0]
        if self.config.splits > 1:
            return block // self.config.splits, block // self.config.splits + 1, 1
        ctas = self.config.mma_ctas
        pairs = cute.ceil_div(self.args.rows, ctas * self.config.block_m) * self.args.lse.shape[0]
        return block, ctas * pairs, cute.arch.grid_dim()[0]

    def at(self, number: Any, turn: Any = 0) -> Cta:
        """The CTA at row tile `number`, after so many KV tiles of those that it had before.

        The last row tiles of all sequences come first: under a causal mask they see most keys, and none is left for
        the end. Row tiles of one MMA stay together.
        """
        config, args, groups, ctas = self.config, self.args, self.args.lse.shape[0], self.config.mma_ctas
        pairs, pair = cute.ceil_div(args.rows, ctas * config.block_m), number // ctas
        index = (pairs - 1 - pair // groups) * ctas + number % ctas
        group_is_token = config.compressed == "topk"
        row_tile = RowTile(
            index, pair % groups, args.rows, args.heads, args.tokens, config.block_m, ctas, group_is_token
        )
        kv = all_kv_tiles(config, row_tile, args)
        if config.splits > 1:
            kv = kv.share(cute.arch.block_idx_in_cluster(), config.splits)
        return Cta(config, self.bars, self.smem, self.fragments, row_tile, kv, self.trace, turn)


def all_kv_tiles(config: FmhaConfig, row_tile: RowTile, args: Arguments) -> Branches:
    """The KV tiles that a row tile needs."""
    sequence, span = row_tile.sequence, row_tile.first_and_last_token()
    length = args.keys if args.lens is None else args.lens[sequence]
    visible = Visible(config.mask, args.keys, length, row_tile.tokens, args.window)
    window = KvTiles(visible, config.block_n, *span)
    if config.compressed == "blocks":
        blocks = Blocks(args.compressed_keys, args.positions[sequence], row_tile.tokens, args.ratio)
        return Branches(window, KvTiles(blocks, config.block_n, *span))
    if config.compressed == "topk":
        first_key = sequence * args.compressed_keys
        length = smaller(larger(args.topk_lens[row_tile.group], 0), args.topk_indices.shape[1])
        indices = args.topk_indices[row_tile.group, None]
        return Branches(window, TopkTiles(indices, length, args.compressed_keys, first_key, config.block_n))
    return Branches(window)
