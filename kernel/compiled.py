"""From a configuration to machine code, once per configuration and process; needs no GPU."""

from __future__ import annotations

import functools
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import BFloat16, Float32, Int32
from cutlass.cute.runtime import make_fake_tensor

from kernel.config import FmhaConfig
from kernel.fmha import Fmha

ALIGN_BYTES = 16  # what a tensor map asks of addresses and strides


@dataclass(frozen=True)
class CompiledFmha:
    """One configuration, compiled.

    function: CuTeDSL's compiled host function. ptx, cubin: what it launches. layouts: the shapes and layouts seen
    while tracing, a line each. compile_s: seconds from the first line traced to the cubin.
    """

    config: FmhaConfig
    function: Any
    ptx: str
    cubin: bytes
    layouts: tuple[str, ...]
    compile_s: float


@functools.cache
def compile(config: FmhaConfig) -> CompiledFmha:
    """Compile `config` for sm_100a, or give back what was compiled before."""
    fmha = Fmha(config)
    for function, suffix in ((Fmha.device, ""), (Fmha.launch, "_launch")):
        function.set_name_prefix(config.name + suffix, remove_cutlass_symbol=True, keep_mangled_name=False)
    q, k, v, o = (tensor(BFloat16, 3) for _ in range(4))
    u = tensor(Float32, 3) if config.partials else None
    lse, m = tensor(Float32, 2), tensor(Float32, 2) if config.partials else None
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        function = cute.compile(
            fmha.launch,
            q,
            k,
            v,
            o,
            u,
            lse,
            m,
            tensor(Int32, 1) if config.mask != "none" else None,
            tensor(BFloat16, 3) if config.compressed != "none" else None,
            tensor(Int32, 1) if config.compressed == "blocks" else None,
            tensor(Int32, 2) if config.compressed == "listed" else None,
            tensor(Int32, 1) if config.compressed == "listed" else None,
            tensor(Float32, 1) if config.sink else None,
            Int32(1),
            Int32(1),
            Int32(0),
            Int32(0),
            Int32(0),
            Int32(1),
            Float32(0.0),
            CUstream(0),
            options=f"--keep-ptx --keep-cubin --dump-dir={folder}",
        )
        ptx, cubin = function.artifacts.PTX, function.artifacts.CUBIN
    compile_s = time.perf_counter() - start
    return CompiledFmha(config, function, ptx, cubin, tuple(fmha.layouts), compile_s)


def tensor(dtype: type[cutlass.Numeric], rank: int) -> Any:
    """A stand-in for a row-major tensor. Nothing of its shape is fixed, head dim included: a launch passes whole
    shapes and strides, and what is read must be laid out as what is passed."""
    mapped = rank == 3  # by a tensor map
    unit = ALIGN_BYTES * 8 // dtype.width if mapped else 1
    shape = tuple(cute.sym_int() for _ in range(rank))
    strides = tuple(cute.sym_int64(divisibility=unit) for _ in range(rank - 1))
    align = ALIGN_BYTES if mapped else dtype.width // 8
    return make_fake_tensor(dtype, shape, (*strides, 1), assumed_align=align)
