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

from kernel.config import S_STAGES
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
        bars, count, row_tiles = self.cta.bars, self.cta.kv_tiles.count, self.cta.config.row_tiles
        if count > 0:
            bars.wait("q_full", 0, self.row_tiles % 2)
        if const_expr(self.cta.config.by_twos):
            self.run_by_twos()
        else:
            for i in cutlass.range(count, unroll=1):
                for t in cutlass.range_constexpr(row_tiles):
                    if const_expr(not self.cta.config.s_ahead):
                        self.mma_pv_before(i, t)
                    self.mma_qk(i, t)
                if const_expr(self.cta.config.s_ahead):
                    self.mma_pv_before(i)
            for t in cutlass.range_constexpr(row_tiles):
                self.mma_pv_before(count, t)

    @cute.jit
    def run_by_twos(self) -> None:
        """S[i]; S[i+1] and, a unit behind, P[i] V[i]; P[i+1] V[i+1]: two loads are under way at once then."""
        count, units = self.cta.kv_tiles.count, self.cta.config.units
        for first in cutlass.range(0, count, S_STAGES, unroll=1):
            self.mma_qk(first)
            last = first
            if first + 1 < count:
                last = first + 1
                self.unit_qk(last, 0, 0)
                for unit in cutlass.range_constexpr(1, units):
                    self.unit_qk(last, 0, unit)
                    self.unit_pv(first, 0, unit - 1)
                self.unit_pv(first, 0, units - 1)
            self.mma_pv(last)

    def mma_qk(self, i: Int32, row_tile: int = 0) -> None:
        """S[i] = Q K[i]', unit after unit of the head dim."""
        for unit in range(self.cta.config.units):
            self.unit_qk(i, row_tile, unit)

    @cute.jit
    def mma_pv_before(self, i: Int32, row_tile: cutlass.Constexpr[int] = 0) -> None:
        if i > 0:
            self.mma_pv(i - 1, row_tile)

    def mma_pv(self, i: Int32, row_tile: int = 0) -> None:
        """O += P[i] V[i], unit after unit."""
        for unit in range(self.cta.config.units):
            self.unit_pv(i, row_tile, unit)

    @cute.jit
    def unit_qk(self, i: Int32, row_tile: cutlass.Constexpr[int], unit: cutlass.Constexpr[int]) -> None:
        """S[i] (+)= Q K[i]' of a part of the head dim; the last row tile gives it back."""
        config, bars, fragments, turn = self.cta.config, self.cta.bars, self.cta.fragments, self.cta.turn + i
        stage, _ = bars.stage_and_phase(turn, row_tile)
        tStS = cute.make_tensor(fragments.tStS.iterator + stage * config.s_cols, fragments.tStS.layout)
        slot, phase = bars.slot_and_phase(turn, unit)
        bars.wait("k_full", slot, phase)
        tSrQ, tSrK = fragments.tSrQ[None, 0, None, row_tile], fragments.tSrK[None, 0, None, slot]
        steps = cute.size(tSrK, mode=[1])
        gemm(fragments.mmas.qk, tStS, tSrQ, tSrK, range(steps), unit > 0, unit * steps)
        if const_expr(row_tile == config.row_tiles - 1 and config.own_v):
            bars.commit("k_empty", slot)
        if const_expr(unit == config.units - 1):
            if (row_tile == config.row_tiles - 1) & (i == self.cta.kv_tiles.count - 1):
                bars.commit("q_empty", 0)
            bars.commit("s_full", stage)

    @cute.jit
    def unit_pv(self, i: Int32, row_tile: cutlass.Constexpr[int], unit: cutlass.Constexpr[int]) -> None:
        """O += P[i] V[i] of some of V's columns or, where the MMA is of two CTAs, of its keys; the first overwrites.

        The last row tile gives them back.
        """
        config, bars, fragments, turn = self.cta.config, self.cta.bars, self.cta.fragments, self.cta.turn + i
        stage, phase = bars.stage_and_phase(turn, row_tile)
        slot, v_phase = bars.slot_and_phase(turn, unit)
        tOrV, parts, first = fragments.tOrV[None, None, None, slot], config.p_parts, 0
        for part, count in enumerate(parts):
            if const_expr(unit == 0):
                bars.wait("p_full", stage * len(parts) + part, phase)
                if (part == 0) & (i == 0):
                    bars.wait("tmem_free", row_tile, (self.row_tiles + 1) % 2)
            if const_expr(part == 0 and config.own_v):
                bars.wait("v_full", slot, v_phase)
            keys = cute.size(tOrV, mode=[2])
            steps = range(first * keys // sum(parts), (first + count) * keys // sum(parts))
            self.gemm_pv(fragments.p(config, stage), tOrV, steps, row_tile, unit, i > 0)
            first += count
        if const_expr(row_tile == config.row_tiles - 1):
            bars.commit("v_empty" if config.own_v else "k_empty", slot)
        if const_expr(unit == config.units - 1):
            bars.commit("o_done", stage)

    def gemm_pv(self, tOrP: Any, tOrV: cute.Tensor, steps: range, row_tile: int, unit: int, accumulate: Any) -> None:
        """Some of the instructions of a unit's P V, into its columns of O."""
        config, fragments = self.cta.config, self.cta.fragments
        columns, ahead = unit * config.v_unit[1], 0
        if config.mma_ctas == 2:
            columns, ahead = 0, unit * cute.size(tOrV, mode=[2])
        width = fragments.mmas.pv.shape_mnk[1] // (2 if config.halves_apart else 1)
        for n in range(cute.size(tOrV, mode=[1])):
            half, column = divmod(columns + n * width, config.o_cols)
            place = row_tile * config.o_cols + half * HALF_LANES * LANE + column
            tOtO = cute.make_tensor(fragments.tOtO.iterator + place, fragments.tOtO.layout)
            first = accumulate if steps.start + ahead == 0 else True
            gemm(fragments.mmas.pv, tOtO, tOrP, tOrV[None, n, None], steps, first, ahead)


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
