"""A session of the emulated host: torch, CUDA's Python bindings and CuTeDSL are patched while it is open."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch.utils._device import DeviceContext

from ..children import sitecustomize
from ..emulation import EmulatedDevice, emulate
from ..patching import Patches, environment
from . import c_hosts, front_ends, launches, tensors, torch_cuda, torch_dispatch, tvm_ffi
from .errors import unsupported
from .properties import PROPERTIES, DeviceProperties
from .redirection import redirected
from .state import DriverState


@contextmanager
def emulated_host() -> Iterator[DeviceProperties]:
    """Give this process one GPU while the context is open: an emulated device backed by CPU memory.

    torch's `cuda` device, CUDA's libraries, cuda.bindings and CuTeDSL's device queries report its properties. Launches
    also need `emulator.emulate()`. An unsupported call raises NotEmulated with the name of the call.
    """
    torch_cuda.count_gpus()
    state = DriverState()
    tensors_there = tensors.EmulatedTensors(state.allocations, state.captures, state.guard)
    with Patches() as patches, c_hosts.c_hosts(state), tensors_there as mode:
        patches.set(DeviceContext, "__torch_function__", tensors.default_device_factory)
        torch_dispatch.install(patches, mode, state.captures)
        torch_cuda.install(patches, state.captures, mode)
        _install_bindings(patches)
        front_ends.install(patches)
        tvm_ffi.install(patches)
        launches.install(patches, state.allocations, state.captures)
        with redirected(c_hosts.runtime(), patches):
            yield PROPERTIES
        state.guard.open()


@contextmanager
def emulated_gpu(reports: Path | None = None, **options: Any) -> Iterator[EmulatedDevice]:
    """Give this process an emulated host and device. Child processes with the same Python get their own.

    A child gets its device when it imports torch. reports: the folder into which each child writes its verdict.
    options: those of `emulate` that JSON can represent.
    """
    first = os.pathsep.join(filter(None, [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH")]))
    session = json.dumps({"prefix": sys.prefix, "options": options, "reports": reports and str(reports)})
    children = environment({"PYTHONPATH": first, sitecustomize.SESSION: session})
    with emulated_host(), emulate(**options) as device, children:
        yield device


def _install_bindings(patches: Patches) -> None:
    """Patch cuda.bindings if it is installed.

    Its driver module calls the emulated libcuda.so. Its runtime module has a runtime compiled in and is replaced.
    """
    try:
        from cuda.bindings import driver, runtime
    except ModuleNotFoundError:
        return
    from . import cuda_runtime

    own = cuda_runtime.functions(runtime, c_hosts.runtime())
    _reject_unsupported_calls(patches, driver, "cu", c_hosts.driver_functions())
    patches.update(runtime, own)
    _reject_unsupported_calls(patches, runtime, "cuda", own.keys())


def _reject_unsupported_calls(patches: Patches, module: ModuleType, prefix: str, known: Collection[str]) -> None:
    for name in dir(module):
        function = getattr(module, name)
        is_call = name.startswith(prefix) and name[len(prefix) : len(prefix) + 1].isupper()
        if is_call and name not in known and callable(function) and not isinstance(function, type):
            patches.set(module, name, unsupported(f"{module.__name__}.{name}", "it needs a CUDA driver"))
