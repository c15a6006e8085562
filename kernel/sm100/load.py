"""The load roles: TMA of Q and of units of K, and of V where it is not read as K, in the order of their use."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Boolean, Int32, const_expr
from cutlass.cute.nvgpu import cpasync
from cutlass.experimental import primitives

from kernel.config import BF16_BYTES, FEW_TOKENS, SWIZZLE_BYTES, WARP, Ring
from kernel.sm100.cta import VECTOR_BYTES, Cta
from kernel.sm100.operands import KeyLoads, both_sides, units
from kernel.sm100.tiles import Fixed, KvTiles, TopkTiles, larger, smaller


@cute.jit
def load(cta: Cta, ring: cutlass.Constexpr[Ring | None], warp: Any) -> None:
    """What warp `warp` of a ring brings for all row tiles of the CTA, or Q's; without one of its own, K's has Q too."""
    turn, tails, row_tiles = Int32(0), Int32(0), Int32(0)
    queries, keys = ring is None or (ring.name == "k" and not cta.config.roles.queries), ring is not None
    first, end, step = cta.numbers
    for number in cutlass.range(first, end, step, unroll=1):
        at = cta.at(number, turn)
        if const_expr(queries):
            load_q(at, row_tiles)
            ahead = at.row_tile.group_is_token | (at.row_tile.tokens > FEW_TOKENS)
            if ahead & (number + step < end) and const_expr(not keys):
                prefetch_q(cta.at(number + step))
        if const_expr(keys):
            tails = LoadWarp(at, ring, warp).run(tails)
        turn, row_tiles = turn + at.kv_tiles.count, row_tiles + smaller(at.kv_tiles.count, 1)
    if const_expr(keys and cta.config.mma_ctas == 2):  # stay: its mma warp tells the other CTA too
        for ago in range(cta.config.depth):
            wait_empty(cta, ring, warp, turn + ago)
    if const_expr(queries and cta.config.mma_ctas == 2):
        cta.bars.wait("q_empty", 0, (row_tiles + 1) % 2)


@cute.jit
def load_q(cta: Cta, row_tiles: Int32) -> None:
    """Q of the CTA's next row tile, after so many that see keys, if it sees any."""
    config, row_tile, unit = cta.config, cta.row_tile, (cta.config.tile_m, cta.config.head_dim)
    (atom, mQ), sQ = cta.copies.q, units(cta.smem.sQ, unit, config.row_tiles)
    if cta.kv_tiles.count > 0:
        cta.bars.wait("q_empty", 0, (row_tiles + 1) % 2)
        barrier = cta.bars.expect("q_full", 0, config.q_bytes)
        rows = cute.domain_offset((row_tile.row(0), 0, 0), mQ)
        for t in range(config.row_tiles):
            dst, src = both_sides(atom, sQ[None, None, t], cute.local_tile(rows, unit, (t, 0, row_tile.group)))
            cute.copy(atom, src, dst, tma_bar_ptr=barrier)


@cute.jit
def prefetch_q(cta: Cta) -> None:
    """Have L2 fetch Q of a row tile, a row a lane."""
    queries, row_tile = cta.copies.queries, cta.row_tile
    for i in cutlass.range(cute.arch.lane_idx(), smaller(cta.config.tile_m, row_tile.rows - row_tile.row(0)), WARP):
        row = queries[row_tile.row(i), None, row_tile.group]
        primitives.cp_async_bulk_prefetch(row.iterator, cta.config.head_dim * BF16_BYTES)


