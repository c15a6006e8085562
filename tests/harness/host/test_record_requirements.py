"""A record is believed if it shows every case, seed, mode, pin and negative control that the accepted tree requires."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.host.evidence import beyond_model
from harness.host.record_requirements import Requirements, RequirementsError, read
from stages.catalog import CATALOG
from stages.tolerances import pins

PINS = {"O": {"cosine": 0.9999, "diff": 4e-6}}
REQUIREMENTS = Requirements("D1.1", {"hd=64": PINS}, (1,))
MODES = ("eager", "lazy")
FRESH = 77


def sound() -> dict[str, Any]:
    """Return a record that shows all."""
    figures = [
        {"tensor": "O", "metric": "cosine", "value": 0.99999, "pin": 0.9999},
        {"tensor": "O", "metric": "diff", "value": 2e-6, "pin": 4e-6},
    ]
    launches = [{"mode": mode, "error": ""} for mode in MODES]
    cases = [
        {"name": "hd=64", "seed": seed, "outcome": "passed", "launches": launched, "figures": copy.deepcopy(figures)}
        for seed, launched in ((1, launches[:1]), (FRESH, launches))
    ]
    return copy.deepcopy(
        {
            "cases": cases,
            "proven": {"hd=64": ["P in tensor memory"]},
            "mutants": [{"name": "hd=64: scaled by 2", "refused": True, "by": "O.cosine"}],
        }
    )


def test_a_whole_record_is_believed() -> None:
    assert not list(REQUIREMENTS.objections(sound(), FRESH, MODES))


def test_a_result_of_one_case_may_be_exact() -> None:
    """With a single key P is 1, and O is V."""
    record = sound()
    record["cases"][0]["figures"][1].update(value=0.0)
    assert not list(REQUIREMENTS.objections(record, FRESH, MODES))


def test_results_that_are_all_exact_are_not_those_of_a_kernel() -> None:
    record = sound()
    for case in record["cases"]:
        case["figures"][1].update(value=1e-12)
    assert any("less than the rounding" in said for said in REQUIREMENTS.objections(record, FRESH, MODES))


def test_a_factor_that_shows_in_the_sum_over_seeds_is_named() -> None:
    record = sound()
    for case in record["cases"]:
        case["figures"].append({"tensor": "O", "metric": "z_factor", "value": -5.0, "pin": 6.5})
    held = {"O": {"cosine": 0.9999, "diff": 4e-6, "z_factor": 6.5}}
    assert not list(Requirements("D1.1", {"hd=64": held}, (1,), 8.0).objections(record, FRESH, MODES))
    required = Requirements("D1.1", {"hd=64": held}, (1,), 6.5)
    (said,) = required.objections(record, FRESH, MODES)
    assert said == "case hd=64: O.z_factor of 2 seeds adds up to -10"
    assert beyond_model(record, required) == ("hd=64", (1, FRESH), "O.z_factor of 2 seeds adds up to -10")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.clear(), "seed=1 is there 0 times"),
        (lambda r: r["cases"].pop(), "seed=77 is there 0 times"),
        (lambda r: r["cases"].append(r["cases"][0]), "seed=1 is there 2 times"),
        (lambda r: r["cases"][0].update(outcome="failed"), "is failed"),
        (lambda r: r["cases"][0]["launches"].pop(), "not in eager"),
        (lambda r: r["cases"][1]["launches"].pop(), "not in eager, lazy"),
        (lambda r: r["cases"][1]["launches"][0].update(error="Deadlock"), "not in eager, lazy"),
        (lambda r: r["cases"][0]["figures"].pop(), "has 1 figures, pinned are 2"),
        (lambda r: r["cases"][0]["figures"][0].update(pin=0.5), "was compared with 0.5, pinned is 0.9999"),
        (lambda r: r["cases"][0]["figures"][0].update(value=0.99), "is outside its pin"),
        (lambda r: r["cases"][0]["figures"][0].update(value=None), "is outside its pin"),
        (lambda r: r["proven"].clear(), "no feature was seen in its PTX"),
        (lambda r: r["mutants"].clear(), "no negative control was compared"),
        (lambda r: r["mutants"][0].update(refused=False), "was accepted"),
        (lambda r: r.update(cases="many"), "is there 0 times"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change: Callable[[dict[str, Any]], object], said: str) -> None:
    record = sound()
    change(record)
    assert any(said in objection for objection in REQUIREMENTS.objections(record, FRESH, MODES))


def test_a_case_of_another_milestone_is_launched_once_with_the_fresh_seed() -> None:
    required, record = Requirements("D1.1", {"hd=64": PINS}, (1,), beside={"D1.2 hd=64": PINS}), sound()
    objections = list(required.objections(record, FRESH, MODES))
    assert objections == [
        "case D1.2 hd=64: no feature was seen in its PTX and launches",
        f"case D1.2 hd=64 seed={FRESH} is there 0 times",
    ]
    record["cases"].append(copy.deepcopy(record["cases"][0]) | {"name": "D1.2 hd=64", "seed": FRESH})
    record["proven"]["D1.2 hd=64"] = ["P in tensor memory"]
    assert not list(required.objections(record, FRESH, MODES))
    record["cases"][-1]["figures"][0].update(value=0.99)
    (said,) = required.objections(record, FRESH, MODES)
    assert "is outside its pin" in said


@pytest.mark.parametrize("milestone", [each for each in CATALOG if each.built], ids=lambda each: each.id)
def test_the_requirements_name_the_cases_of_other_milestones(milestone: Any) -> None:
    others = [each.id for each in CATALOG if each is not milestone]
    others += [] if milestone.id == "D4" else ["D4 hd=64 n=400 B=3 lens=400,1,0 W=1"]
    found = read(milestone.module.parent, milestone.id, beside=others).beside
    assert found == {
        milestone.name_of(case): {tensor: pins(case.milestone)[tensor] for tensor in case.tensors}
        for case in milestone.beside(others)
    }


@pytest.mark.parametrize("gpu", [False, True])
def test_the_pins_are_those_of_the_stages(gpu: bool) -> None:
    for milestone in CATALOG:
        found = read(milestone.module.parent, milestone.id, gpu)
        for case in milestone.load().CASES:
            assert found.cases[case.name] == {tensor: pins(milestone.id, gpu)[tensor] for tensor in case.tensors}


@pytest.mark.parametrize("milestone", [each for each in CATALOG if each.built], ids=lambda each: each.id)
def test_the_requirements_name_the_cases_and_seeds_of_a_milestone(milestone: Any) -> None:
    """It is read as data; this compares it with the module."""
    found, module = read(milestone.module.parent, milestone.id), milestone.load()
    assert set(found.cases) == {case.name for case in module.CASES}
    assert found.seeds == tuple(module.SEEDS)


def test_a_gpu_may_have_pins_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "d1_1.py").write_text("SEEDS = (1,)")
    (tmp_path / "cases.toml").write_text('["D1.1"]\n"hd=64" = "O lse"')
    (tmp_path / "tolerances.toml").write_text(
        "every.O = { cosine = 0.9, diff = 4e-6 }\nevery.U = { diff = 1.0 }\nevery.lse = { error = 1.0 }\n"
        'every_seed.z_factor = 6.5\n"D1.1".lse.error = 1e-6\n"D1.1".gpu.lse.error = 2e-6'
    )
    held = {"O": {"cosine": 0.9, "diff": 4e-6}, "lse": {"error": 1e-6}}
    assert read(tmp_path, "D1.1").cases == {"hd=64": held}
    assert read(tmp_path, "D1.1", gpu=True).cases == {"hd=64": {**held, "lse": {"error": 2e-6}}}


def test_a_milestone_without_cases_has_no_catalogue(tmp_path: Path) -> None:
    (tmp_path / "cases.toml").write_text("")
    with pytest.raises(RequirementsError, match=r"D1\.1 has no requirements"):
        read(tmp_path, "D1.1")
