"""Warm the parent process: imports, and a first kernel compiled and run, which its forked children need not repeat."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import cutlass.experimental
import cutlass.utils.blackwell_helpers
import pytest  # noqa: F401
import torch
from cuda.bindings.driver import CUstream
from cutlass import Float32
from cutlass.cute.runtime import from_dlpack

from remote.device import Emulated

THREADS = 32


@cute.kernel
def device(x: cute.Tensor) -> None:
    """Add one, twice, to half of the elements."""
    i = cute.arch.thread_idx()[0]
    if i < THREADS // 2:
        for _ in cutlass.range(2, unroll=1):
            x[i] = x[i] + Float32(1.0)


@cute.jit
def launch(x: cute.Tensor, stream: CUstream) -> None:
    """One CTA."""
    device(x).launch(grid=[1, 1, 1], block=[THREADS, 1, 1], stream=stream)


def warm() -> None:
    """Compile and run a small kernel: the first one takes a second longer than the next, in any process."""
    torch.set_num_threads(1)
    x = torch.zeros(THREADS)
    compiled = cute.compile(launch, from_dlpack(x), CUstream(0))
    with Emulated().running("lazy", 1):
        compiled(from_dlpack(x), CUstream(0))
    assert x.sum() == THREADS, f"the small kernel gives {x.tolist()}"
