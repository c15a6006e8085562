"""The kernel of sm_100a. kernel/fmha.py draws tensor memory, the warps and the mbarriers between them."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr
from cutlass.experimental import primitives

from kernel.arguments import Arguments
from kernel.device.barriers import sync_ctas
from kernel.device.config import Ring, has_role
from kernel.device.convert import KeysWarp
from kernel.device.cta import Cta
from kernel.device.dequantise import QuantisedWarp
from kernel.device.load import GatherWarp, LoadWarp, RopeWarp, load_q
from kernel.device.operands import Copies
from kernel.fmha import Fmha
from kernel.sm100.barriers import TensorBarriers
from kernel.sm100.combine import Merge, Partial
from kernel.sm100.epilogue import Epilogue
from kernel.sm100.load import load
from kernel.sm100.mma import MmaWarp, multiply
from kernel.sm100.operands import Fragments, Products, Smem, products
from kernel.sm100.pair_load import PairValuesWarp
from kernel.sm100.softmax import RowSoftmax, RowThread, SoftmaxWarp, p_rows


class Blackwell(Fmha):
    """The kernel of one FmhaConfig: keys are the N of the first product."""

    load_q = staticmethod(load_q)
    mma_warp: type[MmaWarp] = MmaWarp

    def products(self) -> Products | None:
        """Return the tiled MMAs of both products."""
        return products(self.config)

    def load_role(self, ring: Ring | None) -> type[LoadWarp]:
        """Return the kind of warp that loads the keys of a ring."""
        config = self.config
        if ring is None:
            return LoadWarp  # it loads no keys
        if ring.name == "rope":
            return RopeWarp
        if config.converts_in_pair:
            return KeysWarp if ring.name == "k" else PairValuesWarp
        if config.quantised:
            return QuantisedWarp
        return GatherWarp if config.by_token else LoadWarp

    def memory(self, products: Products | None) -> Any:
        """Return the buffers of shared memory."""
        return Smem(self.config, products)

    def fragments(self, products: Products | None, smem: Any, tmem: Any) -> Any:
        """Return the operands of both products; tmem: the first column of tensor memory that the CTA allocated."""
        return Fragments(self.config, products, smem, tmem)

    @cute.kernel
    def device(self, products: Products | None, copies: Copies, args: Arguments) -> None:
        """Run the role of each warp for all row tiles of the CTA."""
        config = self.config
        roles = self.config.roles
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        # 1. Set up shared memory, barriers and tensor memory.
        smem = self.memory(products)
        bars = TensorBarriers(config, smem.barriers)
        self.prologue(warp, bars, smem.tmem_slot, copies)
        tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, smem.tmem_slot)
        cta = Cta(config, bars, smem, self.fragments(products, smem, tmem), copies, args)
        # 2. Run the roles. Softmax warps take registers that others give up.
        if has_role(roles.softmax, warp):
            if const_expr(config.variant.registers is not None):
                cute.arch.setmaxregister_increase(config.variant.registers[0])
            self.softmax(cta)
        else:
            self.run_other_roles(cta, warp)
        # 3. Merge the partial results of split keys.
        if const_expr(config.splits > 1):
            Merge(cta.at_row_tile(cta.row_tile_range[0])).run(warp)
        # 4. Release tensor memory once no warp of the cluster uses it.
        primitives.tcgen05_fence("before_thread_sync")
        sync_ctas(config.cluster_ctas)
        if warp == roles.mma[0]:
            primitives.tcgen05_fence("after_thread_sync")
            cute.arch.relinquish_tmem_alloc_permit(config.mma_ctas == 2)
            cute.arch.dealloc_tmem(tmem, config.tmem.alloc_cols, config.mma_ctas == 2)

    @cute.jit
    def run_other_roles(self, cta: Cta, warp: Any) -> None:
        """Run a warp that is not one of softmax. Load warps that convert keys keep more registers than the others."""
        config = self.config
        registers = config.variant.registers
        if const_expr(config.converts_in_pair):
            if warp < config.roles.mma[0]:
                cute.arch.setmaxregister_increase(registers[2])
                self.load(cta, warp, config.loaders[:-1])
            else:
                cute.arch.setmaxregister_decrease(registers[1])
                self.load(cta, warp, config.loaders[-1:])
                self.multiply(cta, warp)
        else:
            if const_expr(registers is not None):
                cute.arch.setmaxregister_decrease(registers[1])
            self.load(cta, warp, config.loaders)
            self.multiply(cta, warp)

    @cute.jit
    def load(
        self, cta: Cta, warp: Any, loaders: cutlass.Constexpr[tuple[tuple[tuple[int, ...], Ring | None], ...]]
    ) -> None:
        """Run a warp that may be one of some groups of load warps."""
        for warps, ring in loaders:
            if has_role(warps, warp):
                load(cta, ring, warp - warps[0], self.load_role(ring), self.load_q)

    @cute.jit
    def multiply(self, cta: Cta, warp: Any) -> None:
        """Run a warp that may be the MMA warp, with 2-CTA MMA that of the leader CTA."""
        config = self.config
        if warp == config.roles.mma[0] and (
            config.mma_ctas == 1 or cute.arch.block_idx_in_cluster() == config.variant.leader
        ):
            multiply(cta, self.mma_warp)

    @cute.jit
    def softmax(self, cta: Cta) -> None:
        """Run a softmax warp for all row tiles of the CTA: P of each KV tile, then the results."""
        config = self.config
        thread = RowThread(cta.fragments, self.config)
        products = cta.fragments.products
        self.trace(tLtS=thread.tLtS, tLcS=thread.tLcS, **{k: v for k, v in vars(cta.fragments).items() if k[0] == "t"})
        if const_expr(config.p_path == "smem"):
            self.trace(sP=products.p, sP_rows=p_rows(cta)[None, None, 0])
        kv_done = Int32(0)
        first, end, step = cta.row_tile_range
        for number in cutlass.range(first, end, step, unroll=1):
            at = cta.at_row_tile(number, kv_done)
            # 1. Compute P of all KV tiles.
            facts = config.maxima, config.variant.threads_per_row, thread.index, cta.smem.sMax, not config.quantised
            running = RowSoftmax(cta.args.scale_log2, *facts)
            SoftmaxWarp(at, thread, running).run()
            # 2. Publish a partial result to the cluster, or store the results.
            if const_expr(config.splits > 1):
                Partial(at, thread, running).run()
            else:
                Epilogue(at, thread, running).run()
            # 3. Reuse the exchange buffers only when both warps of a row have read the sums.
            if const_expr(config.variant.row_spans_warps):
                running.sync_row_warps()
            kv_done += at.kv_tiles.count
        # 4. Wait until TMA has read the staging buffer: it must exist until then.
        cute.arch.cp_async_bulk_wait_group(0, read=True)

    @cute.jit
    def prologue(self, warp: Any, bars: TensorBarriers, tmem_slot: cute.Pointer, copies: Copies) -> None:
        """Prefetch the tensor maps, initialize the mbarriers, allocate tensor memory, and synchronize."""
        config = self.config
        self.initialize(warp, bars, copies)
        if const_expr(config.mma_ctas == 2):  # the allocation is for both CTAs: both must run
            sync_ctas(config.mma_ctas)
        if warp == config.roles.mma[0]:
            cute.arch.alloc_tmem(config.tmem.alloc_cols, tmem_slot, config.mma_ctas == 2)
        cute.arch.sync_threads()  # the peer's allocation comes before its loads, which the first MMA waits for
