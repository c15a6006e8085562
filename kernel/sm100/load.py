"""The load roles: TMA of Q and of units of K, and of V where it is not read as K, in the order of their use."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Int32, const_expr
from cutlass.experimental import primitives

from kernel.config import BF16_BYTES, FEW_TOKENS, WARP, Ring
from kernel.sm100.cta import VECTOR_BYTES, Cta
from kernel.sm100.operands import GATHER, KeyLoads, both_sides, unit_boxes
from kernel.sm100.tiles import Fixed, KvTiles, TopkTiles, larger, smaller


@cute.jit
def load(cta: Cta, ring: cutlass.Constexpr[Ring], warp: Any) -> None:
    """What warp `warp` of those that load a ring brings for all row tiles of the CTA."""
    turn, tails, row_tiles = Int32(0), Int32(0), Int32(0)
    first, end, step = cta.numbers
    for number in cutlass.range(first, end, step, unroll=1):
        keys = LoadWarp(cta.at(number, turn), ring, warp)
        if const_expr(ring.name == "k"):
            keys.load_q(row_tiles)
        tails = keys.run(tails)
        turn, row_tiles = turn + keys.cta.kv_tiles.count, row_tiles + smaller(keys.cta.kv_tiles.count, 1)
    if const_expr(cta.config.mma_ctas == 2):  # stay until the first CTA's mma warp has told all that it has to tell
        for ago in range(cta.config.depth):
            wait_empty(cta, ring, warp, turn + ago)
        if const_expr(ring.name == "k"):
            cta.bars.wait("q_empty", 0, (row_tiles + 1) % 2)


class LoadWarp(Fixed):
    """One of the warps that load a ring, at a row tile: a unit of each tile, or its share of a tile's listed keys."""

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        self.cta, self.ring, self.warp = cta, ring, warp
        self.rank = cute.arch.block_idx_in_cluster() if cta.config.mma_ctas == 2 else 0  # whose half of V or the keys
        self.share = ring.unit[0] // cta.config.units  # keys of a unit that the warp brings, where they are listed

    def boxes(self, rows: int) -> Any:
        buffer = self.cta.smem.sV if self.ring.name == "v" else self.cta.smem.sK
        return unit_boxes(buffer, self.ring.unit, rows, self.cta.config.depth * self.cta.config.units)

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
                keys = [kv.compressed.key(entry, indices[n]) for n, entry in enumerate(self.entries(i))]
                self.prefetch(i + 1, end, following)
                indices.store(following.load())
                following.store(self.read_list(i + 2).load())
                self.gather(keys, turn + i)
        return tails

    @cute.jit
    def load_q(self, row_tiles: Int32) -> None:
        """Q of the CTA's next row tile, after so many that see keys, by the first of the warps."""
        config, bars, row_tile = self.cta.config, self.cta.bars, self.cta.row_tile
        atom, mQ = self.cta.copies.q[0], cute.domain_offset((row_tile.row(0), 0, 0), self.cta.copies.q[1])
        unit = config.tile_m, config.head_dim
        sQ = unit_boxes(self.cta.smem.sQ, unit, unit[0], config.row_tiles)
        if (self.warp == 0) & (self.cta.kv_tiles.count > 0):
            bars.wait("q_empty", 0, (row_tiles + 1) % 2)
            barrier = bars.expect("q_full", 0, config.q_bytes)
            for t in range(config.row_tiles):
                gQ = cute.local_tile(mQ, unit, (t, 0, row_tile.group))
                dst, src = both_sides(atom, sQ[None, None, 0, t], gQ)
                cute.copy(atom, src, dst, tma_bar_ptr=barrier)

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
        dst, src = both_sides(atom, self.boxes(ring.unit[0])[None, None, 0, slot], g)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier)

    @cute.jit
    def prefetch(self, i: Int32, end: Int32, indices: cute.Tensor) -> None:
        """Have L2 fetch the keys of the list's tile `i` if it is before `end`, each by all lanes that have it."""
        if (i < end) & (self.cta.row_tile.tokens <= FEW_TOKENS) and const_expr(self.ring.name == "k"):
            for n, entry in enumerate(self.entries(i)):
                key = larger(self.cta.kv_tiles.compressed.key(entry, indices[n]), 0)
                dims = self.cta.config.head_dim // max(WARP // self.share, 1)
                own = cute.local_tile(self.cta.copies.listed, (1, dims), (key, cute.arch.lane_idx() // self.share))
                primitives.cp_async_bulk_prefetch(own.iterator, dims * BF16_BYTES)

    @cute.jit
    def gather(self, keys: list[Int32], turn: Int32) -> None:
        """This warp's share of every unit of the CTA's turn-th tile. A lane has keys' numbers; -1 brings zeros."""
        config, bars, ring, share = self.cta.config, self.cta.bars, self.ring, self.share
        atom, mC = getattr(self.cta.copies.compressed, ring.name)
        gC = cute.group_modes(cute.local_tile(mC, (GATHER, ring.unit[1]), (0, None)), 0, 2)
        for c in cutlass.range_constexpr(config.units):
            slot = wait_empty(self.cta, ring, c, turn)
            barrier = bars.at(ring.full, slot)
            if self.warp == c:
                bars.expect(ring.full, slot, ring.unit_bytes)
            for j in cutlass.range_constexpr(share // GATHER):
                rows = cute.make_rmem_tensor(GATHER, Int32)
                for n in cutlass.range_constexpr(GATHER):
                    own = (share * c if ring.by_keys else 0) + GATHER * j + n
                    rows[n] = cute.arch.shuffle_sync(keys[own // WARP], own % WARP)
                layout = cute.make_layout(((GATHER, ring.unit[1]), 1), stride=((1, 0), 0))
                box = self.boxes(GATHER)[None, None, share // GATHER * self.warp + j, slot]
                dst, src, by = both_sides(atom, box, [gC, cute.make_tensor(rows.iterator, layout)])
                cute.copy(atom, [src[None, self.rank if ring.by_keys else c], by[None, 0]], dst, tma_bar_ptr=barrier)

    @cute.jit
    def clear_keys(self, slot: Int32, first: Int32) -> None:
        """Zero a unit's keys from `first` on, sixteen bytes at a time."""
        (keys, dims), vector = self.ring.unit, cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        unit, zero = self.boxes(keys)[None, None, 0, slot], cute.make_rmem_tensor(vector, BFloat16)
        zero.fill(0.0)
        of_key, lane = dims // cute.size(vector), cute.arch.lane_idx()
        for key in cutlass.range(first + lane // of_key, keys, WARP // of_key, unroll=1):
            cute.autovec_copy(zero, cute.logical_divide(unit[key, None], vector)[None, lane % of_key])

    def entries(self, i: Int32) -> list[Int32]:
        """Which entries of the list's tile `i` the warp brings, one a lane, WARP a register."""
        config, ring, share = self.cta.config, self.ring, self.share
        lanes = [j + cute.arch.lane_idx() for j in range(0, share * (config.units if ring.by_keys else 1), WARP)]
        first = i * config.block_n + share * self.warp
        return [first + (n // share if ring.by_keys else self.rank) * ring.unit[0] + n % share for n in lanes]

    def read_list(self, i: Int32) -> cute.Tensor:
        """The indices of those, before they are used."""
        entries = self.entries(i)
        indices = cute.make_rmem_tensor(len(entries), Int32)
        for n, entry in enumerate(entries):
            indices[n] = self.cta.kv_tiles.compressed.index(entry)
        return indices


def wait_empty(cta: Cta, ring: Ring, unit: Any, turn: Int32) -> Any:
    """Wait until a unit of the CTA's turn-th KV tile has room; its slot."""
    slot, phase = cta.bars.slot_and_phase(turn, unit)
    cta.bars.wait(ring.empty, slot, phase ^ 1)
    return slot
