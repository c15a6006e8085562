"""One emulated host: torch, CUDA's Python bindings and CuTeDSL patched together, and put back together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch.utils._device import DeviceContext

from . import (
    autograd,
    c_hosts,
    cuda_driver,
    custom_ops,
    launches,
    saved_modules,
    tensors,
    torch_cuda,
    transforms,
    tvm_ffi,
)
from .patching import Patches
from .properties import B200, DeviceProperties
from .refusal import refuse


@contextmanager
def emulated_host(properties: DeviceProperties = B200) -> Iterator[DeviceProperties]:
    """While open, this process has one GPU, an emulated one backed by CPU memory.

    torch's `cuda` device, CUDA's libraries and cuda.bindings, and CuTeDSL's own questions answer for `properties`.
    Launches are not this function's affair: enter `emulator.emulate()` beside it. Raises NotEmulated, naming the call,
    from whatever the device cannot answer.
    """
    state = cuda_driver.DriverState(properties)
    tensors_there = tensors.EmulatedTensors(state.allocations, state.captures)
    with Patches() as patches, c_hosts.c_hosts(state), tensors_there as mode:
        patches.set(DeviceContext, "__torch_function__", tensors.default_device_factory)
        autograd.install(patches, mode)
        custom_ops.install(patches, mode)
        transforms.install(patches, mode)
        torch_cuda.install(patches, properties, state.captures)
        _install_bindings(patches, state)
        tvm_ffi.install(patches)
        saved_modules.install(patches)
        launches.install(patches, state.allocations, state.captures)
        yield properties


def _install_bindings(patches: Patches, state: cuda_driver.DriverState) -> None:
    """Patch cuda.bindings, if it is there."""
    try:
        from cuda.bindings import driver, runtime
    except ModuleNotFoundError:
        return
    from . import cuda_runtime

    _install(patches, driver, "cu", cuda_driver.functions(driver, state))
    _install(patches, runtime, "cuda", cuda_runtime.functions(runtime, state))


def _install(patches: Patches, module: ModuleType, prefix: str, answers: Mapping[str, Callable[..., Any]]) -> None:
    for name in dir(module):
        function = getattr(module, name)
        is_call = name.startswith(prefix) and name[len(prefix) : len(prefix) + 1].isupper()
        if is_call and callable(function) and not isinstance(function, type):
            why = "only a CUDA driver can answer it"
            patches.set(module, name, answers.get(name) or refuse(f"{module.__name__}.{name}", why))
