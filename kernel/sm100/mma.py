"""The mma role: one warp issues S = Q K' and O += P V, for its CTA or for both of a pair."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.experimental import primitives

from kernel.config import MMA_K, S_STAGES
from kernel.sm100.cta import HALF_LANES, LANE, Cta
from kernel.sm100.tiles import Fixed, smaller

Step = Callable[[int], Any]  # of the summed dimension: what an instruction takes of an operand


@cute.jit
def multiply(cta: Cta) -> None:
    """Both products of all row tiles of the CTA."""
    turn, row_tiles = Int32(0), Int32(0)
    first, end, step = cta.numbers
    for number in cutlass.range(first, end, step, unroll=1):
        warp = MmaWarp(cta.at(number, turn), row_tiles)
        warp.run()
        turn, row_tiles = turn + warp.cta.kv_tiles.count, row_tiles + smaller(warp.cta.kv_tiles.count, 1)


@dataclass
class MmaWarp(Fixed):
    """The mma warp at one row tile or at two in flight: docs/explanation/kernel.md has the orders."""

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
            for i in cutlass.range(count + 1, unroll=1):
                for t in cutlass.range_constexpr(row_tiles):
                    if i > 0 and not self.cta.config.s_ahead:
                        self.whole(self.unit_pv, i - 1, t)
                    if i < count:
                        self.whole(self.unit_qk, i, t)
                if i > 0 and self.cta.config.s_ahead:
                    self.whole(self.unit_pv, i - 1)

    @cute.jit
    def run_by_twos(self) -> None:
        """S[i]; S[i+1] and, a unit behind, P[i] V[i]; P[i+1] V[i+1]: two loads are under way at once then."""
        count, units = self.cta.kv_tiles.count, self.cta.config.units
        for first in cutlass.range(0, count, S_STAGES, unroll=1):
            self.whole(self.unit_qk, first)
            last = first
            if first + 1 < count:
                last = first + 1
                for unit in cutlass.range_constexpr(units + 1):
                    if const_expr(unit < units):
                        self.unit_qk(last, 0, unit)
                    if const_expr(unit > 0):
                        self.unit_pv(first, 0, unit - 1)
            self.whole(self.unit_pv, last)

    def whole(self, product: Callable[..., None], i: Int32, row_tile: int = 0) -> None:
        """S[i] = Q K[i]' or O += P[i] V[i], unit after unit."""
        for unit in range(self.cta.config.units):
            product(i, row_tile, unit)

    @cute.jit
    def unit_qk(self, i: Int32, row_tile: cutlass.Constexpr[int], unit: cutlass.Constexpr[int]) -> None:
        """S[i] (+)= Q K[i]' of a part of the head dim; the last row tile gives it back."""
        config, bars, fragments, turn = self.cta.config, self.cta.bars, self.cta.fragments, self.cta.turn + i
        stage, _ = bars.stage_and_phase(turn, row_tile)
        slot, phase = bars.slot_and_phase(turn, unit)
        bars.wait("k_full", slot, phase)
        if const_expr(config.compressed == "topk" and config.mma_ctas == 1):
            cute.arch.fence_view_async_shared()
        q, k = fragments.Q.at(row_tile, unit * config.k_unit[1]), fragments.K.at(slot)
        steps = range(config.k_unit[1] // MMA_K)
        gemm(fragments.products.qk, fragments.s(stage).iterator, q, k, steps, unit > 0)
        if const_expr(row_tile == config.row_tiles - 1 and config.own_v):
            bars.commit("k_empty", slot)
        if const_expr(unit == config.units - 1):
            if (row_tile == config.row_tiles - 1) & (i == self.cta.kv_tiles.count - 1):
                bars.commit("q_empty", 0)
            bars.commit("s_full", stage)

    @cute.jit
    def unit_pv(self, i: Int32, row_tile: cutlass.Constexpr[int], unit: cutlass.Constexpr[int]) -> None:
        """O += P[i] V[i] of some of V's columns or, where the MMA is of two CTAs, of its keys, which it gives back."""
        config, bars, fragments, turn = self.cta.config, self.cta.bars, self.cta.fragments, self.cta.turn + i
        stage, phase = bars.stage_and_phase(turn, row_tile)
        (slot, v_phase), parts, dims = bars.slot_and_phase(turn, unit), config.p_parts, config.v_unit[1]
        columns, ahead = (unit * dims, 0) if config.mma_ctas == 1 else (0, unit * config.v_unit[0] // MMA_K)
        count = config.mma_ctas * dims // fragments.products.pv.shape_mnk[1]  # of instructions for all columns
        for part, pieces in enumerate(parts):
            if const_expr(unit == 0):
                bars.wait("p_full", stage * len(parts) + part, phase)
            if const_expr(part == 0 and config.own_v):
                bars.wait("v_full", slot, v_phase)
            of_piece = config.v_unit[0] // MMA_K // parts[-1].stop
            steps = range(pieces.start * of_piece, pieces.stop * of_piece)
            more = i > 0 if steps.start + ahead == 0 else True
            for n in cutlass.range_constexpr(count):
                half, column = divmod(columns + n * (dims // count), config.o_cols)
                o = fragments.o + (row_tile * config.o_cols + half * HALF_LANES * LANE + column)
                v = fragments.V.at(slot, n * (dims // count))
                gemm(fragments.products.pv, o, fragments.p(stage, ahead), v, steps, more)
        if const_expr(row_tile == config.row_tiles - 1):
            bars.commit("v_empty" if config.own_v else "k_empty", slot)
        if const_expr(unit == config.units - 1):
            bars.commit("o_done", stage)


def gemm(tiled: cute.TiledMma, acc: cute.Pointer, a: Step, b: Step, steps: range, more: Any) -> None:
    """acc (+)= a b, one instruction for every 16 of the summed dimension; the first adds if there is `more`. One thread
    is elected for them all: cute.gemm elects one for each, which takes longer than their products."""
    op, (m, n, _) = tiled.op, tiled.op.shape_mnk
    described = {"b_major": int(op.b_major_mode == OperandMajorMode.MN), "m_dim": m, "n_dim": n}
    bits = primitives.Tcgen05InstrDesc.build(c_dtype=Float32, a_dtype=BFloat16, b_dtype=BFloat16, **described)
    tmem = functools.partial(cutlass.inttoptr, mem_space=cute.AddressSpace.tmem, dtype=Float32)
    with cute.arch.elect_one():
        for k in steps:
            left = tmem(a(k)) if op.a_src == tcgen05.OperandSource.TMEM else a(k)
            further = more if k == steps.start else True
            primitives.tcgen05_mma("f16", f"cta_{op.cta_group.value}", tmem(acc.toint()), left, b(k), bits, further)
