"""The load roles for quantised keys on sm_90."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass.experimental import primitives

from kernel.device.config import Ring
from kernel.device.convert import KEYS, ConvertingWarp, Key, KeysWarp
from kernel.device.cta import Cta
from kernel.device.dequantise import BATCH, CODES, QuantisedWarp
from kernel.device.load import wait_empty
from kernel.device.operands import CHUNK
from kernel.hardware import SWIZZLE_BYTES, WARP, WARPGROUP
from kernel.sm90.load import AT_ONCE, LANES, RopePart


class LeanWarp(KeysWarp):
    """A load warp that converts some keys of every KV tile, with few registers."""

    ahead = 3

    def complete_copies(self, slot: Int32) -> None:
        """Let the copies arrive by themselves: the consumers cross proxies."""
        primitives.cp_async_mbarrier_arrive(self.cta.bars.at(self.ring.full, slot))


class SharingWarp(ConvertingWarp):
    """One of the load warps of a CTA pair with the same keys. Each converts some keys for both CTAs.

    A warp writes its keys into its CTA's slot, and a bulk copy brings them to the same place of the other CTA.
    """

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind warp `warp` of a ring to a row tile. The warps of the second CTA follow those of the first."""
        super().__init__(cta, ring, cute.arch.block_idx_in_cluster() * len(ring.warps) + warp)

    @property
    def warps_of_slice(self) -> int:
        """Number of warps that convert the keys of a slice."""
        return self.cta.config.loading_ctas * len(self.ring.warps)

    def publish_slice(self, slice_: int, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Signal the consumers of both CTAs that the warp's keys of a slice are converted.

        The mbarrier of a CTA counts its own warps, each with the bytes of a warp of the other CTA.
        """
        full, peer = self.cta.bars.at(self.ring.full, slot), cute.arch.block_idx_in_cluster() ^ 1
        rows, chunks = self.steps * KEYS * SWIZZLE_BYTES, self.ring.box[1] // CHUNK
        first = self.slot(slot).iterator.toint() + self.warp * rows
        cute.arch.fence_view_async_shared()
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(full, chunks * rows)
            arrived = cute.arch.map_dsmem_ptr(full, peer)
            for c in range(chunks):
                own = cute.make_ptr(Int32, first + self.row_offset(c, 0), cute.AddressSpace.smem, assumed_align=128)
                others = cute.arch.map_dsmem_ptr(own, peer)
                primitives.cp_async_bulk_shared_cluster_shared_cta(others, own, arrived, rows)


class V32Warp(QuantisedWarp):
    """A load warp that converts its slice of keys of DeepSeek-V3.2, and copies the rotary columns of a quarter of them.

    It converts some after the other in a loop: unrolled, loads of several turns would be in registers. The codes of two
    turns are in flight: the first two are asked for before a slot is free, and those of each other turn as soon as the
    registers of an earlier one are free.
    """

    vectors = BATCH // 2
    """Vectors of codes that a lane converts in a turn of the loop."""

    @property
    def lanes(self) -> int:
        """Lanes that convert a key together."""
        return self.ring.box[1] // CODES

    @property
    def keys_of_turn(self) -> int:
        """Keys that the warp converts in a turn of the loop."""
        return WARP // self.lanes * self.vectors

    @property
    def column(self) -> Any:
        """First of the lane's columns."""
        return self.warp * self.ring.box[1] + cute.arch.lane_idx() % self.lanes * CODES

    @cute.jit
    def copy_topk(self, indices: cute.Tensor, following: cute.Tensor, i: Int32, number: Int32) -> None:
        """Convert this warp's slice of tile `i`, as QuantisedWarp.copy_topk, then copy its part of rotary columns."""
        found = [self.listed.address(entry, indices[n]) for n, entry in enumerate(self.entries(i))]
        super().copy_topk(indices, following, i, number)
        begin, count = self.warp * (self.ring.box[0] // WARPGROUP), self.ring.box[0] // WARPGROUP
        keys = [begin + n + cute.arch.lane_idx() // LANES for n in range(0, count, AT_ONCE)]
        RopePart(self.cta, self.cta.config.rope_ring, self.warp).copy(keys, self.of_keys(found, keys, begin), number)

    @cute.jit
    def convert_keys(self, found: list[Any], words: list[Any], first: Int32, number: Int32) -> Int32:
        """Convert this warp's slice of the CTA's KV tile `number`. Return the slot.

        found, words: addresses and scales of the slice's keys, in the lanes that have their indices. first: the slice's
        column.
        """
        keys, turn = self.ring.box[0], self.keys_of_turn
        asked = [self.codes_from(found, begin) for begin in (Int32(0), Int32(turn))]
        slot = wait_empty(self.cta, self.ring, self.warp, number)
        for begin in cutlass.range(0, keys, 2 * turn, unroll=1):
            for n, codes in enumerate(asked):
                at = begin + n * turn
                own = self.keys_from(at)
                places, scales = self.of_keys(found, own, at), self.of_keys(words, own, at)
                self.write(slot, own, places, codes, scales, self.column)
                if at + 2 * turn < keys:
                    for held, new in zip(codes, self.codes_from(found, at + 2 * turn), strict=True):
                        held.store(new.load())
        return slot

    def codes_from(self, found: list[Any], begin: Int32) -> list[cute.Tensor]:
        """Load the lane's codes in the turn that begins with key `begin` of the tile."""
        return [self.codes(place, self.column) for place in self.of_keys(found, self.keys_from(begin), begin)]

    def keys_from(self, begin: Int32) -> list[Any]:
        """Return the lane's keys in the turn that begins with key `begin` of the tile."""
        step = WARP // self.lanes
        return [begin + n * step + cute.arch.lane_idx() // self.lanes for n in range(self.vectors)]

    def of_keys(self, values: list[Any], keys: list[Any], begin: Int32) -> list[Any]:
        """Return the value of each key. values: in the lanes that have the indices of the tile's keys."""
        held = cutlass.select_(begin < WARP, *values)
        return [cute.arch.shuffle_sync(held, key % WARP) for key in keys]

    def scaled(self, pair: tuple[Float32, Float32], scale: Float32) -> tuple[Float32, Float32]:
        """Return two values times a scale: sm_90 has no packed fp32."""
        return pair[0] * scale, pair[1] * scale
