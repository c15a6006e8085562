"""Serialise compiled CuTeDSL functions, so that the emulated device of another process can call them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .driver import NotEmulated
from .ffi import PROVIDER, SYMBOL, call_compiled, ffi_object_code
from .hostcode import object_code


@dataclass(frozen=True)
class SavedFunction:
    """A compiled function.

    ptx, cubin: its kernels; the cubin is empty if CuTeDSL kept none. host: the object file of its host code, for this
    type of processor.
    """

    name: str
    ptx: str
    host: bytes
    cubin: bytes = b""

    def restored(self, of: Callable[..., Any]) -> Any:
        """Return the compiled function, usable only on the emulated device. of: the Python function it was made of."""
        from cutlass.base_dsl.jit_executor import JitFunctionArtifacts
        from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Compiled

        kept = JitFunctionArtifacts(PTX=self.ptx, CUBIN=self.cubin or None, SASS=None, MLIR=None)
        if (SYMBOL + self.name).encode() in self.host:
            return RestoredFfi(self, kept)
        signature = inspect.signature(of, eval_str=True)
        host: Any = _ObjectFile(self.host)
        return Compiled(None, host, None, signature, self.name, None, False, kept)


def save(compiled: Any) -> SavedFunction:
    """Save a compiled function. Raises NotEmulated if it has no host code or no PTX, or needs a workspace."""
    if isinstance(compiled, RestoredFfi):
        return compiled.saved
    ptx = compiled.artifacts.PTX if compiled.artifacts is not None else None
    host = _host_code(compiled)
    if host is None or ptx is None or compiled.total_added_arguments:
        raise NotEmulated(
            f"{compiled.function_name} cannot be saved: it has no host code or no PTX, or needs a workspace"
        )
    return SavedFunction(compiled.function_name, ptx, host, compiled.artifacts.CUBIN or b"")


def _host_code(compiled: Any) -> bytes | None:
    provider = sys.modules.get(PROVIDER)
    if provider is not None and isinstance(compiled, provider.TVMFFIJitCompiledFunctionBase):
        return ffi_object_code(compiled)
    return None if compiled.engine is None else object_code(compiled)


class RestoredFfi:
    """A saved function that was compiled with --enable-tvm-ffi."""

    has_gpu_module = True

    def __init__(self, saved: SavedFunction, artifacts: Any) -> None:
        self.saved, self.artifacts, self.function_name = saved, artifacts, saved.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_compiled(self, *args, **kwargs)


class _ObjectFile:
    """A stand-in for CuTeDSL's execution engine that can only write its object file."""

    def __init__(self, code: bytes) -> None:
        self._code = code

    def dump_to_object_file(self, path: str) -> None:
        """Write the object file."""
        Path(path).write_bytes(self._code)
