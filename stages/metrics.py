"""How far a result lies from the float64 reference: several metrics, each seeing what the others miss."""

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
    """A name, what it says, and on which side of its pin a value must lie."""

    name: str
    says: str
    bound: Bound = "at most"

    def holds(self, value: float, pin: float) -> bool:
        """Whether `value` is within `pin`. NaN never is."""
        return value >= pin if self.bound == "at least" else value <= pin


COSINE = Metric("cosine", "<x,y> / (|x||y|) over the whole tensor", "at least")
DIFF = Metric("diff", "1 - 2<x,y> / (|x|^2 + |y|^2)")
WORST_ROW = Metric("worst_row", "the least cosine of a row", "at least")
BIAS = Metric("bias", "|<x,y> / <y,y> - 1|: how much too large or small the whole tensor is")
MAX_ABS = Metric("max_abs", "max |x-y|")
MAX_REL = Metric("max_rel", "max |x-y| / max(|y|, rms(y))")
ELEMENT = Metric("element", "max |x-y| / (1e-3 + (3.01/128)|y|): past 1, an element lies outside")
ERROR = Metric("error", "max |x-y| over rows whose reference is finite")
ABOVE = Metric("above", "max (x-y) over rows whose reference is finite, 0 at least")
BELOW = Metric("below", "max (y-x) over rows whose reference is finite, 0 at least")
MASKS = Metric("masks", "positions at which NaN, +Inf or -Inf stand in only one of the two")

#: What each result of the kernel is held to. `element` is in O's units: U is larger by the row's sum. m is what U
#: refers to, and may stay behind the maximum; U is compared as it were with the maximum itself.
METRICS: dict[str, tuple[Metric, ...]] = {
    "O": (COSINE, DIFF, BIAS, WORST_ROW, MAX_ABS, MAX_REL, ELEMENT, MASKS),
    "U": (COSINE, DIFF, BIAS, WORST_ROW, MAX_ABS, MAX_REL, MASKS),
    "lse": (ERROR, MASKS),
    "m": (ABOVE, BELOW, MASKS),
}


def measure(got: Array, want: Array) -> dict[str, float]:
    """Every metric of `got` against the reference `want`, by name: docs/explanation/attention.md has them.

    Both are float64, [rows, head_dim] or [rows]. Where a statistic's `want` is -inf only `masks` looks; a
    `got` that is not finite elsewhere makes the other metrics NaN or infinite, which no pin admits.
    Raises ValueError where shapes differ.
    """
    if got.shape != want.shape:
        raise ValueError(f"got has shape {got.shape}, the reference {want.shape}")
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
    }


def _of_statistics(got: Array, want: Array) -> dict[str, float]:
    finite = np.isfinite(want)
    error = got[finite] - want[finite]
    sides = {"error": np.abs(error), "above": error, "below": -error}
    return {name: float(np.max(side, initial=0.0)) for name, side in sides.items()}


def _cosine(x: Array, y: Array) -> Array:
    """Along the last axis; two zero vectors agree, a zero and a non-zero one do not."""
    dot = np.sum(x * y, axis=-1)
    lengths = np.sqrt(np.sum(x * x, axis=-1) * np.sum(y * y, axis=-1))
    both_zero = ~(np.any(x, axis=-1) | np.any(y, axis=-1))
    cosine: Array = np.where(both_zero, 1.0, dot / np.where(lengths == 0, 1.0, lengths))
    return cosine


def _diff(x: Array, y: Array) -> float:
    """1 - 2<x,y>/(|x|^2 + |y|^2), written so that nothing cancels."""
    size = float(np.sum(x * x) + np.sum(y * y))
    return float(np.sum((x - y) ** 2)) / size if size else 0.0


def _bias(x: Array, y: Array) -> float:
    """|<x,y>/<y,y> - 1|, written so that nothing cancels; where all of y is 0, whether x is not."""
    size = float(np.sum(y * y))
    return abs(float(np.sum((x - y) * y))) / size if size else float(np.any(x))


def _mask_differences(got: Array, want: Array) -> float:
    differs = np.isnan(got) != np.isnan(want)
    for infinity in (np.inf, -np.inf):
        differs |= (got == infinity) != (want == infinity)
    return float(np.count_nonzero(differs))
