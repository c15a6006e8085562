"""Pins of predicted cycles, written by one command."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.tools import perf
from remote.device import Emulated
from stages.catalog import GATE, find


def test_pins_are_what_is_predicted_now_and_the_comment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cycles.toml"
    file.write_text('# Why.\n\n"D1.1" = [1]\n')
    monkeypatch.setattr(perf, "cycles_file", lambda chip: file)
    monkeypatch.setattr(perf, "CATALOG", (GATE,))
    device = Emulated()
    moved = list(perf.pin(device, [GATE]))
    cycles = tomllib.loads(file.read_text())["D1.1"]
    assert moved[0] == f"D1.1  1 -> {cycles[0]}  hd=64 n=128" and 5000 < cycles[0] < 20_000
    assert moved[1] == f"D1.1  none -> {cycles[1]}  hd=64 n=128 scale=0.3" and len(cycles) == 2
    assert file.read_text() == f'# Why.\n\n"D1.1" = {cycles}\n'
    assert list(perf.pin(device, [GATE])) == []


def test_the_pin_of_one_milestone_leaves_the_others_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cycles.toml"
    file.write_text('# Why.\n\n"D1.1" = [1]\n"D3" = [3]\n')
    monkeypatch.setattr(perf, "cycles_file", lambda chip: file)
    monkeypatch.setattr(perf, "predicted", lambda *_, **__: [SimpleNamespace(cycles=7.2)])
    monkeypatch.setattr(perf, "launching", lambda case, seed: lambda: None)
    count = len(find("D2").load().CASES)
    assert [line.split("  ")[:2] for line in perf.pin(Emulated(), [find("D2")])] == [["D2", "none -> 7"]] * count
    assert file.read_text() == f'# Why.\n\n"D1.1" = [1]\n"D2" = {[7] * count}\n"D3" = [3]\n'


@pytest.mark.parametrize(("cycles", "most"), [((5, 5, 9), 5), ((5, 6, 7, 9, 8, 1, 2, 3), 9)])
def test_a_pin_is_the_most_over_seeds_if_seeds_make_a_difference(
    cycles: tuple[int, ...], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cycles.toml"
    file.write_text('# Why.\n\n"D1.1" = [1]\n')
    monkeypatch.setattr(perf, "cycles_file", lambda chip: file)
    monkeypatch.setattr(perf, "launching", lambda case, seed: lambda: seed)

    def predicted(device: Emulated, launches: Callable[[], int], clusters: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(cycles=cycles[launches() - 1])]

    monkeypatch.setattr(perf, "predicted", predicted)
    list(perf.pin(Emulated(), [GATE]))
    assert file.read_text() == f'# Why.\n\n"D1.1" = {[most] * len(GATE.load().CASES)}\n'
