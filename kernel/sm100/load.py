"""The load roles: TMA of Q and of units of K, and of V where it is not read as K, in the order of their use."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Int32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.config import BF16_BYTES, SWIZZLE_BYTES, WARP
from kernel.sm100.cta import VECTOR, Cta, RowTiles
from kernel.sm100.operands import CHUNK, GATHER, KeyLoads, Loads, unit_layout
from kernel.sm100.tiles import KvTiles, TopkTiles
from kernel.sm100.traced import Fixed, larger, smaller


@cute.jit
def load(tiles: RowTiles, atoms: Loads, of_v: cutlass.Constexpr[bool], warp: Any) -> None:
    """What warp `warp` of those that load K, or V, brings for all row tiles of the CTA."""
    config, bars = tiles.config, tiles.bars
    turn, tails, row_tiles = Int32(0), Int32(0), Int32(0)
    first, end, step = tiles.numbers
    for number in cutlass.range(first, end, step, unroll=1):
        keys = LoadWarp(tiles.at(number, turn), atoms, of_v, warp)
        if const_expr(not of_v):
            keys.load_q(row_tiles)
        tails = keys.run(tails)
        turn, row_tiles = turn + keys.cta.kv_tiles.count, row_tiles + smaller(keys.cta.kv_tiles.count, 1)
    if const_expr(config.mma_ctas == 2):  # stay until the first CTA's mma warp has told all that it has to tell
        for ago in range(config.depth):
            wait_empty(tiles, of_v, warp, turn + ago)
        if const_expr(not of_v):
            bars.wait("q_empty", 0, (row_tiles + 1) % 2)


@dataclass
class LoadWarp(Fixed):
    """One of the warps that load K, or V, at a row tile: a unit of each tile, or its share of a tile's listed keys."""

    cta: Cta
    atoms: Loads
    of_v: bool
    warp: Any

    @property
    def unit(self) -> tuple[int, int]:
        """Keys and columns."""
        return self.cta.config.v_unit if self.of_v else self.cta.config.k_unit

    @property
    def bytes(self) -> int:
        return math.prod(self.unit) * BF16_BYTES

    @property
    def rank(self) -> Any:
        """Which half of a tile's keys, or of V's columns, is this CTA's."""
        return cute.arch.block_idx_in_cluster() if self.cta.config.mma_ctas == 2 else 0

    @property
    def full(self) -> str:
        return "v_full" if self.of_v else "k_full"

    @cute.jit
    def run(self, tails: Int32) -> Int32:
        """All KV tiles of the row tile. tails: how often the warp waited for keys to clear; so often by then."""
        kv, (_, window, compressed) = self.cta.kv_tiles, self.atoms
        for i in cutlass.range(kv.window.count, unroll=1):
            tails = self.load_unit(kv.window, window, i, self.cta.turn + i, tails)
        if const_expr(kv.compressed is not None):
            indices = self.read_list(kv.compressed, 0)
            for i in cutlass.range(kv.compressed.count, unroll=1):
                turn = self.cta.turn + kv.window.count + i
                if const_expr(isinstance(kv.compressed, TopkTiles)):
                    numbers = self.numbers(kv.compressed, i, indices)
                    indices.store(self.read_list(kv.compressed, i + 1).load())
                    self.gather(numbers, compressed.of(self.of_v)[0], turn)
                else:
                    tails = self.load_unit(kv.compressed, compressed, i, turn, tails)
        return tails

    @cute.jit
    def load_q(self, row_tiles: Int32) -> None:
        """Q of the CTA's next row tile, after so many that see keys, by the first of the warps."""
        config, bars, row_tile = self.cta.config, self.cta.bars, self.cta.row_tile
        atom, mQ = self.atoms.q
        unit = (config.tile_m, config.head_dim)
        sQ = units(self.cta.smem.sQ, unit, unit[0], config.row_tiles)
        if (self.warp == 0) & (self.cta.kv_tiles.count > 0):
            bars.wait("q_empty", 0, (row_tiles + 1) % 2)
            barrier = bars.expect("q_full", 0, config.q_bytes, config.leader)
            for t in range(config.row_tiles):
                gQ = cute.local_tile(mQ, unit, (row_tile.index * config.row_tiles + t, 0, row_tile.group))
                copy(atom, gQ, sQ[None, None, 0, t], barrier)

    @cute.jit
    def load_unit(self, tiles: KvTiles, atoms: KeyLoads, i: Int32, turn: Int32, tails: Int32) -> Int32:
        """This warp's unit of tile `i`, the CTA's turn-th; zeros take the place of values past the length.

        A masked P is 0, but 0 * NaN is NaN. Only a last tile has such.
        """
        part, columns = (self.warp, self.rank) if self.by_keys else (self.rank, self.warp)
        first = tiles.start(i) + self.unit[0] * part
        slot, _ = wait_empty(self.cta, self.of_v, self.warp, turn)
        whole, alone = atoms.of(self.of_v)
        if const_expr(self.of_v == self.cta.config.own_v and tiles.seen.may_poison):
            if first + self.unit[0] <= tiles.seen.length:
                self.load_whole(whole, first, columns, slot)
            else:
                self.load_tail(alone, first, columns, slot, tails, larger(tiles.seen.length - first, 0))
                tails += 1
        else:
            self.load_whole(whole, first, columns, slot)
        return tails

    @cute.jit
    def load_whole(self, tma: cpasync.TmaInfo, first: Int32, columns: Int32, slot: Int32) -> None:
        barrier = self.cta.bars.expect(self.full, slot, self.bytes, self.cta.config.leader)
        self.copy_unit(tma, first, columns, slot, barrier)

    @cute.jit
    def load_tail(
        self, tma: cpasync.TmaInfo, first: Int32, columns: Int32, slot: Int32, tails: Int32, poisoned: Int32
    ) -> None:
        """The unit with zeros from its key `poisoned` on."""
        bars, smem = self.cta.bars, self.cta.smem
        self.copy_unit(tma, first, columns, slot, bars.expect("tail_full", self.warp, self.bytes))
        bars.wait("tail_full", self.warp, tails % 2)
        clear_keys(smem.sV, self.unit, slot, poisoned)
        cute.arch.fence_view_async_shared()
        bars.arrive_warp(self.full, slot, self.cta.config.leader)

    def copy_unit(self, tma: cpasync.TmaInfo, first: Int32, columns: Int32, slot: Int32, barrier: cute.Pointer) -> None:
        """Start the load of a unit whose first key is `first`."""
        atom, keys = tma
        keys = cute.domain_offset((first, 0, 0), keys)
        g = cute.local_tile(keys, self.unit, (0, columns, self.cta.row_tile.sequence))
        copy(atom, g, self.ring(self.unit[0])[None, None, 0, slot], barrier)

    @cute.jit
    def gather(self, numbers: list[Int32], tma: cpasync.TmaInfo, turn: Int32) -> None:
        """This warp's share of every unit of the CTA's turn-th tile. A lane has keys' numbers; -1 brings zeros."""
        config, bars, unit, share = self.cta.config, self.cta.bars, self.unit, self.share
        atom, mC = tma
        gC = cute.group_modes(cute.local_tile(mC, (GATHER, unit[1]), (0, None)), 0, 2)
        for c in cutlass.range_constexpr(config.units):
            slot, _ = wait_empty(self.cta, self.of_v, c, turn)
            barrier = bars.at(self.full, slot)
            if self.warp == c:
                bars.expect(self.full, slot, self.bytes, config.leader)
            for j in cutlass.range_constexpr(share // GATHER):
                rows = cute.make_rmem_tensor(GATHER, Int32)
                for n in cutlass.range_constexpr(GATHER):
                    own = (share * c if self.by_keys else 0) + GATHER * j + n
                    rows[n] = cute.arch.shuffle_sync(numbers[own // WARP], own % WARP)
                rows = cute.make_tensor(rows.iterator, cute.make_layout(((GATHER, unit[1]), 1), stride=((1, 0), 0)))
                dst = cute.group_modes(self.ring(GATHER)[None, None, share // GATHER * self.warp + j, slot], 0, 2)
                dst, src, by = cpasync.tma_partition(atom, 0, cute.make_layout(1), dst, [gC, rows])
                cute.copy(atom, [src[None, self.rank if self.by_keys else c], by[None, 0]], dst, tma_bar_ptr=barrier)

    @property
    def by_keys(self) -> bool:
        """Whether units are parts of a tile's keys."""
        return self.of_v and self.cta.config.mma_ctas == 2

    @property
    def share(self) -> int:
        """Keys of a unit that this warp brings, where they are listed."""
        return self.unit[0] // self.cta.config.units

    def entries(self, i: Int32) -> list[Int32]:
        """Which entries of the list's tile `i` the warp brings, one a lane, WARP a register."""
        config, share = self.cta.config, self.share
        lanes = [j + cute.arch.lane_idx() for j in range(0, share * (config.units if self.by_keys else 1), WARP)]
        parts = [own // share if self.by_keys else self.rank for own in lanes]
        first = i * config.block_n + share * self.warp
        return [first + part * self.unit[0] + own % share for part, own in zip(parts, lanes, strict=True)]

    def read_list(self, topk: Any, i: Int32) -> Any:
        """The indices of those, a tile ahead of their use."""
        if not isinstance(topk, TopkTiles):
            return None
        entries = self.entries(i)
        indices = cute.make_rmem_tensor(len(entries), Int32)
        for n, entry in enumerate(entries):
            indices[n] = topk.index(entry)
        return indices

    def numbers(self, topk: TopkTiles, i: Int32, indices: cute.Tensor) -> list[Int32]:
        return [topk.row(entry, indices[n]) for n, entry in enumerate(self.entries(i))]

    def ring(self, rows: int) -> cute.Tensor:
        """The units of K or V as boxes of so many keys: (key, (column, chunk), box, slot)."""
        config, smem = self.cta.config, self.cta.smem
        return units(smem.sV if self.of_v else smem.sK, self.unit, rows, config.depth * config.units)


def wait_empty(cta: Cta | RowTiles, of_v: bool, unit: Any, turn: Int32) -> tuple[Any, Any]:
    """Wait until a unit of the CTA's turn-th KV tile has room; its slot and phase."""
    slot, phase = cta.bars.slot_and_phase(turn, unit)
    cta.bars.wait("v_empty" if of_v else "k_empty", slot, phase ^ 1)
    return slot, phase


def units(buffer: cute.Tensor, unit: tuple[int, int], rows: int, slots: int) -> cute.Tensor:
    """A ring of units as boxes of so many rows each: (row, (column, chunk), box, slot)."""
    box = unit_layout(unit, rows)
    boxes = cute.make_layout((unit[0] // rows, slots), stride=(rows * box.outer.stride[0], math.prod(unit)))
    shape, stride = (*box.outer.shape, *boxes.shape), (*box.outer.stride, *boxes.stride)
    swizzled = cute.recast_ptr(buffer.iterator, box.inner, BFloat16)
    return cute.make_tensor(swizzled, cute.make_layout(shape, stride=stride))


def copy(atom: cute.CopyAtom, src: Any, dst: cute.Tensor, barrier: cute.Pointer) -> None:
    dst, src = cute.group_modes(dst, 0, 2), cute.group_modes(src, 0, 2)
    dst, src = cpasync.tma_partition(atom, 0, cute.make_layout(1), dst, src)
    cute.copy(atom, src, dst, tma_bar_ptr=barrier)


@cute.jit
def clear_keys(sV: cute.Tensor, unit: tuple[int, int], slot: Any, first: Int32) -> None:
    """Zero a unit's keys from `first` on. The swizzle moves bytes within a key's 128 bytes only."""
    keys, dims = unit
    vectors = SWIZZLE_BYTES // (VECTOR * BF16_BYTES)
    layout = cute.make_layout((VECTOR, vectors, keys, dims // CHUNK), stride=(1, VECTOR, CHUNK, CHUNK * keys))
    plain = cute.recast_ptr(sV.iterator, cute.make_swizzle(0, 4, 3), BFloat16) + slot * math.prod(unit)
    plain = cute.make_tensor(plain, layout)
    zero = cute.make_rmem_tensor(VECTOR, BFloat16)
    zero.fill(0.0)
    lane = cute.arch.lane_idx()
    for key in cutlass.range(first + lane // vectors, keys, WARP // vectors, unroll=1):
        for chunk in cutlass.range_constexpr(dims // CHUNK):
            cute.autovec_copy(zero, plain[None, lane % vectors, key, chunk])
