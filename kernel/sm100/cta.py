"""What the roles of a CTA share: its memories, barriers, rows, KV tiles and the fragments of both products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64, select_
from cutlass.experimental import primitives
from cutlass.memory import SmemAllocator

from kernel.arguments import Arguments
from kernel.config import BF16_BYTES, MMA_K, SMEM_ALIGN, SWIZZLE_BYTES, TMEM_LANES, FmhaConfig
from kernel.sm100.barriers import Barriers
from kernel.sm100.operands import CHUNK, Copies, Products
from kernel.sm100.tiles import Branches, Fixed, KvTiles, RowTile, TopkTiles, Visible, larger, smaller

LANE = 1 << 16  # tensor-memory address of the next lane
HALF_LANES = 16  # with 64 rows, the second half of O's columns lies this many lanes further
LOAD_COLS = 32  # columns a thread takes from tensor memory at once
VECTOR_BYTES = 16  # of one access to memory


class Smem(Fixed):
    """The buffers of shared memory, in their order."""

    def __init__(self, config: FmhaConfig, products: Products) -> None:
        smem = SmemAllocator()

        def bf16(size: int) -> cute.Tensor:
            return smem.allocate_tensor(BFloat16, cute.make_layout(size // BF16_BYTES), SMEM_ALIGN)

        self.barriers = smem.allocate_array(Int64, config.barrier_count)
        self.tmem_slot = smem.allocate_array(Int32, 1)
        self.sMax = None  # what the softmax threads tell those that share their rows, (thread, turn)
        if config.halves_apart:
            self.sMax = smem.allocate_tensor(Float32, cute.make_layout((TMEM_LANES, 2)), 16)
        self.sQ, self.sK = bf16(config.q_bytes), bf16(config.depth * config.kv_tile_bytes)
        self.sV = bf16(config.depth * config.kv_tile_bytes) if config.own_v else self.sK
        p = BFloat16, products.p.outer, SMEM_ALIGN, products.p.inner
        self.sP = smem.allocate_tensor(*p) if config.p_path == "smem" else None
        self.sO = bf16(config.o_bytes) if config.o_bytes else self.sP  # where O is staged: in P's room, if it has one


class Units(Fixed):
    """Units of rows and dims in shared memory as instructions take them: a descriptor for each 16 that are summed."""

    def __init__(self, buffer: cute.Tensor, unit: tuple[int, int], by_dims: bool = True) -> None:
        """by_dims: dims are summed, and lie side by side. chunk: rows of 128 bytes, in 16 as descriptors count."""
        self.by_dims, self.chunk, self.chunks = by_dims, unit[0] * SWIZZLE_BYTES // VECTOR_BYTES, unit[1] // CHUNK
        groups = VECTOR_BYTES if by_dims else unit[0] * SWIZZLE_BYTES, 8 * SWIZZLE_BYTES
        swizzle = primitives.Tcgen05SmemSwizzle.SWIZZLE_128B
        self.first = primitives.Tcgen05SmemDesc.build(buffer.iterator.toint(), *groups, layout=swizzle)

    def at(self, slot: Any, dim: int = 0) -> Callable[[int], Any]:
        """What an instruction takes of a unit by its step, from a dim on."""
        begin = self.first + slot * (self.chunk * self.chunks)
        if not self.by_dims:
            return lambda k: begin + (dim // CHUNK * self.chunk + MMA_K * k * SWIZZLE_BYTES // VECTOR_BYTES)
        dims = range(dim, CHUNK * self.chunks, MMA_K)
        return lambda k: begin + (dims[k] // CHUNK * self.chunk + dims[k] % CHUNK * BF16_BYTES // VECTOR_BYTES)


class Fragments(Fixed):
    """Operands of the two products in shared or tensor memory, and their accumulators in tensor memory."""

    def __init__(self, config: FmhaConfig, products: Products, smem: Smem, tmem: Any) -> None:
        """`tmem`: where the CTA's columns of tensor memory begin."""
        self.config, self.products = config, products
        qk, pv = products.qk.get_slice(0), products.pv.get_slice(0)
        s_layout = qk.make_fragment_C(qk.partition_shape_C(config.qk_tiler)).layout
        self.tStS = cute.make_tensor(tmem, s_layout)  # of stage 0
        self.o = tmem + config.tmem_o
        if config.p_path == "smem":
            self.tOrP, self.P = pv.make_fragment_A(smem.sP), Units(smem.sP, (config.tile_m, config.block_n))
        else:  # columns of stage 0
            p_layout = pv.make_fragment_A(cute.make_tensor(tmem, products.p.outer)).layout
            self.tOrP = cute.make_tensor(cute.recast_ptr(tmem + config.tmem_p, dtype=BFloat16), p_layout)
        self.Q, self.K = Units(smem.sQ, (config.tile_m, config.head_dim)), Units(smem.sK, config.k_unit)
        self.V = Units(smem.sV, config.v_unit, by_dims=False)

    def s(self, stage: Any, first: Any = None) -> cute.Tensor:
        """The logits of a stage, all of them or those that begin where `first` does."""
        first = self.tStS if first is None else first
        return cute.make_tensor(first.iterator + stage * self.config.s_cols, first.layout)

    def p(self, stage: Any, ahead: int = 0) -> Callable[[int], Any]:
        """P of a stage, its steps from `ahead` on."""
        if self.config.p_path == "smem":
            return self.P.at(stage, MMA_K * ahead)
        first = self.tOrP.iterator + stage * (2 * self.config.p_stride)
        return lambda k: (first + cute.crd2idx((0, 0, k, 0), self.tOrP.layout)).toint()

    def o_blocks(self, row_tile: Any) -> cute.Tensor:
        """O as (lane, column, block), LOAD_COLS columns a block; a lane is a row or a row's half of the columns."""
        columns = self.config.o_cols
        layout = cute.make_layout((TMEM_LANES, LOAD_COLS, columns // LOAD_COLS), stride=(LANE, 1, LOAD_COLS))
        return cute.make_tensor(self.o + row_tile * columns, layout)


@dataclass
class Cta(Fixed):
    """One CTA as its roles see it; `at` gives it at one of its row tiles, which has the last three."""

    config: FmhaConfig
    bars: Barriers
    smem: Smem
    fragments: Fragments
    copies: Copies
    args: Arguments
    row_tile: Any = None
    kv_tiles: Any = None
    turn: Any = 0  # KV tiles of the row tiles before

    @property
    def numbers(self) -> tuple[Any, Any, Any]:
        """Of the CTA's row tiles: first, past the last, and step. Where keys are split it has one, with its cluster."""
        block, config = cute.arch.block_idx()[0], self.config
        if config.splits > 1:
            return block // config.splits, block // config.splits + 1, 1
        pairs = cute.ceil_div(self.args.rows, config.mma_ctas * config.block_m) * self.args.lse.shape[0]
        return block, config.mma_ctas * pairs, cute.arch.grid_dim()[0]

    def at(self, number: Any, turn: Any = 0) -> Cta:
        """The CTA at row tile `number`, after so many KV tiles of those that it had before. The last row tiles of all
        sequences come first, and are dealt there and back: under a causal mask they see most keys."""
        config, args, groups, ctas = self.config, self.args, self.args.lse.shape[0], self.config.mma_ctas
        pairs, pair = cute.ceil_div(args.rows, ctas * config.block_m), number // ctas
        if config.there_and_back:
            dealt = cute.arch.grid_dim()[0] // ctas
            deal, deals = pair // dealt, pairs * groups // dealt
            pair = select_((deals - deal) % 2 == 1, (2 * deal + 1) * dealt - 1 - pair, pair)
        index, by_token = (pairs - 1 - pair // groups) * ctas + number % ctas, config.compressed == "topk"
        row_tile = RowTile(index, pair % groups, args.rows, args.heads, args.tokens, config.block_m, ctas, by_token)
        return replace(self, row_tile=row_tile, kv_tiles=kv_tiles(config, args, row_tile), turn=turn)


def kv_tiles(config: FmhaConfig, args: Arguments, row_tile: RowTile) -> Branches:
    """The KV tiles that a row tile needs, and which of them the CTA has."""
    sequence, span, tokens = row_tile.sequence, row_tile.first_and_last_token(), row_tile.tokens
    length = args.keys if args.lens is None else smaller(larger(args.lens[sequence], 0), args.keys)
    compressed: KvTiles | TopkTiles | None = None
    if config.compressed == "blocks":
        seen = Visible("causal", args.compressed_keys, args.positions[sequence], tokens, ratio=args.ratio)
        compressed = KvTiles(seen, config.block_n, *span)
    if config.compressed == "topk":
        listed = smaller(larger(args.topk_lens[row_tile.group], 0), args.topk_indices.shape[1])
        indices, first_key = args.topk_indices[row_tile.group, None], sequence * args.compressed_keys
        compressed = TopkTiles(indices, listed, args.compressed_keys, first_key, config.block_n)
    window = Visible(config.mask, args.keys, length, tokens, args.window)
    share = cute.arch.block_idx_in_cluster() if config.splits > 1 else 0
    return Branches(KvTiles(window, config.block_n, *span), compressed, config.splits, share)
