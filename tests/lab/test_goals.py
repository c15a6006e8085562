"""The goals for decode over paged caches: what a row compares, the goals it misses, and rows that stay in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import goals
from lab.goals import Time
from stages.shapes import SERVED, ServedShape, Shape

BY_NAME = {shape.name: shape for shape in SERVED}


def row(name: str, monkeypatch: pytest.MonkeyPatch, cycles: dict[tuple[str, bool], float]) -> dict[str, str]:
    """Return the row of a shape if launches take so many cycles, by shape and whether operands may be swapped."""

    def time(shape: Shape | ServedShape, swapped: bool = True) -> Time:
        taken = cycles[shape.name, swapped]
        return Time(taken, taken, "HBM", 100.0)

    monkeypatch.setattr(goals, "time", time)
    return dict(zip(goals.HEAD, goals.figures(BY_NAME[name]), strict=True))


def test_few_heads_are_compared_with_bf16_swapped_and_not(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = {("serve-16h-b64-csa-v4", True): 125.0, ("serve-16h-b64-csa-bf16", True): 125.0}
    found = row("serve-16h-b64-csa-v4", monkeypatch, cycles | {("serve-16h-b64-csa-bf16", False): 175.0})
    assert found["time / bound"] == "1.25"
    assert found["time / bf16"] == "1.00"
    assert found["bf16, not swapped / time"] == "1.40"
    assert found["time / flat bf16"] == found["misses"] == ""


def test_every_goal_that_is_missed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = {("serve-8h-b256-hca-v41", True): 126.0, ("serve-8h-b256-hca-bf16", True): 124.0}
    found = row("serve-8h-b256-hca-v41", monkeypatch, cycles | {("serve-8h-b256-hca-bf16", False): 175.0})
    assert found["misses"] == "bound, bf16, swapped"


def test_two_sequences_are_compared_with_flat_keys_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = {("serve-64h-b2-csa-v4", True): 222.0, ("decode-64h-b2-t1-csa", True): 200.0}
    found = row("serve-64h-b2-csa-v4", monkeypatch, cycles)
    assert (found["time / flat bf16"], found["misses"]) == ("1.11", "flat bf16")
    assert found["time / bf16"] == found["bf16, not swapped / time"] == ""


def test_keys_of_576_columns_are_compared_with_the_bound_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = row("serve-128h-b64-t2-v32", monkeypatch, {("serve-128h-b64-t2-v32", True): 130.0})
    assert list(found.values())[5:] == ["1.30", "", "", "", "bound"]


@pytest.mark.thorough
def test_the_configuration_of_many_heads_is_another() -> None:
    shape = BY_NAME["serve-16h-b2-hca-bf16"]
    assert goals.time(shape).cycles < goals.time(shape, swapped=False).cycles


def test_rows_of_other_shapes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "FIGURES", tmp_path / "goals.csv")
    first, second = "serve-128h-b2-csa-bf16", "serve-64h-b2-csa-bf16"
    goals.FIGURES.write_text(f"# Why.\n{'x,' * 9}x\n{second}{',' * 9}\n")
    goals.write((first, *["1"] * 9))
    lines = goals.FIGURES.read_text().splitlines()
    assert lines[0] == "# Why."
    assert [line.split(",")[0] for line in lines[2:]] == [first, second]
