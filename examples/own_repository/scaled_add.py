"""A kernel of a project of its own: y + a x, in CuTeDSL."""

import cutlass
import cutlass.cute as cute

THREADS = 128


@cute.kernel
def scaled_add_kernel(x: cute.Tensor, y: cute.Tensor, a: cutlass.Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * THREADS + thread
    if at < cute.size(x):
        y[at] = y[at] + a * x[at]


@cute.jit
def scaled_add(x: cute.Tensor, y: cute.Tensor, a: cutlass.Float32) -> None:
    """y += a x; both [n] float32."""
    grid = (cute.ceil_div(cute.size(x), THREADS), 1, 1)
    scaled_add_kernel(x, y, a).launch(grid=grid, block=(THREADS, 1, 1))
