"""Entering and leaving an emulated device: CuTeDSL's compiled functions call it instead of a GPU."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ..chip import DEVICE
from ..errors import EmulatorError
from ..machine.execution.blas import one_thread
from ..machine.launch.launch import Diagnostics, LevelName, Numerics
from ..machine.order.completion import Completion
from . import driver
from .allocations import shown
from .device import EmulatedDevice, Names, nameless

_PREFIXES = ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL")
CACHE_WARNING = "Cache is disabled as user wants to generate PTX/ASM"


GIVEN = dict(os.environ)
"""The environment before it is changed here."""


def keep_ptx() -> None:
    """Ask CuTeDSL for code of the emulated chip, to keep its PTX and to tell the source's lines in it (the same
    instructions, half as long again to compile: 1.0 -> 1.5 s for attention with 64 columns, measured as CPU time). Only
    what the user left open is set, and only before CuTeDSL reads it."""
    for prefix in _PREFIXES:
        os.environ.setdefault(f"{prefix}_ARCH", DEVICE.target)
        os.environ.setdefault(f"{prefix}_LINEINFO", "1")
        if f"{prefix}_KEEP" not in os.environ:
            os.environ[f"{prefix}_KEEP"] = "ptx"
            os.environ.setdefault(f"{prefix}_DUMP_DIR", _scratch.name)
            warnings.filterwarnings("ignore", message=CACHE_WARNING)


_scratch = tempfile.TemporaryDirectory(prefix="emulator-ptx-")


class _Executor:
    """What `to()` of a compiled function answers."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def run_compiled_program(self, arguments: list[Any]) -> int | None:
        return _run(self._compiled, arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> int | None:
        return _call(self._compiled, *args, **kwargs)


def current_device() -> EmulatedDevice:
    """The innermost device entered. Raises RuntimeError if none is."""
    device = driver.current()
    if not isinstance(device, EmulatedDevice):
        raise RuntimeError("this function belongs to an emulated device that was left")
    return device


def _run(compiled: Any, arguments: list[Any]) -> int | None:
    return _succeeded(current_device().call(compiled, arguments))


def _call(compiled: Any, *args: Any, **kwargs: Any) -> int | None:
    arguments, _alive = compiled.execution_args.generate_execution_args(args, kwargs)
    return _succeeded(current_device().call(compiled, arguments, shown(args, kwargs)))


def _succeeded(code: int) -> int:
    """A CUDA error code if it is none. Raises CuTeDSL's DSLCudaRuntimeError, as its own functions do."""
    if code:
        from cutlass.base_dsl.runtime.cuda import create_cuda_runtime_error, cudart

        raise create_cuda_runtime_error(code, cudart.cudaError_t)
    return code


def _to(compiled: Any, device: Any = None) -> _Executor:
    return _Executor(compiled)


_REPLACED = {"__call__": _call, "run_compiled_program": _run, "to": _to}


@contextmanager
def emulate(
    completion: Completion = "lazy",
    seed: int = 0,
    *,
    budget: int | None = None,
    level: LevelName = "fault",
    numerics: Numerics = "fp32",
    diagnostics: Diagnostics = "stop",
    processes: int | None = None,
    names: Names = nameless,
    clock: str | None = None,
    trace: bool = False,
) -> Iterator[EmulatedDevice]:
    """Make an emulated B200 current: every launch of a CuTeDSL function inside runs on it, on CPU tensors.

    completion: when asynchronous work completes: "eager" at once, "lazy" as late as PTX allows, "random" in between
    under `seed`. budget: warp-instructions that a warp may execute, None for no limit. level: what is
    asked of a program: that no legal timing breaks it ("fault"), that it keeps to PTX where no known hardware shows it
    too ("formal"), or habits as well ("pedantic"). numerics: tcgen05.mma adds in "fp32", or rounds as the tensor core
    does: "tc". diagnostics: "stop" raises whatever is found of the level that is asked for; "report" goes on after what
    leaves memory as it is, a missing wait or fence or a read of what nothing wrote or no tensor holds, and lists it in
    the launch's `findings`. What is formal is listed there even where it is not asked for.
    processes: how many share the clusters of a launch, with the same results as one, None for as many as pay; kernels
    whose clusters can meet in global memory (atomics, flags, reductions) or print run in one, and so does everything
    where other threads run.
    names: from a kernel's name to its mbarriers' names, by offset in bytes in dynamic shared memory, for reports.
    clock: a chip ("b200") whose time is predicted: each launch has a `prediction` then, and computes no outputs.
    trace: with what happened when.

    Errors of a kernel are subclasses of EmulatorError. Raises ValueError for an option that does not exist.
    """
    device = EmulatedDevice(completion, seed, budget, level, numerics, diagnostics, processes, names, clock, trace)
    driver.make_current(device)
    try:
        with _cutedsl_calls(), one_thread():
            yield device
    except Exception as error:
        if device.error is None or isinstance(error, EmulatorError):
            raise
        raise device.error from error
    finally:
        driver.release(device)


@contextmanager
def _cutedsl_calls() -> Iterator[None]:
    """While open, CuTeDSL's compiled functions call the current device, if CuTeDSL is there to make any."""
    if find_spec("cutlass") is None:
        yield
        return
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Compiled

    saved = {name: getattr(Compiled, name) for name in _REPLACED}
    try:
        for name, replacement in _REPLACED.items():
            setattr(Compiled, name, replacement)
        yield
    finally:
        for name, original in saved.items():
            setattr(Compiled, name, original)
