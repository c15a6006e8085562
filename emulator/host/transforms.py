"""torch.vmap and torch.compile on the emulated device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import apis

from ..patching import Patches
from .tensors import EmulatedTensors, is_emulated, tensors_in


def install(patches: Patches, tensors: EmulatedTensors) -> None:
    """Patch torch.vmap, whose results stay on the device, and torch.compile, which returns the function unchanged."""
    patches.set(apis, "vmap_impl", _vmap(apis.vmap_impl, tensors))
    patches.set(torch, "compile", _compile)


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
