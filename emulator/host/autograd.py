"""Autograd on the emulated device: Python backward functions receive tensors of the emulated device.

torch's engine turns function modes off before it calls such a function, and passes gradients in ordinary CPU memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.autograd.function import BackwardCFunction, Function
from torch.autograd.graph import saved_tensors_hooks

from ..patching import Patches
from .captures import Captures
from .streams import Current
from .tensors import EmulatedTensors, is_emulated

_MARK: Final = "_of_emulated_device"


def install(patches: Patches, tensors: EmulatedTensors, captures: Captures) -> None:
    """Run torch's engine with `tensors` active; place gradients on the same device as the function's results."""
    patches.set(torch.autograd, "_engine_run_backward", _seen(torch.autograd._engine_run_backward, tensors, captures))
    patches.set(Function, "apply", classmethod(_marking_results(vars(Function)["apply"])))
    patches.set(saved_tensors_hooks, "__init__", _with_mode_in_hooks(saved_tensors_hooks.__init__, tensors))
    for name in ("apply", "apply_boxed"):
        patches.set(BackwardCFunction, name, _placing_gradients(getattr(BackwardCFunction, name), tensors))


def _seen(original: Callable[..., Any], tensors: EmulatedTensors, captures: Captures) -> Callable[..., Any]:
    """Return torch's engine with `tensors` active, which places the results of its operators in device memory."""

    def run(*args: Any, **kwargs: Any) -> Any:
        # torch's engine works on the streams of the forward pass, and orders them itself.
        captures.order.wait_for_all(Current.stream.cuda_stream)
        with tensors.operators:
            return tensors.enabled_in(original)(*args, **kwargs)

    return run


def _with_mode_in_hooks(original: Callable[..., None], tensors: EmulatedTensors) -> Callable[..., None]:
    """Return saved_tensors_hooks.__init__ that runs the pack and unpack hooks with `tensors` active."""

    def initialise(hooks: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        original(hooks, tensors.enabled_in(pack), unpack)

    return initialise


def _marking_results(original: Any) -> Callable[..., Any]:
    """Return Function.apply that marks the autograd node of each result on the emulated device.

    original: torch's class method, written in Python or, in torch 2.15, in C.
    """

    def apply(function: type, *args: Any, **kwargs: Any) -> Any:
        results = original.__get__(None, function)(*args, **kwargs)
        for result in results if isinstance(results, tuple) else (results,):
            if is_emulated(result) and isinstance(result.grad_fn, BackwardCFunction):
                setattr(result.grad_fn, _MARK, True)
        return results

    return apply


def _placing_gradients(original: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """Return a node's `apply` that first places the gradients on the device if the node was marked."""

    def apply(node: Any, *gradients: Any) -> Any:
        if hasattr(node, _MARK):
            tensors.place_on_device(gradients)
        return original(node, *gradients)

    return apply
