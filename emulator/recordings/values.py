"""Torch values in a recording, and the rules for host code between launches.

The recorder asks for the rules as it records, and a replay asks again: it trusts nobody. Host code may look at tensors
(shapes, views) and make new ones that depend on shapes. It may not compute with what a tensor holds: a replay has other
values. A caller can name tensors with which it may, for a merge of partial results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch

from ..errors import EmulatorError
from .format import Layout

FACTORIES: Final = frozenset(
    f"aten.{name}"
    for name in (
        "arange", "arange.start", "empty.memory_format", "empty_like", "empty_strided", "full", "full_like",
        "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "scalar_tensor",
        "zeros", "zeros_like",
    )
)  # fmt: skip
"""Operations whose results depend on the shapes and dtypes of tensors only. `.default` is left out."""
VIEWS: Final = frozenset(
    (
        "_reshape_alias", "_unsafe_view", "alias", "as_strided", "detach", "diagonal", "expand", "lift_fresh",
        "permute", "select", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold",
        "unsqueeze", "view",
    )
)  # fmt: skip
"""Operations whose results are always views. Torch calls others views that may copy, such as `to` and `reshape`."""
EMPTY: Final = frozenset(name for name in FACTORIES if "empty" in name)
"""Those whose results hold nothing yet: a replay fills them with NaN."""
MERGING: Final = frozenset(
    (
        "_to_copy", "abs", "add", "amax", "amin", "bitwise_and", "bitwise_not", "bitwise_or", "cat", "clamp",
        "clone", "copy", "div", "eq", "exp", "exp2", "fill", "ge", "gt", "isfinite", "isinf", "isnan", "le", "log",
        "log1p", "log2", "logical_and", "logical_not", "logical_or", "logsumexp", "lt", "masked_fill", "max",
        "maximum", "minimum", "mul", "nan_to_num", "ne", "neg", "reciprocal", "stack", "sub", "sum", "where", "zero",
    )
)  # fmt: skip
"""Elementwise operations and reductions, all that merging partial results takes; also in place, as `add_`."""
RESULT: Final = "a result of launches"


class NotRecordable(EmulatorError):
    """Host code that depends on values, or computes what launches should. The message names operation and tensor."""


class Rules:
    """Admits or rejects the operations of one call.

    tensors: the names of values 0, 1, ...; readable: the names of those that host code may compute with.
    """

    def __init__(self, tensors: Iterable[str], readable: frozenset[str]) -> None:
        self._readable = readable
        self._held: dict[int, str] = dict(enumerate(tensors))
        """The name of each storage that holds the call's data, by its first value."""

    def admit(self, op: Any, roots: Iterable[int]) -> bool:
        """Return True if the results of an operation on these storages hold data of the call.

        op: a torch OpOverload. Raises NotRecordable.
        """
        name = str(op).removesuffix(".default")
        if op.namespace != "aten":
            raise NotRecordable(f"host code calls {name}, which cannot be recorded: allowed are torch's own operations")
        base = name.split(".")[1]
        if base in VIEWS or name in FACTORIES:
            return False
        held = [self._held[root] for root in roots if root in self._held]
        for tensor in held:
            if tensor not in self._readable and not (self._readable and tensor == RESULT):
                raise NotRecordable(
                    f"host code computes {name} with {tensor}: only launches may use the values of a call's tensors, "
                    f"because they are replayed on others; move the operation into the kernel"
                )
        if base.rstrip("_") not in MERGING:
            what = f" with {held[0]}" if held else ""
            raise NotRecordable(f"host code computes {name}{what}: allowed are {', '.join(sorted(MERGING))}")
        return bool(held)

    def hold(self, root: int) -> None:
        """Record that a storage holds results of launches, or something computed from them."""
        self._held.setdefault(root, RESULT)


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
