"""A session of the emulated host: torch, CUDA's Python bindings and CuTeDSL are patched while it is open."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..children import sitecustomize
from ..emulation import EmulatedDevice, emulate
from ..patching import Patches, environment
from . import c_hosts, front_ends, launches, tvm_ffi
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
    _count_gpus()
    state = DriverState()
    with Patches() as patches, c_hosts.c_hosts(state), ExitStack() as modes:
        patches.when_imported("torch", lambda _: _install_torch(patches, modes, state))
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


def _count_gpus() -> None:
    """Let a CUDA build of torch count the GPUs of this machine, before the emulated libcuda.so can be found.

    Autograd's engine asks for the count, which torch remembers. NVIDIA's runtime, which counts, asks the driver for
    undocumented functions, and ends the process if it gets none. Other builds wait for the program to import torch.
    """
    spec = find_spec("torch")
    if spec is not None and (Path(spec.origin or "").parent / "lib/libtorch_cuda.so").exists():
        import torch

        torch._C._cuda_getDeviceCount()


def _install_torch(patches: Patches, modes: ExitStack, state: DriverState) -> None:
    """Patch torch, which was imported."""
    from torch.utils._device import DeviceContext

    from . import tensors, torch_cuda, torch_dispatch

    mode = modes.enter_context(tensors.EmulatedTensors(state.allocations, state.captures, state.guard))
    patches.set(DeviceContext, "__torch_function__", tensors.default_device_factory)
    torch_dispatch.install(patches, mode, state.captures)
    torch_cuda.install(patches, state.captures, mode)


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
