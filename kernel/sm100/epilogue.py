"""The epilogue, by the softmax warps: O = U / l and the row's statistics; a warp stores its own rows."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.config import SWIZZLE_BYTES, WARP
from kernel.sm100.cta import LOAD_COLS, VECTOR_BYTES
from kernel.sm100.operands import both_sides, units
from kernel.sm100.softmax import SoftmaxWarp


class Epilogue(SoftmaxWarp):
    @cute.jit
    def run(self) -> None:
        kv, row_tile, args = self.cta.kv_tiles, self.cta.row_tile, self.cta.args
        thread, row = self.thread, self.cta.row_tile.row(self.thread.row)
        row_sum = self.running.row_sum(self.cta.turn + kv.count)
        if row < row_tile.rows and thread.half == 0:
            self.running.store(args, row_sum, row_tile.group, row)
        thread.wait_for_o(self.cta)
        logit = None if args.sink is None else args.sink[row_tile.head(thread.row)]
        if const_expr(self.cta.copies.u is not None):
            self.store_rows(self.cta.copies.u, Float32, Float32(1.0))
        self.store_rows(self.cta.copies.o, BFloat16, self.running.inverse(row_sum, logit))

    @cute.jit
    def store_rows(self, tma: cpasync.TmaInfo, dtype: type[cutlass.Numeric], factor: Any) -> None:
        """Tensor memory -> registers -> a warp's part of O's room -> global by TMA, which leaves rows past the end: 128
        bytes of each row at a time, of each half of the columns that the warp has."""
        config, row_tile, thread, (atom, dst) = self.cta.config, self.cta.row_tile, self.thread, tma
        tile = rows, width = config.rows_per_warp, SWIZZLE_BYTES * 8 // dtype.width
        warps, row_warps, slots = len(config.roles.softmax), config.block_m // rows, WARP // rows
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx()) - config.roles.softmax[0]
        staged = units(self.cta.smem.sO, tile, slots * warps * config.o_stages, dtype)
        vector = cute.make_layout(VECTOR_BYTES * 8 // dtype.width)
        for group in cutlass.range_constexpr(config.o_cols // width):
            stage = group % config.o_stages * slots * warps + warp
            own = cute.logical_divide(staged[thread.row % rows, None, thread.half % slots * warps + stage], vector)
            cute.arch.cp_async_bulk_wait_group(config.o_stages - 1, read=True)
            cute.arch.sync_warp()
            for part in cutlass.range_constexpr(width // LOAD_COLS):
                o = thread.o_or_zeros(self.cta, group * (width // LOAD_COLS) + part)
                for j in range(0, LOAD_COLS, 2):
                    o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
                packed = cute.make_rmem_tensor(LOAD_COLS, dtype)
                packed.store(o.load().to(dtype))
                packed = cute.logical_divide(packed, vector)
                vectors = cute.size(packed, mode=[1])
                for j in range(vectors):
                    cute.autovec_copy(packed[None, j], own[None, part * vectors + j])
            cute.arch.fence_view_async_shared()
            cute.arch.sync_warp()
            for half in range(slots):
                columns = (warp // row_warps + half) * (config.o_cols // width) + group
                g = cute.local_tile(dst, tile, (row_tile.index * row_warps + warp % row_warps, columns, row_tile.group))
                cute.copy(atom, *both_sides(atom, staged[None, None, half * warps + stage], g))
            cute.arch.cp_async_bulk_commit_group()
