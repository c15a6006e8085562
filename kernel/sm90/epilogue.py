"""The epilogue of the consumers: O = U / l and the row's statistics; a warp stores its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.device.operands import slice_ring, tma_partition
from kernel.device.tiles import LoopInvariant
from kernel.hardware import SWIZZLE_BYTES, WARPGROUP
from kernel.sm90.consumer import Consumer
from kernel.sm90.softmax import COLS, ROWS, of_row


@dataclass
class Epilogue(LoopInvariant):
    """The epilogue of a consumer thread."""

    consumer: Consumer

    @cute.jit
    def run(self) -> None:
        """Store the statistics, then U and O."""
        cta, thread = self.consumer.cta, self.consumer.thread
        args, row_tile = cta.args, cta.row_tile
        self.consumer.set_largest()
        row_sums, factors = self.consumer.row_sums(), []
        for r, softmax in enumerate(self.consumer.rows):
            row_sum, i = row_sums[r], thread.q_tile * cta.config.tile_m + thread.row(r)
            if (row_tile.row(i) < row_tile.rows) & (thread.column == 0) & self.consumer.stores_rows:
                softmax.store(args, row_sum, row_tile.group, row_tile.row(i))
            factors.append(softmax.inverse(row_sum, cta.sink_logit(i)))
        if const_expr(cta.copies.u is not None):
            self.store_rows(cta.copies.u, Float32, [softmax.lag() for softmax in self.consumer.rows])
        self.store_rows(cta.copies.o, BFloat16, factors)
        if const_expr(cta.config.smem.stages_o_in_p):
            # P of the next row tile is written only after a later barrier.
            cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.sync_warp()

    @cute.jit
    def store_rows(self, tma: cpasync.TmaInfo, dtype: type[cutlass.Numeric], factors: list[Any]) -> None:
        """Store a scaled result by way of the warp's staging buffer, 128 bytes of each row at a time.

        TMA does not write rows past the end.
        """
        cta, thread, (atom, dst) = self.consumer.cta, self.consumer.thread, tma
        config, row_tile = cta.config, cta.row_tile
        rows, width = box = config.variant.rows_per_warp, SWIZZLE_BYTES * 8 // dtype.width
        # In P's buffer, a warp stages O where P is that only its own warpgroup reads.
        place = thread.warp ^ WARPGROUP if config.smem.stages_o_in_p else thread.warp
        warps, buffers = len(config.roles.consumers), config.smem.o_buffers
        staging = slice_ring(cta.smem.sO, box, warps * buffers, dtype)
        groups = config.o_cols // width
        box_row = row_tile.index * (config.block_m // rows) + thread.q_tile * WARPGROUP + thread.warp % WARPGROUP
        for group in cutlass.range_constexpr(groups):
            # 1. Wait until the last store from this buffer has read it.
            cute.arch.cp_async_bulk_wait_group(buffers - 1, read=True)
            cute.arch.sync_warp()
            staged = staging[None, None, place + warps * (group % buffers)]
            # 2. Stage 128 bytes of each row.
            self.stage(staged, dtype, group * (width // COLS), factors)
            cute.arch.fence_view_async_shared()
            cute.arch.sync_warp()
            # 3. Store them.
            column = group + (groups * thread.warpgroup if config.variant.shares_rows else 0)
            g = cute.local_tile(dst, box, (box_row, column, row_tile.group))
            cute.copy(atom, *tma_partition(atom, staged, g))
            cute.arch.cp_async_bulk_commit_group()

    def stage(self, staged: cute.Tensor, dtype: type[cutlass.Numeric], first: int, factors: list[Any]) -> None:
        """Write scaled columns of the thread's rows to shared memory, a pair at a time, from block `first` of 8 on."""
        rows, width = staged.shape[0], cute.size(staged, mode=[1])
        for r in range(ROWS):
            u = of_row(self.consumer.o, r)
            pairs = cute.logical_divide(staged[self.consumer.thread.row(r) % rows, None], cute.make_layout(2))
            values = cute.make_rmem_tensor((2, width // COLS), dtype)
            for j in range(width // COLS):
                for c in range(2):
                    values[c, j] = dtype(u[c, first + j] * factors[r])
                cute.autovec_copy(values[None, j], pairs[None, j * (COLS // 2) + self.consumer.thread.column])
