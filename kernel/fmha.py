"""All device code: attention of one or two row tiles over many KV tiles on the tensor cores of sm_100a.

A CTA owns block_m rows of one sequence (rows are query tokens times heads, packed), or of one token where tokens list
keys of their own. Columns of tensor memory, fp32 a column:

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
and O's columns 0-255, and lanes 64-127 the same rows with the rest. P goes through shared memory at 512, and wherever
p_path asks for it.

A CTA takes row tile after row tile, as many apart as the grid has CTAs. Its warps and the mbarriers between them: tile
i of the keys uses stage i % 2 of S, P and O's barriers; with two row tiles each has a stage of its own, and eight
softmax warps. K and V come by rings of tiles, in one unit or four. Where one MMA is of two CTAs, the mma warp
of the pair's first works for both: what goes to mma comes from both CTAs, and what mma says goes to both.

    load         --q_full, k_full--->   mma                  Q of a row tile, units of K
    values       -----v_full-------->   mma                  units of V; K's are V where V is K and the MMA of one CTA
                 <-k_empty, v_empty--   mma                  a unit was read
    load         <----q_empty--------   mma                  the row tile's last S has happened
    load, values -----tail_full----->   the same warp        a unit with poisoned keys: cleared, then k_full or v_full
    mma          ------s_full------->   softmax              S[i] = Q K[i]' is in tensor memory
                 <-----p_full--------                        a part of P[i] is staged and O fits its maximum
                 ------o_done------->                        O += P[i] V[i] has happened
                 <----tmem_free------                        O was read: the next row tile's may be written
    softmax      --named barriers 1, 2-->  softmax           of a pair at 512: of a row, between warps 0 and 2, 1 and 3

The mma warp issues S[i+1] before it waits for P[i]: the softmax of one tile runs while the logits of the next are
computed. S[i+2] may overwrite S[i], and P[i+2] P[i], without a barrier of its own: it is issued after P[i]V[i], which
waits for p_full, and whoever arrives there has read S[i]. Two row tiles take turns: S0[i+1] follows P0[i] V[i], whose
columns it may overwrite, then P1[i] V[i] and S1[i+1], so one tile is in softmax while the other has the tensor core.
Where V is K and the ring holds two tiles, K[i+2] takes the room of K[i] and is not there before P[i] V[i] has happened:
then the order is S0 S1 PV0 PV1 S2 S3 ..., S1 and PV0 unit by unit in turn, and two loads are under way at once.

The window's tiles come first, then those of the compressed keys: one loop, one running softmax, and O is touched once
more only where the maximum moves. The sink joins at the end. A row tile that sees no key passes by all but softmax.

Where the keys of a row tile are split, the CTAs of a cluster have a share of its KV tiles each, and these roles. Then
the softmax warps leave U, maxima and sums in shared memory, where Q and the keys lay. All warps of the cluster meet,
each CTA merges its rows out of all shares in the order of the keys, and all meet again before they end.

Why it is so: docs/kernel.md.
"""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.arguments import Arguments, Operands
from kernel.config import FmhaConfig, among
from kernel.sm100 import operands
from kernel.sm100.barriers import Barriers
from kernel.sm100.combine import Combine, Partial
from kernel.sm100.cta import Fragments, RowTiles, Smem
from kernel.sm100.epilogue import Epilogue
from kernel.sm100.load import load
from kernel.sm100.mma import multiply
from kernel.sm100.softmax import RowThread, RunningSoftmax, SoftmaxWarps, by_rows
from kernel.sm100.traced import smaller


