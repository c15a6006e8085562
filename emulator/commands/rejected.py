"""The values that a script's own comparison rejected, and the tensor of a launch that held them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..patching import Patches
from ..tensors import NamedTensor

if TYPE_CHECKING:
    from ..debug.recording import Recording

COMPARISONS: Final = {
    "torch": ("allclose", "equal"),
    "torch.testing": ("assert_close",),
    "numpy": ("allclose", "array_equal"),
    "numpy.testing": ("assert_allclose", "assert_array_almost_equal", "assert_array_equal", "assert_equal"),
}
"""The functions of each module that compare their first two arguments. They raise, or return whether these agree."""


class Rejected(Patches):
    """The last comparison that failed while the context is open."""

    def __init__(self) -> None:
        super().__init__()
        self.pair: tuple[np.ndarray, np.ndarray] | None = None
        self.tolerances: dict[str, float] = {}
        self._inside = False

    def __enter__(self) -> Rejected:
        """Watch the comparisons of modules that are imported, and of those that will be."""
        for name in COMPARISONS:
            self.when_imported(name, self._watch)
        return self

    def _watch(self, module: ModuleType) -> None:
        for name in COMPARISONS[module.__name__]:
            self.wrap(module, name, self._watched)

    def _watched(self, compare: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compare)
        def watched(*arguments: Any, **options: Any) -> Any:
            if self._inside:  # a comparison may call another one
                return compare(*arguments, **options)
            self._inside, agree = True, False
            try:
                agree = (answer := compare(*arguments, **options)) is None or bool(answer)
                return answer
            finally:
                self._inside = False
                if not agree:
                    self._keep(arguments, options)

        return watched

    def _keep(self, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        named = (options[name] for name in ("actual", "expected", "desired") if name in options)
        with suppress(ValueError, TypeError):  # not numbers
            first, second = (_numbers(each) for each in [*arguments, *named][:2])
            self.pair = first, second
            self.tolerances = {name: float(options[name]) for name in ("rtol", "atol") if options.get(name) is not None}

    def output(self, recordings: Mapping[int, Recording]) -> tuple[NamedTensor, np.ndarray] | None:
        """Return the tensor of a recorded launch that was rejected, of the last one, and what it was compared with."""
        for pair in () if self.pair is None else (self.pair, self.pair[::-1]):
            for number in sorted(recordings, reverse=True):
                for tensor in recordings[number].tensors.values():
                    held = tensor.values().astype(np.float64)
                    if held.size == pair[1].size and np.array_equal(held.ravel(), pair[0].ravel(), equal_nan=True):
                        return tensor, pair[1].reshape(tensor.shape)
        return None


def _numbers(value: Any) -> np.ndarray:
    """Return an array, tensor or number in float64."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.array(value, np.float64)
