"""`python -m lab.cross_entropy ROWS`: run cross entropy of a large vocabulary on the emulated device.

A CTA computes the loss of a row of bf16 logits and replaces the row by its gradient. The output is the seconds of the
launch and the peak memory of the process in GB, of which 1,024 rows are 0.26.
"""

from __future__ import annotations

import argparse
import resource
import time

import torch

import emulator  # before CuTeDSL, so that its PTX is kept

# isort: split
import cutlass
import cutlass.cute as cute
from cutlass import Float32
from cutlass.cute.runtime import from_dlpack

VOCABULARY = 128_256
THREADS = 512
WARPS = THREADS // cute.arch.WARP_SIZE


@cute.jit
def joined(m: Float32, total: Float32, other_m: Float32, other: Float32) -> tuple[Float32, Float32]:
    """Return the maximum of two parts and their sum of exponentials relative to it."""
    larger = cutlass.max(m, other_m)
    return larger, total * cute.math.exp(m - larger) + other * cute.math.exp(other_m - larger)


@cute.kernel
def _cross_entropy(logits: cute.Tensor, labels: cute.Tensor, losses: cute.Tensor) -> None:
    row, thread = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    parts = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((2, WARPS)), 16)
    m, total = -Float32.inf, Float32(0.0)
    for i in range(thread, VOCABULARY, THREADS):
        m, total = joined(m, total, Float32(logits[row, i]), Float32(1.0))
    for bit in cutlass.range_constexpr(5):
        other_m, other = (cute.arch.shuffle_sync_bfly(each, offset=1 << bit) for each in (m, total))
        m, total = joined(m, total, other_m, other)
    if thread % cute.arch.WARP_SIZE == 0:
        parts[0, thread // cute.arch.WARP_SIZE], parts[1, thread // cute.arch.WARP_SIZE] = m, total
    cute.arch.barrier()
    m, total = parts[0, 0], parts[1, 0]
    for warp in cutlass.range_constexpr(1, WARPS):
        m, total = joined(m, total, parts[0, warp], parts[1, warp])
    lse, label = m + cute.math.log(total), labels[row]
    if thread == 0:
        losses[row] = lse - Float32(logits[row, label])
    cute.arch.barrier()
    for i in range(thread, VOCABULARY, THREADS):
        probability = cute.math.exp(Float32(logits[row, i]) - lse)
        logits[row, i] = cutlass.BFloat16(probability - Float32(i == label))


@cute.jit
def cross_entropy(logits: cute.Tensor, labels: cute.Tensor, losses: cute.Tensor) -> None:
    """Write the losses of all rows, float32[rows], and replace logits, bf16[rows, VOCABULARY], by their gradients."""
    _cross_entropy(logits, labels, losses).launch(grid=(logits.shape[0], 1, 1), block=(THREADS, 1, 1))


def main() -> None:
    """Launch once, check the first row, and print the seconds and the memory."""
    parser = argparse.ArgumentParser(prog="python -m lab.cross_entropy", description=__doc__)
    parser.add_argument("rows", type=int)
    rows = parser.parse_args().rows
    logits = torch.empty(rows, VOCABULARY, dtype=torch.bfloat16).normal_()
    labels, losses = torch.randint(0, VOCABULARY, (rows,), dtype=torch.int32), torch.empty(rows)
    first, label = logits[0].float(), labels[0].long()
    expected = torch.nn.functional.cross_entropy(first, label)
    gradient = torch.softmax(first, 0) - torch.nn.functional.one_hot(label, VOCABULARY)
    with emulator.emulate():
        began = time.perf_counter()
        cross_entropy(from_dlpack(logits), from_dlpack(labels), from_dlpack(losses))
        seconds = time.perf_counter() - began
    torch.testing.assert_close(losses[0], expected)
    torch.testing.assert_close(logits[0].float(), gradient, rtol=0.01, atol=1e-6)
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


if __name__ == "__main__":
    main()
