"""The load roles: Q, slices of K, slices of V if V is not read as K, and keys that indices list."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Boolean, Int32, Int64, const_expr
from cutlass.cute.nvgpu import cpasync
from cutlass.experimental import primitives

from kernel.device.config import Ring
from kernel.device.cta import Cta
from kernel.device.operands import KeyLoads, slice_ring, tma_partition
from kernel.device.tiles import KvTiles, LoopInvariant, larger, smaller
from kernel.hardware import BF16_BYTES, SWIZZLE_BYTES, VECTOR_BYTES, WARP
from kernel.layouts import QUANTISED
from kernel.problem import FEW_TOKENS


@cute.jit
def load_q(cta: Cta, q_loads: Int32) -> None:
    """Load Q of a row tile if it sees any key; q_loads: how often the CTA has loaded Q before."""
    config = cta.config
    row_tile = cta.row_tile
    box = (cta.config.tile_m, cta.config.qk_dim)
    atom, mQ = cta.copies.q
    sQ = slice_ring(cta.smem.sQ, box, config.q_tiles)
    if cta.kv_tiles.count > 0:
        # 1. Wait until the last QK of the previous row tile has read Q.
        cta.bars.wait("q_empty", 0, (q_loads + 1) % 2)
        # 2. Load a Q tile per softmax warpgroup.
        barrier = cta.bars.expect("q_full", 0, config.smem.q_bytes)
        rows = cute.domain_offset((row_tile.row(0), 0, 0), mQ)
        for t in range(config.q_tiles):
            dst, src = tma_partition(atom, sQ[None, None, t], cute.local_tile(rows, box, (t, 0, row_tile.group)))
            cute.copy(atom, src, dst, tma_bar_ptr=barrier)


class LoadWarp(LoopInvariant):
    """A warp that loads one slice of each KV tile of a row tile."""

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind warp `warp` of a ring to a row tile."""
        self.cta = cta
        self.ring = ring
        self.warp = warp
        self.rank = cute.arch.block_idx_in_cluster() if cta.config.mma_ctas == 2 else 0  # half of the keys, or of V
        self.listed = cta.kv_tiles.listed

    @property
    def buffer(self) -> Any:
        """The shared memory of the ring."""
        return {"k": self.cta.smem.sK, "v": self.cta.smem.sV, "rope": self.cta.smem.sRope}[self.ring.name]

    def slot(self, slot: Any) -> Any:
        """Return a slot of the ring, as (key, (dim, chunk)). Rotary columns have one."""
        slots = 1 if self.ring.name == "rope" else self.cta.config.smem.depth * self.cta.config.slices
        return slice_ring(self.buffer, self.ring.box, slots)[None, None, slot if slots > 1 else 0]

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Load this warp's slice of every KV tile.

        tail_loads: the number of slices that the warp has cleared keys in, which gives the phase of tail_full. Returns
        the new count.
        """
        # 1. Load the tiles of the window.
        tail_loads = self.load_window(tail_loads)
        # 2. Load the tiles of the compressed keys, counted from 0 again.
        kv = self.cta.kv_tiles
        if const_expr(isinstance(kv.compressed, KvTiles)):
            begin, end = kv.first_listed, kv.end_listed
            number = self.cta.kv_done - kv.begin + kv.window.count
            for i in cutlass.range(begin, end, unroll=1):
                tail_loads = self.load_slice(kv.compressed, self.cta.copies.compressed, i, number + i, tail_loads)
        return tail_loads

    @cute.jit
    def load_window(self, tail_loads: Int32) -> Int32:
        """Load this warp's slice of the window's tiles, as `run`."""
        kv = self.cta.kv_tiles
        number = self.cta.kv_done - kv.begin  # of KV tile 0 among all that the CTA takes
        for i in cutlass.range(kv.begin, smaller(kv.end, kv.window.count), unroll=1):
            tail_loads = self.load_slice(kv.window, self.cta.copies.window, i, number + i, tail_loads)
        return tail_loads

    @cute.jit
    def load_slice(self, tiles: KvTiles, atoms: KeyLoads, i: Int32, number: Int32, tail_loads: Int32) -> Int32:
        """Load this warp's slice of tile `i` of a branch, which is the CTA's KV tile `number`.

        Invalid keys of the last tile may be NaN. As V they would make O NaN even where P is 0, because 0 * NaN is NaN.
        The warp waits for such a slice itself and overwrites those keys with zeros.
        """
        ring = self.ring
        bars = self.cta.bars
        row, columns = (self.warp, self.rank) if ring.along_keys else (self.rank, self.warp)
        first = tiles.start(i) + ring.box[0] * row
        # 1. Wait for a free slot.
        slot = wait_empty(self.cta, ring, self.warp, number)
        valid_end = tiles.visible.valid_end
        if const_expr(ring.clears_tail and valid_end is not None):
            if first + ring.box[0] <= valid_end:
                # 2. Load a slice whose keys are all valid. TMA signals the MMA warp.
                self.copy_slice(atoms, first, columns, slot)
            else:
                # 3. Load the others for this warp, clear the keys that are not valid, then signal the MMA warp.
                self.copy_slice(atoms, first, columns, slot, local=True)
                bars.wait("tail_full", self.warp, tail_loads % 2)
                self.clear_keys(slot, larger(valid_end - first, 0))
                cute.arch.fence_view_async_shared()
                bars.arrive_warp(ring.full, slot)
                tail_loads += 1
        else:
            self.copy_slice(atoms, first, columns, slot)
        return tail_loads

    def copy_slice(self, atoms: KeyLoads, first: Int32, columns: Int32, slot: Int32, local: bool = False) -> None:
        """Start the TMA load of the slice from key `first` on; local: this warp waits for it, not the MMA warp."""
        ring = self.ring
        tma = getattr(atoms, self.ring.name)
        sequence = self.cta.row_tile.sequence
        atom, keys = (atoms.v_local or tma) if local else tma
        name, stage = ("tail_full", self.warp) if local else (ring.full, slot)
        barrier = self.cta.bars.expect(name, stage, ring.slice_bytes, local)
        g = cute.local_tile(cute.domain_offset((first, 0, 0), keys), ring.box, (0, columns, sequence))
        dst, src = tma_partition(atom, self.slot(slot), g)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier)

    @cute.jit
    def clear_keys(self, slot: Int32, first: Int32) -> None:
        """Zero the keys of a slot from `first` on, 16 bytes at a time."""
        keys, dims = self.ring.box
        vector = cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        box = self.slot(slot)
        zero = cute.make_rmem_tensor(vector, BFloat16)
        zero.fill(0.0)
        vectors = dims // cute.size(vector)  # of a key
        lane = cute.arch.lane_idx()
        for key in cutlass.range(first + lane // vectors, keys, WARP // vectors, unroll=1):
            cute.autovec_copy(zero, cute.logical_divide(box[key, None], vector)[None, lane % vectors])


class GatherWarp(LoadWarp):
    """A load warp that gathers keys by indices or a block table, after TMA has loaded the tiles of a window.

    The place of a key is its address, 0 for an index that names no key.
    """

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Load this warp's slice of every KV tile, as LoadWarp.run."""
        # 1. Load the tiles of the window, unless they are gathered like the others.
        number = self.first_number()
        if const_expr(not self.cta.config.caches):
            tail_loads = self.load_window(tail_loads)
        # 2. Copy the listed keys. Indices are read two tiles ahead, so their latency overlaps with the copies.
        kv = self.cta.kv_tiles
        indices = self.read_indices(kv.first_listed)
        following = self.read_indices(kv.first_listed + 1)
        self.prefetch(kv.first_listed, kv.end_listed, indices)
        for i in cutlass.range(kv.first_listed, kv.end_listed, unroll=1):
            self.prefetch(i + 1, kv.end_listed, following)
            self.copy_topk(indices, following, i, number + i)
        return tail_loads

    def first_number(self) -> Any:
        """Return the number of listed tile 0 among all KV tiles that the CTA takes."""
        kv = self.cta.kv_tiles
        number = self.cta.kv_done - kv.begin
        return number if self.cta.config.caches else number + kv.window.count

    @cute.jit
    def prefetch(self, i: Int32, end: Int32, indices: cute.Tensor) -> None:
        """Prefetch this warp's part of the keys of top-k tile `i` to L2 if the tile is before `end`, one key per lane.

        Launches of few tokens do this: their tiles wait for HBM. With many tokens, shared keys are in L2 already.
        """
        keys_per_warp = self.ring.box[0] // self.cta.config.slices
        if (i < end) & (self.cta.row_tile.tokens <= FEW_TOKENS) and const_expr(self.ring.name == "k"):
            for n, entry in enumerate(self.entries(i)):
                if (n * WARP + cute.arch.lane_idx()) // keys_per_warp == self.warp:
                    key = self.readable(self.listed.address(entry, indices[n]))
                    primitives.cp_async_bulk_prefetch(pointer(key, BFloat16, VECTOR_BYTES), self.key_bytes)

    @cute.jit
    def copy_topk(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, number: Int32) -> None:
        """Copy this warp's slice of top-k tile `i`, which is the CTA's KV tile `number`.

        indices: the tile's indices; on return, the next tile's. following: the indices one tile
        later.
        """
        ring = self.ring
        lane = cute.arch.lane_idx()
        vector = cute.make_layout(VECTOR_BYTES // BF16_BYTES)
        lanes = SWIZZLE_BYTES // VECTOR_BYTES  # that copy a key together
        atom = cute.make_copy_atom(cpasync.CopyG2SOp(cpasync.LoadCacheMode.GLOBAL), BFloat16, num_bits_per_copy=128)
        # 1. Find the keys to copy before a slot is free. A lane has the places of its indices. Shuffles pass them to
        #    the eight lanes that copy a key.
        keys = [self.listed.address(entry, indices[n]) for n, entry in enumerate(self.entries(i))]
        vectors = ring.box[1] // cute.size(vector)
        firsts = range(0, ring.box[0], WARP // lanes)
        column = (self.rank if ring.along_keys else self.warp) * vectors + lane % lanes
        places = [cute.arch.shuffle_sync(keys[first // WARP], (first + lane // lanes) % WARP) for first in firsts]
        sources = [cute.logical_divide(self.key_at(place), vector) for place in places]
        # 2. Wait for a free slot and copy. An index that names no key copies zeros.
        valid = cute.make_rmem_tensor(cute.make_layout(vector.shape, stride=0), Boolean)
        slot = wait_empty(self.cta, ring, self.warp, number)
        self.publish_valid(keys, number)
        for first, place, src in zip(firsts, places, sources, strict=True):
            valid[0] = place != 0
            dst = cute.logical_divide(self.slot(slot)[first + lane // lanes, None], vector)
            for c in range(0, vectors, lanes):
                cute.copy(atom, src[None, column + c], dst[None, lane % lanes + c], pred=valid)
        # 3. Read further indices while the copies run.
        indices.store(following.load())
        following.store(self.read_indices(i + 2).load())
        # 4. Signal the MMA warp.
        self.publish_copies(slot)

    def publish_valid(self, places: list[Any], number: Int32) -> None:
        """Do nothing: softmax reads the indices of the CTA's KV tile `number` itself."""

    def publish_copies(self, slot: Int32) -> None:
        """Signal the MMA warp once the copies into a slot are complete.

        With one CTA, cp.async itself arrives and the MMA warp executes the proxy fence, so this warp continues. In a
        CTA pair cp.async cannot arrive at the leader CTA, and converted keys are not copies: this warp waits, fences
        and arrives.
        """
        bars, crosses = self.cta.bars, self.cta.config.crosses_proxies
        if crosses:
            bars.arrive_copies(self.ring.full, slot)
        else:
            cute.arch.cp_async_commit_group()
            cute.arch.cp_async_wait_group(0)
            cute.arch.fence_view_async_shared()
        bars.arrive_warp(self.ring.full, slot, copies=crosses)

    def key_at(self, place: Any) -> cute.Tensor:
        """Return the key at a place; the first key if the place is 0."""
        key = pointer(self.readable(place), BFloat16, VECTOR_BYTES)
        return cute.make_tensor(key, cute.make_layout(self.cta.config.head_dim))

    def readable(self, address: Any) -> Any:
        """Return an address, or the first key's if it is 0, so that the load is valid."""
        return cutlass.select_(address == 0, self.listed.caches[0].base, address)

    @property
    def key_bytes(self) -> int:
        """Bytes of a key, without scales that are stored in another part of its page."""
        config = self.cta.config
        return QUANTISED[config.caches[0].layout].key_bytes if config.quantised else config.qk_dim * BF16_BYTES

    def entries(self, i: Int32) -> list[Int32]:
        """Numbers of the top-k indices of tile `i` that the warp needs, one per lane in each WARP of them."""
        first = i * self.cta.config.block_n + (self.warp if self.ring.along_keys else self.rank) * self.ring.box[0]
        return [first + (j + cute.arch.lane_idx()) for j in range(0, self.ring.box[0], WARP)]

    def read_indices(self, i: Int32) -> cute.Tensor:
        """Load the top-k indices of tile `i` that the warp needs."""
        indices = cute.make_rmem_tensor(self.ring.box[0] // WARP, Int32)
        for n, entry in enumerate(self.entries(i)):
            indices[n] = self.listed.index(entry)
        return indices


class RopeWarp(GatherWarp):
    """A load warp that copies the rotary columns of keys into their only slot. They are bf16 in every layout."""

    def key_at(self, place: Any) -> cute.Tensor:
        """Return the rotary columns of the key at a place; those of page 0 of the first cache if the place is 0."""
        config = self.cta.config
        layout = QUANTISED.get(config.caches[0].layout)
        offset = config.head_dim * BF16_BYTES if layout is None else layout.others_offset
        columns = pointer(self.readable(place) + Int64(offset), BFloat16, VECTOR_BYTES)
        return cute.make_tensor(columns, cute.make_layout(config.rope_dim))


def wait_empty(cta: Cta, ring: Ring, slice_: Any, number: Int32) -> Any:
    """Wait until the ring slot for a slice of the CTA's KV tile `number` is free, and return the slot."""
    slot, phase = (0, number & 1) if ring.name == "rope" else cta.bars.slot_and_phase(number, slice_)
    cta.bars.wait(ring.empty, slot, phase ^ 1)
    return slot


def pointer(address: Any, dtype: type[cutlass.Numeric], align_bytes: int) -> cute.Pointer:
    """Return a pointer to global memory."""
    return cute.make_ptr(dtype, address, cute.AddressSpace.gmem, assumed_align=align_bytes)
