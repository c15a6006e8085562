"""The mma role: one warp issues S = Q K' and O += P V, for its CTA or for both of a pair."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment, call-overload"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, const_expr
from cutlass.cute.nvgpu import tcgen05
from cutlass.cutlass_dsl import extract_mlir_values, new_from_mlir_values

from kernel.sm100.cta import HALF_LANES, LANE, Cta, RowTiles
from kernel.sm100.traced import Fixed, smaller


@cute.jit
def multiply(tiles: RowTiles) -> None:
    """Both products of all row tiles of the CTA."""
    turn, row_tiles = Int32(0), Int32(0)
    first, end, step = tiles.numbers
    for number in cutlass.range(first, end, step, unroll=1):
        warp = MmaWarp(tiles.at(number, turn), row_tiles)
        warp.run()
        turn, row_tiles = turn + warp.cta.kv_tiles.count, row_tiles + smaller(warp.cta.kv_tiles.count, 1)


@dataclass
class MmaWarp(Fixed):
    """The mma warp at a row tile, or at two in flight, which take turns then: docs/kernel.md has the orders."""

    cta: Cta
    row_tiles: Any  # how often the CTA was at one that sees keys before

    @cute.jit
    def run(self) -> None:
        config, bars, count = self.cta.config, self.cta.bars, self.cta.kv_tiles.count
        if count > 0:
            bars.wait("q_full", 0, self.row_tiles % 2)
        for i in cutlass.range(count, unroll=1):
            for t in cutlass.range_constexpr(config.row_tiles):
                if const_expr(not config.s_ahead):
                    self.mma_pv_before(i, t)
                self.mma_qk(i, t)
            if i == count - 1:
                bars.commit("q_empty", 0)
            if const_expr(config.s_ahead):
                self.mma_pv_before(i)
        for t in cutlass.range_constexpr(config.row_tiles):
            self.mma_pv_before(count, t)

    @cute.jit
    def mma_qk(self, i: Int32, row_tile: cutlass.Constexpr[int] = 0) -> None:
        """S[i] = Q K[i]', unit after unit of the head dim; the last row tile gives K[i] back."""
        config, bars, fragments, turn = self.cta.config, self.cta.bars, self.cta.fragments, self.cta.turn + i
        stage, _ = bars.stage_and_phase(turn, row_tile)
        tStS = cute.make_tensor(fragments.tStS.iterator + stage * config.s_cols, fragments.tStS.layout)
        for c in range(config.units):
            slot, phase = bars.slot_and_phase(turn, c)
            bars.wait("k_full", slot, phase)
            tSrK = fragments.tSrK[None, 0, None, slot]
            steps = cute.size(tSrK, mode=[1])
            tSrQ = fragments.tSrQ[None, 0, None, row_tile]
            gemm(fragments.mmas.qk, tStS, tSrQ, tSrK, range(steps), c > 0, c * steps)
            if config.own_v and row_tile == config.row_tiles - 1:
                bars.commit("k_empty", slot)
        bars.commit("s_full", stage)

    @cute.jit
    def mma_pv_before(self, i: Int32, row_tile: cutlass.Constexpr[int] = 0) -> None:
        if i > 0:
            self.mma_pv(i - 1, row_tile)

    @cute.jit
    def mma_pv(self, i: Int32, row_tile: cutlass.Constexpr[int]) -> None:
        """O += P[i] V[i], unit after unit of the keys and part after part of P; the first overwrites.

        The last row tile gives V[i] back, or the K[i] that it is.
        """
        config, bars, fragments, turn = self.cta.config, self.cta.bars, self.cta.fragments, self.cta.turn + i
        stage, phase = bars.stage_and_phase(turn, row_tile)
        tOrP, parts = fragments.tOrP[None, 0, None], config.p_parts
        if const_expr(config.p_path == "tmem"):
            columns = 2 * config.p_stride  # bf16 elements
            tOrP = cute.make_tensor(tOrP.iterator + stage * columns, tOrP.layout)
        first = 0
        for part, count in enumerate(parts):
            bars.wait("p_full", stage * len(parts) + part, phase)
            if part == 0 and i == 0:
                bars.wait("tmem_free", row_tile, (self.row_tiles + 1) % 2)
            for c in range(config.units):
                slot, v_phase = bars.slot_and_phase(turn, c)
                if part == 0 and config.own_v:
                    bars.wait("v_full", slot, v_phase)
                tOrV = fragments.tOrV[None, None, None, slot]
                keys = cute.size(tOrV, mode=[2])
                steps = range(first * keys // sum(parts), (first + count) * keys // sum(parts))
                for n in range(cute.size(tOrV, mode=[1])):
                    tOtO = cute.make_tensor(fragments.tOtO.iterator + self.place(row_tile, n), fragments.tOtO.layout)
                    accumulate = i > 0 if part == c == 0 else True
                    gemm(fragments.mmas.pv, tOtO, tOrP, tOrV[None, n, None], steps, accumulate, c * keys)
                if part == len(parts) - 1 and row_tile == config.row_tiles - 1:
                    bars.commit("v_empty" if config.own_v else "k_empty", slot)
            first += count
        bars.commit("o_done", stage)

    def place(self, row_tile: int, n: int) -> int:
        """Where the n-th MMA_N columns of O begin: side by side, or with 64 rows of a CTA in the other lanes."""
        config = self.cta.config
        aside = config.o_cols // 2 if config.halves_apart else HALF_LANES * LANE
        return row_tile * config.o_cols + n * aside


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
