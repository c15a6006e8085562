"""Metrics of the error of a result against the float64 reference. Each detects errors that the others miss."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bound = Literal["at least", "at most"]

ELEMENT_ABS = 1e-3
ELEMENT_REL = 3.01 / 128


@dataclass(frozen=True)
class Metric:
    """A metric with its formula, and the side of its pin on which a value must lie."""

    name: str
    formula: str
    bound: Bound = "at most"

    def holds(self, value: float, pin: float) -> bool:
        """Return True if `value` is within `pin`. NaN never is."""
        return value >= pin if self.bound == "at least" else value <= pin


COSINE = Metric("cosine", "<x,y> / (|x||y|) over the whole tensor", "at least")
DIFF = Metric("diff", "1 - 2<x,y> / (|x|^2 + |y|^2)")
WORST_ROW = Metric("worst_row", "minimum over rows of the cosine of the row", "at least")
BIAS = Metric("bias", "|<x,y> / <y,y> - 1|: relative error of a common factor")
MAX_ABS = Metric("max_abs", "max |x-y|")
MAX_REL = Metric("max_rel", "max |x-y| / max(|y|, rms(y))")
ELEMENT = Metric("element", "max |x-y| / (1e-3 + (3.01/128)|y|): must not exceed 1")
ELEMENT_OR = Metric("element_or", "max of min(|x-y| / a, |x-y| / (r|y|)), with FlashMLA's a and r: must not exceed 1")
ERROR = Metric("error", "max |x-y| over rows whose reference is finite")
ABOVE = Metric("above", "max(0, x-y) over rows whose reference is finite")
BELOW = Metric("below", "max(0, y-x) over rows whose reference is finite")
MASKS = Metric("masks", "number of positions at which only one of the two is NaN, +Inf or -Inf")

#: Metrics of each result of the kernel. `element` is in the units of O; U is larger by the row sum. m is the reference
#: point of U, and may lie below the row maximum; U is rescaled to the maximum before it is compared.
METRICS: dict[str, tuple[Metric, ...]] = {
    "O": (COSINE, DIFF, BIAS, WORST_ROW, MAX_ABS, MAX_REL, ELEMENT, MASKS),
    "U": (COSINE, DIFF, BIAS, WORST_ROW, MAX_ABS, MAX_REL, MASKS),
    "lse": (ERROR, MASKS),
    "m": (ABOVE, BELOW, MASKS),
}


#: Further metrics of a result in cases whose floor names them: the bounds of FlashMLA's own tests, with its a and r for
#: decode of O, and for prefill, the tighter ones, of lse and m. An element passes if either bound holds.
ALL_METRICS = {name: metrics + (() if name == "U" else (ELEMENT_OR,)) for name, metrics in METRICS.items()}
OR_ABS, OR_REL = {"O": 1e-3, "lse": 1e-6}, {"O": 2.01 / 128, "lse": 2.01 / 65536}


def measure(got: Array, want: Array) -> dict[str, float]:
    """Return every metric of `got` against the reference `want`, by name (docs/explanation/attention.md).

    Both are float64, [rows, head_dim] or [rows]. For statistics, rows whose reference is -inf count in `masks` only.
    Elsewhere a `got` that is not finite makes the other metrics NaN or infinite, which no pin accepts.
    Raises ValueError if the shapes differ.
    """
    if got.shape != want.shape:
        raise ValueError(f"the result has shape {got.shape}, the reference {want.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        values = _of_rows(got, want) if want.ndim == 2 else _of_statistics(got, want)
    return values | {"masks": _mask_differences(got, want)}


def _of_rows(got: Array, want: Array) -> dict[str, float]:
    error = np.abs(got - want)
    size = np.abs(want)
    rms = float(np.sqrt(np.mean(want**2)))
    return {
        "cosine": float(_cosine(got.ravel(), want.ravel())),
        "diff": _diff(got, want),
        "bias": _bias(got, want),
        "worst_row": float(np.min(_cosine(got, want))),
        "max_abs": float(np.max(error)),
        "max_rel": float(np.max(error / np.maximum(size, rms))) if rms else float(np.max(error)),
        "element": float(np.max(error / (ELEMENT_ABS + ELEMENT_REL * size))),
        "element_or": _either(error, size, "O"),
    }


def _of_statistics(got: Array, want: Array) -> dict[str, float]:
    finite = np.isfinite(want)
    error = got[finite] - want[finite]
    sides = {"error": np.abs(error), "above": error, "below": -error}
    values = {name: float(np.max(side, initial=0.0)) for name, side in sides.items()}
    return values | {"element_or": _either(sides["error"], np.abs(want[finite]), "lse")}


def _either(error: Array, size: Array, kind: str) -> float:
    """Return the largest error in units of the looser of FlashMLA's two bounds; NaN if an error is."""
    relative = np.divide(error, OR_REL[kind] * size, out=np.full_like(error, np.inf), where=size > 0)
    return float(np.max(np.minimum(error / OR_ABS[kind], relative), initial=0.0))


def _cosine(x: Array, y: Array) -> Array:
    """Return the cosine along the last axis: 1 for two zero vectors, 0 for one zero vector."""
    dot = np.sum(x * y, axis=-1)
    lengths = np.sqrt(np.sum(x * x, axis=-1) * np.sum(y * y, axis=-1))
    both_zero = ~(np.any(x, axis=-1) | np.any(y, axis=-1))
    cosine: Array = np.where(both_zero, 1.0, dot / np.where(lengths == 0, 1.0, lengths))
    return cosine


def _diff(x: Array, y: Array) -> float:
    """Return 1 - 2<x,y>/(|x|^2 + |y|^2), computed without cancellation."""
    size = float(np.sum(x * x) + np.sum(y * y))
    return float(np.sum((x - y) ** 2)) / size if size else 0.0


def _bias(x: Array, y: Array) -> float:
    """Return |<x,y>/<y,y> - 1|, computed without cancellation. If y is 0, return 0 if x is too, else 1."""
    size = float(np.sum(y * y))
    return abs(float(np.sum((x - y) * y))) / size if size else float(np.any(x))


def _mask_differences(got: Array, want: Array) -> float:
    differs = np.isnan(got) != np.isnan(want)
    for infinity in (np.inf, -np.inf):
        differs |= (got == infinity) != (want == infinity)
    return float(np.count_nonzero(differs))
