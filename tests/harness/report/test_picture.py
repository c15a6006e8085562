"""Maps of errors: no wrong element is lost where many share a pixel."""

from __future__ import annotations

import numpy as np
import pytest

from harness.report.canvas import round_numbers
from harness.report.picture import COLOURS, coloured

RED = (255, 0, 0)


def test_the_scale_goes_from_a_millionth_to_one() -> None:
    found = coloured(np.array([[0.0, 1e-9, 1e-6, 1e-3, 1.0, 40.0]]), 6, 1)[0]
    low, middle, high = (tuple(COLOURS[i]) for i in (0, 4, 8))
    assert [tuple(each) for each in found] == [low, low, low, middle, high, high]


@pytest.mark.parametrize(("value", "colour"), [(1.0, tuple(COLOURS[-1])), (np.nan, RED)])
def test_one_wrong_element_among_many_is_seen(value: float, colour: tuple[int, int, int]) -> None:
    error = np.full((4099, 517), 1e-5)
    error[4098, 516] = error[0, 0] = error[2000, 300] = value
    found = coloured(error, 200, 268)
    assert found.shape == (268, 200, 3)
    assert np.all(found == colour, axis=2).sum() == 3
    assert tuple(found[0, 0]) == tuple(found[-1, -1]) == colour


def test_small_maps_are_enlarged() -> None:
    found = coloured(np.array([[1.0, 1e-6], [1e-6, 1.0]]), 200, 268)
    assert np.all(found == COLOURS[-1], axis=2).mean() == 0.5


@pytest.mark.parametrize(
    ("low", "high", "numbers"),
    [
        (0, 64, [0, 20, 40, 60]),
        (-2.4, 2.4, [-2, 0, 2]),
        (0, 6794, [i * 1000 for i in range(7)]),
        (0, 0.3, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_axes_have_round_numbers(low: float, high: float, numbers: list[float]) -> None:
    assert list(round_numbers(low, high, 8 if high > 1000 else 4)) == pytest.approx(numbers)
