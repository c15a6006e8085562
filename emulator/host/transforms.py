"""torch's transforms of functions: vmap's results stay on the emulated device, compile leaves a function as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import apis

from .patching import Patches
from .tensors import EmulatedTensors, is_emulated, tensors_in


def install(patches: Patches, tensors: EmulatedTensors) -> None:
    """Patch torch.vmap and torch.compile."""
    patches.set(apis, "vmap_impl", _vmap(apis.vmap_impl, tensors))
    patches.set(torch, "compile", _compile)


def _vmap(original: Callable[..., Any], tensors: EmulatedTensors) -> Callable[..., Any]:
    """What vmap unwraps at its end are new tensors, which no function made that `tensors` sees."""

    def mapped(*args: Any, **kwargs: Any) -> Any:
        results = original(*args, **kwargs)
        if any(map(is_emulated, tensors_in((args, kwargs)))):
            tensors.adopt([results])
        return results

    return mapped


def _compile(model: Any = None, **_options: Any) -> Any:
    """torch.compile, which would make code for a GPU: the function itself computes the same."""
    return model if model is not None else lambda function: function
