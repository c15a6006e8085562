"""Pins of predicted cycles, written by one command."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.tools import perf
from remote.device import Emulated
from stages.catalog import GATE


def test_pins_are_what_is_predicted_now_and_the_comment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cycles.toml"
    file.write_text('# Why.\n\n"D1.1" = 1\n')
    monkeypatch.setattr(perf, "CYCLES", file)
    monkeypatch.setattr(perf, "CATALOG", (GATE,))
    device = Emulated()
    (moved,) = perf.pin(device)
    cycles = tomllib.loads(file.read_text())["D1.1"]
    assert moved == f"D1.1  1 -> {cycles}  hd=64 n=128" and 5000 < cycles < 20_000
    assert file.read_text() == f'# Why.\n\n"D1.1" = {cycles}\n'
    assert list(perf.pin(device)) == []
