"""Operators that a library registers with torch for CUDA, called for tensors of the emulated device.

torch's dispatcher takes those tensors for the CPU's. Where the CPU has no kernel, a function that tells the two apart
stands there; where it has one, a mode of torch's dispatcher tells them apart before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.library import Library
from torch.utils._python_dispatch import TorchDispatchMode

from .patching import Patches
from .streams import DEVICE
from .tensors import CPU, EmulatedTensors, is_emulated, tensors_in

_Kernels = dict[str, Callable[..., Any]]


def install(patches: Patches, tensors: EmulatedTensors) -> None:
    """Let kernels that are registered for CUDA be found for the tensors of the emulated device."""
    replacing = _Replacing(tensors)
    patches.set(Library, "impl", _registering(Library.impl, tensors, replacing))
    patches.set(Library, "_destroy", _forgetting(Library._destroy, replacing))


class _Replacing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operators with a kernel for the CPU: for the device's tensors, those that libraries have for CUDA instead."""

    def __init__(self, tensors: EmulatedTensors) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tensors = tensors
        self._kernels: WeakKeyDictionary[Library, _Kernels] = WeakKeyDictionary()

    def add(self, library: Library, name: str, kernel: Callable[..., Any]) -> None:
        self._kernels.setdefault(library, {})[name] = kernel
        self._tensors.dispatching = self

    def forget(self, library: Library) -> None:
        self._kernels.pop(library, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = list(tensors_in((args, kwargs)))
        if inputs and not any(map(is_emulated, inputs)):
            return func(*args, **kwargs)
        kernel = next((kernels[func.name()] for kernels in self._kernels.values() if func.name() in kernels), None)
        if kernel is not None and inputs:
            if kwargs.get("device") == CPU:  # torch's own code asks for where it takes the device's tensors to be
                kwargs = {**kwargs, "device": DEVICE}
            return self._tensors.around(kernel)(*args, **kwargs)
        result = func(*args, **kwargs)
        given = {id(tensor) for tensor in inputs}
        self._tensors.adopt(tensor for tensor in tensors_in((result,)) if id(tensor) not in given)
        return result


def _forgetting(original: Callable[..., None], replacing: _Replacing) -> Callable[..., None]:
    """Library._destroy."""

    def destroy(library: Library) -> None:
        replacing.forget(library)
        original(library)

    return destroy


def _registering(original: Callable[..., None], tensors: EmulatedTensors, replacing: _Replacing) -> Callable[..., None]:
    """Library.impl."""
    registered: dict[str, _Kernels] = {}

    def impl(library: Library, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        key = dispatch_key or library.dispatch_key
        name = _qualified(library, op_name)
        if key.startswith("Composite"):
            original(library, op_name, _seeing(fn, tensors), dispatch_key, **options)
            return
        if key not in ("CPU", "CUDA") or not torch._C._dispatch_has_kernel(name):
            original(library, op_name, fn, dispatch_key, **options)
            return
        if name not in registered and _known_to_cpu(name):
            original(library, op_name, fn, dispatch_key, **options)
            if key == "CUDA":
                replacing.add(library, name, fn)
            return
        if not _known_to_cpu(name):
            registered[name] = {}
            original(library, op_name, _choosing(name, registered[name], tensors), "CPU", **options)
        registered[name][key] = fn

    return impl


def _seeing(kernel: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """A kernel for every device, with the emulated one's tensors recognised inside."""

    def call(*args: Any, **kwargs: Any) -> Any:
        emulated = any(map(is_emulated, tensors_in((args, kwargs))))
        return (tensors.around(kernel) if emulated else kernel)(*args, **kwargs)

    return call


def _qualified(library: Library, op: Any) -> str:
    name = op if isinstance(op, str) else op.name()
    return f"{library.ns}::{name.split('::')[-1]}"


def _known_to_cpu(name: str) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")


def _choosing(name: str, kernels: _Kernels, tensors: EmulatedTensors) -> Callable[..., Any]:
    """The kernel for the CPU, or the one for CUDA with the device's tensors recognised inside."""

    def call(*args: Any, **kwargs: Any) -> Any:
        key = "CUDA" if any(map(is_emulated, tensors_in((args, kwargs)))) else "CPU"
        if key not in kernels:
            raise NotImplementedError(f"{name} has no kernel for {key}; it has one for {', '.join(kernels)}")
        kernel = kernels[key] if key == "CPU" else tensors.around(kernels[key])
        return kernel(*args, **kwargs)

    return call
