"""What the CTAs of a cluster that share a row tile's keys do in the end: each merges its rows of all their partials."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32, const_expr
from cutlass.cute.nvgpu import tcgen05

from kernel.arguments import Arguments
from kernel.config import TMEM_LANES, WARP, FmhaConfig
from kernel.sm100.cta import LOAD_COLS, Cta
from kernel.sm100.operands import Results
from kernel.sm100.softmax import RowThread, RunningSoftmax, flat
from kernel.sm100.traced import Fixed

VECTOR = 4  # fp32 of one access
STATS = 2  # of a row, which stand behind its U: maximum and sum


def partial_rows(config: FmhaConfig, at: cute.Pointer) -> cute.Tensor:
    """(row, column) of a CTA's U in fp32, with the row's maximum and sum behind it; `at`: where Q and the keys lay."""
    rows = cute.make_layout((config.block_m, config.partial_row), stride=(config.partial_row, 1))
    return cute.make_tensor(cute.recast_ptr(at, cute.make_swizzle(0, 4, 3), Float32), rows)


@dataclass
class Partial(Fixed):
    """By the softmax warps: a CTA's own U, maxima and sums, put where its peers read them."""

    cta: Cta
    thread: RowThread
    running: RunningSoftmax

    @cute.jit
    def run(self) -> None:
        config, kv, thread = self.cta.config, self.cta.kv_tiles, self.thread
        if kv.count > 0:  # nothing reads Q and the keys any more, and O is whole
            stage, phase = self.cta.bars.stage_and_phase(kv.count - 1)
            self.cta.bars.wait("o_done", stage, phase)
        own = partial_rows(config, self.cta.smem.sQ.iterator)[thread.row, None]
        row_sum = self.running.row_sum()
        if thread.half == 0:
            own[config.head_dim] = self.running.row_max
            own[config.head_dim + 1] = row_sum
        tOtO = self.cta.fragments.o_blocks(0)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(LOAD_COLS)), Float32)
        load = tcgen05.make_tmem_copy(atom, tOtO[None, None, 0]).get_slice(thread.index)
        shape = load.partition_D(cute.make_identity_tensor((TMEM_LANES, LOAD_COLS))).shape
        blocks = cute.logical_divide(own, cute.make_layout(LOAD_COLS))
        for c in cutlass.range_constexpr(cute.size(tOtO, mode=[2])):
            u = cute.make_rmem_tensor(shape, Float32)
            u.fill(0.0)
            if kv.count > 0:
                cute.copy(load, load.partition_S(tOtO[None, None, c]), u)
                cute.arch.fence_view_async_tmem_load()
            cute.autovec_copy(flat(u), blocks[None, thread.half * (config.o_cols // LOAD_COLS) + c])


@dataclass
class Combine(Fixed):
    """By every warp: rows of O out of the partials of all CTAs, one after the other in the order of their keys."""

    cta: Cta
    args: Arguments
    results: Results

    @cute.jit
    def run(self, warp: Any) -> None:
        config, row_tile = self.cta.config, self.cta.row_tile
        rank = cute.arch.block_idx_in_cluster()
        self.meet()
        for i in cutlass.range(warp, config.block_m // config.splits, config.threads // WARP, unroll=1):
            row = i * config.splits + rank
            if row_tile.row(row) < row_tile.rows:
                self.merge_row(row)
        self.meet()  # before its shared memory goes, which the others read

    def meet(self) -> None:
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

    def peers(self, row: Int32) -> list[cute.Tensor]:
        """That row of the partials of every CTA that has a share of its keys."""
        config, at = self.cta.config, self.cta.smem.sQ.iterator
        mapped = [cute.arch.map_dsmem_ptr(at, s) for s in range(config.splits)]
        return [partial_rows(config, base)[row, None] for base in mapped]

    @cute.jit
    def merge_row(self, row: Int32) -> None:
        """O = sum of U_s exp(m_s - m) over sum of l_s exp(m_s - m) and sink; lanes side by side have columns so."""
        config, args, row_tile = self.cta.config, self.args, self.cta.row_tile
        peers, number = self.peers(row), row_tile.row(row)
        stats = [cute.make_rmem_tensor(STATS, Float32) for _ in peers]
        for peer, registers in zip(peers, stats, strict=True):
            behind = cute.logical_divide(peer, cute.make_layout(STATS))[None, config.head_dim // STATS]
            cute.autovec_copy(behind, registers)
        tops = [each[0] for each in stats]
        running = RunningSoftmax.start(args.scale_log2, config.threads_per_row)
        running.stats[0] = functools.reduce(cute.arch.fmax, tops)
        weights = [running.weight_of(top) for top in tops]
        sums = [weight * each[1] for weight, each in zip(weights, stats, strict=True)]
        row_sum = functools.reduce(operator.add, sums)
        if cute.arch.lane_idx() == 0:
            running.store(args, row_sum, row_tile.group, number)
        inverse = running.inverse(row_sum, None if args.sink is None else args.sink[row_tile.head(row)])
        vector = cute.make_layout(min(VECTOR, config.head_dim // WARP))
        partials = [cute.logical_divide(peer, vector) for peer in peers]
        mO = cute.logical_divide(self.results.o[row_tile.group, number, None], vector)
        for first in range(0, config.head_dim // cute.size(vector), WARP):
            at = first + cute.arch.lane_idx()
            u = self.merged([partial[None, at] for partial in partials], weights)
            if const_expr(self.results.u is not None):
                mU = cute.logical_divide(self.results.u[row_tile.group, number, None], vector)
                cute.autovec_copy(u, mU[None, at])
            o = cute.make_rmem_tensor(vector, BFloat16)
            o.store((u.load() * inverse).to(BFloat16))
            cute.autovec_copy(o, mO[None, at])

    def merged(self, parts: list[cute.Tensor], weights: list[Any]) -> cute.Tensor:
        """Sum of vectors in shared memory of several CTAs, weighted, in their order."""
        loaded = [cute.make_rmem_tensor(part.shape, Float32) for part in parts]
        for part, registers in zip(parts, loaded, strict=True):
            cute.autovec_copy(part, registers)
        total = cute.make_rmem_tensor(parts[0].shape, Float32)
        total.fill(0.0)
        for each, weight in zip(loaded, weights, strict=True):
            for j in range(0, cute.size(total), 2):
                pair, own = (total[j], total[j + 1]), (each[j], each[j + 1])
                total[j], total[j + 1] = cute.arch.fma_packed_f32x2(own, (weight, weight), pair)
        return total
