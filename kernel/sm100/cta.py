"""The state that the roles of a CTA share: memories, barriers, rows, KV tiles and the fragments of both products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, Int64, select_
from cutlass.experimental import primitives
from cutlass.memory import SmemAllocator

from kernel.arguments import Arguments
from kernel.config import FmhaConfig
from kernel.hardware import BF16_BYTES, MMA_K, SMEM_ALIGN, SWIZZLE_BYTES, TMEM_LANES
from kernel.problem import CacheKind
from kernel.sm100.barriers import Barriers
from kernel.sm100.operands import CHUNK, Copies, Products
from kernel.sm100.tiles import (
    Branches,
    CacheKeys,
    CacheTiles,
    KvTiles,
    LoopInvariant,
    RowTile,
    TopkTiles,
    VisibleKeys,
    larger,
    smaller,
)

LANE = 1 << 16  # step of a tensor-memory address to the next lane
HALF_LANES = 16  # with 64 rows, the second half of O's columns lies this many lanes further
LOAD_COLS = 32  # columns that a thread loads from tensor memory at once
VECTOR_BYTES = 16  # of one access to memory
tmem_pointer = functools.partial(cutlass.inttoptr, mem_space=cute.AddressSpace.tmem, dtype=Float32)


class Smem(LoopInvariant):
    """The buffers of shared memory, in their order."""

    def __init__(self, config: FmhaConfig, products: Products) -> None:
        smem = SmemAllocator()

        def bf16(size: int) -> cute.Tensor:
            return smem.allocate_tensor(BFloat16, cute.make_layout(size // BF16_BYTES), SMEM_ALIGN)

        self.barriers = smem.allocate_array(Int64, config.barrier_count)
        self.tmem_slot = smem.allocate_array(Int32, 1)
        self.sMax = None  # exchange of maxima and sums between threads that share a row: (thread, parity)
        if config.variant.row_spans_warps:
            self.sMax = smem.allocate_tensor(Float32, cute.make_layout((TMEM_LANES, 2)), 16)
        self.sQ = bf16(config.smem.q_bytes)
        self.sK = bf16(config.smem.depth * config.smem.kv_tile_bytes)
        self.sV = bf16(config.smem.depth * config.smem.kv_tile_bytes) if config.loads_v else self.sK
        self.sRope = bf16(config.smem.rope_bytes) if config.rope_dim else None
        p = BFloat16, products.p.outer, SMEM_ALIGN, products.p.inner
        self.sP = smem.allocate_tensor(*p) if config.p_path == "smem" else None
        self.sO = (
            bf16(config.smem.o_bytes) if config.smem.o_bytes else self.sP
        )  # O is staged in P's buffer if it fits there


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


@dataclass
class Cta(LoopInvariant):
    """A CTA as its roles see it. `at_row_tile` sets the last three fields."""

    config: FmhaConfig
    bars: Barriers
    smem: Smem
    fragments: Fragments
    copies: Copies
    args: Arguments
    row_tile: Any = None
    kv_tiles: Any = None
    kv_done: Any = 0  # KV tiles of the CTA's earlier row tiles; ring slots and phases count on from there

    @property
    def groups(self) -> Any:
        """Number of groups of rows."""
        return cute.size(self.args.lse, mode=[0])

    @property
    def row_tile_range(self) -> tuple[Any, Any, Any]:
        """First, end and step of the CTA's row tiles. With split keys a cluster has one row tile."""
        block = cute.arch.block_idx()[0]
        config = self.config
        if config.splits > 1:
            return block // config.splits, block // config.splits + 1, 1
        tiles = cute.ceil_div(self.args.rows, config.adjacent_ctas * config.block_m) * self.groups
        return block, config.adjacent_ctas * tiles, cute.arch.grid_dim()[0]

    def at_row_tile(self, number: Any, kv_done: Any = 0) -> Cta:
        """Return the CTA at row tile `number`; kv_done: KV tiles of its earlier row tiles.

        Row tiles go to CTAs in order, those of one MMA to one CTA or CTA pair. The last row tiles of all groups come
        first: under a causal mask they see most keys. In a zigzag every second round runs backwards, so that a CTA
        which has a long row tile in one round has a short one in the next. Group after group, CTAs that run at a time
        read the same keys.
        """
        config = self.config
        args = self.args
        groups = self.groups
        ctas = config.adjacent_ctas
        mma_tiles = cute.ceil_div(args.rows, ctas * config.block_m)  # of a group
        tile = number // ctas
        if config.zigzag:
            per_round = cute.arch.grid_dim()[0] // ctas
            round_ = tile // per_round
            rounds = mma_tiles * groups // per_round  # whole ones; what remains is never reversed
            tile = select_((rounds - round_) % 2 == 1, (2 * round_ + 1) * per_round - 1 - tile, tile)
        place, group = mma_tiles - 1 - tile // groups, tile % groups
        if config.group_after_group:
            place, group = tile % mma_tiles, tile // mma_tiles
        index, by_token = place * ctas + number % ctas, config.by_token
        row_tile = RowTile(index, group, args.rows, args.heads, args.tokens, config.block_m, ctas, by_token)
        return replace(self, row_tile=row_tile, kv_tiles=kv_tiles(config, args, row_tile), kv_done=kv_done)

    def sink_logit(self, row: Any) -> Any:
        """Return the sink of the head of the row tile's row `row`, None if the configuration has no sink."""
        return None if self.args.sink is None else self.args.sink[self.row_tile.head(row)]


