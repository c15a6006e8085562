"""All device code: attention of one row tile over many KV tiles on the tensor cores of sm_100a.

A CTA owns block_m rows of one sequence (rows are query tokens times heads, packed), or of one token where tokens list
keys of their own. Columns of tensor memory, fp32 a column:

    head_dim 64    |  S0 128  |  S1 128  |  O 64  | P0 64 | P1 64 |                 448 used
    head_dim 128   |  S0 128  |  S1 128  |  O 128         | P0 64 | P1 64 |         512 used
    head_dim 256   |  S0 64  |  S1 64  |  O 256           | P0 32 | P1 32 |         448 used
    head_dim 512   |  S0 64  |  S1 64  |  O 256           |                         384 used

A lane is a row, up to head_dim 256. At 512 a CTA has 64 rows, 16 in each quarter of the lanes: the quarter's lanes
0-15 hold S and O's columns 0-255 of its rows, its lanes 16-31 O's columns 256-511 of the same rows. Two softmax
threads share such a row. P goes through shared memory there, and wherever p_path asks for it.

Warp roles and the mbarriers between them. Tile i of the keys uses stage i % 2 of S, P and O's barriers:

    load (5)     --q_full, kv_full-->   mma (4)              K0 K1 V0 K2 V1 ...   (K0 K1 K2 ... when V is K)
                 <-----kv_empty------                        from both CTAs where a pair shares its loads
    load         -----tail_full----->   load                 a last tile with poisoned keys: cleared, then kv_full
    mma          ------s_full------->   softmax (0-3)        S[i] = Q K[i]' is in tensor memory
                 <-----p_full--------                        P[i] is staged and O fits its maximum
                 ------o_done------->                        O += P[i] V[i] has happened
                 <----tmem_free------                        O was read; the columns go back

The mma warp issues S[i+1] before it waits for P[i]: the softmax of one tile runs while the logits of the next are
computed. S[i+2] may overwrite S[i] without a barrier of its own: it is issued after P[i]V[i], which waits for
p_full, and whoever arrives there has read S[i]. Where the ring holds two tiles and V is K (head_dim 512), K[i+2] takes
the room of K[i] and is not there before P[i] V[i] has happened: then the order is S0 S1 PV0 PV1 S2 S3 ..., so that
P[i+1] V[i+1] does not wait behind the load of K[i+2], and two loads are under way at once.

The window's tiles come first, then those of the compressed keys: one loop, one running softmax, and O is touched once
more only where the maximum moves. The sink joins at the end.

Why it is so. Figures are of the code that the compiler gives, or counted on the emulated device; no B200 has run it.

64 rows at head_dim 512. Tensor memory has 128 x 512 cells, which O of 128 rows fills alone. A CTA's memories, products
over the ideal, and how often a pair of CTAs (128 heads) reads a key:

    64 rows, O in both lane halves         384 columns   64 Q + 2*64 KV + 8 P KiB   1.0   once, by multicast
    128 rows, O split over two CTAs        512 columns   128 Q + 64 KV + 16 P KiB   1.5   once; no load runs ahead
    128 rows, S over a parked chunk of O   512 columns   128 Q + 64 KV + 16 P KiB   1.0   once; O moves with every tile
    128 rows, one MMA of two CTAs          320 columns   64 Q + 2*64 KV + 8 P KiB   1.0   twice: K by keys, V by columns

The last would use the whole width of the tensor core, of which 64 rows use half; the first reads half the bytes, and
decoding is bound by those. It is the one built.

Listed keys come by TMA gather. A tile of 64 keys of 512 takes 128 gathers of four rows' 128 bytes: 1,043 PTX
instructions of the load warp counted, about 720 of machine code; in a pair each CTA does half (614 PTX). Copies by
the warp itself would be 128 cp.async of 512 bytes and, by estimate, as many for addresses: fewer, but the warp would
have to wait for them and cross proxies before it may signal, could fetch no further ahead than that, and each CTA of
a pair would fetch all: 128 KiB a tile and pair against 64. A gather also writes zeros for a row outside the tensor,
which is how -1 and an index out of range read nothing.

Registers: 192 threads may have all of their 255 and take 48,960 of 65,536, and shared memory leaves room for one CTA,
so there is nothing to re-allot between roles. The most used is 218; nothing is spilled.
"""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import BFloat16, Float32, Int16, Int32, Int64, const_expr
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cutlass_dsl import extract_mlir_values, new_from_mlir_values
from cutlass.memory import SmemAllocator
from cutlass.pipeline import PipelineState, PipelineUserType, make_pipeline_state
from cutlass.utils import blackwell_helpers as sm100

from kernel.config import BF16_BYTES, MMA_N, S_STAGES, TMEM_LANES, WARP, FmhaConfig
from kernel.parts import EVERY_CTA, LOAD_COLS, PART_LANES, Barriers, Mma, Row, Softmax, stage_and_phase
from kernel.tiles import Blocks, Branches, KvTiles, ListedTiles, RowTile, Visible, larger, smaller

LN2 = math.log(2.0)
LANE = 1 << 16  # tensor-memory address of the next lane
RESCALE_LOG2 = 8.0  # O is rescaled once the maximum has moved by more: P stays below 2^8
BOX = [0, 1, 2]  # modes of an operand's shared-memory layout that one tile fills
GATHER = 4  # keys that one TMA gather brings
VECTOR = 8  # bf16 in the sixteen bytes of one shared-memory store
SWIZZLE_BYTES = 128  # width of a swizzled row of shared memory
SMEM_ALIGN = 1024  # eight swizzled rows: the period of the pattern


