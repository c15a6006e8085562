"""Entry point of the device code: attention of row tiles over KV tiles on the tensor cores of sm_100a.

A CTA works on one row tile after another: block_m rows of a sequence, or of one token if tokens have top-k indices.
Rows are query tokens times heads, packed. A row tile is one Q tile, or two Q tiles in flight. The reasons for this
design are in docs/explanation/kernel.md. Columns of tensor memory, fp32 each:

    head_dim 64    |  S0 128  |  S1 128  |  O 64  | P0 64 | P1 64 |                 448 used
      two Q tiles  |  S0 128  |  S1 128  |  O0 64 | O1 64 | P0 64 | P1 64 |         512 used
    head_dim 128   |  S0 128  |  S1 128  |  O 128         | P0 64 | P1 64 |         512 used
      two Q tiles  |  S0 P0 128  |  S1 P1 128  |  O0 128  |  O1 128  |              512 used
    head_dim 256   |  S0 64  |  S1 64  |  O 256           | P0 32 | P1 32 |         448 used
      CTA pair     |  S0 P0 128  |  S1 P1 128  |  O 256              |              512 used
    head_dim 512   |  S0 64  |  S1 64  |  O 256           |                         384 used
      converting   |  S0 64  |  S1 64  |  O 256           |  Q, two of four slices  |  512 used

Up to head_dim 256 a lane is a row. At 512 a CTA has 64 rows, two softmax threads share a row, and P goes through shared
memory. With 1-CTA MMA each quarter of the lanes has 16 rows: its lanes 0-15 hold S and O's columns 0-255, its lanes
16-31 O's columns 256-511 of the same rows. With 2-CTA MMA lanes 0-63 hold all 64 rows with the first half of the keys
of S and O's columns 0-255, and lanes 64-127 the same rows with the rest. Q has all columns of the rows in both.

The warps and the mbarriers between them. KV tile i uses stage i % 2 of S, P and O's barriers. With two Q tiles in
flight each has a stage of its own. K and V arrive through rings of tiles, each tile in one slice or four. With 2-CTA
MMA only the leader CTA's MMA warp issues instructions; it waits for and signals both CTAs.

    queries, load --q_full, k_full-->   mma                  Q (by load if there is no queries warp), slices of K
    values       -----v_full-------->   mma                  slices of V, unless V is read as K
    values       ----rope_full------>   mma                  K's rotary columns if V lacks them, by the first warp
                 <-k_empty, v_empty--   mma                  a slice was read
                 <----rope_empty-----   mma                  QK has read the rotary columns
    queries      <----q_empty--------   mma                  the row tile's last QK has completed
    load, values -----tail_full----->   the same warp        a slice with invalid keys, which the warp clears
    mma          ------s_full------->   softmax              S[i] = Q K[i]' is in tensor memory
                 <-----p_full--------                        a part of P[i] is stored, and O refers to its maximum
                 ------o_done------->                        O += P[i] V[i] has completed
    softmax      --named barriers 1, 2-->  softmax           CTA pair at 512: warps 0 and 2, 1 and 3, which share rows

No "S empty" barrier is needed: QK[i+2] is issued after PV[i], PV[i] waits for p_full, and softmax arrives there only
after it has read S[i]. The same holds for P, and for O of the row tile before. If a row tile sees no key, only softmax
works on it. With split keys the CTAs of a cluster divide a row tile's KV tiles and leave U, maxima and sums in the
buffers of Q and the keys. All warps of the cluster synchronize, merge rows from all partial results, and synchronize
again, because a CTA's shared memory must exist until its peers have read it.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32, const_expr
from cutlass.cute.nvgpu import cpasync
from cutlass.experimental import primitives

from kernel.arguments import Arguments, Operands
from kernel.config import FmhaConfig, Ring
from kernel.roles import has_role
from kernel.sm100 import operands
from kernel.sm100.barriers import Barriers, sync_ctas
from kernel.sm100.combine import Combine, Partial
from kernel.sm100.cta import Cta, Fragments, Smem
from kernel.sm100.dequantise import QuantisedWarp
from kernel.sm100.epilogue import Epilogue
from kernel.sm100.load import CacheWarp, LoadWarp, RopeWarp, load, load_q
from kernel.sm100.mma import multiply
from kernel.sm100.pair_load import KeysWarp, PairValuesWarp
from kernel.sm100.softmax import RowThread, RunningSoftmax, SoftmaxWarp, p_rows
from kernel.sm100.tiles import smaller


def load_role(config: FmhaConfig, ring: Ring | None) -> type[LoadWarp]:
    """Return the kind of warp that loads the keys of a ring."""
    if ring is None:
        return LoadWarp  # it loads no keys
    if ring.name == "rope":
        return RopeWarp
    if config.converts_in_pair:
        return KeysWarp if ring.name == "k" else PairValuesWarp
    layout = config.caches[0].layout if config.caches else None
    return {None: LoadWarp, "bf16": CacheWarp, "v32": QuantisedWarp}[layout]


class Fmha:
    """The kernel of one FmhaConfig: `launch` gets compiled, `layouts` lists the layouts seen while tracing."""

    def __init__(self, config: FmhaConfig) -> None:
        self.config = config
        self.layouts: list[str] = []

    def trace(self, **tensors: Any) -> None:
        """Record shapes and layouts for CompiledFmha.layouts."""
        self.layouts += [f"{name:<10} {getattr(tensor, 'layout', tensor)}" for name, tensor in tensors.items()]

    @cute.jit
    def launch(self, tensors: Operands, args: Arguments, stream: CUstream) -> None:
        """Launch a CTA, CTA pair or cluster per row tile, but no more CTAs than `args.ctas` unless keys are split."""
        config = self.config
        if const_expr(config.caches):
            args = operands.grouped(args)
        mma_tiles = cute.ceil_div(tensors.q.shape[-2], config.mma_ctas * config.block_m)
        ctas = mma_tiles * cute.size(args.lse, mode=[0]) * config.cluster_ctas
        ctas = Int32(smaller(ctas, args.ctas)) if config.splits == 1 else ctas
        self.device(operands.products(config), operands.copies(config, tensors), args).launch(
            grid=[ctas, 1, 1],
            block=[config.threads, 1, 1],
            cluster=[config.cluster_ctas, 1, 1],
            min_blocks_per_mp=1,
            stream=stream,
        )

    @cute.kernel
    def device(self, products: operands.Products, copies: operands.Copies, args: Arguments) -> None:
        """Run the role of each warp for all row tiles of the CTA."""
        config = self.config
        roles = self.config.roles
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        # 1. Set up shared memory, barriers and tensor memory.
        smem = Smem(config, products)
        bars = Barriers(config, smem.barriers)
        self.prologue(warp, bars, smem.tmem_slot, copies)
        tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, smem.tmem_slot)
        cta = Cta(config, bars, smem, Fragments(config, products, smem, tmem), copies, args)
        # 2. Run the roles. Softmax warps take registers that others give up.
        if has_role(roles.softmax, warp):
            if const_expr(config.variant.registers is not None):
                cute.arch.setmaxregister_increase(config.variant.registers[0])
            self.softmax(cta)
        else:
            self.beside_softmax(cta, warp)
        # 3. Merge the partial results of split keys.
        if const_expr(config.splits > 1):
            Combine(cta.at_row_tile(cta.row_tile_range[0])).run(warp)
        # 4. Release tensor memory once no warp of the cluster uses it.
        primitives.tcgen05_fence("before_thread_sync")
        sync_ctas(config.cluster_ctas)
        if warp == roles.mma[0]:
            primitives.tcgen05_fence("after_thread_sync")
            cute.arch.relinquish_tmem_alloc_permit(config.mma_ctas == 2)
            cute.arch.dealloc_tmem(tmem, config.tmem.alloc_cols, config.mma_ctas == 2)

    @cute.jit
    def beside_softmax(self, cta: Cta, warp: Any) -> None:
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
                load(cta, ring, warp - warps[0], load_role(self.config, ring), load_q)

    @cute.jit
    def multiply(self, cta: Cta, warp: Any) -> None:
        """Run a warp that may be the MMA warp, with 2-CTA MMA that of the leader CTA."""
        config = self.config
        if warp == config.roles.mma[0] and (
            config.mma_ctas == 1 or cute.arch.block_idx_in_cluster() == config.variant.leader
        ):
            multiply(cta)

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
            facts = config.variant.threads_per_row, thread.index, cta.smem.sMax, config.maxima, not config.quantised
            running = RunningSoftmax(cta.args.scale_log2, *facts)
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
    def prologue(self, warp: Any, bars: Barriers, tmem_slot: cute.Pointer, copies: operands.Copies) -> None:
        """Prefetch the tensor maps, initialize the mbarriers, allocate tensor memory, and synchronize."""
        config = self.config
        roles = self.config.roles
        if warp == roles.load[0]:
            stores = (copies.o, copies.u) if config.stores_by_tma else ()
            for tma in (copies.q, *copies.window, *copies.compressed, *stores):
                if const_expr(tma is not None):
                    cpasync.prefetch_descriptor(tma[0])
        if warp == roles.softmax[0]:
            with cute.arch.elect_one():
                bars.init()
            cute.arch.mbarrier_init_fence()
        if const_expr(config.mma_ctas == 2):  # the allocation is for both CTAs: both must run
            sync_ctas(config.mma_ctas)
        if warp == roles.mma[0]:
            cute.arch.alloc_tmem(config.tmem.alloc_cols, tmem_slot, config.mma_ctas == 2)
        cute.arch.sync_threads()  # the peer's allocation comes before its loads, which the first MMA waits for
