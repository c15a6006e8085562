"""Bounds of the error model that the accepted kernel exceeds, for one seed or for all added up."""

import pytest

from harness.judge.again import beyond
from lab.right_kernel import RightKernel
from stages.case import Case
from stages.check import Figure, compare
from stages.error_model import ErrorModel
from stages.expected import reference
from stages.inputs import draw

CASE = Case("D1.1", 64, 128)


def figures(kernel: RightKernel, seed: int) -> tuple[Figure, ...]:
    inputs = draw(CASE, seed)
    want = reference(CASE, inputs)
    return compare(CASE, kernel.outputs(CASE, inputs, want), want, ErrorModel(CASE, inputs))


@pytest.mark.parametrize(("p_factor", "said"), [(1.0, []), (0.9999, ["U.z_factor of 8 seeds adds up to -"])])
def test_a_bias_that_no_single_seed_shows_is_seen_in_the_sum(p_factor: float, said: list[str]) -> None:
    """P that is 0.01% too small lies about three standard deviations off for each seed."""
    found = {seed: figures(RightKernel(p_factor=p_factor), seed) for seed in range(1, 9)}
    assert all(figure.holds for each in found.values() for figure in each)
    outside = beyond(found)
    assert len(outside) == len(said) and all(map(str.startswith, outside, said)), outside


def test_a_figure_outside_is_named_with_its_seed() -> None:
    (z,) = (each for each in figures(RightKernel(p_factor=0.99), 1) if (each.tensor, each.metric) == ("O", "z_factor"))
    assert beyond({3: (z,)})[0] == f"{z} at seed=3"
