"""The load roles for quantised keys on sm_90."""

from __future__ import annotations

from itertools import product
from typing import Any

import cutlass.cute as cute
from cutlass import Int32, const_expr
from cutlass.experimental import primitives

from kernel.device.config import Ring
from kernel.device.convert import KEYS, ConvertingWarp, Key, KeysWarp
from kernel.device.cta import Cta
from kernel.device.load import wait_empty
from kernel.device.operands import CHUNK
from kernel.hardware import SWIZZLE_BYTES
from kernel.sm90.consumer import SLOTS_FREE
from kernel.sm90.operands import anew


class LeanWarp(KeysWarp):
    """A load warp that converts some keys of every KV tile, with few registers."""

    prefetches = True

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind warp `warp` of a ring to a row tile. With four chunks ahead V4 is slower, and with split keys spills."""
        super().__init__(cta, ring, warp)
        self.packs_scales, self.ahead = True, 3 if cta.config.one_layout and not cta.config.rope_dim else 4
        self.loops = self.ahead == 4

    def publish_slice(self, slice_: int, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Signal the consumers, which execute the proxy fence: here it would wait for loads. Copies arrive alone."""
        bars, copies = self.cta.bars, keys[0].layout.has_others
        if copies:
            bars.arrive_copies(self.ring.full, slot)
        bars.arrive_warp(self.ring.full, slot, copies=copies)

    def load_rope(self, keys: list[Key], number: Int32) -> None:
        """Copy the rotary columns of the warp's keys into their slot."""
        ring = self.cta.config.rope_ring
        wait_empty(self.cta, ring, 0, number)
        for step, key in enumerate(keys):
            self.copy_others(key, self.cta.smem.sRope.iterator.toint() + self.row_offset(0, step))
        self.cta.bars.arrive_copies(ring.full, number & 1)
        self.cta.bars.arrive_warp(ring.full, number & 1, copies=True)


class SharingWarp(ConvertingWarp):
    """One of the load warps of a CTA pair with the same keys. Each converts some keys for both CTAs.

    A warp writes its keys into its CTA's slot, and a bulk copy brings them to the same place of the other CTA.
    """

    def __init__(self, cta: Cta, ring: Ring, warp: Any) -> None:
        """Bind warp `warp` of a ring to a row tile. A group's warps of the second CTA follow those of the first."""
        ctas, self.turns = cta.config.loading_ctas, cta.config.producers
        self.prefetches, self.ahead = self.turns == 1, 4 if self.turns > 1 else None
        self.loops = self.turns == 1 and (cta.config.rope_dim > 0 or not cta.config.one_layout)
        self.packs_scales = self.turns > 1 or self.loops
        group, rank = len(ring.warps) // self.turns, cute.arch.block_idx_in_cluster() % ctas
        super().__init__(cta, ring, (warp // group * ctas + rank) * group + warp % group)

    def lane(self) -> Int32:
        """Return the lane's number, read anew for each row tile: what follows from it takes no registers between."""
        return anew(cute.arch.lane_idx())

    @cute.jit
    def run(self, tail_loads: Int32) -> Int32:
        """Convert this warp's keys of every KV tile. With split keys, signal the consumers when no slot is in use."""
        tail_loads = super().run(tail_loads)
        if const_expr(self.cta.config.splits > 1):
            end = self.cta.kv_done + self.cta.kv_tiles.count
            for number, slice_ in product(range(self.cta.config.smem.depth), range(self.cta.config.slices)):
                wait_empty(self.cta, self.ring, slice_, end + number)
            cute.arch.barrier_arrive(barrier_id=SLOTS_FREE, number_of_threads=self.cta.config.threads)
        return tail_loads

    @property
    def warps_of_slice(self) -> int:
        """Number of warps that convert the keys of a slice."""
        return self.cta.config.loading_ctas * super().warps_of_slice

    def publish_slice(self, slice_: int, keys: list[Key], slot: Int32, number: Int32) -> None:
        """Signal the consumers of both CTAs that the warp's keys of a slice are converted."""
        self.share(self.slot(slot), self.ring, slot)

    def load_rope(self, keys: list[Key], number: Int32) -> None:
        """Write the rotary columns of the warp's keys into their slot of both CTAs."""
        ring, slot = self.cta.config.rope_ring, self.cta.smem.sRope
        wait_empty(self.cta, ring, 0, number)
        for step, key in enumerate(keys):
            self.write(slot.iterator.toint() + self.first_column, self.row_offset(0, step), key.others)
        self.share(slot, ring, number & 1)

    def share(self, slot: cute.Tensor, ring: Ring, stage: Any) -> None:
        """Copy the warp's keys in a slot to the other CTA, and arrive at stage `stage` of the ring's mbarrier.

        A phase of a CTA's mbarrier counts arrivals of its own warps. Each expects the bytes that a warp of the other
        CTA copies.
        """
        full, peer = self.cta.bars.at(ring.full, stage), cute.arch.block_idx_in_cluster() ^ 1
        rows, chunks = self.steps * KEYS * SWIZZLE_BYTES, ring.box[1] // CHUNK
        first = slot.iterator.toint() + self.warp % self.warps_of_slice * rows
        cute.arch.fence_view_async_shared()
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(full, chunks * rows)
            arrived = cute.arch.map_dsmem_ptr(full, peer)
            for c in range(chunks):
                own = cute.make_ptr(Int32, first + self.row_offset(c, 0), cute.AddressSpace.smem, assumed_align=128)
                others = cute.arch.map_dsmem_ptr(own, peer)
                primitives.cp_async_bulk_shared_cluster_shared_cta(others, own, arrived, rows)
