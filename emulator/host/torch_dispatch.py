"""torch on the emulated device beyond plain functions: operators of libraries, autograd, vmap and compile.

To torch's dispatcher the device's tensors are CPU tensors. If an operator that a library registers for CUDA has no CPU
kernel, a function that distinguishes the two kinds of tensors is registered as the CPU kernel. If it has one, a
dispatch mode selects the CUDA kernel first.

torch's engine turns function modes off before it calls a backward function of Python, and passes gradients in ordinary
CPU memory. Such a function receives tensors of the device.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch._functorch import apis
from torch.autograd.function import BackwardCFunction, Function
from torch.autograd.graph import saved_tensors_hooks
from torch.library import Library
from torch.utils._python_dispatch import TorchDispatchMode

from ..patching import Patches
from .captures import Captures
from .streams import DEVICE, Current
from .tensors import CPU, EmulatedTensors, is_emulated, shares_memory, tensors_in

_Kernels = dict[str, Callable[..., Any]]


def install(patches: Patches, tensors: EmulatedTensors, captures: Captures) -> None:
    """Patch torch's engine, nodes and hooks, torch.vmap and torch.compile, and the registration of operators."""
    # 1. The engine runs with `tensors` active. Gradients are placed on the same device as the function's results.
    patches.set(torch.autograd, "_engine_run_backward", _seen(torch.autograd._engine_run_backward, tensors, captures))
    patches.set(Function, "apply", classmethod(_marking_results(vars(Function)["apply"], tensors.forward_streams)))
    patches.set(saved_tensors_hooks, "__init__", _with_mode_in_hooks(saved_tensors_hooks.__init__, tensors))
    for name in ("apply", "apply_boxed"):
        patches.wrap(BackwardCFunction, name, partial(_placing_gradients, tensors=tensors))
    # 2. Tensors of the device are dispatched to kernels that are registered for CUDA.
    overrides = tensors.operators = DeviceOperators(tensors)
    patches.set(Library, "impl", _library_impl(Library.impl, tensors, overrides))
    patches.set(Library, "_destroy", _library_destroy(Library._destroy, overrides))
    # 3. Results of vmap stay on the device, and a compiled function is the function itself.
    patches.set(apis, "vmap_impl", _vmap(apis.vmap_impl, tensors))
    patches.set(torch, "compile", _compile)


class DeviceOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """torch's operators on tensors of the emulated device, below autograd.

    It places results in device memory before autograd sees them, because autograd saves some for the backward pass. It
    records what each operator accesses, by its schema. And it replaces an operator's CPU kernel by its CUDA kernel.
    """

    def __init__(self, tensors: EmulatedTensors) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tensors = tensors
        self._kernels: WeakKeyDictionary[Library, _Kernels] = WeakKeyDictionary()

    def add(self, library: Library, name: str, kernel: Callable[..., Any]) -> None:
        self._kernels.setdefault(library, {})[name] = kernel
        self._tensors.overridden = True

    def forget(self, library: Library) -> None:
        self._kernels.pop(library, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = list(tensors_in((args, kwargs)))
        on_device = not inputs or any(map(is_emulated, inputs))
        name = func.name()
        kernel = next((kernels[name] for kernels in self._kernels.values() if name in kernels), None)
        if kernel is not None and inputs and on_device:
            if kwargs.get("device") == CPU:  # torch itself names the CPU, where it believes the tensors to be
                kwargs = {**kwargs, "device": DEVICE}
            return self._tensors.enabled_in(kernel)(*args, **kwargs)
        result = func(*args, **kwargs)
        given = {id(tensor) for tensor in inputs}
        made = [tensor for tensor in tensors_in((result,)) if id(tensor) not in given]
        if on_device:
            self._tensors.place_on_device(made)
        reads, writes = _accessed(func._schema, args, kwargs)
        if not _UNWRITTEN.match(func._schema.name):
            writes += [tensor for tensor in made if not any(shares_memory(tensor, other) for other in inputs)]
        self._tensors.record(name.partition(".")[0].removeprefix("aten::"), reads, writes, on_device)
        return result


_UNWRITTEN: Final = re.compile(r"aten::(new_)?empty|aten::(set|resize)_")
_UNREAD: Final = re.compile(r"aten::new_|.*_like$")


def _accessed(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the tensors among an operator's arguments that it reads, and those that it writes."""
    reads, writes = list[Any](), list[Any]()
    if _UNWRITTEN.match(schema.name) or _UNREAD.match(schema.name):
        return reads, writes
    for i, argument in enumerate(schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        alias = argument.alias_info
        if alias is None or alias.is_write:  # else the result is a view of it
            (reads if alias is None else writes).extend(tensors_in((value,)))
    return reads, writes


def _library_destroy(original: Callable[..., None], overrides: DeviceOperators) -> Callable[..., None]:
    """Return Library._destroy that also removes the library's CUDA overrides."""

    def destroy(library: Library) -> None:
        overrides.forget(library)
        original(library)

    return destroy


def _library_impl(
    original: Callable[..., None], tensors: EmulatedTensors, overrides: DeviceOperators
) -> Callable[..., None]:
    """Return Library.impl that makes CUDA kernels available to tensors of the emulated device."""
    registered: dict[str, _Kernels] = {}

    def impl(library: Library, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        key = dispatch_key or library.dispatch_key
        name = _qualified(library, op_name)
        if key.startswith("Composite"):
            original(library, op_name, _for_any_device(fn, tensors), dispatch_key, **options)
            return
        if key not in ("CPU", "CUDA") or not torch._C._dispatch_has_kernel(name):
            original(library, op_name, fn, dispatch_key, **options)
            return
        if name not in registered and _has_cpu_kernel(name):
            original(library, op_name, fn, dispatch_key, **options)
            if key == "CUDA":
                overrides.add(library, name, fn)
            return
        if not _has_cpu_kernel(name):
            registered[name] = {}
            original(library, op_name, _dispatching(name, registered[name], tensors), "CPU", **options)
        registered[name][key] = fn

    return impl


def _for_any_device(kernel: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """Return a device-independent kernel that recognises tensors of the emulated device."""

    def call(*args: Any, **kwargs: Any) -> Any:
        emulated = any(map(is_emulated, tensors_in((args, kwargs))))
        return (tensors.enabled_in(kernel) if emulated else kernel)(*args, **kwargs)

    return call


def _qualified(library: Library, op: Any) -> str:
    name = op if isinstance(op, str) else op.name()
    return f"{library.ns}::{name.split('::')[-1]}"


def _has_cpu_kernel(name: str) -> bool:
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")


def _dispatching(name: str, kernels: _Kernels, tensors: EmulatedTensors) -> Callable[..., Any]:
    """Return a kernel that calls the CUDA kernel for tensors of the emulated device and the CPU kernel for others."""

    def call(*args: Any, **kwargs: Any) -> Any:
        key = "CUDA" if any(map(is_emulated, tensors_in((args, kwargs)))) else "CPU"
        if key not in kernels:
            raise NotImplementedError(f"{name} has no kernel for {key}; it has one for {', '.join(kernels)}")
        kernel = kernels[key] if key == "CPU" else tensors.enabled_in(kernels[key])
        return kernel(*args, **kwargs)

    return call


_MARK: Final = "_of_emulated_device"


def _seen(original: Callable[..., Any], tensors: EmulatedTensors, captures: Captures) -> Callable[..., Any]:
    """Return torch's engine with `tensors` active, which places the results of its operators in device memory."""

    def run(*args: Any, **kwargs: Any) -> Any:
        # torch's engine works on the streams of the forward pass, and orders them itself.
        captures.order.join(Current.stream.cuda_stream, tensors.forward_streams)
        with tensors.operators:
            return tensors.enabled_in(original)(*args, **kwargs)

    return run


def _with_mode_in_hooks(original: Callable[..., None], tensors: EmulatedTensors) -> Callable[..., None]:
    """Return saved_tensors_hooks.__init__ that runs the pack and unpack hooks with `tensors` active."""

    def initialise(hooks: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        original(hooks, tensors.enabled_in(pack), unpack)

    return initialise


def _marking_results(original: Any, streams: set[int]) -> Callable[..., Any]:
    """Return Function.apply that marks the autograd node of each result on the emulated device.

    original: torch's class method, written in Python or, in torch 2.15, in C. streams: gets the stream of each result.
    """

    def apply(function: type, *args: Any, **kwargs: Any) -> Any:
        results = original.__get__(None, function)(*args, **kwargs)
        for result in results if isinstance(results, tuple) else (results,):
            if is_emulated(result) and isinstance(result.grad_fn, BackwardCFunction):
                setattr(result.grad_fn, _MARK, True)
                streams.add(Current.stream.cuda_stream)
        return results

    return apply


def _placing_gradients(original: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """Return a node's `apply` that first places the gradients on the device if the node was marked."""

    def apply(node: Any, *gradients: Any) -> Any:
        if hasattr(node, _MARK):
            tensors.place_on_device(gradients)
        return original(node, *gradients)

    return apply


def _vmap(original: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """Return vmap that places its results on the device: it unwraps them to new tensors that `tensors` does not see."""

    def mapped(*args: Any, **kwargs: Any) -> Any:
        results = original(*args, **kwargs)
        if any(map(is_emulated, tensors_in((args, kwargs)))):
            tensors.place_on_device([results])
        return results

    return mapped


def _compile(model: Any = None, **_options: Any) -> Any:
    """Replace torch.compile, which would generate GPU code: return the function itself."""
    return model if model is not None else lambda function: function
