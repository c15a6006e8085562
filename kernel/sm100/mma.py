"""The mma role: one warp issues S[i+1] = Q K[i+1]' ahead of O += P[i] V[i]."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, const_expr
from cutlass.cute.nvgpu import tcgen05
from cutlass.cutlass_dsl import extract_mlir_values, new_from_mlir_values
from cutlass.pipeline import PipelineState, PipelineUserType, make_pipeline_state

from kernel.config import S_STAGES
from kernel.sm100.cta import HALF_LANES, LANE, Cta
from kernel.sm100.traced import Fixed, smaller


@dataclass
class MmaWarp(Fixed):
    cta: Cta

    @cute.jit
    def run(self) -> None:
        config, kv = self.cta.config, self.cta.kv_tiles
        state = make_pipeline_state(PipelineUserType.Consumer, config.kv_stages)
        v_state = make_pipeline_state(PipelineUserType.Consumer, config.kv_stages)
        if kv.count > 0:
            self.cta.bars.wait("q_full", 0, 0)
            if const_expr(config.row_tiles == 2):
                self.run_in_turn(state, v_state)
            elif const_expr(config.shared_kv and config.kv_stages == S_STAGES):
                self.run_by_twos(state, v_state)
            else:
                for i in cutlass.range(kv.count, unroll=1):
                    state = self.mma_qk(state, i)
                    if i > 0:
                        state, v_state = self.mma_pv_in_ring(state, v_state, i - 1)
                self.mma_pv_in_ring(state, v_state, kv.count - 1)

    @cute.jit
    def run_by_twos(self, state: PipelineState, v_state: PipelineState) -> None:
        """S[i], S[i+1], then both P V: with room for two tiles, K[i+2] is not there before P[i] V[i] has happened."""
        for first in cutlass.range(0, self.cta.kv_tiles.count, S_STAGES, unroll=1):
            end = smaller(first + S_STAGES, self.cta.kv_tiles.count)
            for i in cutlass.range(first, end, 1, unroll=1):
                state = self.mma_qk(state, i)
            for i in cutlass.range(first, end, 1, unroll=1):
                v_state = self.mma_pv(v_state, i)

    @cute.jit
    def run_in_turn(self, state: PipelineState, v_state: PipelineState) -> None:
        """Two row tiles: P V and the next S of one are computed while the other is in softmax."""
        config, kv = self.cta.config, self.cta.kv_tiles
        if const_expr(not config.shared_kv):
            v_state.advance()  # the ring holds K0 V0 K1 V1 ...
        for t in cutlass.range_constexpr(config.row_tiles):
            state = self.mma_qk(state, 0, t)
        for i in cutlass.range(kv.count, unroll=1):
            if const_expr(not config.shared_kv):
                state.advance()
            for t in cutlass.range_constexpr(config.row_tiles):
                v_state = self.mma_pv(v_state, i, t)
                if i + 1 < kv.count:
                    state = self.mma_qk(state, i + 1, t)
            if const_expr(not config.shared_kv):
                v_state.advance()

    @cute.jit
    def mma_pv_in_ring(
        self, state: PipelineState, v_state: PipelineState, i: Int32
    ) -> tuple[PipelineState, PipelineState]:
        """O += P[i] V[i], V[i] being K[i] or the ring's next tile; both states of the ring."""
        if const_expr(self.cta.config.shared_kv):
            v_state = self.mma_pv(v_state, i)
        else:
            state = self.mma_pv(state, i)
        return state, v_state

    @cute.jit
    def mma_qk(self, state: PipelineState, i: Int32, row_tile: cutlass.Constexpr[int] = 0) -> PipelineState:
        """S[i] = Q K[i]' over the whole head dim; the last row tile gives K[i] back."""
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        stage, _ = bars.stage_and_phase(i, row_tile)
        tStS = cute.make_tensor(fragments.tStS.iterator + stage * config.s_cols, fragments.tStS.layout)
        if const_expr(row_tile == 0):
            bars.wait("kv_full", state.index, state.phase)
        tSrQ, tSrK = fragments.tSrQ[None, 0, None, row_tile], fragments.tSrK[None, 0, None, state.index]
        gemm(fragments.mmas.qk, tStS, tSrQ, tSrK, range(cute.size(tSrQ, mode=[1])), False)
        bars.commit("s_full", stage)
        if const_expr(row_tile == config.row_tiles - 1):
            if const_expr(not config.shared_kv):
                bars.commit_to_pair("kv_empty", state.index)
            state.advance()
        return state

    @cute.jit
    def mma_pv(self, state: PipelineState, i: Int32, row_tile: cutlass.Constexpr[int] = 0) -> PipelineState:
        """O += P[i] V[i]; the first tile overwrites. The last row tile gives V[i] back."""
        config, bars, fragments = self.cta.config, self.cta.bars, self.cta.fragments
        stage, phase = bars.stage_and_phase(i, row_tile)
        tOrP = fragments.tOrP[None, 0, None]
        if const_expr(config.p_path == "tmem"):
            columns = 2 * config.p_stride  # bf16 elements
            tOrP = cute.make_tensor(tOrP.iterator + stage * columns, tOrP.layout)
        if const_expr(not config.shared_kv and row_tile == 0):
            bars.wait("kv_full", state.index, state.phase)
        parts, first = config.p_parts, 0
        for part, count in enumerate(parts):
            bars.wait("p_full", stage * len(parts) + part, phase)
            steps = range(first, first + count * cute.size(tOrP, mode=[1]) // sum(parts))
            for half in range(config.threads_per_row):
                place = row_tile * config.o_cols + half * HALF_LANES * LANE
                tOtO = cute.make_tensor(fragments.tOtO.iterator + place, fragments.tOtO.layout)
                tOrV = fragments.tOrV[None, half, None, state.index]
                gemm(fragments.mmas.pv, tOtO, tOrP, tOrV, steps, i > 0 if part == 0 else True)
            first = steps.stop
        if const_expr(row_tile == config.row_tiles - 1):
            bars.commit_to_pair("kv_empty", state.index)
            state.advance()
        bars.commit("o_done", stage)
        return state


def gemm(
    tiled: cute.TiledMma,
    acc: cute.Tensor,
    a: cute.Tensor,
    b: cute.Tensor,
    steps: range,
    accumulate: Any,
    ahead: int = 0,
) -> None:
    """acc (+)= a b, one instruction for every 16 of the summed dimension: b's by `steps`, a's so many further on."""
    tiled = new_from_mlir_values(tiled, extract_mlir_values(tiled))  # its fields change, the caller's must not
    acc = acc[None, 0, 0]
    for k in steps:
        tiled.set(tcgen05.Field.ACCUMULATE, accumulate if k == steps.start else True)
        cute.gemm(tiled, acc, a[None, ahead + k], b[None, k], acc)
