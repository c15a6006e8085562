"""The load role: one warp starts every TMA load, in the order in which the mma warp uses them."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Int32, const_expr
from cutlass.cute.nvgpu import cpasync
from cutlass.pipeline import PipelineState, PipelineUserType, make_pipeline_state

from kernel.config import BF16_BYTES, WARP
from kernel.sm100.barriers import pair_mask, rank_in_pair
from kernel.sm100.cta import VECTOR, Cta
from kernel.sm100.operands import CHUNK, GATHER, SWIZZLE_BYTES, Loads, unit_layout
from kernel.sm100.tiles import Blocks, KvTiles, TopkTiles
from kernel.sm100.traced import Fixed


@dataclass
class LoadWarp(Fixed):
    cta: Cta
    atoms: Loads

    @cute.jit
    def run(self) -> None:
        config, bars, kv, smem = self.cta.config, self.cta.bars, self.cta.kv_tiles, self.cta.smem
        (tma_q, mQ), (tma_k, mK), (tma_v, mV), compressed = self.atoms
        row_tile, sequence = self.cta.row_tile, self.cta.row_tile.sequence
        mmas, tiler = self.cta.fragments.mmas, config.qk_tiler
        qk, pv = mmas.qk.get_slice(0), mmas.pv.get_slice(0)
        gQ = qk.partition_A(cute.local_tile(mQ, (tiler[0], tiler[2]), (None, 0, row_tile.group)))
        first = kv.window.start(0)
        mK, mV = cute.domain_offset((first, 0, 0), mK), cute.domain_offset((0, first, 0), mV)
        gK = qk.partition_B(cute.local_tile(mK, (tiler[1], tiler[2]), (None, 0, sequence)))
        gV = pv.partition_B(cute.local_tile(mV, (tiler[2], tiler[1]), (0, None, sequence)))
        tQsQ, tQgQ = self.partition(tma_q, smem.sQ, gQ)
        tKsK, tKgK = self.partition(tma_k, smem.sK, gK, config.cluster)
        tVsV, tVgV = self.partition(tma_v, smem.sV, gV, config.cluster)
        state = make_pipeline_state(PipelineUserType.Producer, config.kv_stages)
        k_lead = 1 if config.row_tiles == 1 else 0  # K0 K1 V0 K2 V1 ..., or K0 V0 K1 V1 ...: as the mma warp takes them
        if kv.count > 0:
            barrier = bars.expect("q_full", 0, config.q_bytes)
            for t in cutlass.range_constexpr(config.row_tiles):
                cute.copy(tma_q, tQgQ[None, row_tile.index * config.row_tiles + t], tQsQ[None, t], tma_bar_ptr=barrier)
            if const_expr(config.shared_kv):
                for i in cutlass.range(kv.window.count, unroll=1):
                    state = self.load_values(kv.window, state, tma_k, tKgK, tKsK, i)
            else:
                for i in cutlass.range(kv.window.count, unroll=1):
                    state = self.load_tile(state, tma_k, tKgK[None, i], tKsK)
                    if i >= k_lead:
                        state = self.load_values(kv.window, state, tma_v, tVgV, tVsV, i - k_lead)
                if const_expr(k_lead > 0):
                    state = self.load_values(kv.window, state, tma_v, tVgV, tVsV, kv.window.count - 1)
            if const_expr(config.compressed == "blocks"):
                tma_c, mC = compressed
                mC = cute.domain_offset((kv.compressed.start(0), 0, 0), mC)
                gC = qk.partition_B(cute.local_tile(mC, (tiler[1], tiler[2]), (None, 0, sequence)))
                tCsC, tCgC = self.partition(tma_c, smem.sK, gC, config.cluster)
                for i in cutlass.range(kv.compressed.count, unroll=1):
                    state = self.load_values(kv.compressed, state, tma_c, tCgC, tCsC, i)
            if const_expr(config.compressed == "topk"):
                for i in cutlass.range(kv.compressed.count, unroll=1):
                    state = self.gather_tile(kv.compressed, state, compressed, i)
            if const_expr(config.cluster == 2):
                for _ in range(config.kv_stages):  # the other CTA may still read what this one sent, and tell so
                    bars.wait("kv_empty", state.index, state.phase)
                    state.advance()

    def partition(
        self, atom: cute.CopyAtom, s: cute.Tensor, g: cute.Tensor, sharers: int = 1
    ) -> tuple[cute.Tensor, cute.Tensor]:
        """Shared and global sides of a load, ((box), stage) and ((box), tile): this CTA's share of the box."""
        rank = rank_in_pair(self.cta.config) if sharers > 1 else 0
        s, g = cute.group_modes(s, 0, 3), cute.group_modes(g, 0, 3)
        return cpasync.tma_partition(atom, rank, cute.make_layout(sharers), s, g)

    def copy_keys(self, atom: cute.CopyAtom, src: Any, dst: cute.Tensor, barrier: cute.Pointer) -> None:
        """Start a load of keys into `dst` of both CTAs of a pair; each is told through its own `barrier`."""
        mask = {} if self.cta.config.cluster == 1 else {"mcast_mask": pair_mask(self.cta.config)}
        cute.copy(atom, src, dst, tma_bar_ptr=barrier, **mask)

    @cute.jit
    def load_tile(self, state: PipelineState, atom: cute.CopyAtom, src: cute.Tensor, dst: cute.Tensor) -> PipelineState:
        """Load one K or V tile into the ring as soon as its stage is free."""
        bars = self.cta.bars
        bars.wait("kv_empty", state.index, state.phase)
        barrier = bars.expect("kv_full", state.index, self.cta.config.kv_tile_bytes)
        self.copy_keys(atom, src, dst[None, state.index], barrier)
        state.advance()
        return state

    @cute.jit
    def load_values(
        self,
        tiles: KvTiles,
        state: PipelineState,
        atom: cute.CopyAtom,
        src: cute.Tensor,
        dst: cute.Tensor,
        i: Int32,
    ) -> PipelineState:
        """Load tile `i` of V, or of keys that are values too; zeros take the place of what lies past the length.

        A masked P is 0, but 0 * NaN is NaN. Only the last tile can be poisoned.
        """
        config, bars, smem = self.cta.config, self.cta.bars, self.cta.smem
        src = src[None, i]
        if const_expr(not tiles.seen.may_poison) or tiles.poisoned_from(i) >= config.block_n:
            state = self.load_tile(state, atom, src, dst)
        else:
            bars.wait("kv_empty", state.index, state.phase)
            source = int(isinstance(tiles.seen, Blocks))
            barrier = bars.expect("tail_full", source, config.kv_tile_bytes)
            self.copy_keys(atom, src, dst[None, state.index], barrier)
            bars.wait("tail_full", source, 0)
            clear_keys(smem.sV, config.v_unit, config.kv_stages, state.index, tiles.poisoned_from(i))
            cute.arch.fence_view_async_shared()
            bars.arrive_warp("kv_full", state.index)
            state.advance()
        return state

    @cute.jit
    def gather_tile(self, topk: TopkTiles, state: PipelineState, gather: cpasync.TmaInfo, i: Int32) -> PipelineState:
        """Gather the keys of the list's tile `i`, GATHER at a time. TMA fills zeros in for number -1."""
        config, bars, sRows = self.cta.config, self.cta.bars, self.cta.smem.sRows
        atom, mC = gather
        tiler = (GATHER, config.head_dim)
        sC = self.gather_boxes()
        gC = cute.group_modes(cute.local_tile(mC, tiler, (0, None)), 0, 2)
        flat = cute.make_tensor(sRows.iterator, cute.make_layout(config.block_n))
        lane = cute.arch.lane_idx()
        cute.arch.sync_warp()  # the numbers of the tile before were read
        for j in range(0, config.block_n, WARP):
            flat[j + lane] = topk.key(i * config.block_n + j + lane)
        cute.arch.sync_warp()
        bars.wait("kv_empty", state.index, state.phase)
        barrier = bars.expect("kv_full", state.index, config.kv_tile_bytes)
        share = config.block_n // GATHER // config.cluster
        first = 0 if config.cluster == 1 else rank_in_pair(config) * share
        for j in cutlass.range(first, first + share, 1, unroll=1):
            rows = cute.make_rmem_tensor(GATHER, Int32)
            cute.autovec_copy(sRows[None, j], rows)
            rows = cute.make_tensor(rows.iterator, cute.make_layout((tiler, 1), stride=((1, 0), 0)))
            s = cute.group_modes(sC[None, None, j, state.index], 0, 2)
            dst, src, by = cpasync.tma_partition(atom, 0, cute.make_layout(1), s, [gC, rows])
            self.copy_keys(atom, [src[None, 0], by[None, 0]], dst, barrier)
        state.advance()
        return state

    def gather_boxes(self) -> cute.Tensor:
        """The ring as gathers fill it: (key, (column, chunk), box, stage)."""
        config, box = self.cta.config, unit_layout(self.cta.config.k_unit, GATHER)
        boxes = cute.make_layout(config.block_n // GATHER, stride=GATHER * CHUNK)
        stages = cute.make_layout(config.kv_stages, stride=config.block_n * config.head_dim)
        layout = cute.append(cute.append(box.outer, boxes), stages)
        return cute.make_tensor(cute.recast_ptr(self.cta.smem.sK.iterator, box.inner, BFloat16), layout)


@cute.jit
def clear_keys(sV: cute.Tensor, unit: tuple[int, int], stages: int, stage: Any, first: Int32) -> None:
    """Zero a unit's keys from `first` on. The swizzle moves bytes within a key's 128 bytes only."""
    keys, dims = unit
    chunks = dims // CHUNK
    vectors = SWIZZLE_BYTES // (VECTOR * BF16_BYTES)
    layout = cute.make_layout(
        (VECTOR, vectors, keys, chunks, stages), stride=(1, VECTOR, CHUNK, CHUNK * keys, CHUNK * keys * chunks)
    )
    plain = cute.make_tensor(cute.recast_ptr(sV.iterator, cute.make_swizzle(0, 4, 3), BFloat16), layout)
    zero = cute.make_rmem_tensor(VECTOR, BFloat16)
    zero.fill(0.0)
    lane = cute.arch.lane_idx()
    for key in cutlass.range(first + lane // vectors, keys, WARP // vectors, unroll=1):
        for chunk in cutlass.range_constexpr(chunks):
            cute.autovec_copy(zero, plain[None, lane % vectors, key, chunk, stage])
