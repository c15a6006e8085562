"""The load role with operands swapped for quantised keys: conversion by integer operations and bf16 products."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int8, Int32
from cutlass.experimental import primitives

from kernel.device.convert import KEYS, VECTORS, WORDS, ConvertingWarp, Key, words_at
from kernel.device.cta import Cta
from kernel.device.dequantise import WORD_BYTES
from kernel.device.load import GatherWarp
from kernel.device.operands import CHUNK, slice_ring, tma_partition
from kernel.hardware import SWIZZLE_BYTES, VECTOR_BYTES, WARP, WARPGROUP
from kernel.sm100.memory import VALID_BYTES
from kernel.sm100.operands import LANE

ROWS = 32  # rows of Q that are permuted at a time: more need more registers than the queries warp has


class SwappedCacheWarp(GatherWarp):
    """A load warp that copies keys in bf16 with operands swapped."""

    @cute.jit
    def publish_valid(self, places: list[Any], number: Int32) -> None:
        """Publish to softmax, from the warp of the first slice, which keys of the CTA's KV tile `number` exist."""
        if self.warp == 0:
            for n, place in enumerate(places):
                exists = cutlass.select_(place != 0, Int32(0x01010101), Int32(0))
                cute.recast_tensor(self.cta.smem.valid_keys(number), Int32)[n * WARP + cute.arch.lane_idx()] = exists


class FastWarp(ConvertingWarp):
    """One of the warps that convert quantised keys: it has some keys of every second KV tile, all of their columns.

    It waits for HBM once per tile, while the warps of the other group convert the previous tile.
    """

    turns = 2

    def publish_slice(self, slice_: int, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Signal the MMA warp, and softmax with the first slice."""
        if slice_ == 0:
            self.publish_valid(keys, number)
        cute.arch.fence_view_async_tmem_store()
        primitives.tcgen05_fence("before_thread_sync")
        super().publish_slice(slice_, keys, slot, number)

    def publish_valid(self, keys: list[Key], number: Int32) -> None:
        """Publish to softmax which of the lane's keys of the CTA's KV tile `number` exist."""
        for step in range(self.steps):
            at = (self.first_key + step * KEYS) * VALID_BYTES + self.unit
            self.cta.smem.valid_keys(number)[at] = Int8(keys[step].exists)

    def begin_slice(self, slice_: int, chunks: range, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Wait until QK has read the previous contents of a slice's columns of tensor memory.

        number: the slice's KV tile. The columns held a slice of the same tile, or of tile `number` - 2. QK has read the
        latter: PV, which was issued later, has released the tile's slot in shared memory, because the ring holds two
        tiles.
        """
        config, bars = self.cta.config, self.cta.bars
        before = slice_ - config.tmem_slices
        if before >= 0:
            stage, phase = bars.stage_and_phase(number)
            bars.wait("a_empty", stage * config.late_slices + before, phase)
        else:
            primitives.tcgen05_fence("after_thread_sync")

    def store_chunk(self, slice_: int, c: int, columns: list[list[cute.Tensor]], number: Int32) -> None:
        """Write chunk `c` of a slice of the warp's keys of KV tile `number` into tensor memory as A of QK.

        A thread has two columns of K in every fourth column of tensor memory, so a chunk's columns are permuted, like
        Q's.
        """
        words = cute.make_rmem_tensor(self.steps * VECTORS * WORDS, Int32)
        for step, vectors in enumerate(columns):
            for q in range(VECTORS * WORDS):
                words[q * self.steps + step] = vectors[q // WORDS][q % WORDS]
        stage, _ = self.cta.bars.stage_and_phase(number)
        first = self.cta.fragments.k_slice(stage, slice_) + cute.arch.warp_idx() % WARPGROUP * (WARP * LANE)
        target = cutlass.inttoptr((first + c * (CHUNK // 2)).toint(), mem_space=cute.AddressSpace.tmem, dtype=Int32)
        primitives.tcgen05_st("16x128b", target, cutlass.Vector(words.load().ir_value(), dtype=Int32))


@cute.jit
def load_permuted_q(cta: Cta, q_loads: Int32) -> None:
    """Load Q of a row tile if it sees any key, with its columns permuted like K's in tensor memory.

    q_loads: how often the CTA has loaded Q before. In a chunk of 32 pairs of columns, 8 u + q becomes 4 q + u.
    """
    config, bars = cta.config, cta.bars
    box = (config.tile_m, config.qk_dim)
    atom, rows = cta.copies.q
    if cta.kv_tiles.count > 0:
        # 1. Wait until the last QK of the previous row tile has read Q, and load.
        bars.wait("q_empty", 0, (q_loads + 1) % 2)
        barrier = bars.expect("tail_full", 0, config.smem.q_bytes)
        whole = slice_ring(cta.smem.sQ, box, 1)[None, None, 0]
        tile = cute.local_tile(cute.domain_offset((cta.row_tile.row(0), 0, 0), rows), box, (0, 0, cta.row_tile.group))
        dst, src = tma_partition(atom, whole, tile)
        cute.copy(atom, src, dst, tma_bar_ptr=barrier)
        bars.wait("tail_full", 0, q_loads % 2)
        # 2. Permute, some vectors of each lane at a time: eight lanes have a chunk of a row.
        for chunk in cutlass.range(config.qk_dim // CHUNK, unroll=1):
            first = cta.smem.sQ.iterator.toint() + chunk * (config.tile_m * SWIZZLE_BYTES)
            permute_chunk(first, config.tile_m)
        # 3. Hand Q to the MMA warp.
        cute.arch.fence_view_async_shared()
        bars.arrive_warp("q_full", 0)


def permute_chunk(chunk: Int32, rows: int) -> None:
    """Permute the words of each row of a chunk in shared memory, 128 swizzled bytes: 8 u + q becomes 4 q + u."""
    lane = cute.arch.lane_idx()
    v = lane % KEYS  # vector of a row: its words are those of u = v // 2, and q from v % 2 * 4 on
    for begin in range(0, rows, ROWS):
        row_of = [first + lane // KEYS for first in range(begin, min(begin + ROWS, rows), WARP // KEYS)]
        vectors = [shared_words(chunk + row * SWIZZLE_BYTES + (v ^ row % KEYS) * VECTOR_BYTES) for row in row_of]
        cute.arch.sync_warp()
        for row, vector in zip(row_of, vectors, strict=True):
            for k in range(WORDS):
                to = (v % 2 * WORDS + k) ^ row % KEYS
                address = chunk + row * SWIZZLE_BYTES + to * VECTOR_BYTES + v // 2 * WORD_BYTES
                words_at(address, 1, cute.AddressSpace.smem)[0] = vector[k]
        cute.arch.sync_warp()


def shared_words(address: Int32) -> cute.Tensor:
    """Load 16 bytes of shared memory."""
    words = cute.make_rmem_tensor(WORDS, Int32)
    cute.autovec_copy(words_at(address, WORDS, cute.AddressSpace.smem), words)
    return words