def kv_tiles(config: FmhaConfig, args: Arguments, row_tile: RowTile) -> Branches | CacheTiles:
    """Return the KV tiles that a row tile sees, and the CTA's split of them."""
    if config.caches:
        split = cute.arch.block_idx_in_cluster() if config.splits > 1 else 0
        kinds = zip(config.caches, ("main", "extra"), strict=False)
        keys = tuple(cache_keys(kind, args, name, row_tile) for kind, name in kinds)
        return CacheTiles(keys, config.block_n, config.splits, split)
    sequence = row_tile.sequence
    span = row_tile.first_and_last_token()
    tokens = row_tile.tokens
    length = args.keys if args.lens is None else smaller(larger(args.lens[sequence], 0), args.keys)
    compressed: KvTiles | TopkTiles | None = None
    if config.compressed == "blocks":
        blocks = VisibleKeys("causal", args.compressed_keys, args.positions[sequence], tokens, ratio=args.ratio)
        compressed = KvTiles(blocks, config.block_n, *span)
    if config.compressed == "topk":
        topk = smaller(larger(args.topk_lens[row_tile.group], 0), args.topk_indices.shape[1])
        indices = args.topk_indices[row_tile.group, None]
        first_key = sequence * args.compressed_keys
        compressed = TopkTiles(indices, topk, args.compressed_keys, first_key, config.block_n)
    window = VisibleKeys(config.mask, args.keys, length, tokens, args.window)
    split = cute.arch.block_idx_in_cluster() if config.splits > 1 else 0
    return Branches(KvTiles(window, config.block_n, *span), compressed, config.splits, split)


def cache_keys(kind: CacheKind, args: Arguments, name: str, row_tile: RowTile) -> CacheKeys:
    """Return the keys of the cache `name`, main or extra, that a row tile's token sees."""
    of = {each: getattr(args, f"{name}_{each}") for each in ("keys", "page", "row")}
    pages = getattr(args, name)
    facts = pages.iterator.toint(), Int64(pages.stride[0]), Int64(of["row"]), of["page"], of["keys"]
    sequence, token = row_tile.sequence, row_tile.token(0)
    lens = getattr(args, f"{name}_lens")
    length = None if lens is None else lens[sequence, smaller(token, lens.shape[1] - 1)]
    if kind.table:
        table = args.main_table[sequence, None]
        held = cute.size(table) * of["page"]
        seen = VisibleKeys("causal", held, larger(length, 0), row_tile.tokens, args.window)
        first = seen.lo(token)
        return CacheKeys(larger(seen.hi(token) - first, 0), *facts, table, first)
    indices = getattr(args, f"{name}_indices")[sequence, token, None]
    topk = cute.size(indices)
    return CacheKeys(topk if length is None else smaller(larger(length, 0), topk), *facts, indices)
