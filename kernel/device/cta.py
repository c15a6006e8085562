"""The state that the roles of a CTA share: memories, barriers, rows, KV tiles and the fragments of both products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cutlass.cute as cute
from cutlass import Int64, select_

from kernel.arguments import Arguments
from kernel.device.config import DeviceConfig
from kernel.device.operands import Copies
from kernel.device.tiles import (
    Branches,
    CacheKeys,
    CacheTiles,
    KvTiles,
    LoopInvariant,
    RowTile,
    VisibleKeys,
    larger,
    smaller,
)
from kernel.hardware import BF16_BYTES
from kernel.problem import CacheKind


@dataclass
class Cta(LoopInvariant):
    """The state of a CTA that its roles use. `at_row_tile` sets the last three fields."""

    config: DeviceConfig
    bars: Any  # Barriers of the chip
    smem: Any  # the chip's buffers of shared memory: sQ, sK, sV, sRope, sP, sO
    fragments: Any  # the chip's operands of both products
    copies: Copies
    args: Arguments
    row_tile: Any = None
    kv_tiles: Any = None
    kv_done: Any = 0  # KV tiles of the CTA's earlier row tiles; ring slots and phases count on from there
    read: Callable[[Any], Any] = lambda argument: argument  # applied to arguments from which row tiles follow

    @property
    def groups(self) -> Any:
        """Number of groups of rows."""
        return self.read(cute.size(self.args.lse, mode=[0]))

    @property
    def row_tile_range(self) -> tuple[Any, Any, Any]:
        """First, end and step of the CTA's row tiles. With split keys a cluster has one row tile."""
        block = cute.arch.block_idx()[0]
        config = self.config
        if config.splits > 1:
            ctas = config.loading_ctas
            number = block // (config.splits * ctas) * ctas + block % ctas
            return number, number + 1, 1
        tiles = cute.ceil_div(self.read(self.args.rows), config.adjacent_ctas * config.block_m) * self.groups
        return block, config.adjacent_ctas * tiles, cute.arch.grid_dim()[0]

    def at_row_tile(self, number: Any, kv_done: Any = 0) -> Cta:
        """Return the CTA at row tile `number`; kv_done: KV tiles of its earlier row tiles.

        Row tiles go to CTAs in order; the row tiles of one MMA go to one CTA or CTA pair. The last row tiles of all
        groups come first: under a causal mask they see most keys. In a zigzag every second round runs backwards, so
        that a CTA which has a long row tile in one round has a short one in the next. Group after group, CTAs that run
        at a time read the same keys.
        """
        config = self.config
        args = self.args
        groups = self.groups
        ctas = config.adjacent_ctas
        rows = self.read(args.rows)
        mma_tiles = cute.ceil_div(rows, ctas * config.block_m)  # of a group
        tile = number // ctas
        if config.zigzag:
            per_round = cute.arch.grid_dim()[0] // ctas
            round_ = tile // per_round
            rounds = mma_tiles * groups // per_round  # full rounds; a partial last one is never reversed
            tile = select_((rounds - round_) % 2 == 1, (2 * round_ + 1) * per_round - 1 - tile, tile)
        place, group = mma_tiles - 1 - tile // groups, tile % groups
        if config.group_after_group:
            place, group = tile % mma_tiles, tile // mma_tiles
        index, by_token = place * ctas + number % ctas, config.by_token
        row_tile = RowTile(index, group, rows, args.heads, args.tokens, config.block_m, ctas, by_token)
        return replace(
            self, row_tile=row_tile, kv_tiles=kv_tiles(config, args, row_tile, self.copies.topk_keys), kv_done=kv_done
        )

    def sink_logit(self, row: Any) -> Any:
        """Return the sink of the head of the row tile's row `row`, None if the configuration has no sink."""
        return None if self.args.sink is None else self.args.sink[self.row_tile.head(row)]


def split_of_cta(config: DeviceConfig) -> Any:
    """Return the number of the CTA's split of the keys. CTAs that load KV tiles together have the same split."""
    return cute.arch.block_idx_in_cluster() // config.loading_ctas if config.splits > 1 else 0


def kv_tiles(
    config: DeviceConfig, args: Arguments, row_tile: RowTile, topk_keys: cute.Tensor | None
) -> Branches | CacheTiles:
    """Return the KV tiles that a row tile sees, and the CTA's split of them. topk_keys: (key, dim) of all sequences."""
    if config.caches:
        split = split_of_cta(config)
        kinds = zip(config.caches, ("main", "extra"), strict=False)
        keys = tuple(cache_keys(kind, args, name, row_tile) for kind, name in kinds)
        return CacheTiles(keys, config.block_n, config.splits, split)
    sequence = row_tile.sequence
    span = row_tile.first_and_last_token()
    tokens = row_tile.tokens
    length = args.keys if args.lens is None else smaller(larger(args.lens[sequence], 0), args.keys)
    compressed: KvTiles | CacheTiles | None = None
    if config.compressed == "blocks":
        blocks = VisibleKeys("causal", args.compressed_keys, args.positions[sequence], tokens, ratio=args.ratio)
        compressed = KvTiles(blocks, config.block_n, *span)
    if config.compressed == "topk":
        topk = smaller(larger(args.topk_lens[row_tile.group], 0), args.topk_indices.shape[1])
        indices = args.topk_indices[row_tile.group, None]
        row_bytes = Int64(topk_keys.stride[0]) * BF16_BYTES
        first_key = topk_keys.iterator.toint() + Int64(sequence * args.compressed_keys) * row_bytes
        keys = CacheKeys(topk, first_key, None, row_bytes, None, args.compressed_keys, indices)
        compressed = CacheTiles((keys,), config.block_n, splits=1, split=0)
    window = VisibleKeys(config.mask, args.keys, length, tokens, args.window)
    split = split_of_cta(config)
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
