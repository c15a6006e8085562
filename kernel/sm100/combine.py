"""What the CTAs of a cluster that share a row tile's keys do in the end: each merges its rows of all their partials."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from kernel.config import FP32_BYTES, STATS, WARP, FmhaConfig
from kernel.sm100.barriers import meet
from kernel.sm100.cta import LOAD_COLS, VECTOR_BYTES, Cta
from kernel.sm100.softmax import RunningSoftmax, SoftmaxWarp
from kernel.sm100.tiles import Fixed


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
        row_sum, blocks = self.running.row_sum(), cute.logical_divide(own, cute.make_layout(LOAD_COLS))
        if thread.row < config.block_m:  # a warp's rows all are, or none
            if thread.half == 0:
                own[config.head_dim], own[config.head_dim + 1] = self.running.stats[0], row_sum
            for c in cutlass.range_constexpr(count):
                cute.autovec_copy(thread.o_or_zeros(self.cta, c), blocks[None, thread.half * count + c])


@dataclass
class Combine(Fixed):
    """By every warp: rows of O out of the partials of all CTAs, one after the other in a fixed order."""

    cta: Cta

    @cute.jit
    def run(self, warp: Any) -> None:
        config, row_tile = self.cta.config, self.cta.row_tile
        meet(config.splits)
        rows, warps, lane = config.block_m // config.splits, config.threads // WARP, cute.arch.lane_idx()
        width = min(VECTOR_BYTES // FP32_BYTES, config.head_dim // WARP)  # of a lane's vectors
        vectors = config.head_dim // WARP // width
        parts = 1 << min(vectors, max(warps // rows, 1)).bit_length() - 1  # of a row, where there are warps enough
        for i in cutlass.range(warp, rows * parts, warps, unroll=1):
            row = i // parts * config.splits + cute.arch.block_idx_in_cluster()
            if row_tile.row(row) < row_tile.rows:
                self.merge(row, [(n + i % parts) * WARP + lane for n in range(0, vectors, parts)], width)

    def share(self, s: Any) -> cute.Tensor:
        """The partials of a CTA, the own one first: from its shared memory it comes fast."""
        config, at, rank = self.cta.config, self.cta.smem.sQ.iterator, cute.arch.block_idx_in_cluster()
        own = isinstance(s, int) and s == 0
        return partial_rows(config, at if own else cute.arch.map_dsmem_ptr(at, rank + s & config.splits - 1))

    @cute.jit
    def merge(self, row: Int32, vectors: list[Int32], width: cutlass.Constexpr[int]) -> None:
        """O = sum of U_s exp(m_s - m) over sum of l_s exp(m_s - m) and sink, a lane some vectors of a row."""
        config, args, row_tile = self.cta.config, self.cta.args, self.cta.row_tile
        shares, number = [self.share(s)[row, None] for s in range(config.splits)], row_tile.row(row)
        stats = loaded(self.share(cute.arch.lane_idx())[row, None], STATS, config.head_dim // STATS)
        running = RunningSoftmax(args.scale_log2, config.threads_per_row)
        running.stats[0] = cute.arch.warp_reduction(stats[0], cute.arch.fmax, threads_in_group=config.splits)
        weight = running.weight_of(stats[0])  # a lane has that of a share
        row_sum = cute.arch.warp_reduction(weight * stats[1], operator.add, threads_in_group=config.splits)
        weights = [cute.arch.shuffle_sync(weight, s) for s in range(config.splits)]
        if vectors[0] == 0:
            running.store(args, row_sum, row_tile.group, number)
        inverse = running.inverse(row_sum, None if args.sink is None else args.sink[row_tile.head(row)])
        for at in vectors:
            u = self.merged([loaded(share, width, at) for share in shares], weights)
            for tensor, factor in ((self.cta.copies.u, 1.0), (self.cta.copies.o, inverse)):
                if const_expr(tensor is not None):
                    out = cute.make_rmem_tensor(width, tensor.element_type)
                    out.store((u.load() * factor).to(tensor.element_type))
                    own = tensor[row_tile.group, number, None]
                    cute.autovec_copy(out, cute.logical_divide(own, cute.make_layout(width))[None, at])

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
