"""No right kernel lies outside the bounds of the error model, and a wrong one does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.right_kernel import RightKernel
from stages import d6a
from stages.caches import Paged, Served
from stages.case import Case, Compressed
from stages.catalog import CATALOG
from stages.check import compared
from stages.error_model import ROUNDS, TRUNCATES, ErrorModel, TensorCore, energy, rounded
from stages.expected import Masks, reference, seen
from stages.inputs import draw
from stages.tolerances import pins

BOUNDS = pins("D0")
PAGE = (Path(__file__).parents[2] / "docs/explanation/error-model.md").read_text()


def cached(*caches: Paged, head_dim: int = 512, heads: int = 8, **more: object) -> Case:
    """Return a case with caches."""
    options: dict[str, object] = {"served": Served(caches, maxima=True), **more}
    return Case("D0", head_dim, 0, heads, 2, 1, None, True, False, **options)  # type: ignore[arg-type]


CASES = (
    *(Case("D0", hd, n, heads=16) for hd in (64, 128, 256, 512) for n in (1, 2, 5, 128, 200)),
    *(Case("D0", hd, n, heads=16, peak=peak) for hd in (64, 512) for n in (8, 300) for peak in (4, 32, 128)),
    *(Case("D0", hd, 400, heads=16, trend=trend) for hd in (64, 256) for trend in ("growing", "falling", "constant")),
    *(Case("D0", hd, 200, heads=8, tokens=2, shared_kv=True, peak=peak) for hd in (128, 512) for peak in (1, 32)),
    Case("D0", 64, 1000, heads=16),
    Case("D0", 128, 150, 16, 4, 2, causal=True, window=40, lens=(150, 3), sinks=(0.0, 4.0, -np.inf, np.inf, -80.0)),
    Case("D0", 256, 100, 16, 2, 1, None, True, compressed=Compressed((700,), 4, 150), sinks=(5.0, 6.0), causal=True),
    *(cached(Paged(9, 61, 133, layout=layout)) for layout in ("bf16", "v4", "v41", "v41_fp4", "e4m3")),
    *(cached(Paged(9, 61, 200, layout=layout), peak=32) for layout in ("bf16", "v4", "v41_fp4", "e4m3")),
    cached(Paged(9, 61, 133, layout="v32", gap=656), head_dim=576),
    cached(Paged(9, 61, 133), head_dim=576),
    cached(Paged(4, 64, 64, layout="v4"), Paged(4, 64, 64, layout="v4"), sinks=(0.0, 4.0)),
    cached(Paged(40, 2, 3)),
)  # fmt: skip
KERNELS = tuple(
    RightKernel(tile, *lag_and_vote, core)
    for tile in (32, 64, 128)
    for lag_and_vote in ((8.0, 1), (8.0, 16), (2.0, 8))
    for core in (ROUNDS, TRUNCATES)
)


def figures(case: Case, kernel: RightKernel, seed: int) -> dict[str, float]:
    """Return the figures of a kernel for a case, by tensor and name."""
    inputs = draw(case, seed)
    want, model = reference(case, inputs), ErrorModel(case, inputs, kernel.core)
    got = kernel.outputs(case, inputs, want)
    found = {}
    for tensor in case.tensors:
        for name, value in model.figures(tensor, compared(tensor, got), compared(tensor, want)).items():
            found[f"{tensor}.{name}"] = value
    return found


def outside(found: dict[str, float]) -> dict[str, float]:
    """Return the figures outside the bounds."""
    bounds = {f"{tensor}.{name}": bound for tensor, own in BOUNDS.items() for name, bound in own.items()}
    return {name: value for name, value in found.items() if not abs(value) <= bounds[name]}


def draws(count: int) -> Iterator[tuple[Case, RightKernel, int]]:
    """Yield cases, kernels and seeds; every case and every kernel in turn."""
    for i in range(count):
        yield CASES[i % len(CASES)], KERNELS[i * 7 % len(KERNELS)], 1000 + i


def test_right_kernels_are_within_the_bounds() -> None:
    """A sample of the draws of the long test."""
    for case, kernel, seed in draws(len(CASES)):
        assert not outside(figures(case, kernel, seed)), f"{case} {kernel} seed={seed}"


@pytest.mark.thorough
def test_many_right_kernels_are_within_the_bounds() -> None:
    """No figure is outside, and the figures lie where the model says."""
    worst: dict[str, float] = {}
    for case, kernel, seed in draws(10_000):
        found = figures(case, kernel, seed)
        assert not outside(found), f"{case} {kernel} seed={seed}"
        worst |= {name: max(worst.get(name, 0.0), abs(value)) for name, value in found.items()}
    assert 4.0 < worst["O.z"] < 7.5 and worst["lse.limit"] < 0.7 and worst["U.z_factor"] < 6.0
    for name, of_o, of_u in re.findall(r"^\| `(z\w*)` \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \|$", PAGE, re.MULTILINE):
        for most, known in ((float(of_o), worst[f"O.{name}"]), (float(of_u), worst[f"U.{name}"])):
            assert most - 0.01 <= known <= most + 0.01


def test_the_bounds_of_the_page_are_those_of_the_milestones() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([\d.]+) \|$", PAGE, re.MULTILINE))
    bounds = {name: own[name] for own in BOUNDS.values() for name in listed if name in own}
    assert bounds == {name: float(bound) for name, bound in listed.items()}


@pytest.mark.long
def test_the_probability_of_a_false_rejection() -> None:
    """It follows from the counts that the page gives, which are no less than those of all cases."""
    elements, keys, rows, factors, sums, squares = (
        float(number.replace(",", ""))
        for number in re.findall(
            r"at most (\S+) elements and (\S+) directions .*? (\S+) rows .*? (\S+) factors and (\S+) sums .*? "
            r"(\S+) squares",
            " ".join(PAGE.split()),
        )[0]
    )
    counts = np.zeros(4)
    for milestone in CATALOG:
        for case in milestone.load().CASES:
            inputs, masks = draw(case, 1), Masks.of(case)
            runs = (len(milestone.load().SEEDS) + 1) * len({"O", "U"} & set(case.tensors))
            tokens = [(sequence, token) for sequence in range(case.batch) for token in range(case.tokens)]
            seen_keys = sum(len(at) for each in tokens for at in masks.places(case, inputs, *each))
            lines = len(tokens) * case.heads
            counts += runs * np.array([lines * case.value_dim, seen_keys * case.heads, lines, 1])
    assert np.all(counts <= [elements, keys, rows, factors]) and squares == factors == 2 * sums
    z = {name: BOUNDS["O"][name] for name in ("z", "z_row", "z_factor", "z_square")}
    tails = {name: np.exp(-(bound**2) / 2) for name, bound in z.items()}
    of_z = 2 * (elements + keys) * tails["z"] + 2 * rows * tails["z_row"]
    assert of_z + 2 * (factors + sums) * tails["z_factor"] + squares * tails["z_square"] < 5e-7


@pytest.mark.parametrize("core", [ROUNDS, TRUNCATES], ids=lambda core: core.name)
def test_p_that_is_a_little_too_small_is_seen(core: TensorCore) -> None:
    case = Case("D0", 64, 128)
    found = figures(case, RightKernel(core=core, p_factor=0.999), seed=1)
    assert {"O.z_factor", "U.z_factor"} <= outside(found).keys() and found["O.z_factor"] < 0


@pytest.mark.parametrize("keys", [8, 128, 1024])
@pytest.mark.parametrize("change", ["lost", "doubled", "swapped"])
def test_one_wrong_key_is_seen(change: str, keys: int) -> None:
    """Key 3 is lost, doubled, or takes the value of key 4."""
    case = Case("D0", 64, keys, heads=32)
    inputs = draw(case, 1)
    assert inputs.v is not None
    numbers = {"lost": [j for j in range(keys) if j != 3], "doubled": [*range(keys), 3]}.get(change, list(range(keys)))
    values = inputs.v[:, [4 if (change, j) == ("swapped", 3) else j for j in numbers]]
    wrong = replace(case, keys=len(numbers))
    got = reference(wrong, replace(inputs, k=inputs.k[:, numbers], v=values))
    want, model = reference(case, inputs), ErrorModel(case, inputs)
    found = {f"O.{name}": value for name, value in model.figures("O", rounded(got["O"]), want["O"]).items()}
    assert "O.z_key" in outside(found)


def test_figures_of_the_reference_itself() -> None:
    case = CASES[3]
    inputs = draw(case, 1)
    want, model = reference(case, inputs), ErrorModel(case, inputs)
    assert set(model.figures("U", want["U"], want["U"]).values()) == {0.0}
    assert model.figures("lse", want["lse"], want["lse"]) == {"limit": 0.0}
    lost = want["O"].copy()
    lost[3, 5] = np.nan
    assert set(model.figures("O", lost, want["O"]).values()) == {np.inf}


def test_rows_without_a_key_are_exact() -> None:
    case = Case("D0", 64, 20, heads=4, batch=2, lens=(20, 0))
    inputs = draw(case, 1)
    want = reference(case, inputs)
    got = want["O"].copy()
    got[-1, 0] = 1e-30
    assert ErrorModel(case, inputs).figures("O", got, want["O"])["z"] == np.inf


def test_energy_is_zero_up_to_the_expectation() -> None:
    ones = np.ones(100)
    assert energy(ones, ones) == 0.0 and energy(0.5 * ones, ones) == 0.0
    assert energy(2 * ones, ones) == pytest.approx(np.sqrt(100 * (1 - np.log(2))))


def test_the_mean_of_two_keys_is_no_random_number() -> None:
    """Row 2 weighs both keys alike: half of O's elements are ties, and all of them round away from zero."""
    assert figures(Case("D0", 512, 2, heads=16), RightKernel(), seed=1074)["O.z_row"] < 5.0


def test_a_key_whose_weight_vanishes_in_all_rows_decides_nothing() -> None:
    """Weights of keys reach from 1 to 1e-200, and their squares underflow. Seen on an H200, in one of 31,000 draws."""
    case = next(case for case in d6a.CASES if "ascending peak=128" in case.name)
    assert figures(case, RightKernel(core=TRUNCATES), seed=2888)["O.z_key"] < 5.0


@pytest.mark.parametrize("core", [ROUNDS, TRUNCATES], ids=lambda core: core.name)
def test_a_weight_of_7_eighths_makes_ties_of_which_either_rounding_is_right(core: TensorCore) -> None:
    """One element in eight then lies in the middle of two numbers. Seen on the emulated B200, in 1 of 28,000 draws."""
    case = Case("D0", 512, 1, heads=16)
    (only,) = seen(case, draw(case, seed=1))
    logits = case.head_dim**-0.5 * (only.q @ only.keys.T)[:, 0]
    for share in 7 / 8 + np.linspace(-3e-7, 3e-7, 7):
        sinks = logits + np.log(1 / share - 1)
        assert not outside(figures(replace(case, sinks=tuple(sinks)), RightKernel(core=core), seed=1)), share
