"""All device code for sm_90a: attention of a row tile over many KV tiles by warpgroup MMA (wgmma).

A CTA has a producer warpgroup, which keeps few registers, and two or three consumer warpgroups, which take the others.
Pairs that convert keys of V3.2 or V4 have two producer warpgroups, which take the KV tiles in turn.
Logits S, probabilities P and O stay in the consumers' registers. Up to head_dim 256 each consumer warpgroup has a Q
tile of 64 rows. At 512 O is too wide for that: both warpgroups have the same 64 rows, and half of O's columns each.
Registers of a consumer thread, of 232 (216 with top-k indices, 160 of three warpgroups):

    head_dim 64    |  S 64  |  P 32  |  O 32   |        KV tiles of 128 keys, three warpgroups where rows are many; 64
                                                        and two warpgroups with top-k indices
    head_dim 128   |  S 64  |  P 32  |  O 64   |  Q 32  |  KV tiles of 128 keys; 64 with top-k indices, and no Q
    head_dim 256   |  S 32  |  P 16  |  O 128  |        64 keys
    head_dim 512   |  S 32  |  P 16  |  O 128  |        64 keys; 32 if V is not K, or where few tokens wait for HBM.
                                                        Rotary columns behind V's have a slot of their own. If TMA
                                                        loads pages: Q's in registers, and a slot in their place

Warps of the CTA and the mbarriers between them. K and V come by rings of KV tiles, in one slice or more of the dims:

    load         ---q_full, k_full-->   consumers     Q of all Q tiles; slices of K, which are V's if V is K
    values       -----v_full-------->   consumers     slices of V
    load, values <-k_empty, v_empty--   consumers     a slice was read
    load         <----q_empty--------   consumers     the row tile's last S has been computed, or Q is in registers
    load         ---rope_full---->      consumers     K's rotary columns if V lacks them
    load         <--rope_empty----      consumers     QK has read the rotary columns
    load         <----q_kept------      consumers     Q's rotary columns are in registers, if they are kept there
    load, values -----tail_full----->   the same      a slice with invalid keys: cleared, then k_full or v_full
    consumer     ---named barriers -->  consumer      1 to 3: the turn of a warpgroup to issue its products;
                                                      4 and 5: P of a warpgroup at 512; 6: both

CTAs with adjacent row tiles and the same KV tiles form a cluster: up to head_dim 256 each multicasts a part of every
slice, at 512 each converts half of the quantised keys for both. Consumers arrive at k_empty and v_empty of all of them.

The producer executes the proxy fence for TMA and for keys that CTA pairs convert, consumers for other gathered keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Int32, const_expr

from kernel.arguments import Arguments, Operands
from kernel.device.barriers import Barriers, sync_ctas
from kernel.device.config import Ring, has_role
from kernel.device.cta import Cta
from kernel.device.load import LoadWarp, load_q
from kernel.device.operands import Copies
from kernel.device.tiles import smaller
from kernel.fmha import Fmha
from kernel.sm90.combine import Merge, Partial
from kernel.sm90.config import HopperConfig
from kernel.sm90.consumer import Consumer, pass_turn, wait_turn
from kernel.sm90.dequantise import LeanWarp, SharingWarp
from kernel.sm90.epilogue import Epilogue
from kernel.sm90.load import MulticastWarp, PageWarp, PairWarp
from kernel.sm90.operands import Fragments, Smem, anew, multicast_keys, page_keys
from kernel.sm90.softmax import ConsumerThread
from kernel.sm90.wide import WideConsumer


def load_role(config: HopperConfig) -> type[LoadWarp]:
    """Return the kind of warp that loads keys."""
    if config.quantised:
        return SharingWarp if config.loading_ctas > 1 else LeanWarp
    if config.gathers:
        return PairWarp
    if config.loads_pages:
        return PageWarp
    return MulticastWarp if config.loading_ctas > 1 else LoadWarp


class Hopper(Fmha):
    """The kernel of one HopperConfig."""

    def copies(self, tensors: Operands, args: Arguments) -> Copies:
        """Return the TMA loads and stores. CTAs that load KV tiles together multicast those of the window."""
        copies = super().copies(tensors, args)
        if self.config.loads_pages:
            copies = copies._replace(window=page_keys(self.config, args))
        if self.config.loading_ctas > 1 and not self.config.by_token:
            copies = copies._replace(window=multicast_keys(self.config, tensors))
        return copies

    @cute.kernel
    def device(self, products: None, copies: Copies, args: Arguments) -> None:
        """Run the warps' roles."""
        config = self.config
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = Smem(config)
        bars = Barriers(config, smem.barriers)
        self.prologue(warp, bars, copies)
        cta = Cta(config, bars, smem, Fragments(config, smem), copies, args)
        producer_registers, consumer_registers = config.variant.registers
        if warp < config.roles.consumers[0]:
            cute.arch.setmaxregister_decrease(producer_registers)
            for ring in config.rings:
                if has_role(ring.warps, warp):
                    self.load(cta, ring, warp - ring.warps[0])
            if const_expr(config.splits > 1):  # the consumers pass two barriers of all threads of the cluster
                sync_ctas(config.splits)
                sync_ctas(config.splits)
        else:
            cute.arch.setmaxregister_increase(consumer_registers)
            self.consume(cta)
        if const_expr(config.splits == 1 and config.loading_ctas > 1):  # the other CTA writes here, and arrives
            sync_ctas(config.loading_ctas)

    @cute.jit
    def load(self, cta: Cta, ring: cutlass.Constexpr[Ring], warp: Any) -> None:
        """Load a slice of each KV tile of all row tiles of the CTA; the first warp of K loads Q, too."""
        kv_done, tail_loads, q_odd = Int32(0), Int32(0), Boolean(False)
        if const_expr(self.config.producers == 2):  # ptxas would spill what all row tiles share
            cta = replace(cta, read=anew)
        first, _, step = cta.row_tile_range
        number = Int32(first)
        while number < cta.row_tile_range[1]:
            at = cta.at_row_tile(number, kv_done)
            if const_expr(self.config.keeps_number):
                cute.arch.sync_warp()
                with cute.arch.elect_one():
                    cta.smem.sNumber[warp] = number
            role = load_role(self.config)(at, ring, warp)
            if const_expr(ring.name == "k") and warp == 0:
                load_q(at, Int32(q_odd))
            role.q_odd = Int32(q_odd)
            tail_loads = role.run(tail_loads)
            kv_done += at.kv_tiles.count
            q_odd = q_odd ^ (at.kv_tiles.count > 0)
            if const_expr(self.config.keeps_number):
                cute.arch.sync_warp()
                number = cta.smem.sNumber[warp]
            number += step

    @cute.jit
    def consume(self, cta: Cta) -> None:
        """Compute and store all row tiles of the CTA."""
        config = self.config
        consumer_of = WideConsumer if config.variant.shares_rows else Consumer
        warpgroup, kv_done, q_loads = ConsumerThread(config).warpgroup, Int32(0), Int32(0)
        # 1. The first turn is warpgroup 0's.
        last = config.variant.warpgroups - 1
        if const_expr(config.takes_turns) and warpgroup == last:
            pass_turn(warpgroup, last + 1)
        # 2. Compute row tile after row tile.
        first, end, step = cta.row_tile_range
        for number in cutlass.range(first, end, step, unroll=1):
            at = cta.at_row_tile(number, kv_done)
            consumer = consumer_of(at, ConsumerThread(config), cta.fragments)
            self.trace(tSrS=consumer.s, tOrP=consumer.p, tOrO=consumer.o)
            consumer.run(q_loads)
            if const_expr(config.splits > 1):
                self.combine(consumer)
            else:
                Epilogue(consumer).run()
            kv_done += at.kv_tiles.count
            q_loads += smaller(at.kv_tiles.count, 1)
        # 3. Take the turn that the last warpgroup passed, and wait for the last stores.
        if const_expr(config.takes_turns) and warpgroup == 0:
            wait_turn(warpgroup)
        cute.arch.cp_async_bulk_wait_group(0, read=True)

    @cute.jit
    def combine(self, consumer: Consumer) -> None:
        """Publish a split's result, merge the cluster's, and keep shared memory until all CTAs have read it."""
        Partial(consumer).run()
        Merge(consumer.cta).run(consumer.thread.warp)
        sync_ctas(self.config.splits)

    @cute.jit
    def prologue(self, warp: Any, bars: Barriers, copies: Copies) -> None:
        """Prefetch tensor maps, initialize mbarriers, and synchronize."""
        self.initialize(warp, bars, copies)
        sync_ctas(self.config.loading_ctas)  # other CTAs that split keys meet before they merge
