"""What the CTAs of a cluster that share a row tile's keys do in the end: each merges its rows of all their partials."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from kernel.config import FP32_BYTES, WARP, FmhaConfig
from kernel.sm100.barriers import meet
from kernel.sm100.cta import LOAD_COLS, VECTOR_BYTES, Cta
from kernel.sm100.softmax import RunningSoftmax, SoftmaxWarp
from kernel.sm100.tiles import Fixed

STATS = 2  # of a row, which stand behind its U: maximum and sum


def partial_rows(config: FmhaConfig, at: cute.Pointer) -> cute.Tensor:
    """(row, column) of a CTA's U in fp32, with the row's maximum and sum behind it; `at`: where Q and the keys lay."""
    rows = cute.make_layout((config.block_m, config.partial_row), stride=(config.partial_row, 1))
    return cute.make_tensor(cute.recast_ptr(at, cute.make_swizzle(0, 4, 3), Float32), rows)


class Partial(SoftmaxWarp):
    """By the softmax warps: a CTA's own U, maxima and sums, put where its peers read them."""

    @cute.jit
    def run(self) -> None:
        config, thread = self.cta.config, self.thread
        thread.wait_for_o(self.cta)  # nothing reads Q and the keys any more
        own, count = partial_rows(config, self.cta.smem.sQ.iterator)[thread.row, None], config.o_cols // LOAD_COLS
        row_sum = self.running.row_sum()
        if thread.half == 0:
            own[config.head_dim], own[config.head_dim + 1] = self.running.row_max, row_sum
        blocks = cute.logical_divide(own, cute.make_layout(LOAD_COLS))
        for c in cutlass.range_constexpr(count):
            cute.autovec_copy(thread.o_or_zeros(self.cta, c), blocks[None, thread.half * count + c])


@dataclass
class Combine(Fixed):
    """By every warp: rows of O out of the partials of all CTAs, one after the other in a fixed order."""

    cta: Cta

    @cute.jit
    def run(self, warp: Any) -> None:
        config, row_tile = self.cta.config, self.cta.row_tile
        meet(config)
        for i in cutlass.range(warp, config.block_m // config.splits, config.threads // WARP, unroll=1):
            row = i * config.splits + cute.arch.block_idx_in_cluster()
            if row_tile.row(row) < row_tile.rows:
                self.merge_row(row)

    def shares(self, row: Int32) -> list[cute.Tensor]:
        """That row of the partials of every CTA, the own one first: from its shared memory it comes fast."""
        config, at, rank = self.cta.config, self.cta.smem.sQ.iterator, cute.arch.block_idx_in_cluster()
        others = [cute.arch.map_dsmem_ptr(at, rank + s & config.splits - 1) for s in range(1, config.splits)]
        return [partial_rows(config, base)[row, None] for base in (at, *others)]

    @cute.jit
    def merge_row(self, row: Int32) -> None:
        """O = sum of U_s exp(m_s - m) over sum of l_s exp(m_s - m) and sink; lanes side by side have columns so."""
        config, args, row_tile = self.cta.config, self.cta.args, self.cta.row_tile
        shares, number = self.shares(row), row_tile.row(row)
        stats = [loaded(share, STATS, config.head_dim // STATS) for share in shares]
        running = RunningSoftmax(args.scale_log2, config.threads_per_row)
        running.stats[0] = functools.reduce(cute.arch.fmax, [each[0] for each in stats])
        weights = [running.weight_of(each[0]) for each in stats]
        row_sum = functools.reduce(operator.add, [w * each[1] for w, each in zip(weights, stats, strict=True)])
        if cute.arch.lane_idx() == 0:
            running.store(args, row_sum, row_tile.group, number)
        inverse = running.inverse(row_sum, None if args.sink is None else args.sink[row_tile.head(row)])
        vector = min(VECTOR_BYTES // FP32_BYTES, config.head_dim // WARP)
        for first in range(0, config.head_dim // vector, WARP):
            at = first + cute.arch.lane_idx()
            u = self.merged([loaded(share, vector, at) for share in shares], weights)
            for tensor, factor in ((self.cta.copies.u, 1.0), (self.cta.copies.o, inverse)):
                if const_expr(tensor is not None):
                    out = cute.make_rmem_tensor(vector, tensor.element_type)
                    out.store((u.load() * factor).to(tensor.element_type))
                    own = tensor[row_tile.group, number, None]
                    cute.autovec_copy(out, cute.logical_divide(own, cute.make_layout(vector))[None, at])

    def merged(self, parts: list[cute.Tensor], weights: list[Any]) -> cute.Tensor:
        """Sum of the shares' vectors, weighted, in their order."""
        total = cute.make_rmem_tensor(parts[0].shape, Float32)
        total.fill(0.0)
        for each, weight in zip(parts, weights, strict=True):
            for j in range(0, cute.size(total), 2):
                pair, own = (total[j], total[j + 1]), (each[j], each[j + 1])
                total[j], total[j + 1] = cute.arch.fma_packed_f32x2(own, (weight, weight), pair)
        return total


def loaded(row: cute.Tensor, width: int, i: Any) -> cute.Tensor:
    """The i-th `width` elements of a row in registers."""
    registers = cute.make_rmem_tensor(width, Float32)
    cute.autovec_copy(cute.logical_divide(row, cute.make_layout(width))[None, i], registers)
    return registers
