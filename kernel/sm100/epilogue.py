"""The epilogue, by the softmax warps: O = U / l and the row's statistics; each warp stores its own rows."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.device.operands import slice_ring, tma_partition
from kernel.hardware import SWIZZLE_BYTES, VECTOR_BYTES, WARP
from kernel.sm100.operands import LOAD_COLS
from kernel.sm100.softmax import SoftmaxWarp


class Epilogue(SoftmaxWarp):
    """A softmax warp that stores the results of a row tile."""

    @cute.jit
    def run(self) -> None:
        """Store lse and m, U if it is asked for, and O."""
        kv = self.cta.kv_tiles
        row_tile = self.cta.row_tile
        args = self.cta.args
        thread = self.thread
        row = self.cta.row_tile.row(self.thread.row)
        # 1. Store lse and m while the last PV runs. One thread of a row does.
        row_sum = self.running.row_sum(self.cta.kv_done + kv.count)
        if row < row_tile.rows and thread.half == 0:
            self.running.store(args, row_sum, row_tile.group, row)
        # 2. Wait for the last PV.
        thread.wait_for_o(self.cta)
        # 3. Store U as it is, and O normalized.
        logit = self.cta.sink_logit(thread.row)
        if const_expr(self.cta.copies.u is not None):
            self.store_rows(self.cta.copies.u, Float32, Float32(1.0))
        self.store_rows(self.cta.copies.o, BFloat16, self.running.inverse(row_sum, logit))

    @cute.jit
    def store_rows(self, tma: cpasync.TmaInfo, dtype: type[cutlass.Numeric], factor: Any) -> None:
        """Multiply a warp's rows by `factor` and store them: tensor memory, registers, staging buffer, TMA.

        One pass moves 128 bytes of each row, in each half of the columns that the warp has. TMA leaves out rows past
        the end of the group.
        """
        config = self.cta.config
        row_tile = self.cta.row_tile
        thread = self.thread
        atom, dst = tma
        rows = config.variant.rows_per_warp
        width = SWIZZLE_BYTES * 8 // dtype.width
        tile = rows, width
        warps = len(config.roles.softmax)
        row_warps = config.block_m // rows
        slots = WARP // rows
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx()) - config.roles.softmax[0]
        staged = slice_ring(self.cta.smem.sO, tile, slots * warps * config.smem.o_stages, dtype)
        vector = cute.make_layout(VECTOR_BYTES * 8 // dtype.width)
        for group in cutlass.range_constexpr(config.tmem.o_cols // width):
            stage = group % config.smem.o_stages * slots * warps + warp
            own = cute.logical_divide(staged[thread.row % rows, None, thread.half % slots * warps + stage], vector)
            # 1. Wait until TMA has read the staging buffer's earlier contents: the lane that issued it waits for all.
            cute.arch.cp_async_bulk_wait_group(config.smem.o_stages - 1, read=True)
            cute.arch.sync_warp()
            # 2. Load O, multiply, convert, and write the thread's row of the staging buffer.
            for part in cutlass.range_constexpr(width // LOAD_COLS):
                o = thread.load_o_or_zeros(self.cta, group * (width // LOAD_COLS) + part)
                for j in range(0, LOAD_COLS, 2):
                    o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
                packed = cute.make_rmem_tensor(LOAD_COLS, dtype)
                packed.store(o.load().to(dtype))
                packed = cute.logical_divide(packed, vector)
                vectors = cute.size(packed, mode=[1])
                for j in range(vectors):
                    cute.autovec_copy(packed[None, j], own[None, part * vectors + j])
            # 3. Make all lanes' writes visible to TMA, then issue its store.
            cute.arch.fence_view_async_shared()
            cute.arch.sync_warp()
            for half in range(slots):
                columns = (warp // row_warps + half) * (config.tmem.o_cols // width) + group
                g = cute.local_tile(dst, tile, (row_tile.index * row_warps + warp % row_warps, columns, row_tile.group))
                cute.copy(atom, *tma_partition(atom, staged[None, None, half * warps + stage], g))
            cute.arch.cp_async_bulk_commit_group()
