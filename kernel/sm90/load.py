"""The load roles of Hopper: TMA multicast of KV tiles, and four warps that gather top-k keys by cp.async."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Boolean, Int16, Int32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.device.config import Ring
from kernel.device.cta import Cta
from kernel.device.load import GatherWarp, LoadWarp, RopeWarp, wait_empty
from kernel.device.operands import KeyLoads, slice_ring, tma_partition
from kernel.device.tiles import KvTiles, VisibleKeys, smaller
from kernel.hardware import BF16_BYTES, SWIZZLE_BYTES, VECTOR_BYTES, WARP, WARPGROUP

LANES = SWIZZLE_BYTES // VECTOR_BYTES  # lanes that copy a key together
AT_ONCE = WARP // LANES  # keys that a warp copies at once


class MulticastWarp(LoadWarp):
    """A warp that loads its CTA's part of slices into both CTAs of a cluster."""

    def copy_slice(self, atoms: KeyLoads, first: Int32, columns: Int32, slot: Int32, local: bool = False) -> None:
        """Start the TMA load of a part of the slice from key `first` on. The other part comes from the other CTA.

        local: load the whole slice into this CTA alone.
        """
        if local:
            super().copy_slice(atoms, first, columns, slot, local)
            return
        config, ring = self.cta.config, self.ring
        rank, ctas = cute.arch.block_idx_in_cluster(), config.loading_ctas
        atom, keys = getattr(atoms, ring.name)
        box = config.loaded_part
        parts = slice_ring(self.buffer, box, config.smem.depth * config.slices * ctas)
        place = (0, columns * ctas + rank) if box[0] == ring.box[0] else (rank, columns)
        g = cute.local_tile(cute.domain_offset((first, 0, 0), keys), box, (*place, self.cta.row_tile.sequence))
        dst, src = tma_partition(atom, parts[None, None, slot * ctas + rank], g)
        barrier = self.cta.bars.expect(ring.full, slot, ring.slice_bytes)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier, mcast_mask=Int16((1 << ctas) - 1))


