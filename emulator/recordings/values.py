"""Torch values in a recording: layout, extent in memory, and how the arguments of operations are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from .format import Layout
from .rules import NotRecordable

_PLAIN: Final = (bool, int, float, str, type(None))
_NAMED: Final = (torch.dtype, torch.layout, torch.memory_format)


def layout(tensor: torch.Tensor, example: bytes = b"") -> Layout:
    """Return the layout of a tensor."""
    storage = tensor.untyped_storage()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Layout(dtype, (*tensor.shape,), tensor.stride(), int(tensor.storage_offset()), storage.nbytes(), example)


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address of a tensor's first element and the bytes to the end of its last; 0 bytes if it is empty."""
    if tensor.numel() == 0:
        return tensor.data_ptr(), 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


def tensors_in(arguments: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in the (nested) arguments or results of an operation."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, dict):
        yield from tensors_in(list(arguments.values()))
    elif isinstance(arguments, list | tuple):
        for each in arguments:
            yield from tensors_in(each)


def encoded(argument: Any, number: Callable[[torch.Tensor], int]) -> Any:
    """Return an argument of an operation as JSON. number: of a tensor. Raises NotRecordable for one of another kind."""
    if isinstance(argument, _PLAIN):
        return argument
    if isinstance(argument, torch.Tensor):
        return {"value": number(argument)}
    if isinstance(argument, list | tuple):
        return [encoded(each, number) for each in argument]
    if isinstance(argument, _NAMED):
        return {"torch": str(argument).removeprefix("torch.")}
    if isinstance(argument, torch.device):
        return {"device": argument.type}
    raise NotRecordable(f"host code passes {type(argument).__name__} to a torch operation, which cannot be recorded")


def decoded(read: Any, value: Callable[[int], torch.Tensor], device: str) -> Any:
    """Return an argument from `encoded`. value: of a number. device: takes the place of the recorded one."""
    if isinstance(read, list):
        return [decoded(each, value, device) for each in read]
    if not isinstance(read, dict):
        return read
    if "value" in read:
        return value(int(read["value"]))
    if "device" in read:
        return torch.device(device)
    found = getattr(torch, str(read["torch"]), None)
    if not isinstance(found, _NAMED):
        raise NotRecordable(f"an argument names {read['torch']!r}, which is no dtype or layout of torch")
    return found


def dtype(name: str) -> torch.dtype:
    """Return the dtype of that name. Raises NotRecordable."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise NotRecordable(f"{name!r} is no dtype of torch")
    return found
