"""The epilogue, by the softmax warps: O = U / l and the row's statistics; a warp stores its own rows."""

# CuTeDSL's operations take and give traced values and static ones alike, which its annotations cannot say.
# mypy: disable-error-code="index, arg-type, misc, attr-defined, operator, union-attr, assignment"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, const_expr
from cutlass.cute.nvgpu import cpasync, tcgen05

from kernel.arguments import Arguments
from kernel.config import TMEM_LANES, WARP
from kernel.sm100.cta import LOAD_COLS, Cta
from kernel.sm100.operands import Stores, store_layout, store_tile
from kernel.sm100.softmax import RowThread, RunningSoftmax, flat
from kernel.sm100.traced import Fixed


class WarpStore(NamedTuple):
    """A warp's staging rows (row, column, group of columns), and the two sides of their TMA store."""

    staged: cute.Tensor
    atom: cute.CopyAtom
    smem: cute.Tensor
    gmem: cute.Tensor


@dataclass
class Epilogue(Fixed):
    cta: Cta
    thread: RowThread
    running: RunningSoftmax
    atoms: Stores
    args: Arguments

    @cute.jit
    def run(self) -> None:
        bars, kv, row_tile = self.cta.bars, self.cta.kv_tiles, self.cta.row_tile
        thread, sink = self.thread, self.args.sink
        row_sum = self.running.row_sum(self.cta.turn + kv.count)
        if row_tile.row(thread.row) < row_tile.rows and thread.half == 0:
            self.running.store(self.args, row_sum, row_tile.group, row_tile.row(thread.row))
        if kv.count > 0:
            stage, phase = bars.stage_and_phase(self.cta.turn + kv.count - 1, thread.row_tile)
            bars.wait("o_done", stage, phase)
        logit = None if sink is None else sink[row_tile.head(thread.row)]
        if const_expr(self.atoms.u is not None):
            self.store_rows(self.atoms.u, Float32, Float32(1.0))
        self.store_rows(self.atoms.o, BFloat16, self.running.inverse(row_sum, logit))
        if kv.count > 0:
            bars.arrive_warp("tmem_free", thread.row_tile, self.cta.config.leader)
        cute.arch.cp_async_bulk_wait_group(0, read=True)
        cute.arch.sync_warp()

    @cute.jit
    def store_rows(self, tma: cpasync.TmaInfo, dtype: type[cutlass.Numeric], factor: Any) -> None:
        """Tensor memory -> registers -> shared memory -> global, a block of columns at a time, by TMA."""
        tOtO = self.cta.fragments.o_blocks(self.thread.row_tile)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(LOAD_COLS)), Float32)
        load = tcgen05.make_tmem_copy(atom, tOtO[None, None, 0]).get_slice(self.thread.index)
        coords = load.partition_D(cute.make_identity_tensor((TMEM_LANES, LOAD_COLS)))
        store = self.warp_store(tma, dtype)
        for c in cutlass.range_constexpr(cute.size(tOtO, mode=[2])):
            o = cute.make_rmem_tensor(coords.shape, Float32)
            o.fill(0.0)
            if self.cta.kv_tiles.count > 0:
                cute.copy(load, load.partition_S(tOtO[None, None, c]), o)
                cute.arch.fence_view_async_tmem_load()
            for j in range(0, cute.size(o), 2):
                o[j], o[j + 1] = cute.arch.mul_packed_f32x2((o[j], o[j + 1]), (factor, factor))
            self.store_block(store, flat(o), c)

    def warp_store(self, tma: cpasync.TmaInfo, dtype: type[cutlass.Numeric]) -> WarpStore:
        """This warp's store of its rows, staged in its part of O's room."""
        config, row_tile = self.cta.config, self.cta.row_tile
        atom, dst = tma
        row_warps = config.block_m // config.rows_per_warp  # warps that have all rows, with all columns or a half
        warps = len(config.roles.softmax)
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx()) - config.roles.softmax[0]
        layout, tile = store_layout(config, dtype), store_tile(config, dtype)
        groups, elements = config.head_dim // tile[1] * row_warps // warps, cute.cosize(layout)
        slots = WARP // config.rows_per_warp  # a group of columns at a time, of each half that the warp has
        staged = cute.append(layout.outer, cute.make_layout(slots, stride=warps * elements))
        staged = cute.append(staged, cute.make_layout(warps, stride=elements))
        base = cute.recast_ptr(self.cta.smem.sO.iterator, layout.inner, dtype)
        s = cute.make_tensor(base, staged)[None, None, None, warp]
        dst = cute.domain_offset((0, warp // row_warps * groups * tile[1], 0), dst)
        g = cute.local_tile(dst, tile, (row_tile.index * row_warps + warp % row_warps, None, row_tile.group))
        self.cta.trace(f"s{dtype.__name__}", s)
        s_part, g_part = cpasync.tma_partition(
            atom, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
        )
        return WarpStore(s, atom, s_part, g_part)

    def store_block(self, store: WarpStore, values: cute.Tensor, block: int) -> None:
        """Stage a thread's LOAD_COLS values of its column block `block`, and start the store of a group that is whole.

        Rows past the tensor's end are not written.
        """
        config, thread, s, dtype = self.cta.config, self.thread, store.staged, store.staged.element_type
        width, slots = cute.size(s, mode=[1]), cute.size(s, mode=[2])
        group, first = divmod(block * LOAD_COLS, width)
        if first == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.sync_warp()
        vector = cute.make_layout(16 * 8 // dtype.width)
        own_groups = config.o_cols // width
        own = s[thread.row % config.rows_per_warp, None, thread.half % slots]
        dst = cute.logical_divide(own, vector)
        packed = cute.make_rmem_tensor(LOAD_COLS, dtype)
        packed.store(values.load().to(dtype))
        packed = cute.logical_divide(packed, vector)
        for j in range(cute.size(packed, mode=[1])):
            cute.autovec_copy(packed[None, j], dst[None, first // cute.size(vector) + j])
        if first + LOAD_COLS == width:
            cute.arch.fence_view_async_shared()
            cute.arch.sync_warp()
            for half in range(slots):
                cute.copy(store.atom, store.smem[None, half], store.gmem[None, half * own_groups + group])
            cute.arch.cp_async_bulk_commit_group()
