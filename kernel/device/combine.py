"""The epilogue of split keys: each CTA of the cluster merges its part of the rows from all partial results."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr

from kernel.device.barriers import sync_ctas
from kernel.device.config import STATS, DeviceConfig
from kernel.device.cta import Cta, split_of_cta
from kernel.device.softmax import RunningSoftmax
from kernel.device.tiles import LoopInvariant
from kernel.hardware import FP32_BYTES, VECTOR_BYTES, WARP


def partial_rows(config: DeviceConfig, base: cute.Pointer) -> cute.Tensor:
    """Return a CTA's partial result as (row, column) in fp32: U, then the row's maximum and sum.

    base: the start of the buffers of Q and the keys, which the result overwrites.
    """
    rows = cute.make_layout((config.block_m, config.partial_row), stride=(config.partial_row, 1))
    return cute.make_tensor(cute.recast_ptr(base, cute.make_swizzle(0, 4, 3), Float32), rows)


@dataclass
class Combine(LoopInvariant):
    """The merge: rows of O from the partial results of all CTAs, added in a fixed order."""

    loads_u_early: ClassVar[bool]
    """True if U is loaded before the statistics are known."""

    cta: Cta

    @property
    def warps(self) -> int:
        """Number of warps that merge."""
        raise NotImplementedError

    def running(self) -> RunningSoftmax:
        """Return the statistics of a merged row."""
        raise NotImplementedError

    @cute.jit
    def run(self, warp: Any) -> None:
        """Merge every splits-th row of the row tile."""
        config = self.cta.config
        row_tile = self.cta.row_tile
        # 1. Wait for the partial results of all CTAs of the cluster.
        sync_ctas(config.splits)
        # 2. Divide this CTA's rows among its warps; where there are more warps than rows, they divide a row too.
        rows = config.block_m // config.splits
        warps = self.warps
        lane = cute.arch.lane_idx()
        width = min(VECTOR_BYTES // FP32_BYTES, config.head_dim // WARP)  # elements of a lane's vector
        vectors = config.head_dim // WARP // width  # of a row, per lane
        parts = 1 << min(vectors, max(warps // rows, 1)).bit_length() - 1  # of a row, each for one warp
        # 3. Merge. A row tile at the end of a group may have fewer rows.
        for i in cutlass.range(warp, rows * parts, warps, unroll=1):
            row = i // parts * config.splits + split_of_cta(config)
            if row_tile.row(row) < row_tile.rows:
                self.merge(row, [(n + i % parts) * WARP + lane for n in range(0, vectors, parts)], width)

    def partial(self, split: Any) -> cute.Tensor:
        """Return the partial result of the row tile's split whose number is higher by `split`, modulo their number.

        With 0, an address of this CTA's own shared memory, which is faster than DSMEM.
        """
        config = self.cta.config
        base = self.cta.smem.sQ.iterator
        own = isinstance(split, int) and split == 0
        rank = cute.arch.block_idx_in_cluster() + split * config.loading_ctas & config.cluster_ctas - 1
        return partial_rows(config, base if own else cute.arch.map_dsmem_ptr(base, rank))

    @cute.jit
    def merge(self, row: Int32, vectors: list[Int32], width: cutlass.Constexpr[int]) -> None:
        """O = sum of U_s exp(m_s - m) / (sum of l_s exp(m_s - m) + sink); a lane has some vectors of the row."""
        config = self.cta.config
        args = self.cta.args
        row_tile = self.cta.row_tile
        partials = [self.partial(s)[row, None] for s in range(config.splits)]
        number = row_tile.row(row)
        # 1. Load the statistics: lane s loads those of split s.
        of_lane = self.partial(cute.arch.lane_idx())[row, None]
        stats = load_vector(of_lane, STATS, config.head_dim // STATS)
        running = self.running()
        largest = load_vector(of_lane, 1, config.head_dim + STATS)[0] if running.maxima else None
        if const_expr(self.loads_u_early):
            parts = load_vectors(partials, width, vectors)
        # 2. Find the row's maximum and sum.
        running.stats[0] = cute.arch.warp_reduction(stats[0], cute.arch.fmax, threads_in_group=config.splits)
        if const_expr(running.maxima):
            running.set_largest(cute.arch.warp_reduction(largest, cute.arch.fmax, threads_in_group=config.splits))
        weight = running.weight_of(stats[0])
        row_sum = cute.arch.warp_reduction(weight * stats[1], operator.add, threads_in_group=config.splits)
        weights = [cute.arch.shuffle_sync(weight, s) for s in range(config.splits)]
        # 3. Store lse and m, once per row.
        if vectors[0] == 0:
            running.store(args, row_sum, row_tile.group, number)
        # 4. Load this lane's vectors of U, merge them, and store U and O. DSMEM has a high latency, so no vector waits
        #    for another.
        inverse = running.inverse(row_sum, self.cta.sink_logit(row))
        if const_expr(not self.loads_u_early):
            parts = load_vectors(partials, width, vectors)
        for at, of_splits in zip(vectors, parts, strict=True):
            u = self.merged(of_splits, weights)
            for tensor, factor in ((self.cta.copies.u, 1.0), (self.cta.copies.o, inverse)):
                if const_expr(tensor is not None):
                    out = cute.make_rmem_tensor(width, tensor.element_type)
                    out.store((u.load() * factor).to(tensor.element_type))
                    own = tensor[row_tile.group, number, None]
                    cute.autovec_copy(out, cute.logical_divide(own, cute.make_layout(width))[None, at])

    def merged(self, parts: list[cute.Tensor], weights: list[Any]) -> cute.Tensor:
        """Return the weighted sum of the splits' vectors. The order is fixed, so that a row's bits do not vary."""
        total = cute.make_rmem_tensor(parts[0].shape, Float32)
        total.fill(0.0)
        for each, weight in zip(parts, weights, strict=True):
            self.accumulate(total, each, weight)
        return total

    def accumulate(self, total: cute.Tensor, part: cute.Tensor, weight: Any) -> None:
        """Add a weighted vector to the total."""
        raise NotImplementedError


def load_vector(row: cute.Tensor, width: int, i: Any) -> cute.Tensor:
    """Load the i-th `width` elements of a row into registers."""
    registers = cute.make_rmem_tensor(width, Float32)
    cute.autovec_copy(cute.logical_divide(row, cute.make_layout(width))[None, i], registers)
    return registers


def load_vectors(rows: list[cute.Tensor], width: int, vectors: list[Any]) -> list[list[cute.Tensor]]:
    """Load some vectors of `width` elements from every row. Return a list per vector, with an element per row."""
    return [[load_vector(row, width, i) for row in rows] for i in vectors]