class Fmha:
    """The kernel of one FmhaConfig: `launch` is what gets compiled, `layouts` what its tracing saw."""

    def __init__(self, config: FmhaConfig) -> None:
        self.config = config
        self.layouts: list[str] = []

    def trace(self, name: str, tensor: Any) -> None:
        """Remember the shape and layout of `tensor` for CompiledFmha.layouts."""
        self.layouts.append(f"{name:<10} {getattr(tensor, 'layout', tensor)}")

    @cute.jit
    def launch(self, tensors: Operands, args: Arguments, stream: CUstream) -> None:
        """A CTA, or a cluster, for every row tile of every group, and not more of them than the chip has SMs."""
        config = self.config
        mmas = operands.tiled_mmas(config)
        smem = operands.smem_layouts(config, mmas)
        loads = operands.loads(config, tensors, args.topk_indices)
        stores = operands.stores(config, tensors)
        clusters = cute.ceil_div(tensors.q.shape[1], config.mma_ctas * config.block_m) * tensors.q.shape[0]
        ctas = clusters * config.cluster_ctas
        if const_expr(config.splits == 1):
            ctas = Int32(smaller(ctas, args.ctas))
        self.device(mmas, smem, loads, stores, args).launch(
            grid=[ctas, 1, 1],
            block=[config.threads, 1, 1],
            cluster=[config.cluster_ctas, 1, 1],
            min_blocks_per_mp=1,
            stream=stream,
        )

    @cute.kernel
    def device(
        self,
        mmas: operands.TiledMmas,
        layouts: operands.SmemLayouts,
        loads: operands.Loads,
        stores: operands.Stores | operands.Results,
        args: Arguments,
    ) -> None:
        config, roles = self.config, self.config.roles
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = Smem.allocate(config, layouts)
        bars = Barriers(config, smem.barriers)
        self.prologue(warp, bars, smem.tmem_slot, loads, stores)
        tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, smem.tmem_slot)
        fragments = Fragments.of(config, mmas, smem, layouts.p, tmem)
        self.trace_fragments(fragments, smem, layouts)
        tiles = RowTiles(config, bars, smem, fragments, args, self.trace)
        if roles.is_softmax(warp):
            if const_expr(roles.registers is not None):
                cute.arch.setmaxregister_increase(roles.registers[0])
            self.softmax(tiles, stores)
        else:
            if const_expr(roles.registers is not None):
                cute.arch.setmaxregister_decrease(roles.registers[1])
            for of_v, warps in config.loaders:
                if among(warps, warp):
                    load(tiles, loads, of_v, warp - warps[0])
            if warp == roles.mma[0] and (config.mma_ctas == 1 or cute.arch.block_idx_in_cluster() == config.leader):
                multiply(tiles)
        if const_expr(config.splits > 1):
            Combine(tiles.at(tiles.numbers[0]), args, stores).run(warp)
        self.meet()
        if warp == roles.mma[0]:
            cute.arch.relinquish_tmem_alloc_permit(config.mma_ctas == 2)
            cute.arch.dealloc_tmem(tmem, config.tmem_alloc_cols, config.mma_ctas == 2)

    @cute.jit
    def softmax(self, tiles: RowTiles, stores: operands.Stores | operands.Results) -> None:
        """The softmax warps at all row tiles of the CTA, and what they leave of each."""
        config, smem, args = self.config, tiles.smem, tiles.args
        thread = RowThread.of(tiles.fragments, config)
        self.trace("tLtS", thread.tLtS)
        self.trace("tLcS", thread.tLcS)
        turn = Int32(0)
        first, end, step = tiles.numbers
        for number in cutlass.range(first, end, step, unroll=1):
            cta = tiles.at(number, turn)
            running = RunningSoftmax.start(args.scale_log2, config.threads_per_row, thread.index, smem.sMax)
            SoftmaxWarps(cta, thread, running).run()
            if const_expr(config.splits > 1):
                Partial(cta, thread, running).run()
            else:
                Epilogue(cta, thread, running, stores, args).run()
            if const_expr(config.halves_apart):
                running.meet()  # the sums were read before the next row tile's turns begin
            turn += cta.kv_tiles.count

    def meet(self) -> None:
        """All threads of the CTA, or of both that one MMA is of."""
        if self.config.mma_ctas == 2:
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    @cute.jit
    def prologue(
        self,
        warp: Any,
        bars: Barriers,
        tmem_slot: cute.Pointer,
        loads: operands.Loads,
        stores: operands.Stores | operands.Results,
    ) -> None:
        """Tensor maps, mbarriers, tensor memory; the barrier of the whole CTA, or pair, stands at its end."""
        config, roles = self.config, self.config.roles
        if warp == roles.load[0]:
            for tma in loads.all if config.splits > 1 else [*loads.all, *stores]:
                if const_expr(tma is not None):
                    cpasync.prefetch_descriptor(tma[0])
        if warp == roles.softmax[0]:
            with cute.arch.elect_one():
                bars.init()
            cute.arch.mbarrier_init_fence()
        if warp == roles.mma[0]:
            cute.arch.alloc_tmem(config.tmem_alloc_cols, tmem_slot, config.mma_ctas == 2)
        self.meet()

    def trace_fragments(self, fragments: Fragments, smem: Smem, layouts: operands.SmemLayouts) -> None:
        for name in ("tSrQ", "tSrK", "tOrP", "tOrV", "tStS", "tOtO"):
            self.trace(name, getattr(fragments, name))
        for name, layout in zip(("sQ", "sK", "sV"), layouts, strict=False):
            self.trace(name, layout)
        if smem.sP is not None:
            self.trace("sP", layouts.p)
            self.trace("sP_rows", by_rows(smem.sP)[None, None, 0])
