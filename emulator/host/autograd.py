"""Autograd on the emulated device: a backward function written in Python finds its tensors where its forward had them.

torch's engine calls such a function with function modes off, and its gradients lie in ordinary CPU memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.autograd.function import BackwardCFunction, Function
from torch.autograd.graph import saved_tensors_hooks

from .patching import Patches
from .tensors import EmulatedTensors, is_emulated

_MARK: Final = "_of_emulated_device"


def install(patches: Patches, tensors: EmulatedTensors) -> None:
    """Let the engine run with `tensors` active, and hand gradients over on the side of the function's results."""
    patches.set(torch.autograd, "_engine_run_backward", tensors.around(torch.autograd._engine_run_backward))
    patches.set(Function, "apply", classmethod(_noting(vars(Function)["apply"].__func__)))
    patches.set(saved_tensors_hooks, "__init__", _hooking(saved_tensors_hooks.__init__, tensors))
    for name in ("apply", "apply_boxed"):
        patches.set(BackwardCFunction, name, _placing(getattr(BackwardCFunction, name), tensors))


def _hooking(original: Callable[..., None], tensors: EmulatedTensors) -> Callable[..., None]:
    """What is called for a tensor that is saved sees it as what is called when it is wanted back."""

    def initialise(hooks: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        original(hooks, tensors.around(pack), unpack)

    return initialise


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Function.apply that marks the node of a result on the emulated device."""

    def apply(function: type, *args: Any, **kwargs: Any) -> Any:
        results = original(function, *args, **kwargs)
        for result in results if isinstance(results, tuple) else (results,):
            if is_emulated(result) and isinstance(result.grad_fn, BackwardCFunction):
                setattr(result.grad_fn, _MARK, True)
        return results

    return apply


def _placing(original: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """A node's call of its backward function, with the gradients on the device if the node's results are."""

    def apply(node: Any, *gradients: Any) -> Any:
        if hasattr(node, _MARK):
            tensors.adopt(gradients)
        return original(node, *gradients)

    return apply
