"""The rules for host code between launches. The recorder asks as it records, and a replay asks again: it trusts nobody.

Host code may look at tensors (shapes, views) and make new ones that depend on shapes. It may not compute with what a
tensor holds: a replay has other values. A caller can name tensors with which it may, for a merge of partial results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..errors import EmulatorError

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
