"""Steps in series: those that are there are found where they are, and noise alone has none."""

import numpy as np
import pytest

from harness.report.steps import segments


def found(values: list[float], measured: bool = False) -> list[int]:
    return [each.start for each in segments(values, measured)][1:]


def test_noise_alone_has_a_step_in_few_series() -> None:
    alarms = sum(bool(found(list(np.random.default_rng(seed).normal(10.0, 1.0, 100)), True)) for seed in range(1000))
    assert alarms <= 5


@pytest.mark.parametrize("at", [10, 50, 90])
def test_a_step_of_four_times_the_noise_is_found_where_it_is(at: int) -> None:
    for seed in range(100):
        values = np.random.default_rng(seed).normal(10.0, 1.0, 100)
        values[at:] += 4.0
        assert any(abs(each - at) <= 3 for each in found(list(values), True)), seed


def test_figures_that_are_computed_have_a_step_at_once() -> None:
    assert found([9405.0] * 20 + [9450.0]) == [20]
    assert found([9405.0] * 20 + [9406.0]) == []
    assert found([9405.0, 9405.0, 8000.0, 8000.0, 9405.0]) == [2, 4]


def test_the_level_and_the_noise_of_a_segment() -> None:
    values = [*np.random.default_rng(1).normal(10.0, 0.5, 200), *np.random.default_rng(2).normal(20.0, 0.5, 200)]
    first, second = segments(values, True)
    assert first.mean == pytest.approx(10.0, abs=0.1) and second.mean == pytest.approx(20.0, abs=0.1)
    assert first.noise == second.noise == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0], [1.0, 2.0]])
def test_short_series(values: list[float]) -> None:
    assert [each.end for each in segments(values, True)] == ([len(values)] if values else [])