class Fmha:
    """The kernel of one FmhaConfig: `launch` is what gets compiled, `layouts` what its tracing saw."""

    def __init__(self, config: FmhaConfig) -> None:
        self.config = config
        self.roles = config.roles
        self.qk_tiler = (config.block_m, config.block_n, config.head_dim)
        self.pv_tiler = (config.block_m, config.head_dim, config.block_n)
        self.warp_rows = config.block_m // len(config.roles.softmax)
        self.layouts: list[str] = []

    def trace(self, name: str, tensor: Any) -> None:
        """Remember the shape and layout of `tensor` for CompiledFmha.layouts."""
        self.layouts.append(f"{name:<10} {getattr(tensor, 'layout', tensor)}")

    # Host side of the launch: views, tiled MMAs, shared-memory layouts, tensor maps.

    @cute.jit
    def launch(
        self,
        mQ: cute.Tensor,  # [G, R, D] bf16, G groups of R rows: see RowTile
        mK: cute.Tensor,  # [B, S, D] bf16
        mV: cute.Tensor,  # [B, S, D] bf16, mK again when V is K
        mO: cute.Tensor,  # [G, R, D] bf16
        mU: cute.Tensor | None,  # [G, R, D] fp32
        mLse: cute.Tensor,  # [G, R] fp32
        mMax: cute.Tensor | None,  # [G, R] fp32
        mLens: cute.Tensor | None,  # [B] int32, keys that hold something
        mC: cute.Tensor | None,  # compressed keys [B, S_c, D] bf16, or [1, B * S_c, D] where they are listed
        mPositions: cute.Tensor | None,  # [B] int32, tokens of the sequence up to the last query's
        mIndices: cute.Tensor | None,  # [G, K] int32
        mListed: cute.Tensor | None,  # [G] int32, indices that count
        mSink: cute.Tensor | None,  # [heads] fp32
        heads: Int32,
        tokens: Int32,
        keys: Int32,
        window: Int32,
        compressed_keys: Int32,
        ratio: Int32,
        scale_log2: Float32,
        stream: CUstream,
    ):
        config = self.config
        d, rows_d_b = config.head_dim, [1, 2, 0]
        q, k = self.view(mQ, rows_d_b, d, 1), self.view(mK, rows_d_b, d, 1)
        v = self.view(mV, [2, 1, 0], d, 0)
        qk, pv = self.products()
        q_smem, k_smem, v_smem, _ = layouts = self.smem_layouts(qk, pv)
        load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
        tma_q = cute.nvgpu.make_tiled_tma_atom_A(load, q, cute.select(q_smem, BOX), self.qk_tiler, qk)
        tma_k = self.keys_atom(k, k_smem, self.qk_tiler, qk)
        tma_v = self.keys_atom(v, v_smem, self.pv_tiler, pv)
        tma_c = None
        if const_expr(config.compressed == "blocks"):
            tma_c = self.keys_atom(self.view(mC, rows_d_b, d, 1), k_smem, self.qk_tiler, qk)
        if const_expr(config.compressed == "listed"):
            tma_c = self.gather_atom(self.view(mC, rows_d_b, d, 1)[None, None, 0], mIndices)
        tma_o = self.store_atom(self.view(mO, rows_d_b, d, 1))
        tma_u = None
        if const_expr(mU is not None):
            tma_u = self.store_atom(self.view(mU, rows_d_b, d, 1))
        for name, layout in (("Q", q), ("K", k), ("V", v), ("sQ", q_smem), ("sK", k_smem), ("sV", v_smem)):
            self.trace(name, layout)
        self.device(
            (qk, pv),
            (tma_q, tma_k, tma_v, tma_c),
            (tma_o, tma_u),
            (mLse, mMax, mSink),
            (mLens, mPositions, mIndices, mListed),
            (Int32(mQ.shape[1]), heads, tokens, keys, window, compressed_keys, ratio),
            scale_log2,
            layouts,
        ).launch(
            grid=[cute.ceil_div(mQ.shape[1], config.block_m) * mQ.shape[0], 1, 1],
            block=[self.roles.threads, 1, 1],
            cluster=[config.cluster, 1, 1],
            stream=stream,
        )

    def products(self) -> tuple[cute.TiledMma, cute.TiledMma]:
        """The tensor core's Q K' and P V."""
        bf16, one_cta = (BFloat16, BFloat16), tcgen05.CtaGroup.ONE
        keys_by_d, d_by_keys = (OperandMajorMode.K, OperandMajorMode.K), (OperandMajorMode.K, OperandMajorMode.MN)
        p_source = tcgen05.OperandSource.TMEM if self.config.p_path == "tmem" else tcgen05.OperandSource.SMEM
        pv_tiler = (self.config.block_m, min(self.config.head_dim, MMA_N))
        return (
            sm100.make_trivial_tiled_mma(*bf16, *keys_by_d, Float32, one_cta, self.qk_tiler[:2]),
            sm100.make_trivial_tiled_mma(*bf16, *d_by_keys, Float32, one_cta, pv_tiler, p_source),
        )

    def smem_layouts(self, qk: cute.TiledMma, pv: cute.TiledMma) -> tuple[cute.ComposedLayout, ...]:
        """Shared memory of Q, K, V and P: ((box), stage), swizzled as the tensor core wants its operands."""
        stages = self.config.kv_stages
        return (
            sm100.make_smem_layout_a(qk, self.qk_tiler, BFloat16, 1),
            sm100.make_smem_layout_b(qk, self.qk_tiler, BFloat16, stages),
            sm100.make_smem_layout_b(pv, self.pv_tiler, BFloat16, stages),
            sm100.make_smem_layout_a(pv, self.pv_tiler, BFloat16, 1),
        )

    def keys_atom(
        self, keys: cute.Tensor, smem: cute.ComposedLayout, tiler: tuple, mma: cute.TiledMma
    ) -> cpasync.TmaInfo:
        """TMA load of a KV tile, for both CTAs of a pair."""
        load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
        if self.config.cluster == 2:
            load = cpasync.CopyBulkTensorTileG2SMulticastOp(tcgen05.CtaGroup.ONE)
        pair = (1, self.config.cluster, 1, 1)
        return cute.nvgpu.make_tiled_tma_atom_B(load, keys, cute.select(smem, BOX), tiler, mma, pair)

    def view(self, tensor: cute.Tensor, order: list[int], head_dim: int, d_mode: int) -> cute.Tensor:
        """`tensor` with its modes in `order`, the head dim known and the other strides 16-byte multiples."""
        shape = [tensor.shape[i] for i in order]
        stride = [cute.assume(Int64(tensor.stride[i]), divby=8) for i in order]
        shape[d_mode], stride[d_mode] = head_dim, 1
        return cute.make_tensor(tensor.iterator, cute.make_layout(tuple(shape), stride=tuple(stride)))

    def store_layout(self, dtype: type[cutlass.Numeric]) -> cute.ComposedLayout:
        """A warp's staging of its rows for a TMA store: 128 bytes of each, swizzled."""
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, dtype)
        return cute.tile_to_shape(atom, self.store_tile(dtype), (0, 1))

    def store_tile(self, dtype: type[cutlass.Numeric]) -> tuple[int, int]:
        return self.warp_rows, SWIZZLE_BYTES * 8 // dtype.width

    def store_atom(self, tensor: cute.Tensor) -> tuple[cute.CopyAtom, cute.Tensor]:
        dtype = tensor.element_type
        return cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileS2GOp(), tensor, self.store_layout(dtype), self.store_tile(dtype)
        )

    def gather_box(self) -> cute.ComposedLayout:
        """Where a gather's GATHER keys lie in a KV tile: (key, (column, chunk)), a chunk 128 bytes of every key."""
        row = SWIZZLE_BYTES // BF16_BYTES
        chunks = self.config.head_dim // row
        layout = cute.make_layout((GATHER, (row, chunks)), stride=(row, (1, row * self.config.block_n)))
        return cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, layout)

    def gather_atom(self, keys: cute.Tensor, mIndices: cute.Tensor) -> cpasync.TmaInfo:
        """TMA load of GATHER keys [S, D] by number; of the numbers only the layout matters here."""
        d = self.config.head_dim
        numbers = cute.make_tensor(mIndices.iterator, cute.make_layout((keys.shape[0], d), stride=(1, 0)))
        gather = cpasync.CopyBulkTensor2DGather4G2SOp()
        if self.config.cluster == 2:
            gather = cpasync.CopyBulkTensor2DGather4G2SMulticastOp()
        return cpasync.make_tiled_tma_atom(gather, keys, self.gather_box(), (GATHER, d), gmem_coord_tensor=numbers)

    # The kernel.

    @cute.kernel
    def device(
        self,
        products: tuple,  # Q K' and P V
        loads: tuple,  # TMA of Q, K, V and the compressed keys
        stores: tuple,  # TMA of O and U
        stats: tuple,  # lse, m, sink
        lists: tuple,  # lengths, positions, indices, how many of those count
        sizes: tuple,
        scale_log2: Float32,
        layouts: tuple,  # shared memory of Q, K, V and P
    ):
        config, roles = self.config, self.roles
        (qk, pv), (q_smem, k_smem, v_smem, p_smem) = products, layouts
        rows, heads, tokens, keys, window, compressed_keys, ratio = sizes
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        row_tiles = cute.ceil_div(rows, config.block_m)
        block, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        bars = Barriers(config, smem.allocate_array(Int64, config.barrier_count))
        tmem_slot = smem.allocate_array(Int32, 1)
        sNumbers = None
        if const_expr(config.compressed == "listed"):
            numbers = cute.make_layout((GATHER, config.block_n // GATHER))
            sNumbers = smem.allocate_tensor(Int32, numbers, VECTOR * BF16_BYTES)
        sQ = smem.allocate_tensor(BFloat16, q_smem.outer, SMEM_ALIGN, q_smem.inner)
        sK = smem.allocate_tensor(BFloat16, k_smem.outer, SMEM_ALIGN, k_smem.inner)
        # The bytes of a K tile and of a V tile lie alike: one ring holds both.
        sV = cute.make_tensor(cute.recast_ptr(sK.iterator, v_smem.inner, BFloat16), v_smem.outer)
        sP = None
        if const_expr(config.p_path == "smem"):
            sP = smem.allocate_tensor(BFloat16, p_smem.outer, SMEM_ALIGN, p_smem.inner)
            self.trace("sP", p_smem)
            self.trace("sP_rows", self.by_rows(sP))

        # Prologue: the only barrier of the whole CTA, or of the cluster, stands at its end.
        if warp == roles.load[0]:
            for tma in (*loads, stores[0]):
                if const_expr(tma is not None):
                    cpasync.prefetch_descriptor(tma[0])
        if warp == roles.softmax[0]:
            with cute.arch.elect_one():
                bars.init()
            cute.arch.mbarrier_init_fence()
        if warp == roles.mma[0]:
            cute.arch.alloc_tmem(config.tmem_alloc_cols, tmem_slot)
        if const_expr(config.cluster == 2):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()
        tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, tmem_slot)

        tile = RowTile(
            block % row_tiles, block // row_tiles, rows, heads, tokens, config.block_m, config.compressed == "listed"
        )
        tiles = self.branches(tile, keys, window, compressed_keys, ratio, lists)
        mma = self.operands(qk, pv, sQ, sK, sV, sP, p_smem, tmem)
        if warp == roles.load[0]:
            self.load(bars, tiles, mma, loads, (sQ, sK, sV, sNumbers), tile)
        if warp == roles.mma[0]:
            self.multiply(bars, tiles, mma)
            bars.wait("tmem_free", 0, 0)
            cute.arch.relinquish_tmem_alloc_permit()
            cute.arch.dealloc_tmem(tmem, config.tmem_alloc_cols)
        if warp < len(roles.softmax):
            softmax = Softmax.start(scale_log2, config.row_threads)
            row = Row.of_thread(mma, config)
            self.trace("tLtS", row.tLtS)
            self.trace("tLcS", row.tLcS)
            self.softmax(bars, tiles, mma, row, softmax, tile, sP)
            self.epilogue(bars, tiles, mma, row, softmax, stores, stats, (sQ, sK), tile)

    def branches(self, tile, keys, window, compressed_keys, ratio, lists) -> Branches:
        """The KV tiles that the row tile needs."""
        config = self.config
        mLens, mPositions, mIndices, mListed = lists
        sequence, span = tile.sequence, tile.first_and_last_token()
        length = keys if mLens is None else mLens[sequence]
        near = KvTiles(Visible(config.mask, keys, length, tile.tokens, window), config.block_n, *span)
        if config.compressed == "blocks":
            blocks = Blocks(compressed_keys, mPositions[sequence], tile.tokens, ratio)
            return Branches(near, KvTiles(blocks, config.block_n, *span))
        if config.compressed == "listed":
            first_key = sequence * compressed_keys
            length = smaller(larger(mListed[tile.group], 0), mIndices.shape[1])
            listed = ListedTiles(mIndices[tile.group, None], length, compressed_keys, first_key, config.block_n)
            return Branches(near, listed)
        return Branches(near)

    def operands(self, qk, pv, sQ, sK, sV, sP, p_smem, tmem) -> Mma:
        """Fragments of both products: descriptors of shared memory and views of tensor memory."""
        config = self.config
        thr_qk, thr_pv = qk.get_slice(0), pv.get_slice(0)
        s_layout = thr_qk.make_fragment_C(thr_qk.partition_shape_C(self.qk_tiler[:2])).layout
        o_tile = (config.block_m, min(config.head_dim, MMA_N))
        o_layout = thr_pv.make_fragment_C(thr_pv.partition_shape_C(o_tile)).layout
        tStS = cute.make_tensor(tmem, s_layout)
        tOtO = cute.make_tensor(tmem + config.tmem_o, o_layout)
        if const_expr(config.p_path == "smem"):
            tOrP = thr_pv.make_fragment_A(sP)[None, None, None, 0]
        else:
            p_layout = thr_pv.make_fragment_A(cute.make_tensor(tmem, p_smem.outer)).layout
            p_ptr = cute.recast_ptr(tmem + config.tmem_p, dtype=BFloat16)
            tOrP = cute.make_tensor(p_ptr, p_layout)[None, None, None, 0]
        tSrQ, tSrK, tOrV = thr_qk.make_fragment_A(sQ), thr_qk.make_fragment_B(sK), thr_pv.make_fragment_B(sV)
        named = {"tSrQ": tSrQ, "tSrK": tSrK, "tOrP": tOrP, "tOrV": tOrV, "tStS": tStS, "tOtO": tOtO}
        for name, tensor in named.items():
            self.trace(name, tensor)
        return Mma(qk, pv, tSrQ, tSrK, tOrP, tOrV, tStS, tOtO)

    # Role: load. One warp starts every TMA load, in the order in which the mma warp uses them.

    @cute.jit
    def load(self, bars: Barriers, tiles: Branches, mma: Mma, atoms: tuple, smem: tuple, tile: RowTile):
        config = self.config
        (tma_q, mQ), (tma_k, mK), (tma_v, mV), compressed = atoms
        sQ, sK, sV, sNumbers = smem
        near, sequence = tiles.window, tile.sequence
        qk, pv = mma.qk.get_slice(0), mma.pv.get_slice(0)
        tiler = self.qk_tiler
        gQ = qk.partition_A(cute.local_tile(mQ, (tiler[0], tiler[2]), (tile.index, 0, tile.group)))
        gK = qk.partition_B(cute.local_tile(mK, (tiler[1], tiler[2]), (None, 0, sequence)))
        gV = pv.partition_B(cute.local_tile(mV, (tiler[2], tiler[1]), (0, None, sequence)))
        tQsQ, tQgQ = self.tma_parts(tma_q, sQ, gQ)
        tKsK, tKgK = self.tma_parts(tma_k, sK, gK, config.cluster)
        tVsV, tVgV = self.tma_parts(tma_v, sV, gV, config.cluster)
        state = make_pipeline_state(PipelineUserType.Producer, config.kv_stages)
        if tiles.count > 0:
            barrier = bars.expect("q_full", 0, config.q_bytes)
            cute.copy(tma_q, tQgQ, tQsQ[None, 0], tma_bar_ptr=barrier)
            if const_expr(config.shared_kv):
                for i in cutlass.range(near.count, unroll=1):
                    state = self.load_v(bars, near, state, tma_k, tKgK, tKsK, sV, i)
            else:
                for i in cutlass.range(near.count, unroll=1):
                    state = self.load_tile(bars, state, tma_k, tKgK[None, near.first + i], tKsK)
                    if i > 0:
                        state = self.load_v(bars, near, state, tma_v, tVgV, tVsV, sV, i - 1)
                state = self.load_v(bars, near, state, tma_v, tVgV, tVsV, sV, near.count - 1)
            if const_expr(config.compressed == "blocks"):
                tma_c, mC = compressed
                gC = qk.partition_B(cute.local_tile(mC, (tiler[1], tiler[2]), (None, 0, sequence)))
                tCsC, tCgC = self.tma_parts(tma_c, sK, gC, config.cluster)
                for i in cutlass.range(tiles.compressed.count, unroll=1):
                    state = self.load_v(bars, tiles.compressed, state, tma_c, tCgC, tCsC, sV, i)
            if const_expr(config.compressed == "listed"):
                for i in cutlass.range(tiles.compressed.count, unroll=1):
                    state = self.load_listed(bars, tiles.compressed, state, compressed, sK, sNumbers, i)
            if const_expr(config.cluster == 2):
                for _ in range(config.kv_stages):  # the other CTA may still read what this one sent, and tell so
                    bars.wait("kv_empty", state.index, state.phase)
                    state.advance()

    def tma_parts(self, atom: cute.CopyAtom, s: cute.Tensor, g: cute.Tensor, sharers: int = 1) -> tuple:
        """Shared and global sides of a load, ((box), stage) and ((box), tile): this CTA's share of the box."""
        rank = cute.arch.block_idx_in_cluster() if sharers > 1 else 0
        s, g = cute.group_modes(s, 0, 3), cute.group_modes(g, 0, 3)
        return cpasync.tma_partition(atom, rank, cute.make_layout(sharers), s, g)

    def copy_keys(self, atom: cute.CopyAtom, src: Any, dst: cute.Tensor, barrier: cute.Pointer) -> None:
        """Start a load of keys into `dst` of every CTA of the cluster; each is told through its own `barrier`."""
        mask = {} if self.config.cluster == 1 else {"mcast_mask": Int16(EVERY_CTA)}
        cute.copy(atom, src, dst, tma_bar_ptr=barrier, **mask)

    @cute.jit
    def load_tile(
        self, bars: Barriers, state: PipelineState, atom: cute.CopyAtom, src: cute.Tensor, dst: cute.Tensor
    ) -> PipelineState:
        """Load one K or V tile into the ring as soon as its stage is free."""
        bars.wait("kv_empty", state.index, state.phase)
        barrier = bars.expect("kv_full", state.index, self.config.kv_tile_bytes)
        self.copy_keys(atom, src, dst[None, state.index], barrier)
        state.advance()
        return state

    @cute.jit
    def load_v(
        self,
        bars: Barriers,
        tiles: KvTiles,
        state: PipelineState,
        atom: cute.CopyAtom,
        src: cute.Tensor,
        dst: cute.Tensor,
        sV: cute.Tensor,
        i: Int32,
    ) -> PipelineState:
        """Load V tile `i`; where it reaches past the sequence's length, zeros take the place of what lies there.

        A masked P is 0, but 0 * NaN is NaN. Only the last tile can be poisoned.
        """
        config = self.config
        src = src[None, tiles.first + i]
        if const_expr(not tiles.seen.may_poison) or tiles.poisoned_from(i) >= config.block_n:
            state = self.load_tile(bars, state, atom, src, dst)
        else:
            bars.wait("kv_empty", state.index, state.phase)
            source = int(isinstance(tiles.seen, Blocks))
            barrier = bars.expect("tail_full", source, config.kv_tile_bytes)
            self.copy_keys(atom, src, dst[None, state.index], barrier)
            bars.wait("tail_full", source, 0)
            self.clear_rows(sV, state.index, tiles.poisoned_from(i))
            cute.arch.fence_view_async_shared()
            bars.arrive_warp("kv_full", state.index)
            state.advance()
        return state

    @cute.jit
    def clear_rows(self, sV: cute.Tensor, stage: Int32, first: Int32):
        """Zero the keys of a V tile from `first` on. The swizzle moves bytes within a key's 128 bytes only."""
        config = self.config
        chunks = config.head_dim * BF16_BYTES // SWIZZLE_BYTES
        vectors = SWIZZLE_BYTES // (VECTOR * BF16_BYTES)
        row = SWIZZLE_BYTES // BF16_BYTES
        layout = cute.make_layout(
            (VECTOR, vectors, config.block_n, chunks, config.kv_stages),
            stride=(1, VECTOR, row, row * config.block_n, row * config.block_n * chunks),
        )
        plain = cute.make_tensor(cute.recast_ptr(sV.iterator, cute.make_swizzle(0, 4, 3), BFloat16), layout)
        zero = cute.make_rmem_tensor(VECTOR, BFloat16)
        zero.fill(0.0)
        lane = cute.arch.lane_idx()
        for key in cutlass.range(first + lane // vectors, config.block_n, WARP // vectors, unroll=1):
            for chunk in cutlass.range_constexpr(chunks):
                cute.autovec_copy(zero, plain[None, lane % vectors, key, chunk, stage])

    @cute.jit
    def load_listed(
        self,
        bars: Barriers,
        listed: ListedTiles,
        state: PipelineState,
        gather: tuple,
        sK: cute.Tensor,
        sNumbers: cute.Tensor,
        i: Int32,
    ) -> PipelineState:
        """Gather the keys of the list's tile `i`, GATHER at a time. TMA fills zeros in for number -1."""
        config = self.config
        atom, mC = gather
        box, tiler = self.gather_box(), (GATHER, config.head_dim)
        tiles = cute.make_layout((config.block_n // GATHER, config.kv_stages))
        strides = (GATHER * SWIZZLE_BYTES // BF16_BYTES, config.block_n * config.head_dim)
        layout = cute.append(
            cute.append(box.outer, cute.make_layout(tiles.shape[0], stride=strides[0])),
            cute.make_layout(tiles.shape[1], stride=strides[1]),
        )
        sC = cute.make_tensor(cute.recast_ptr(sK.iterator, box.inner, BFloat16), layout)
        gC = cute.group_modes(cute.local_tile(mC, tiler, (0, None)), 0, 2)
        flat = cute.make_tensor(sNumbers.iterator, cute.make_layout(config.block_n))
        lane = cute.arch.lane_idx()
        cute.arch.sync_warp()  # the numbers of the tile before were read
        for j in range(0, config.block_n, WARP):
            flat[j + lane] = listed.key(i * config.block_n + j + lane)
        cute.arch.sync_warp()
        bars.wait("kv_empty", state.index, state.phase)
        barrier = bars.expect("kv_full", state.index, config.kv_tile_bytes)
        share = config.block_n // GATHER // config.cluster
        first = 0 if config.cluster == 1 else cute.arch.block_idx_in_cluster() * share
        for j in cutlass.range(first, first + share, 1, unroll=1):
            numbers = cute.make_rmem_tensor(GATHER, Int32)
            cute.autovec_copy(sNumbers[None, j], numbers)
            numbers = cute.make_tensor(numbers.iterator, cute.make_layout((tiler, 1), stride=((1, 0), 0)))
            s = cute.group_modes(sC[None, None, j, state.index], 0, 2)
            dst, src, by = cpasync.tma_partition(atom, 0, cute.make_layout(1), s, [gC, numbers])
            self.copy_keys(atom, [src[None, 0], by[None, 0]], dst, barrier)
        state.advance()
        return state

    # Role: mma. One warp issues S[i+1] = Q K[i+1]' ahead of O += P[i] V[i].

    @cute.jit
    def multiply(self, bars: Barriers, tiles: Branches, mma: Mma):
        config = self.config
        state = make_pipeline_state(PipelineUserType.Consumer, config.kv_stages)
        v_state = make_pipeline_state(PipelineUserType.Consumer, config.kv_stages)
        if tiles.count > 0:
            bars.wait("q_full", 0, 0)
            if const_expr(config.shared_kv and config.kv_stages == S_STAGES):
                self.multiply_by_twos(bars, tiles, mma, state, v_state)
            else:
                for i in cutlass.range(tiles.count, unroll=1):
                    state = self.multiply_qk(bars, mma, state, i)
                    if i > 0:
                        state, v_state = self.multiply_pv_next(bars, mma, state, v_state, i - 1)
                self.multiply_pv_next(bars, mma, state, v_state, tiles.count - 1)

    @cute.jit
    def multiply_by_twos(self, bars: Barriers, tiles: Branches, mma: Mma, state: PipelineState, v_state: PipelineState):
        """S[i], S[i+1], then both P V: with room for two tiles, K[i+2] is not there before P[i] V[i] has happened."""
        for first in cutlass.range(0, tiles.count, S_STAGES, unroll=1):
            end = smaller(first + S_STAGES, tiles.count)
            for i in cutlass.range(first, end, 1, unroll=1):
                state = self.multiply_qk(bars, mma, state, i)
            for i in cutlass.range(first, end, 1, unroll=1):
                v_state = self.multiply_pv(bars, mma, v_state, i)

    @cute.jit
    def multiply_pv_next(
        self, bars: Barriers, mma: Mma, state: PipelineState, v_state: PipelineState, i: Int32
    ) -> tuple[PipelineState, PipelineState]:
        """O += P[i] V[i], V[i] being K[i] or the ring's next tile; both states of the ring."""
        if const_expr(self.config.shared_kv):
            v_state = self.multiply_pv(bars, mma, v_state, i)
        else:
            state = self.multiply_pv(bars, mma, state, i)
        return state, v_state

    @cute.jit
    def multiply_qk(self, bars: Barriers, mma: Mma, state: PipelineState, i: Int32) -> PipelineState:
        """S[i] = Q K[i]' over the whole head dim."""
        stage, _ = stage_and_phase(i)
        tStS = cute.make_tensor(mma.tStS.iterator + stage * self.config.block_n, mma.tStS.layout)
        bars.wait("kv_full", state.index, state.phase)
        self.gemm(mma.qk, tStS, mma.tSrQ[None, 0, None, 0], mma.tSrK[None, 0, None, state.index], False)
        bars.commit("s_full", stage)
        if const_expr(not self.config.shared_kv):
            bars.commit_to_cluster("kv_empty", state.index)
        state.advance()
        return state

    @cute.jit
    def multiply_pv(self, bars: Barriers, mma: Mma, state: PipelineState, i: Int32) -> PipelineState:
        """O += P[i] V[i]; the first tile overwrites."""
        config = self.config
        stage, phase = stage_and_phase(i)
        tOrP = mma.tOrP[None, 0, None]
        if const_expr(config.p_path == "tmem"):
            columns = 2 * config.p_cols  # bf16 elements
            tOrP = cute.make_tensor(tOrP.iterator + stage * columns, tOrP.layout)
        if const_expr(not config.shared_kv):
            bars.wait("kv_full", state.index, state.phase)
        bars.wait("p_full", stage, phase)
        for part in range(config.row_threads):
            tOtO = cute.make_tensor(mma.tOtO.iterator + part * PART_LANES * LANE, mma.tOtO.layout)
            self.gemm(mma.pv, tOtO, tOrP, mma.tOrV[None, part, None, state.index], i > 0)
        bars.commit_to_cluster("kv_empty", state.index)
        bars.commit("o_done", stage)
        state.advance()
        return state

    def gemm(self, tiled: cute.TiledMma, acc: cute.Tensor, a: cute.Tensor, b: cute.Tensor, accumulate: Any) -> None:
        """acc (+)= a b, one instruction for every 16 of the summed dimension."""
        tiled = new_from_mlir_values(tiled, extract_mlir_values(tiled))  # its fields change, the caller's must not
        acc = acc[None, 0, 0]
        for k in range(cute.size(a, mode=[1])):
            tiled.set(tcgen05.Field.ACCUMULATE, accumulate if k == 0 else True)
            cute.gemm(tiled, acc, a[None, k], b[None, k], acc)

    # Role: softmax. Four warps, a thread a row: S[i] -> P[i], and O shrinks when the maximum moved.

    @cute.jit
    def softmax(
        self,
        bars: Barriers,
        tiles: Branches,
        mma: Mma,
        row: Row,
        softmax: Softmax,
        tile: RowTile,
        sP: cute.Tensor | None,
    ):
        config = self.config
        token = tile.token(row.row)
        for i in cutlass.range(tiles.count, unroll=1):
            stage, phase = stage_and_phase(i)
            s = cute.make_rmem_tensor(row.tLcS.shape, Float32)
            hidden, lo, hi = self.bounds(tiles, i, token)
            listed = self.listed_bits(tiles, i)
            bars.wait("s_full", stage, phase)
            tLtS = cute.make_tensor(row.tLtS.iterator + stage * config.block_n, row.tLtS.layout)
            cute.copy(row.load, tLtS, s)
            cute.arch.fence_view_async_tmem_load()
            if hidden:
                self.hide_keys(s, row.tLcS, lo, hi)
            if const_expr(config.compressed == "listed"):
                self.hide_unlisted(s, row, listed)
            self.track_max(bars, mma, softmax, s, i)
            softmax.exponentiate(s)
            if const_expr(config.p_path == "tmem"):
                self.stage_p_tmem(mma, s, stage)
            else:
                self.stage_p_smem(bars, s, sP, row, i)
            bars.arrive_warp("p_full", stage)

    def bounds(self, tiles: Branches, i: Int32, token: Int32) -> tuple[Any, Any, Any]:
        """Whether some row does not see all of KV tile `i`; the keys of it that `token` sees, from lo up to hi."""
        near, far, seen = tiles.window, tiles.compressed, tiles.window.seen
        hidden, lo, hi = near.is_cut(i), seen.lo(token) - near.start(i), seen.hi(token) - near.start(i)
        if far is None:
            return hidden, lo, hi
        j = i - near.count
        if isinstance(far, ListedTiles):
            return hidden & (j < 0), lo, hi
        return (
            cutlass.select_(j < 0, hidden, far.is_cut(j)),
            cutlass.select_(j < 0, lo, Int32(0)),
            cutlass.select_(j < 0, hi, far.seen.hi(token) - far.start(j)),
        )

    def listed_bits(self, tiles: Branches, i: Int32) -> list[Int32]:
        """Which keys of KV tile `i` the list names, WARP a word; all of them in a tile of the window."""
        if self.config.compressed != "listed":
            return []
        first, lane = (i - tiles.window.count) * self.config.block_n, cute.arch.lane_idx()
        entries = [first + j + lane for j in range(0, self.config.block_n, WARP)]
        named = [cute.arch.vote_ballot_sync(tiles.compressed.key(entry) >= 0) for entry in entries]
        return [cutlass.select_(first < 0, Int32(-1), word) for word in named]

    @cute.jit
    def hide_unlisted(self, s: cute.Tensor, row: Row, words: list[Int32]):
        """Logits of keys that the list does not name become -inf."""
        own = self.of_part(words, row)
        if functools.reduce(operator.and_, words) != -1:
            self.hide_by_bits(s, own)

    def hide_by_bits(self, s: cute.Tensor, words: list[Int32]) -> None:
        """Logits of keys whose bit is not set become -inf."""
        for j in range(cute.size(s)):
            bit = Int32(1 << j % WARP if j % WARP < WARP - 1 else -(1 << WARP - 1))
            s[j] = cutlass.select_((words[j // WARP] & bit) != 0, s[j], -Float32.inf)

    def of_part(self, words: list[Int32], row: Row) -> list[Int32]:
        """Those of a tile's words that speak of the thread's own keys."""
        if self.config.row_threads == 1:
            return words
        half = len(words) // 2
        return [cutlass.select_(row.part == 0, *pair) for pair in zip(words[:half], words[half:], strict=True)]

    def hide_keys(self, s: cute.Tensor, tLcS: cute.Tensor, lo: Int32, hi: Int32) -> None:
        """Logits of keys before `lo` and from `hi` on become -inf."""
        for j in range(cute.size(s)):
            key = tLcS[j][1]
            visible = key < hi if self.config.mask != "causal" else (key >= lo) & (key < hi)
            s[j] = cutlass.select_(visible, s[j], -Float32.inf)

    @cute.jit
    def track_max(self, bars: Barriers, mma: Mma, softmax: Softmax, s: cute.Tensor, i: Int32):
        """Move the reference maximum where a row of the warp outgrew it by more than 2^RESCALE_LOG2."""
        new_max = softmax.tile_max(s)
        moved = (new_max - softmax.row_max) * softmax.scale_log2 > RESCALE_LOG2
        if cute.arch.vote_any_sync(moved):
            factor = softmax.move_to(new_max)
            if i > 0:
                stage, phase = stage_and_phase(i - 1)
                bars.wait("o_done", stage, phase)
                self.rescale(mma, factor)

    def rescale(self, mma: Mma, factor: Float32) -> None:
        """O *= factor, a row a thread, straight through registers."""
        thread = cute.arch.thread_idx()[0]
        repeat = tcgen05.Repetition(LOAD_COLS)
        tOtO = self.column_blocks(mma.tOtO)
        block = tOtO[None, None, 0]
        load = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.Ld32x32bOp(repeat), Float32), block)
        store = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.St32x32bOp(repeat), Float32), block)
        load, store = load.get_slice(thread), store.get_slice(thread)
        shape = load.partition_D(cute.make_identity_tensor((TMEM_LANES, LOAD_COLS))).shape
        for c in range(cute.size(tOtO, mode=[2])):
            o = cute.make_rmem_tensor(shape, Float32)
            cute.copy(load, load.partition_S(tOtO[None, None, c]), o)
            cute.arch.fence_view_async_tmem_load()
            for j in range(0, cute.size(o), 2):
                o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
            cute.copy(store, o, store.partition_D(tOtO[None, None, c]))
        cute.arch.fence_view_async_tmem_store()

    def column_blocks(self, acc: cute.Tensor) -> cute.Tensor:
        """O as (lane, column, block), LOAD_COLS columns a block; a lane is a row or a row's half of the columns."""
        blocks = self.config.o_cols // LOAD_COLS
        layout = cute.make_layout((TMEM_LANES, LOAD_COLS, blocks), stride=(LANE, 1, LOAD_COLS))
        return cute.make_tensor(acc.iterator, layout)

    def stage_p_tmem(self, mma: Mma, s: cute.Tensor, stage: Int32) -> None:
        """P as bf16 into its columns of tensor memory, two keys a column."""
        config = self.config
        layout = cute.make_layout((TMEM_LANES, config.p_cols), stride=(LANE, 1))
        base = mma.tStS.iterator + (config.tmem_p + stage * config.p_cols)
        tStP = cute.make_tensor(base, layout)
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(LOAD_COLS)), Float32)
        store = tcgen05.make_tmem_copy(atom, tStP).get_slice(cute.arch.thread_idx()[0])
        tPtP = store.partition_D(tStP)
        shape = store.partition_S(cute.make_identity_tensor((TMEM_LANES, config.p_cols))).shape
        packed = cute.make_rmem_tensor(shape, Float32)
        cute.recast_tensor(packed, BFloat16).store(self.flat(s).load().to(BFloat16))
        cute.copy(store, packed, tPtP)
        cute.arch.fence_view_async_tmem_store()

    @cute.jit
    def stage_p_smem(self, bars: Barriers, s: cute.Tensor, sP: cute.Tensor, row: Row, i: Int32):
        """P as bf16 into shared memory, sixteen bytes of its row at a time, once P[i-1] V[i-1] has read it."""
        if i > 0:
            stage, phase = stage_and_phase(i - 1)
            bars.wait("o_done", stage, phase)
        vector = cute.make_layout(VECTOR)
        dst = cute.logical_divide(self.by_rows(sP)[row.row, None], vector)
        p = cute.make_rmem_tensor(cute.size(s), BFloat16)
        p.store(self.flat(s).load().to(BFloat16))
        p = cute.logical_divide(p, vector)
        vectors = cute.size(p, mode=[1])
        for j in range(vectors):
            cute.autovec_copy(p[None, j], dst[None, row.part * vectors + j])
        cute.arch.fence_view_async_shared()

    def by_rows(self, sP: cute.Tensor) -> cute.Tensor:
        """The operand tile ((row, k), 1, k, 1) as a matrix (row, k): same bytes, same swizzle."""
        ((rows, k0), _, k1, _), ((row, s0), _, s1, _) = sP.shape, sP.stride
        layout = cute.make_layout((rows, (k0, k1)), stride=(row, (s0, s1)))
        return cute.make_tensor(sP.iterator, layout)

    def flat(self, tensor: cute.Tensor) -> cute.Tensor:
        return cute.make_tensor(tensor.iterator, cute.make_layout(cute.size(tensor)))

    # Epilogue, by the softmax warps: O = U / l and the row's statistics; a warp stores its own 32 rows.

    @cute.jit
    def epilogue(
        self,
        bars: Barriers,
        tiles: KvTiles,
        mma: Mma,
        row: Row,
        softmax: Softmax,
        atoms: tuple,
        stats: tuple,
        smem: tuple,
        tile: RowTile,
    ):
        mLse, mMax, mSink = stats
        row_sum = softmax.row_sum()
        if tile.row(row.row) < tile.rows and row.part == 0:
            self.store_stats(softmax, row_sum, (mLse, mMax), tile.group, tile.row(row.row))
        if tiles.count > 0:
            stage, phase = stage_and_phase(tiles.count - 1)
            bars.wait("o_done", stage, phase)
        total = row_sum if mSink is None else row_sum + softmax.weight(mSink[tile.head(row.row)])
        inverse = cutlass.select_(total == 0.0, Float32(0.0), 1.0 / total)
        self.store_rows(tiles, mma, row, inverse, atoms, smem, tile)
        bars.arrive_warp("tmem_free", 0)

    def store_stats(self, softmax: Softmax, row_sum: Any, stats: tuple, group: Int32, row: Int32) -> None:
        """lse and m of one row in natural logarithms; both -inf where no key was visible."""
        mLse, mMax = stats
        max_log2 = softmax.row_max * softmax.scale_log2
        mLse[group, row] = cute.math.log(row_sum) + max_log2 * Float32(LN2)
        if const_expr(mMax is not None):
            mMax[group, row] = max_log2 * Float32(LN2)

    @cute.jit
    def store_rows(self, tiles: KvTiles, mma: Mma, row: Row, inverse: Any, atoms: tuple, smem: tuple, tile: RowTile):
        """Tensor memory -> registers -> shared memory -> global, a block of columns at a time, by TMA.

        O is staged where Q lay and U where the KV tiles lay: o_done says that nothing reads them any more.
        """
        tma_o, tma_u = atoms
        sQ, sK = smem
        tOtO = self.column_blocks(mma.tOtO)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(LOAD_COLS)), Float32)
        load = tcgen05.make_tmem_copy(atom, tOtO[None, None, 0]).get_slice(cute.arch.thread_idx()[0])
        coords = load.partition_D(cute.make_identity_tensor((TMEM_LANES, LOAD_COLS)))
        o_store = self.warp_store(tma_o, BFloat16, sQ, tile)
        u_store = None
        if const_expr(tma_u is not None):
            u_store = self.warp_store(tma_u, Float32, sK, tile)
        for c in cutlass.range_constexpr(cute.size(tOtO, mode=[2])):
            o = cute.make_rmem_tensor(coords.shape, Float32)
            o.fill(0.0)
            if tiles.count > 0:
                cute.copy(load, load.partition_S(tOtO[None, None, c]), o)
                cute.arch.fence_view_async_tmem_load()
            if const_expr(tma_u is not None):
                self.stage_row(u_store[0], self.flat(o), row, c)
            for j in range(0, cute.size(o), 2):
                o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (inverse, inverse))
            self.stage_row(o_store[0], self.flat(o), row, c)
        cute.arch.fence_view_async_shared()
        cute.arch.sync_warp()
        self.send(o_store)
        if const_expr(tma_u is not None):
            self.send(u_store)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)

    def warp_store(
        self, tma: cpasync.TmaInfo, dtype: type[cutlass.Numeric], stage: cute.Tensor, tile: RowTile
    ) -> tuple:
        """This warp's staging rows in `stage`'s bytes and the two sides of their TMA store."""
        atom, dst = tma
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        warps = len(self.roles.softmax)
        layout = self.store_layout(dtype)
        groups = self.config.head_dim // self.store_tile(dtype)[1]
        elements = cute.cosize(layout)
        staged = cute.append(layout.outer, cute.make_layout(groups, stride=elements))
        staged = cute.append(staged, cute.make_layout(warps, stride=groups * elements))
        base = cute.recast_ptr(stage.iterator, layout.inner, dtype)
        s = cute.make_tensor(base, staged)[None, None, None, warp]
        g = cute.local_tile(dst, self.store_tile(dtype), (tile.index * warps + warp, None, tile.group))
        self.trace(f"s{dtype.__name__}", s)
        s_part, g_part = cpasync.tma_partition(
            atom, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
        )
        return s, atom, s_part, g_part

    def stage_row(self, s: cute.Tensor, values: cute.Tensor, row: Row, block: int) -> None:
        """A thread's LOAD_COLS values of its column block `block` into its row of the staging buffer."""
        dtype = s.element_type
        width = cute.size(s, mode=[1])
        group, first = divmod(block * LOAD_COLS, width)
        vector = cute.make_layout(16 * 8 // dtype.width)
        own = s[row.row % self.warp_rows, None, row.part * (self.config.o_cols // width) + group]
        dst = cute.logical_divide(own, vector)
        packed = cute.make_rmem_tensor(LOAD_COLS, dtype)
        packed.store(values.load().to(dtype))
        packed = cute.logical_divide(packed, vector)
        for j in range(cute.size(packed, mode=[1])):
            cute.autovec_copy(packed[None, j], dst[None, first // cute.size(vector) + j])

    def send(self, store: tuple) -> None:
        """Start the TMA stores of one output; rows past the tensor's end are not written."""
        _, atom, s_part, g_part = store
        for group in range(cute.size(s_part, mode=[1])):
            cute.copy(atom, s_part[None, group], g_part[None, group])
