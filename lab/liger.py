"""Calls of operations of Liger-Kernel and quack, as benchmarks make them: `ptx-emulator time lab/liger.py NAME N`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import torch

BF16: Final = torch.bfloat16


def gpu(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return an uninitialised tensor on the device."""
    return torch.empty(*shape, device="cuda", dtype=dtype)


CALLS: Final[Mapping[str, tuple[str, Callable[[int], tuple[Any, ...]]]]] = {
    "layer_norm": ("LigerLayerNormFunction", lambda n: (gpu(4096, n), gpu(n), gpu(n), 1e-6)),
    "rms_norm": ("LigerRMSNormFunction", lambda n: (gpu(4096, n, dtype=BF16), gpu(n, dtype=BF16), 1e-6)),
    "fused_add_rms_norm": ("LigerFusedAddRMSNormFunction", lambda n: (gpu(2048, n), gpu(2048, n), gpu(n), 1e-6)),
    "group_norm": ("LigerGroupNormFunction", lambda n: (gpu(128, n, 512), gpu(n), gpu(n), n, n // 4, 1e-6)),
    "relu_squared": ("LigerReLUSquaredFunction", lambda n: (gpu(4096, n, dtype=BF16),)),
    "swiglu": ("LigerSiLUMulFunction", lambda n: (gpu(8192, n, dtype=BF16), gpu(8192, n, dtype=BF16))),
    "tvd": ("LigerTVDLossFunction", lambda n: (gpu(16384, n), gpu(16384, n), None, "batchmean")),
    "quack rms_norm": ("rmsnorm_fwd", lambda n: (gpu(2048, n), gpu(n))),
    "quack layer_norm": ("layernorm_fwd", lambda n: (gpu(n, n, dtype=BF16), gpu(n))),
}
"""By kernel: its autograd function, or quack's function, and the arguments for a size."""


def main() -> None:
    """Call the operation that the command line names, once for each size."""
    kernel, *sizes = sys.argv[1:]
    function, arguments = CALLS[kernel]
    module = "quack.rmsnorm" if kernel.startswith("quack") else f"liger_kernel.ops.{kernel}"
    operation = getattr(import_module(module), function)
    for size in map(int, sizes):
        getattr(operation, "apply", operation)(*arguments(size))


if __name__ == "__main__":
    main()
