"""Pins computed from measured figures."""

import math

import pytest

from harness.tools.measure import M_BELOW, M_ROUNDING, pin, rounded_down, worst_figures
from stages.metrics import BELOW, COSINE, DIFF, ERROR, MASKS


@pytest.mark.parametrize(
    ("metric", "worst", "floor", "expected"),
    [
        (DIFF, 1.27e-6, None, "2.5e-6"),
        (DIFF, 3.1e-6, 5e-6, "5e-6"),
        (ERROR, 0.0, 2e-6, "1.0e-12"),
        (ERROR, 0.84e-6, 2e-6, "1.6e-6"),
        (COSINE, 0.9999994, None, "0.9999988"),
        (COSINE, 0.9999976, 0.999997, "0.999997"),
        (COSINE, 1.0, 0.999997, "0.999999999999"),
        (MASKS, 0.0, 0, "0"),
        (BELOW, 2.1, None, f"{M_BELOW + M_ROUNDING:.6f}"),
        (BELOW, 0.6e-6, None, "1.2e-6"),
    ],
    ids=str,
)
def test_twice_the_error_within_the_floor(metric: object, worst: float, floor: float | None, expected: str) -> None:
    assert pin(metric, worst, floor) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("x", [0.99, 1.0, 1.049, 9.99e-7, 1.05e-12, 123.4])
def test_rounding_never_loosens(x: float) -> None:
    rounded = float(rounded_down(x))
    assert rounded <= x < rounded * (1 + 1.001 / 10)
    assert math.log10(x / rounded) < 0.05


def test_worst_is_the_furthest_from_right() -> None:
    measured: list[dict[str, float | None]] = [
        {"O cosine": 0.9999, "lse error": 1e-6},
        {"O cosine": 0.9998, "lse error": 2e-6},
        {"lse error": None},
    ]
    assert worst_figures(measured) == {("O", "cosine"): 0.9998, ("lse", "error"): 2e-6}
