"""Enter and leave an emulated device: CuTeDSL's compiled functions call it instead of a GPU."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from ..chip import DEVICE
from ..errors import EmulatorError
from ..machine.execution.blas import one_thread
from ..machine.launch.launch import Diagnostics, LevelName, Numerics
from ..machine.order.completion import Completion
from ..patching import Patches
from . import driver
from .allocations import argument_memory
from .device import NO_MEMORY, EmulatedDevice, Names, no_names
from .positions import remember_positions
from .shared_arrays import note_shared_arrays

if TYPE_CHECKING:
    from ..clock.conditions import Conditions

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
            del os.environ[f"{prefix}_DUMP_DIR"]  # that of the process that started this one
            if os.environ.get(f"{prefix}_KEEP") == "ptx":
                del os.environ[f"{prefix}_KEEP"]
        if f"{prefix}_KEEP" not in os.environ:
            os.environ[f"{prefix}_KEEP"] = "ptx"
            os.environ.setdefault(f"{prefix}_DUMP_DIR", _scratch.name)
            warnings.filterwarnings("ignore", message=CACHE_WARNING)
    Patches().when_imported("cutlass", note_shared_arrays)
    Patches().when_imported("cutlass", remember_positions)


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


def current_device() -> EmulatedDevice:
    """Return the innermost current device. Raises RuntimeError if there is none."""
    device = driver.current()
    if not isinstance(device, EmulatedDevice):
        raise RuntimeError("this function belongs to an emulated device that is no longer current")
    return device


def _run(compiled: Any, arguments: list[Any]) -> int | None:
    return _checked(current_device().call(compiled, arguments, _called_with.get()))


def _keeping_memory(generate_mlir: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `generate_mlir`, which compiles and runs a called jit function: `_run` gets the memory of its arguments."""
    signature = inspect.signature(generate_mlir)

    @functools.wraps(generate_mlir)
    def generate(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
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
def emulate(
    completion: Completion = "lazy",
    seed: int = 0,
    *,
    budget: int | None = None,
    level: LevelName = "fault",
    numerics: Numerics = "fp32",
    diagnostics: Diagnostics = "stop",
    processes: int | None = None,
    names: Names = no_names,
    clock: str | None = None,
    trace: bool = False,
    conditions: Conditions | None = None,
    schedule: str = "",
) -> Iterator[EmulatedDevice]:
    """Make an emulated B200 current: every launch of a CuTeDSL function inside runs on it, on CPU tensors.

    - `completion`: when asynchronous work completes: "eager" immediately, "lazy" as late as PTX allows, "random" in
      between, drawn with `seed`. "all" runs each launch in every order of its synchronisation events that can have
      another effect, within limits. Memory then holds the results of the first run.
    - `schedule`: the one order to run with completion "all", as the note of an error gives it.
    - `budget`: the most warp-instructions that a warp may execute; None for no limit.
    - `level`: the findings that are errors. "fault": some legal timing breaks the program. "formal": also violations of
      PTX that no known hardware shows. "pedantic": also habits that PTX recommends. Formal findings are listed in the
      launch's `findings` at any level.
    - `numerics`: "fp32" accumulates tcgen05.mma in float32, "tc" rounds as the tensor core does.
    - `diagnostics`: "stop" raises the first error. "report" continues after errors that do not change memory (a missing
      wait or fence, a read of unwritten memory or outside of all tensors) and lists them in `findings`.
    - `processes`: how many processes share the clusters of a launch, with the same results as one; None chooses. A
      kernel whose clusters can communicate through global memory (atomics, flags, reductions), or that prints, runs in
      one process. So does every kernel if this process has other threads.
    - `names`: maps a kernel's name to its mbarriers' names, by byte offset in dynamic shared memory, for reports.
    - `clock`: a chip ("b200") whose time is predicted. Each launch then has a `prediction` and computes no outputs.
      None inside a device with a clock: the same clock, trace and conditions, and that device gets the launches too.
    - `trace`: also record the timeline of the prediction.
    - `conditions`: what the prediction takes for granted of L2, the data and the clock rate; None for cold, random and
      the chip's own.

    Errors of a kernel are subclasses of EmulatorError. An error that a C program saw only as a CUDA error is raised at
    the end. Raises ValueError for an invalid option.
    """
    outer = driver.current()
    timed = outer if clock is None and isinstance(outer, EmulatedDevice) and outer.clock is not None else None
    if timed is not None:
        clock, trace, conditions = timed.clock, timed.trace, timed.conditions
    device = EmulatedDevice(
        completion, seed, budget, level, numerics, diagnostics, processes, names, clock, trace, conditions, schedule
    )
    device.nested = isinstance(outer, EmulatedDevice)
    driver.make_current(device)
    try:
        with cutedsl_calls(), one_thread():
            yield device
    except Exception as error:
        if device.error is None or isinstance(error, EmulatorError):
            raise
        raise device.error from error
    else:
        if device.error is not None:
            raise device.error
    finally:
        driver.release(device)
        if timed is not None:
            timed.launches += device.launches
            timed.failures += device.failures


@contextmanager
def cutedsl_calls() -> Iterator[None]:
    """Make CuTeDSL's compiled functions call the current device while the context is open.

    CuTeDSL is patched when it is imported: importing it takes a second, and many programs do without.
    """

    def replace(_cutlass: ModuleType) -> None:
        from cutlass.base_dsl.dsl import BaseDSL
        from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Compiled

        patches.update(Compiled, _REPLACED)
        patches.set(BaseDSL, "generate_mlir", _keeping_memory(BaseDSL.generate_mlir))

    with Patches() as patches:
        patches.when_imported("cutlass", replace)
        yield
