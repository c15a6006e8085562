"""The values that a script's own comparison rejected, and the tensor of a launch that held them."""

from __future__ import annotations

from collections import deque
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
    "torch": ("allclose", "equal", "isclose", "Tensor.allclose", "Tensor.equal", "Tensor.isclose"),
    "torch.testing": ("assert_close",),
    "numpy": ("allclose", "array_equal", "isclose"),
    "numpy.testing": ("assert_allclose", "assert_array_almost_equal", "assert_array_equal", "assert_equal"),
}
"""The functions of each module that compare their first two arguments. They raise, or return whether these agree."""
SUBTRACTIONS: Final = ("sub", "Tensor.sub", "Tensor.__sub__")
"""The functions of torch by which a script compares tensors itself, as in `(y - expected).abs().max()`."""
MOST_KEPT: Final = 8
"""The number of comparisons that are kept. The last one of an output of a launch is explained."""
MOST_FITTED: Final = 4096
"""The number of elements from which the place of a part in its tensor is computed; all are compared afterwards."""


class Rejected(Patches):
    """The last comparisons that failed while the context is open, and the last subtractions of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.tolerances: dict[str, float] = {}
        """Those of the comparison that `output` returned."""
        self._pairs: deque[tuple[Any, Any, dict[str, float] | None]] = deque(maxlen=MOST_KEPT)
        """Pairs that were compared, with the tolerances, or None in their place if they were subtracted."""
        self._inside = False

    def __enter__(self) -> Rejected:
        """Watch the comparisons of modules that are imported, and of those that will be."""
        for name in COMPARISONS:
            self.when_imported(name, self._watch)
        return self

    def _watch(self, module: ModuleType) -> None:
        for name in COMPARISONS[module.__name__]:
            self._wrap(module, name, self._watched)
        for name in SUBTRACTIONS if module.__name__ == "torch" else ():
            self._wrap(module, name, self._subtracted)

    def _wrap(self, module: ModuleType, name: str, wrapped: Callable[[Any], Any]) -> None:
        owner, _, function = name.rpartition(".")
        self.wrap(getattr(module, owner) if owner else module, function, wrapped)

    def _watched(self, compare: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compare)
        def watched(*arguments: Any, **options: Any) -> Any:
            if self._inside:  # a comparison may call another one
                return compare(*arguments, **options)
            self._inside, agree = True, False
            try:
                answer = compare(*arguments, **options)
                agree = answer is None or bool(answer.all() if hasattr(answer, "all") else answer)
                return answer
            finally:
                self._inside = False
                if not agree:
                    self._keep(arguments, options)

        return watched

    def _subtracted(self, subtract: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(subtract)
        def watched(first: Any, second: Any, *more: Any, **options: Any) -> Any:
            shape = getattr(first, "shape", ())
            if not self._inside and len(shape) and shape == getattr(second, "shape", ()):
                self._pairs.append((first, second, None))
            return subtract(first, second, *more, **options)

        return watched

    def _keep(self, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        named = (options[name] for name in ("actual", "expected", "desired") if name in options)
        with suppress(ValueError, TypeError):  # not numbers
            first, second = (_numbers(each) for each in [*arguments, *named][:2])
            tolerances = {name: float(options[name]) for name in ("rtol", "atol") if options.get(name) is not None}
            self._pairs.append((first, second, tolerances))

    def output(self, recordings: Mapping[int, Recording]) -> tuple[NamedTensor, np.ndarray] | None:
        """Return the tensor of a recorded launch that was rejected, of the last one, and what it was compared with.

        If a part of it was compared, its other elements are expected to be what they are.
        """
        held = [
            (tensor, tensor.values().astype(np.float64), recording.writes(tensor))
            for _, recording in sorted(recordings.items(), reverse=True)
            for tensor in recording.tensors.values()
        ]
        for first, second, tolerances in reversed(self._pairs):
            for part, wanted in _both_ways(first, second):
                for tensor, values, written in held:  # a script may subtract from an input, which is no check
                    places = places_of(part, values) if written or tolerances is not None else None
                    if places is not None:
                        expected = values.ravel().copy()
                        expected[places.ravel()] = wanted.ravel()
                        self.tolerances = tolerances or {}
                        return tensor, expected.reshape(tensor.shape)
        return None


def _both_ways(first: Any, second: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return what was compared, in both orders; none if it is no numbers, or has other shapes."""
    try:
        one, other = np.broadcast_arrays(_numbers(first), _numbers(second))
    except (ValueError, TypeError):
        return []
    return [(one, other), (other, one)]


def places_of(part: np.ndarray, held: np.ndarray) -> np.ndarray | None:
    """Return where a tensor holds the elements of a part of it, as indices of its flat values; None if it does not.

    A part is what slices, transpositions and new shapes make: the place of an element is linear in its index. The
    values that `held` has only once give the factors.
    """
    flat, count = held.ravel(), part.size
    if not min(2, flat.size) <= count <= flat.size:  # one number may be equal by chance
        return None
    if count == flat.size and np.array_equal(flat, part.ravel(), equal_nan=True):
        return np.arange(count).reshape(part.shape)
    values, first, times = np.unique(flat, return_index=True, return_counts=True)
    at = np.minimum(np.searchsorted(values, part.ravel()), values.size - 1)
    known = values[at] == part.ravel()
    single = np.flatnonzero(known & (times[at] == 1))
    if not (single.size and (known | np.isnan(part.ravel())).all()):
        return None
    single = single[:: max(1, single.size // MOST_FITTED)]
    index = np.indices(part.shape).reshape(part.ndim, count)
    terms = np.vstack([index, np.ones(count, int)]).T
    factors = np.rint(np.linalg.lstsq(terms[single], first[at[single]], rcond=None)[0]).astype(int)
    places = terms @ factors
    fits = places.min() >= 0 and places.max() < flat.size and np.unique(places).size == count
    same = fits and np.array_equal(flat[places], part.ravel(), equal_nan=True)
    return places.reshape(part.shape) if same else None


def _numbers(value: Any) -> np.ndarray:
    """Return an array, tensor or number in float64."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.array(value, np.float64)
