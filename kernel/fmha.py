"""All device code: attention of one or two row tiles over many KV tiles on the tensor cores of sm_100a.

A CTA owns block_m rows of one sequence (rows are query tokens times heads, packed), or of one token where tokens list
keys of their own. Why it is so: docs/explanation/kernel.md. Columns of tensor memory, fp32 a column:

    head_dim 64    |  S0 128  |  S1 128  |  O 64  | P0 64 | P1 64 |                 448 used
      two tiles    |  S0 128  |  S1 128  |  O0 64 | O1 64 | P0 64 | P1 64 |         512 used
    head_dim 128   |  S0 128  |  S1 128  |  O 128         | P0 64 | P1 64 |         512 used
      two tiles    |  S0 P0 128  |  S1 P1 128  |  O0 128  |  O1 128  |              512 used
    head_dim 256   |  S0 64  |  S1 64  |  O 256           | P0 32 | P1 32 |         448 used
      of a pair    |  S0 P0 128  |  S1 P1 128  |  O 256              |              512 used
    head_dim 512   |  S0 64  |  S1 64  |  O 256           |                         384 used

A lane is a row, up to head_dim 256. At 512 a CTA has 64 rows, and two softmax threads share a row. By itself it has 16
in each quarter of the lanes: the quarter's lanes 0-15 hold S and O's columns 0-255 of its rows, its lanes 16-31 O's
columns 256-511 of the same rows. Where one MMA is of two CTAs, lanes 0-63 hold its rows, with the first 64 keys of S
and O's columns 0-255, and lanes 64-127 the same rows with the rest. There P goes through shared memory.

A CTA takes row tile after row tile. Its warps and the mbarriers between them: tile i of the keys uses stage i % 2 of S,
P and O's barriers, or with two row tiles each has a stage of its own. K and V come by rings of tiles, in one unit or
four. Where one MMA is of two CTAs, the mma warp of the pair's first works for both and hears and tells both.

    queries, load --q_full, k_full-->   mma                  Q (by load, where it has no warp), units of K
    values       -----v_full-------->   mma                  units of V; K's are V where V is K and the MMA of one CTA
                 <-k_empty, v_empty--   mma                  a unit was read
    queries      <----q_empty--------   mma                  the row tile's last S has happened
    load, values -----tail_full----->   the same warp        a unit with poisoned keys: cleared, then k_full or v_full
    mma          ------s_full------->   softmax              S[i] = Q K[i]' is in tensor memory
                 <-----p_full--------                        a part of P[i] is staged and O fits its maximum
                 ------o_done------->                        O += P[i] V[i] has happened
    softmax      --named barriers 1, 2-->  softmax           of a pair at 512: of a row, between warps 0 and 2, 1 and 3

S[i+2] may overwrite S[i], and P[i+2] P[i], without a barrier of its own: it is issued after P[i]V[i], which waits for
p_full, and whoever arrives there has read S[i], and O of the row tile before. A row tile that sees no key passes by all
but softmax. Where keys are split, the CTAs of a cluster have a share of a row tile's KV tiles each, and leave U, maxima
and sums where Q and the keys lay. All warps of the cluster meet, merge rows out of all shares, and meet again.
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
from kernel.config import FmhaConfig, among
from kernel.sm100 import operands
from kernel.sm100.barriers import Barriers, meet
from kernel.sm100.combine import Combine, Partial
from kernel.sm100.cta import Cta, Fragments, Smem
from kernel.sm100.epilogue import Epilogue
from kernel.sm100.load import load
from kernel.sm100.mma import multiply
from kernel.sm100.softmax import RowThread, RunningSoftmax, SoftmaxWarp, p_rows
from kernel.sm100.tiles import smaller


class Fmha:
    """The kernel of one FmhaConfig: `launch` is what gets compiled, `layouts` what its tracing saw."""

    def __init__(self, config: FmhaConfig) -> None:
        self.config = config
        self.layouts: list[str] = []

    def trace(self, **tensors: Any) -> None:
        """Remember their shapes and layouts for CompiledFmha.layouts."""
        self.layouts += [f"{name:<10} {getattr(tensor, 'layout', tensor)}" for name, tensor in tensors.items()]

    @cute.jit
    def launch(self, tensors: Operands, args: Arguments, stream: CUstream) -> None:
        """A CTA, or a cluster, for every row tile of every group, and not more of them than the chip has SMs."""
        config = self.config
        pairs = cute.ceil_div(tensors.q.shape[1], config.mma_ctas * config.block_m)
        ctas = pairs * tensors.q.shape[0] * config.cluster_ctas
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
        config, roles = self.config, self.config.roles
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = Smem(config, products)
        bars = Barriers(config, smem.barriers)
        self.prologue(warp, bars, smem.tmem_slot, copies)
        tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, smem.tmem_slot)
        cta = Cta(config, bars, smem, Fragments(config, products, smem, tmem), copies, args)
        if roles.is_softmax(warp):
            if const_expr(roles.registers is not None):
                cute.arch.setmaxregister_increase(roles.registers[0])
            self.softmax(cta)
        else:
            if const_expr(roles.registers is not None):
                cute.arch.setmaxregister_decrease(roles.registers[1])
            for warps, ring in config.loads:
                if among(warps, warp):
                    load(cta, ring, warp - warps[0])
            if warp == roles.mma[0] and (config.mma_ctas == 1 or cute.arch.block_idx_in_cluster() == config.leader):
                multiply(cta)
        if const_expr(config.splits > 1):
            Combine(cta.at(cta.numbers[0])).run(warp)
        primitives.tcgen05_fence("before_thread_sync")
        meet(config.cluster_ctas)
        if warp == roles.mma[0]:
            primitives.tcgen05_fence("after_thread_sync")
            cute.arch.relinquish_tmem_alloc_permit(config.mma_ctas == 2)
            cute.arch.dealloc_tmem(tmem, config.tmem_alloc_cols, config.mma_ctas == 2)

    @cute.jit
    def softmax(self, cta: Cta) -> None:
        """The softmax warps at all row tiles of the CTA, and what they leave of each."""
        config, thread, products = self.config, RowThread(cta.fragments, self.config), cta.fragments.products
        self.trace(tLtS=thread.tLtS, tLcS=thread.tLcS, **{k: v for k, v in vars(cta.fragments).items() if k[0] == "t"})
        if const_expr(config.p_path == "smem"):
            self.trace(sP=products.p, sP_rows=p_rows(cta)[None, None, 0])
        turn, (first, end, step) = Int32(0), cta.numbers
        for number in cutlass.range(first, end, step, unroll=1):
            at = cta.at(number, turn)
            running = RunningSoftmax(cta.args.scale_log2, config.threads_per_row, thread.index, cta.smem.sMax)
            SoftmaxWarp(at, thread, running).run()
            if const_expr(config.splits > 1):
                Partial(at, thread, running).run()
            else:
                Epilogue(at, thread, running).run()
            if const_expr(config.halves_apart):
                running.meet()  # the sums were read before the next row tile's turns begin
            turn += at.kv_tiles.count
        cute.arch.cp_async_bulk_wait_group(0, read=True)

    @cute.jit
    def prologue(self, warp: Any, bars: Barriers, tmem_slot: cute.Pointer, copies: operands.Copies) -> None:
        """Tensor maps, mbarriers, tensor memory; then all meet."""
        config, roles = self.config, self.config.roles
        if warp == roles.load[0]:
            stores = () if config.splits > 1 else (copies.o, copies.u)
            for tma in (copies.q, *copies.window, *copies.compressed, *stores):
                if const_expr(tma is not None):
                    cpasync.prefetch_descriptor(tma[0])
        if warp == roles.softmax[0]:
            with cute.arch.elect_one():
                bars.init()
            cute.arch.mbarrier_init_fence()
        if warp == roles.mma[0]:
            cute.arch.alloc_tmem(config.tmem_alloc_cols, tmem_slot, config.mma_ctas == 2)
        meet(config.mma_ctas)
