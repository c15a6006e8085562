"""Metrics of the error of a result against the float64 reference. Each detects errors that the others miss."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bound = Literal["at least", "at most", "within"]

ELEMENT_ABS = 1e-3
ELEMENT_REL = 3.01 / 128
#: The a and r of FlashMLA's own tests: for decode of O, and for prefill, the tighter ones, of lse and m.
OR_ABS, OR_REL = {"O": 1e-3, "lse": 1e-6}, {"O": 2.01 / 128, "lse": 2.01 / 65536}


@dataclass(frozen=True)
class Metric:
    """A metric with its formula, and where a value must lie: on one side of its pin, or within it on both sides."""

    name: str
    formula: str
    bound: Bound = "at most"

    def holds(self, value: float, pin: float) -> bool:
        """Return True if `value` is within `pin`. NaN never is."""
        if self.bound == "within":
            return abs(value) <= pin
        return value >= pin if self.bound == "at least" else value <= pin


COSINE = Metric("cosine", "<x,y> / (|x||y|) over the whole tensor", "at least")
DIFF = Metric("diff", "1 - 2<x,y> / (|x|^2 + |y|^2)")
ELEMENT = Metric("element", "max |x-y| / (1e-3 + (3.01/128)|y|): at most 1 in FlashMLA's sense")
ELEMENT_OR = Metric("element_or", "max of min(|x-y| / a, |x-y| / (r|y|)), with FlashMLA's a and r")
ERROR = Metric("error", "max |x-y| over rows whose reference is finite")
MASKS = Metric("masks", "number of positions at which only one of the two is NaN, +Inf or -Inf")
Z = Metric("z", "largest error of an element, in standard deviations of the error model")
Z_SQUARE = Metric("z_square", "standard deviations by which the mean of z^2 exceeds 1")
Z_FACTOR = Metric("z_factor", "error of a factor common to all rows, in standard deviations", "within")
Z_ROW = Metric("z_row", "largest error of a row's factor, in standard deviations")
Z_KEY = Metric("z_key", "largest error along the direction of a key, in standard deviations")
LIMIT = Metric("limit", "largest error of a row in units of the model's bound")

#: Metrics of each result of the kernel: those that people know first, then those of the error model. m is the reference
#: point of U, and may lie below the row maximum; U is rescaled to the maximum before it is compared.
METRICS: dict[str, tuple[Metric, ...]] = {
    "O": (COSINE, DIFF, ELEMENT, ELEMENT_OR, Z, Z_SQUARE, Z_FACTOR, Z_ROW, Z_KEY, MASKS),
    "U": (COSINE, DIFF, Z, Z_SQUARE, Z_FACTOR, Z_ROW, Z_KEY, MASKS),
    "lse": (ERROR, ELEMENT_OR, LIMIT, MASKS),
    "m": (ERROR, LIMIT, MASKS),
}


def measure(got: Array, want: Array) -> dict[str, float]:
    """Return the metrics of `got` against the reference `want` that need no error model, by name.

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
    return {
        "cosine": float(_cosine(got.ravel(), want.ravel())),
        "diff": _diff(got, want),
        "element": float(np.max(error / (ELEMENT_ABS + ELEMENT_REL * size))),
        "element_or": _either(error, size, "O"),
    }


def _of_statistics(got: Array, want: Array) -> dict[str, float]:
    finite = np.isfinite(want)
    error = np.abs(got[finite] - want[finite])
    return {"error": float(np.max(error, initial=0.0)), "element_or": _either(error, np.abs(want[finite]), "lse")}


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


def _mask_differences(got: Array, want: Array) -> float:
    differs = np.isnan(got) != np.isnan(want)
    for infinity in (np.inf, -np.inf):
        differs |= (got == infinity) != (want == infinity)
    return float(np.count_nonzero(differs))
