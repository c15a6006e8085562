"""Each metric sees what it is there for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stages.metrics import COSINE, DIFF, Z_FACTOR, Array, measure

ROWS = np.random.default_rng(0).normal(size=(16, 64))
STATISTICS = np.random.default_rng(1).normal(size=16)


def test_the_reference_itself_is_perfect() -> None:
    values = measure(ROWS, ROWS)
    assert values.pop("cosine") == pytest.approx(1)
    assert set(values.values()) == {0.0}
    assert measure(STATISTICS, STATISTICS) == dict.fromkeys(("error", "masks", "element_or"), 0.0)


def test_an_element_passes_by_either_bound_of_flash_mla() -> None:
    """Far from 0 the relative bound is the looser one, near 0 the absolute one."""
    want = np.array([[1.0, 0.0, 1e-4]])
    assert measure(want + np.array([0.0157, 0.0, 0.0]), want)["element_or"] == pytest.approx(0.0157 / (2.01 / 128))
    assert measure(want + np.array([0.0, 5e-4, 0.0]), want)["element_or"] == pytest.approx(0.5)
    assert measure(want + np.array([0.0, 0.0, 2e-3]), want)["element_or"] == pytest.approx(2.0)
    assert np.isnan(measure(want * np.nan, want)["element_or"])


def test_cosine_is_blind_to_scale_and_diff_is_not() -> None:
    values = measure(2 * ROWS, ROWS)
    assert values["cosine"] == pytest.approx(1)
    assert values["diff"] == pytest.approx(1 - 2 * 2 / (4 + 1))


def test_the_bound_on_an_element_is_the_floor_of_the_milestones() -> None:
    got = ROWS + 1e-3 + 3.01 / 128 * np.abs(ROWS)
    assert measure(got, ROWS)["element"] == pytest.approx(1)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("want", [ROWS, STATISTICS], ids=["rows", "statistics"])
def test_poison_fails_every_metric_that_it_reaches(poison: float, want: Array) -> None:
    got = want.copy()
    got.flat[3] = poison
    values = measure(got, want)
    assert values["masks"] == 1
    if want.ndim == 2:
        assert not COSINE.holds(values["cosine"], -1) and not DIFF.holds(values["diff"], 1e9)
    else:
        assert not values["error"] < 1e9


def test_minus_infinity_belongs_where_the_reference_has_it() -> None:
    want = STATISTICS.copy()
    want[2] = -np.inf
    assert measure(want, want) == dict.fromkeys(("error", "masks", "element_or"), 0.0)
    assert measure(STATISTICS, want)["masks"] == 1
    assert measure(np.where(np.isinf(want), np.inf, want), want)["masks"] == 1


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(16, 63\).*\(16, 64\)"):
        measure(ROWS[:, 1:], ROWS)


finite = st.floats(-10, 10, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-3)


@given(arrays(float, (3, 4), elements=finite), arrays(float, (3, 4), elements=finite))
def test_diff_is_one_minus_twice_the_dot_over_the_squares(x: Array, y: Array) -> None:
    squares = np.sum(x * x) + np.sum(y * y)
    expected = 1 - 2 * np.sum(x * y) / squares if squares else 0.0
    assert measure(x, y)["diff"] == pytest.approx(expected, abs=1e-12)


def test_a_factor_is_bounded_on_both_sides() -> None:
    assert Z_FACTOR.holds(-6.0, 6.5) and not Z_FACTOR.holds(-7.0, 6.5) and not Z_FACTOR.holds(np.nan, 6.5)