class PairWarp(GatherWarp):
    """A warp that copies a quarter of the keys of each tile, two tiles at a time. A lane reads the indices of its keys.

    Every warp arrives at the mbarrier of every slice.
    """

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Load this warp's part of every KV tile, as GatherWarp.run."""
        kv, caches = self.cta.kv_tiles, self.cta.config.caches
        if const_expr(not caches):
            tail_loads = self.load_window(tail_loads)
        first, end = kv.first_listed, kv.end_listed
        alone = False if caches else first < end and (first + kv.window.count - kv.begin) % 2 == 1
        self.copy_tiles(first, end, self.first_number(), alone)
        return tail_loads

    @cute.jit
    def load_slice(self, tiles: KvTiles, atoms: Any, i: Int32, number: Int32, tail_loads: Int32) -> Int32:
        """Load this warp's slice of tile `i` of the window, if it has one, and arrive at the others."""
        for slice_ in cutlass.range_constexpr(self.cta.config.slices):
            if self.warp == slice_:
                tail_loads = super().load_slice(tiles, atoms, i, number, tail_loads)
            else:
                self.cta.bars.arrive_warp(self.ring.full, wait_empty(self.cta, self.ring, slice_, number))
        return tail_loads

    @cute.jit
    def copy_tiles(self, begin: Int32, end: Int32, number: Int32, alone: Any) -> None:
        """Copy tiles `begin` to `end - 1`.

        number: of tile 0 among the CTA's KV tiles. alone: the first tile is copied alone, because the warpgroups
        process two tiles at a time and pair it with the window's last one.
        """
        if alone:
            places = self.places(begin, self.read_indices(begin))
            for slice_ in range(self.cta.config.slices):
                self.copy_part(places, number + begin, slice_)
            begin += 1
        even, odd = self.read_indices(begin), self.read_indices(begin + 1)
        for i in cutlass.range(begin, end, 2, unroll=1):
            self.copy_pair(i, end, number, even, odd)

    @cute.jit
    def copy_pair(self, i: Int32, end: Int32, number: Int32, even: cute.Tensor, odd: cute.Tensor) -> None:
        """Copy top-k tiles `i` and `i + 1`, in the order in which their slices are released.

        number: of top-k tile 0 among the CTA's KV tiles. even, odd: the indices of both; on return, of the next two.
        """
        of_even, of_odd = self.places(i, even), self.places(i + 1, odd)
        for second, slice_ in ((0, 0), (1, 1), (0, 1), (1, 0)) if self.cta.config.slices == 2 else ((0, 0), (1, 0)):
            if const_expr(second == 0):
                self.copy_part(of_even, number + i, slice_)
            elif i + 1 < end:
                self.copy_part(of_odd, number + i + 1, slice_)
        even.store(self.read_indices(i + 2).load())
        odd.store(self.read_indices(i + 3).load())

    def places(self, i: Int32, indices: cute.Tensor) -> list[Any]:
        """Return the places of the lane's keys of top-k tile `i`."""
        return [self.listed.address(entry, indices[n]) for n, entry in enumerate(self.entries(i))]

    @cute.jit
    def copy_part(self, places: list[Any], number: Int32, slice_: int) -> None:
        """Copy a slice of the lane's keys of the CTA's KV tile `number`, and rotary columns behind the first slice.

        An index that names no key copies zeros.
        """
        self.publish_copies(copy_keys(self, slice_, self.keys, places, number))
        if const_expr(self.cta.config.rope_dim > 0):  # noqa: SIM102  slice_ may be a value of the device
            if slice_ == 0:
                RopePart(self.cta, self.cta.config.rope_ring, self.warp).copy(self.keys, places, number)

    @property
    def first_key(self) -> Any:
        """The lane's first key within the tile."""
        return self.warp * (self.ring.box[0] // WARPGROUP) + cute.arch.lane_idx() // LANES

    @property
    def keys(self) -> list[Any]:
        """The lane's keys within the tile."""
        return [self.first_key + n for n in range(0, self.ring.box[0] // WARPGROUP, AT_ONCE)]

    def entries(self, i: Int32) -> list[Int32]:
        """Numbers of the lane's top-k indices of tile `i`."""
        keys = self.ring.box[0]
        return [i * keys + self.first_key + n for n in range(0, keys // WARPGROUP, AT_ONCE)]

    def read_indices(self, i: Int32) -> cute.Tensor:
        """Load the lane's top-k indices of tile `i`."""
        entries = self.entries(i)
        indices = cute.make_rmem_tensor(len(entries), Int32)
        for n, entry in enumerate(entries):
            indices[n] = self.listed.index(entry)
        return indices


class PageWarp(LoadWarp):
    """A warp that loads its slice of every KV tile by TMA from the tile's page; one loads rotary columns, too.

    q_odd: 1 if the CTA has loaded an odd number of Q tiles before.
    """

    q_odd: Int32

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind the warp to a row tile, and read its first page: before Q is loaded, whose bytes would delay that."""
        super().__init__(cta, ring, warp)
        self.first_place = self.place(Int32(0))

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Load this warp's part of every KV tile, as LoadWarp.run. Pages are read from the table one tile ahead."""
        kv, config, copies = self.cta.kv_tiles, self.cta.config, self.cta.copies.window
        number, length = self.cta.kv_done - kv.begin, kv.caches[0].length
        tiles = KvTiles(VisibleKeys("length", length, length, 1), kv.block_n, 0, 0)
        i, page, row = self.first_place
        for n in cutlass.range(0, kv.count, unroll=1):
            following = self.place(n + 1)
            # The tile's first key in its sequence is `row` of the page.
            origin = row - tiles.start(i), 0, page - self.cta.row_tile.sequence
            loads = moved(copies, origin)
            tail_loads = self.load_slice(tiles, loads, i, number + i, tail_loads)
            if const_expr(config.rope_dim > 0):  # noqa: SIM102  the warp is a value of the device
                if self.warp == 1:
                    slot, rope = number + i & 1, PageRope(self.cta, config.rope_ring, self.warp)
                    self.cta.bars.wait("q_kept", 0, self.q_odd)
                    self.cta.bars.wait("rope_empty", slot, (number + i >> 1 & 1) ^ 1)
                    rope.copy_slice(loads, tiles.start(i), config.head_dim // config.rope_dim, slot)
            i, page, row = following
        return tail_loads

    def place(self, n: Int32) -> tuple[Int32, Int32, Int32]:
        """Return the KV tile that the warp loads after `n` others, its page, and its first row there.

        Of two tiles, the second one's right half is released first.
        """
        kv = self.cta.kv_tiles
        right = Int32(self.warp >= self.cta.config.slices // 2)
        i = kv.begin + smaller(n ^ right, kv.count - 1)
        return i, *kv.caches[0].place(kv.first_entry(i))


class PageRope(LoadWarp):
    """A warp that loads rotary columns from pages into two slots."""

    def slot(self, slot: Any) -> Any:
        """Return a slot, as (key, (dim, chunk))."""
        return self.cta.fragments.rope_slot(slot)


def moved(loads: KeyLoads, origin: tuple[Any, ...]) -> KeyLoads:
    """Return loads whose coordinates begin at `origin`."""
    return KeyLoads(*(None if each is None else (each[0], cute.domain_offset(origin, each[1])) for each in loads))


class RopePart(RopeWarp):
    """The rotary columns of a quarter of the keys of each tile, which a load warp copies besides its other work."""

    def copy(self, keys: list[Any], places: list[Any], number: Int32) -> None:
        """Copy the rotary columns of the CTA's KV tile `number`. keys: the lane's keys; places: their addresses."""
        copy_keys(self, 0, keys, places, number)
        self.publish_copies(number & 1)


def copy_keys(role: LoadWarp, slice_: int, keys: list[Any], places: list[Any], number: Int32) -> Any:
    """Copy the lane's part of keys to a slice of the CTA's KV tile `number`, and return the slot.

    keys: the lane's keys; places: their addresses. LANES lanes copy a key together. Zeros are written for an index
    that names no key.
    """
    lane = cute.arch.lane_idx()
    vector = cute.make_layout(VECTOR_BYTES // BF16_BYTES)
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL), BFloat16, num_bits_per_copy=128)
    pred = cute.make_rmem_tensor(cute.make_layout(vector.shape, stride=0), Boolean)
    vectors = role.ring.box[1] // cute.size(vector)
    slot = wait_empty(role.cta, role.ring, slice_, number)
    for key, place in zip(keys, places, strict=True):
        pred[0] = place != 0
        src, dst = (cute.logical_divide(row, vector) for row in (role.key_at(place), role.slot(slot)[key, None]))
        for c in range(0, vectors, LANES):
            cute.copy(atom, src[None, slice_ * vectors + c + lane % LANES], dst[None, c + lane % LANES], pred=pred)
    return slot
