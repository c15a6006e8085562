"""Front ends by name: benchmarks that would run a kernel many times, and front ends that do not run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

from ..patching import Patches
from .errors import unsupported

_CUTILE: Final = ("cuda.tile.launch", "cuTile's compiler (tileiras) makes machine code for a GPU and no PTX")
_BENCHMARKS: Final = ("triton.testing", "tilelang.profiler", "tilelang.profiler.bench")
"""Modules with a `do_bench`. It measures the time of the emulator, which one run shows as well."""
NOT_RUN: Final = {
    "jax": "JAX does not run on the emulated device: its CUDA plugin has a runtime of its own and makes machine code. "
    "No kernel was checked; JAX computes on the CPU",
    "tinygrad": "tinygrad does not run on the emulated device: it compiles in another process, and looks for CUDA's "
    "libraries in the system's folders. No kernel was checked",
}


def install(patches: Patches) -> None:
    """Patch the front ends that are imported, and those that will be."""
    patches.when_imported("cuda.tile", lambda module: patches.set(module, "launch", unsupported(*_CUTILE)) and None)
    for name in _BENCHMARKS:
        patches.when_imported(name, lambda module: patches.wrap(module, "do_bench", lambda _: run_once))


def run_once(fn: Callable[[], Any], *_: Any, quantiles: Any = None, return_mode: str = "mean", **_others: Any) -> Any:
    """Run a function once and return its wall-clock time in milliseconds, in the form of Triton's `do_bench`."""
    import torch

    start = time.perf_counter()
    fn()
    torch.cuda.synchronize()
    taken = (time.perf_counter() - start) * 1000
    return [taken] * len(quantiles) if quantiles else [taken] if return_mode == "all" else taken


def not_run() -> str:
    """Return why a front end that the program imported does not run here; "" if there is none."""
    return next((why for name, why in NOT_RUN.items() if name in sys.modules), "")
