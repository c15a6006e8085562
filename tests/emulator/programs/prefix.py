"""Running sums of the tiles of a row: TMA loads by a producer warp, TMA stores by the consumers.

Tests plant faults in it: wrong waits, byte counts, fences, and values that only `blame` explains.
"""
# mypy: ignore-errors

import cutlass
import cutlass.cute as cute
import torch
from cutlass import Float32
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

ROWS, COLS, TILES, STAGES = 32, 64, 6, 2
BYTES = ROWS * COLS * 4


@cute.struct
class Bars:
    full: cute.struct.MemRange[cutlass.Int64, STAGES]
    empty: cute.struct.MemRange[cutlass.Int64, STAGES]


@cute.kernel
def prefix_kernel(load, gX, store, gY, w, in_layout, out_layout):
    thread = cute.arch.thread_idx()[0]
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = cutlass.memory.SmemAllocator()
    bars = smem.allocate(Bars)
    sX = smem.allocate_tensor(Float32, in_layout, 128)
    sY = smem.allocate_tensor(Float32, out_layout, 128)
    full, empty = bars.full.data_ptr(), bars.empty.data_ptr()
    if warp == 0:
        with cute.arch.elect_one():
            for i in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + i, 1)
                cute.arch.mbarrier_init(empty + i, 64)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    one = cute.make_layout(1)
    tX = cute.local_tile(gX, (ROWS, COLS), (0, None))
    tY = cute.local_tile(gY, (ROWS, COLS), (0, None))
    xs, xg = cpasync.tma_partition(load, 0, one, cute.group_modes(sX, 0, 2), cute.group_modes(tX, 0, 2))
    ys, yg = cpasync.tma_partition(store, 0, one, cute.group_modes(sY, 0, 2), cute.group_modes(tY, 0, 2))
    if warp == 2:
        for i in cutlass.range(TILES, unroll=1):
            stage = i % STAGES
            cute.arch.mbarrier_wait(empty + stage, (i // STAGES + 1) % 2)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, BYTES)
            cute.copy(load, xg[None, i], xs[None, stage], tma_bar_ptr=full + stage)
    else:
        acc = cute.make_rmem_tensor((ROWS,), Float32)
        acc.fill(0.0)
        for i in cutlass.range(TILES, unroll=1):
            stage = i % STAGES
            cute.arch.mbarrier_wait(full + stage, i // STAGES % 2)
            for r in cutlass.range_constexpr(ROWS):
                acc[r] = acc[r] + sX[r, thread, stage] * w[thread]
            cute.arch.mbarrier_arrive(empty + stage)
            if warp == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.barrier(barrier_id=1, number_of_threads=64)
            for r in cutlass.range_constexpr(ROWS):
                sY[r, thread, 0] = acc[r]
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.barrier(barrier_id=1, number_of_threads=64)
            if warp == 0:
                cute.copy(store, ys[None, 0], yg[None, i])
                cute.arch.cp_async_bulk_commit_group()
        if warp == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=False)


@cute.jit
def prefix(x: cute.Tensor, w: cute.Tensor, y: cute.Tensor):
    in_layout = cute.make_layout((ROWS, COLS, STAGES), stride=(COLS, 1, ROWS * COLS))
    out_layout = cute.make_layout((ROWS, COLS, 1), stride=(COLS, 1, ROWS * COLS))
    tile = cute.make_layout((ROWS, COLS), stride=(COLS, 1))
    load, gX = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, tile, (ROWS, COLS))
    store, gY = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, tile, (ROWS, COLS))
    prefix_kernel(load, gX, store, gY, w, in_layout, out_layout).launch(grid=(1, 1, 1), block=(96, 1, 1))


def main():
    torch.manual_seed(0)
    x = torch.randn(ROWS, COLS * TILES, device="cuda")
    w = torch.randn(COLS, device="cuda")
    y = torch.zeros_like(x)
    prefix(from_dlpack(x, assumed_align=16), from_dlpack(w), from_dlpack(y, assumed_align=16))
    tiles = x.cpu().view(ROWS, TILES, COLS) * w.cpu()
    torch.testing.assert_close(y.cpu(), tiles.cumsum(1).view(ROWS, -1))
    print("right")


main()
