"""Patches of CuTeDSL: it keeps the PTX that it compiles, and compiled functions call the current device."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from ..chip import DEVICE
from ..garbage import uncollected
from ..patching import Patches
from ..progress import doing
from . import ffi
from .allocations import argument_memory
from .device import NO_MEMORY, current_device
from .shared_arrays import record_shared_arrays

_PREFIXES = ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL")
CACHE_WARNING = "Cache is disabled as user wants to generate PTX/ASM"


ORIGINAL_ENVIRONMENT = dict(os.environ)
"""The environment before `keep_ptx` changes it."""


def keep_ptx() -> None:
    """Make CuTeDSL compile for the emulated chip, keep the PTX, and write lines and names of the source into it.

    This sets environment variables that the user has not set, so it must run before CuTeDSL is imported. Line
    information leaves the instructions unchanged and makes compilation take half as long again. Each process has a
    folder of its own: CuTeDSL names the files after kernels, so concurrent processes would read each other's.
    """
    for prefix in _PREFIXES:
        os.environ.setdefault(f"{prefix}_ARCH", DEVICE.target)
        os.environ.setdefault(f"{prefix}_LINEINFO", "1")
        if os.path.basename(os.environ.get(f"{prefix}_DUMP_DIR", "")).startswith(SCRATCH):
            del os.environ[f"{prefix}_DUMP_DIR"]  # a folder of the parent process
            if os.environ.get(f"{prefix}_KEEP") == "ptx":
                del os.environ[f"{prefix}_KEEP"]
        if f"{prefix}_KEEP" not in os.environ:
            os.environ[f"{prefix}_KEEP"] = "ptx"
            os.environ.setdefault(f"{prefix}_DUMP_DIR", _scratch.name)
            warnings.filterwarnings("ignore", message=CACHE_WARNING)
    Patches().when_imported("cutlass", record_shared_arrays)
    Patches().when_imported("cutlass", hasten_tracing)


SCRATCH = "emulator-ptx-"
_scratch = tempfile.TemporaryDirectory(prefix=SCRATCH)
_called_with: Final = ContextVar("memory of the arguments of the jit function being called", default=NO_MEMORY)


class _Executor:
    """The result of a compiled function's `to()`."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def run_compiled_program(self, arguments: list[Any]) -> int | None:
        return _run(self._compiled, arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> int | None:
        return _call(self._compiled, *args, **kwargs)


def _run(compiled: Any, arguments: list[Any]) -> int | None:
    return _checked(current_device().call(compiled, arguments, _called_with.get()))


def _keeping_memory(generate_mlir: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `generate_mlir`, which compiles and runs a called jit function: `_run` gets the memory of its arguments."""
    signature = inspect.signature(generate_mlir)

    @functools.wraps(generate_mlir)
    def generate(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        with doing(f"compiling {given['function_name']}"):
            if given["compile_only"]:
                return generate_mlir(*args, **kwargs)
            token = _called_with.set(argument_memory(given["args"], given["kwonlyargs"]))
            try:
                return generate_mlir(*args, **kwargs)
            finally:
                _called_with.reset(token)

    return generate


def _call(compiled: Any, *args: Any, **kwargs: Any) -> int | None:
    arguments, _alive = compiled.execution_args.generate_execution_args(args, kwargs)
    return _checked(current_device().call(compiled, arguments, argument_memory(args, kwargs)))


def _checked(code: int) -> int:
    """Return the code if it means success, else raise CuTeDSL's DSLCudaRuntimeError."""
    if code:
        from cutlass.base_dsl.runtime.cuda import create_cuda_runtime_error, cudart

        raise create_cuda_runtime_error(code, cudart.cudaError_t)
    return code


def _to(compiled: Any, device: Any = None) -> _Executor:
    return _Executor(compiled)


_REPLACED = {"__call__": _call, "run_compiled_program": _run, "to": _to}


@contextmanager
def cutedsl_calls() -> Iterator[None]:
    """Make CuTeDSL's compiled functions call the current device while the context is open.

    CuTeDSL is patched when it is imported: importing it takes a second, and many programs do without.
    """

    def replace_ffi(provider: ModuleType) -> None:
        for kind in (provider.TVMFFIJitCompiledFunction, provider.TVMFFIJitCompiledFunctionWithKwargs):
            patches.set(kind, "__call__", ffi.call_compiled)

    def replace(_cutlass: ModuleType) -> None:
        from cutlass.base_dsl.dsl import BaseDSL
        from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Compiled

        patches.update(Compiled, _REPLACED)
        patches.set(BaseDSL, "generate_mlir", _keeping_memory(BaseDSL.generate_mlir))

    with Patches() as patches:
        patches.when_imported("cutlass", replace)
        patches.when_imported(ffi.PROVIDER, replace_ffi)
        yield


def hasten_tracing(_cutlass: ModuleType) -> None:
    """Make CuTeDSL remember the source position, module and location of a frame, which it finds for every operation.

    The garbage collector waits while a kernel is traced: it would traverse torch and CuTeDSL again and again. All that
    takes a third of the tracing. Versions with other internals are left alone.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from cutlass._mlir_helpers import op
        from cutlass.base_dsl.dsl import BaseDSL

        trace = BaseDSL.generate_original_ir
        locations: dict[tuple[int, int], tuple[Any, Any]] = {}

        @wraps(trace)
        def traced(*args: Any, **kwargs: Any) -> Any:
            try:
                with uncollected():
                    return trace(*args, **kwargs)
            finally:
                locations.clear()

        for_good = Patches()
        for_good.set(op, "_fast_frameinfo", _remembered(op._fast_frameinfo))
        for_good.set(op, "_is_framework_stack_frame", _remembered(op._is_framework_stack_frame))
        location = _located_once(op._get_location_from_frame_info, locations)
        for_good.set(op, "_get_location_from_frame_info", location)
        for_good.set(BaseDSL, "generate_original_ir", traced)


def _remembered(find: Any) -> Any:
    """Return a function that gives the same as `find`, which depends on a frame's code and instruction alone."""
    known: dict[tuple[int, int], tuple[CodeType, Any]] = {}

    @wraps(find)
    def remembered(frame: FrameType) -> Any:
        key = id(frame.f_code), frame.f_lasti
        if key not in known:
            known[key] = frame.f_code, find(frame)  # a code that is kept alive shares its id with no other
        return known[key][1]

    return remembered


def _located_once(find: Any, known: dict[tuple[int, int], tuple[Any, Any]]) -> Any:
    """Return a function that makes one location of a position in each of MLIR's contexts, and keeps it in `known`."""
    from cutlass._mlir.ir import Context  # type: ignore[attr-defined]

    @wraps(find)
    def located(position: Any) -> Any:
        key = id(Context.current), id(position)
        if key not in known:
            known[key] = position, find(position)  # a location keeps its context alive
        return known[key][1]

    return located
