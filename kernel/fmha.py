"""All device code: attention of one or two row tiles over many KV tiles on the tensor cores of sm_100a.

A CTA owns block_m rows of one sequence (rows are query tokens times heads, packed), or of one token where tokens list
keys of their own. Columns of tensor memory, fp32 a column:

    head_dim 64    |  S0 128  |  S1 128  |  O 64  | P0 64 | P1 64 |                 448 used
      two tiles    |  S0 128  |  S1 128  |  O0 64 | O1 64 | P0 64 | P1 64 |         512 used
    head_dim 128   |  S0 128  |  S1 128  |  O 128         | P0 64 | P1 64 |         512 used
      two tiles    |  S0 P0 128  |  S1 P1 128  |  O0 128  |  O1 128  |              512 used
    head_dim 256   |  S0 64  |  S1 64  |  O 256           | P0 32 | P1 32 |         448 used
    head_dim 512   |  S0 64  |  S1 64  |  O 256           |                         384 used

A lane is a row, up to head_dim 256. At 512 a CTA has 64 rows, and two softmax threads share a row. By itself it has 16
in each quarter of the lanes: the quarter's lanes 0-15 hold S and O's columns 0-255 of its rows, its lanes 16-31 O's
columns 256-511 of the same rows. Where one MMA is of two CTAs, lanes 0-63 hold its rows, with the first 64 keys of S
and O's columns 0-255, and lanes 64-127 the same rows with the rest. P goes through shared memory at 512, and wherever
p_path asks for it.

Warp roles and the mbarriers between them. Tile i of the keys uses stage i % 2 of S, P and O's barriers; with two row
tiles each has a stage of its own, eight softmax warps (0-7) and mma and load after them (8, 9):

    load (5)     --q_full, kv_full-->   mma (4)              K0 K1 V0 K2 V1 ...   (K0 K1 K2 ... when V is K)
                 <-----kv_empty------                        from both CTAs where a pair shares its loads
    load         -----tail_full----->   load                 a last tile with poisoned keys: cleared, then kv_full
    mma          ------s_full------->   softmax (0-3)        S[i] = Q K[i]' is in tensor memory
                 <-----p_full--------                        a part of P[i] is staged and O fits its maximum
                 ------o_done------->                        O += P[i] V[i] has happened
                 <----tmem_free------                        O was read; the columns go back

The mma warp issues S[i+1] before it waits for P[i]: the softmax of one tile runs while the logits of the next are
computed. S[i+2] may overwrite S[i] without a barrier of its own: it is issued after P[i]V[i], which waits for
p_full, and whoever arrives there has read S[i]. Where the ring holds two tiles and V is K (head_dim 512), K[i+2] takes
the room of K[i] and is not there before P[i] V[i] has happened: then the order is S0 S1 PV0 PV1 S2 S3 ..., so that
P[i+1] V[i+1] does not wait behind the load of K[i+2], and two loads are under way at once.

Two row tiles take turns: S0[i+1] follows P0[i] V[i], whose columns it may overwrite, then P1[i] V[i] and S1[i+1], so
one tile is in softmax while the other has the tensor core. The ring holds K0 V0 K1 V1 ... then.

Where one MMA is of two CTAs (head_dim 512, rows in pairs of 64, V is K: sm100/pair.py), a CTA takes row tile after row
tile, and the mma warp of the pair's first CTA works for both:

    load (4-7)   --q_full, k_full--->   mma (12)             of both CTAs; a unit of K, four a tile
    values (8-11)  --v_full--------->   mma                  of both CTAs; a unit of V, four a tile
                 <k_empty, v_empty---                        to both CTAs
    load         <----q_empty--------   mma                  the row tile's last S has happened
    values       -----tail_full----->   values               a unit of V with poisoned keys: cleared, then v_full
    mma          --s_full, o_done--->   softmax (0-3)        to both CTAs
                 <p_full, tmem_free--                        from both CTAs: the next row tile's O may be written
    softmax      --named barriers 1, 2-->  softmax           maximum and sum of a row, between warps 0 and 2, 1 and 3

The window's tiles come first, then those of the compressed keys: one loop, one running softmax, and O is touched once
more only where the maximum moves. The sink joins at the end.

Where the keys of a row tile are split, the CTAs of a cluster have a share of its KV tiles each, and these roles. Then
the softmax warps leave U, maxima and sums in shared memory, where Q and the keys lay. All warps of the cluster meet,
each CTA merges its rows out of all shares in the order of the keys, and all meet again before they end.

Why it is so: docs/kernel.md.
"""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.arguments import Arguments, Operands
from kernel.config import OTHER_REGISTERS, SOFTMAX_REGISTERS, FmhaConfig
from kernel.sm100 import operands
from kernel.sm100.barriers import Barriers
from kernel.sm100.combine import Combine, Partial
from kernel.sm100.cta import Cta, Fragments, RowTiles, Smem
from kernel.sm100.epilogue import Epilogue
from kernel.sm100.load import LoadWarp
from kernel.sm100.mma import MmaWarp
from kernel.sm100.pair import Pair
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
        """A CTA for every row tile of every group."""
        config = self.config
        mmas = operands.tiled_mmas(config)
        smem = operands.smem_layouts(config, mmas)
        loads = operands.loads(config, tensors, args.topk_indices, mmas, smem)
        stores = operands.stores(config, tensors)
        ctas = cute.ceil_div(tensors.q.shape[1], config.block_m) * tensors.q.shape[0] * config.splits
        if const_expr(args.ctas is not None):
            ctas = Int32(smaller(ctas, args.ctas))
        self.device(mmas, smem, loads, stores, args).launch(
            grid=[ctas, 1, 1],
            block=[config.roles.threads, 1, 1],
            cluster=[config.cluster_ctas, 1, 1],
            min_blocks_per_mp=1,
            stream=stream,
        )

    @cute.kernel
    def device(
        self,
        mmas: operands.TiledMmas,
        layouts: operands.SmemLayouts,
        loads: operands.Loads | operands.PairLoads,
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
        if const_expr(config.mma_ctas == 2):
            Pair(tiles, loads, stores).run(warp)
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            tile, split = self.place()
            self.one_row_tile(tiles.at(tile, split=split), loads, stores, args, warp)
        if warp == roles.mma[0]:
            if const_expr(config.mma_ctas == 1):
                bars.wait("tmem_free", 0, 0)
            cute.arch.relinquish_tmem_alloc_permit(config.mma_ctas == 2)
            cute.arch.dealloc_tmem(tmem, config.tmem_alloc_cols, config.mma_ctas == 2)

    @cute.jit
    def one_row_tile(
        self,
        cta: Cta,
        loads: operands.Loads,
        stores: operands.Stores | operands.Results,
        args: Arguments,
        warp: Any,
    ) -> None:
        """The roles of a CTA that has a row tile of its own."""
        config, roles = self.config, self.config.roles
        if roles.is_softmax(warp):
            if const_expr(config.row_tiles == 2):
                cute.arch.setmaxregister_increase(SOFTMAX_REGISTERS)
            thread = RowThread.of(cta.fragments, config)
            running = RunningSoftmax.start(args.scale_log2, config.threads_per_row)
            self.trace("tLtS", thread.tLtS)
            self.trace("tLcS", thread.tLcS)
            SoftmaxWarps(cta, thread, running).run()
            if const_expr(config.splits > 1):
                Partial(cta, thread, running).run()
            else:
                Epilogue(cta, thread, running, stores, args).run()
        else:
            if const_expr(config.row_tiles == 2):
                cute.arch.setmaxregister_decrease(OTHER_REGISTERS)
            if warp == roles.load[0]:
                LoadWarp(cta, loads).run()
            if warp == roles.mma[0]:
                MmaWarp(cta).run()
        if const_expr(config.splits > 1):
            Combine(cta, args, stores).run(warp)

    def place(self) -> tuple[Any, Any]:
        """Number of the CTA's row tile in the grid, and which share of its keys the CTA has."""
        config, (block, _, _) = self.config, cute.arch.block_idx()
        if config.splits == 1:
            return block, 0
        rank = cute.arch.block_idx_in_cluster()
        tile = block // config.cluster_ctas * config.cluster + rank % config.cluster
        return tile, rank // config.cluster

    @cute.jit
    def prologue(
        self,
        warp: Any,
        bars: Barriers,
        tmem_slot: cute.Pointer,
        loads: operands.Loads | operands.PairLoads,
        stores: operands.Stores | operands.Results,
    ) -> None:
        """Tensor maps, mbarriers, tensor memory; the barrier of the whole CTA, or pair, stands at its end."""
        config, roles = self.config, self.config.roles
        if warp == roles.load[0]:
            for tma in loads if config.splits > 1 else (*loads, stores.o):
                if const_expr(tma is not None):
                    cpasync.prefetch_descriptor(tma[0])
        if warp == roles.softmax[0]:
            with cute.arch.elect_one():
                bars.init()
            cute.arch.mbarrier_init_fence()
        if warp == roles.mma[0]:
            cute.arch.alloc_tmem(config.tmem_alloc_cols, tmem_slot, config.mma_ctas == 2)
        if const_expr(config.cluster == 2):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    def trace_fragments(self, fragments: Fragments, smem: Smem, layouts: operands.SmemLayouts) -> None:
        for name in ("tSrQ", "tSrK", "tOrP", "tOrV", "tStS", "tOtO"):
            self.trace(name, getattr(fragments, name))
        for name, layout in zip(("sQ", "sK", "sV"), layouts, strict=False):
            self.trace(name, layout)
        if smem.sP is not None:
            self.trace("sP", layouts.p)
            self.trace("sP_rows", by_rows(smem.sP))
