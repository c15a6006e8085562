"""A softmax over rows in CuTeDSL, a warp for each row. Tests plant faults in it that only make its results wrong."""
# mypy: ignore-errors

import math

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

LOG2E = math.log2(math.e)
WARPS = 4


@cute.kernel
def softmax_kernel(x: cute.Tensor, y: cute.Tensor, lse: cute.Tensor) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    lane = thread % 32
    row = block * WARPS + thread // 32
    columns = cute.size(x, mode=[1])
    if row < cute.size(x, mode=[0]):
        largest = -cutlass.Float32.inf
        for i in cutlass.range(cute.ceil_div(columns, 32)):
            at = i * 32 + lane
            if at < columns:
                largest = cute.arch.fmax(largest, x[row, at].to(cutlass.Float32))
        largest = cute.arch.warp_reduction_max(largest)
        total = cutlass.Float32(0.0)
        for i in cutlass.range(cute.ceil_div(columns, 32)):
            at = i * 32 + lane
            if at < columns:
                total += cute.math.exp2((x[row, at].to(cutlass.Float32) - largest) * LOG2E, fastmath=True)
        total = cute.arch.warp_reduction_sum(total)
        for i in cutlass.range(cute.ceil_div(columns, 32)):
            at = i * 32 + lane
            if at < columns:
                p = cute.math.exp2((x[row, at].to(cutlass.Float32) - largest) * LOG2E, fastmath=True) / total
                y[row, at] = p.to(y.element_type)
        if lane == 0:
            lse[row] = cute.math.log(total) + largest


@cute.jit
def softmax(x: cute.Tensor, y: cute.Tensor, lse: cute.Tensor) -> None:
    grid = (cute.ceil_div(cute.size(x, mode=[0]), WARPS), 1, 1)
    softmax_kernel(x, y, lse).launch(grid=grid, block=(WARPS * 32, 1, 1))


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(10, 100, device="cuda")
    y, lse = torch.empty_like(x), torch.empty(10, device="cuda")
    softmax(from_dlpack(x), from_dlpack(y), from_dlpack(lse))
    torch.testing.assert_close(y.cpu(), torch.softmax(x.cpu(), -1))
    assert torch.allclose(torch.logsumexp(x.cpu(), -1), lse.cpu())
    print("right")