class LoadWarp(Fixed):
    """One of the warps that load a ring, at a row tile: a unit of each tile."""

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        self.cta, self.ring, self.warp = cta, ring, warp
        self.rank = cute.arch.block_idx_in_cluster() if cta.config.mma_ctas == 2 else 0  # whose half of V or the keys

    def unit(self, slot: Any) -> Any:
        buffer = self.cta.smem.sV if self.ring.name == "v" else self.cta.smem.sK
        return units(buffer, self.ring.unit, self.cta.config.depth * self.cta.config.units)[None, None, slot]

    @cute.jit
    def run(self, tails: Int32) -> Int32:
        """All KV tiles of the row tile. tails: how often the warp waited for keys to clear; so often by then."""
        kv, turn, past = self.cta.kv_tiles, self.cta.turn - self.cta.kv_tiles.begin, self.cta.kv_tiles.window.count
        for i in cutlass.range(kv.begin, smaller(kv.end, past), unroll=1):
            tails = self.load_unit(kv.window, self.cta.copies.window, i, turn + i, tails)
        begin, end, turn = larger(kv.begin - past, 0), kv.end - past, turn + past
        if const_expr(isinstance(kv.compressed, KvTiles)):
            for i in cutlass.range(begin, end, unroll=1):
                tails = self.load_unit(kv.compressed, self.cta.copies.compressed, i, turn + i, tails)
        if const_expr(isinstance(kv.compressed, TopkTiles)):
            indices, following = self.read_list(begin), self.read_list(begin + 1)
            self.prefetch(begin, end, indices)
            for i in cutlass.range(begin, end, unroll=1):
                self.prefetch(i + 1, end, following)
                self.copy_listed(indices, following, i, turn + i)
        return tails

    @cute.jit
    def load_unit(self, tiles: KvTiles, atoms: KeyLoads, i: Int32, turn: Int32, tails: Int32) -> Int32:
        """This warp's unit of tile `i`, the CTA's turn-th; zeros take the place of values that may be NaN: 0 * NaN is
        NaN, whatever P is. Only a last tile has such: the warp waits for it by itself."""
        ring, bars = self.ring, self.cta.bars
        part, columns = (self.warp, self.rank) if ring.by_keys else (self.rank, self.warp)
        first = tiles.start(i) + ring.unit[0] * part
        slot = wait_empty(self.cta, ring, self.warp, turn)
        poison = tiles.seen.poisoned_from
        if const_expr(ring.cleared and poison is not None):
            if first + ring.unit[0] <= poison:
                self.copy_unit(atoms, first, columns, slot)
            else:
                self.copy_unit(atoms, first, columns, slot, alone=True)
                bars.wait("tail_full", self.warp, tails % 2)
                self.clear_keys(slot, larger(poison - first, 0))
                cute.arch.fence_view_async_shared()
                bars.arrive_warp(ring.full, slot)
                tails += 1
        else:
            self.copy_unit(atoms, first, columns, slot)
        return tails

    def copy_unit(self, atoms: KeyLoads, first: Int32, columns: Int32, slot: Int32, alone: bool = False) -> None:
        """Start the load of a unit whose first key is `first`; alone: for this warp to wait for."""
        ring, whole, sequence = self.ring, getattr(atoms, self.ring.name), self.cta.row_tile.sequence
        atom, keys = (atoms.alone or whole) if alone else whole
        name, stage = ("tail_full", self.warp) if alone else (ring.full, slot)
        barrier = self.cta.bars.expect(name, stage, ring.unit_bytes, alone)
        g = cute.local_tile(cute.domain_offset((first, 0, 0), keys), ring.unit, (0, columns, sequence))
        dst, src = both_sides(atom, self.unit(slot), g)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier)

    @cute.jit
    def prefetch(self, i: Int32, end: Int32, indices: cute.Tensor) -> None:
        """Have L2 fetch this warp's share of the keys of the list's tile `i`, if it is before `end`, a key a lane."""
        config, share = self.cta.config, self.ring.unit[0] // self.cta.config.units
        if (i < end) & (self.cta.row_tile.tokens <= FEW_TOKENS) and const_expr(self.ring.name == "k"):
            for n, entry in enumerate(self.entries(i)):
                if (n * WARP + cute.arch.lane_idx()) // share == self.warp:
                    key = self.cta.copies.listed[larger(self.cta.kv_tiles.compressed.key(entry, indices[n]), 0), None]
                    primitives.cp_async_bulk_prefetch(key.iterator, config.head_dim * BF16_BYTES)

    @cute.jit
    def copy_listed(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, turn: Int32) -> None:
        """This warp's unit of the list's tile `i`, the CTA's turn-th, by its `indices`, which then are the next tile's.
        The copies arrive by themselves at a barrier of their own CTA; whoever waits there crosses proxies."""
        ring, bars, lane = self.ring, self.cta.bars, cute.arch.lane_idx()
        vector, lanes = cute.make_layout(VECTOR_BYTES // BF16_BYTES), SWIZZLE_BYTES // VECTOR_BYTES  # of a key at once
        atom = cute.make_copy_atom(cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL), BFloat16, num_bits_per_copy=128)
        keys = [self.cta.kv_tiles.compressed.key(entry, indices[n]) for n, entry in enumerate(self.entries(i))]
        vectors, firsts = ring.unit[1] // cute.size(vector), range(0, ring.unit[0], WARP // lanes)
        column = (self.rank if ring.by_keys else self.warp) * vectors + lane % lanes
        rows = [cute.arch.shuffle_sync(keys[first // WARP], (first + lane // lanes) % WARP) for first in firsts]
        sources = [cute.logical_divide(self.cta.copies.listed[larger(row, 0), None], vector) for row in rows]
        named = cute.make_rmem_tensor(cute.make_layout(vector.shape, stride=0), Boolean)  # else zeros
        slot = wait_empty(self.cta, ring, self.warp, turn)
        for first, row, src in zip(firsts, rows, sources, strict=True):
            named[0] = row >= 0
            dst = cute.logical_divide(self.unit(slot)[first + lane // lanes, None], vector)
            for c in range(0, vectors, lanes):
                cute.copy(atom, src[None, column + c], dst[None, lane % lanes + c], pred=named)
        indices.store(following.load())
        following.store(self.read_list(i + 2).load())
        if const_expr(self.cta.config.mma_ctas == 1):
            primitives.cp_async_mbarrier_arrive(bars.at(ring.full, slot))
        else:
            cute.arch.cp_async_commit_group()
            cute.arch.cp_async_wait_group(0)
            cute.arch.fence_view_async_shared()
        bars.arrive_warp(ring.full, slot)

    @cute.jit
    def clear_keys(self, slot: Int32, first: Int32) -> None:
        """Zero a unit's keys from `first` on, sixteen bytes at a time."""
        (keys, dims), vector = self.ring.unit, cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        unit, zero = self.unit(slot), cute.make_rmem_tensor(vector, BFloat16)
        zero.fill(0.0)
        of_key, lane = dims // cute.size(vector), cute.arch.lane_idx()
        for key in cutlass.range(first + lane // of_key, keys, WARP // of_key, unroll=1):
            cute.autovec_copy(zero, cute.logical_divide(unit[key, None], vector)[None, lane % of_key])

    def entries(self, i: Int32) -> list[Int32]:
        """Which entries of the list's tile `i` the warp brings, one a lane, WARP a register."""
        first = i * self.cta.config.block_n + (self.warp if self.ring.by_keys else self.rank) * self.ring.unit[0]
        return [first + (j + cute.arch.lane_idx()) for j in range(0, self.ring.unit[0], WARP)]

    def read_list(self, i: Int32) -> cute.Tensor:
        """The indices of those, before they are used."""
        indices = cute.make_rmem_tensor(self.ring.unit[0] // WARP, Int32)
        for n, entry in enumerate(self.entries(i)):
            indices[n] = self.cta.kv_tiles.compressed.index(entry)
        return indices


def wait_empty(cta: Cta, ring: Ring, unit: Any, turn: Int32) -> Any:
    """Wait until a unit of the CTA's turn-th KV tile has room; its slot."""
    slot, phase = cta.bars.slot_and_phase(turn, unit)
    cta.bars.wait(ring.empty, slot, phase ^ 1)
    return slot
