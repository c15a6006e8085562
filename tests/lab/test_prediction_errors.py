"""Predictions beside measured times."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.judge.gpu_time import OURS, Times
from harness.judge.measure import NAME, Measured
from harness.paths import ROOT

PROBLEM = "decode-64h-b2-t1-hca"


def beside(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    times = Times(15e-6, 14e-6, 16e-6, 50, True, 1900.0, 2619.0, 150.0)
    peer = Measured(PROBLEM, "a peer", Times(9e-6, 9e-6, 9e-6, 50, True, 1900.0, 2619.0, 150.0))
    (folder / NAME).write_bytes(msgspec.json.encode([peer, Measured(PROBLEM, OURS, times)]))
    command = [sys.executable, "-m", "lab.prediction_errors", str(folder), *options]
    environment = os.environ | {"EMULATOR_DEVICE": "h100", "CUTE_DSL_ARCH": "sm_90a"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.thorough
def test_a_problem_is_predicted_at_the_rate_of_its_measurement(tmp_path: Path) -> None:
    (tmp_path / "predicted.csv").write_text("# a comment that stays\n")
    done = beside(tmp_path, "--write")
    assert done.returncode == 0, done.stderr
    assert "1 problems, mean error" in done.stdout and "emulated H100" in done.stdout
    comment, head, row = (tmp_path / "predicted.csv").read_text().splitlines()
    assert (comment, head.split(",")[0]) == ("# a comment that stays", "problem")
    name, measured, mhz, predicted, error, _bound = row.split(",")
    assert (name, measured, mhz) == (PROBLEM, "15.00", "1900")
    assert float(error.rstrip("%")) / 100 == pytest.approx(float(predicted) / 15 - 1, abs=0.001)  # both are rounded


def test_a_pattern_without_a_problem_is_rejected(tmp_path: Path) -> None:
    done = beside(tmp_path, "--only", "decode-7h*")
    assert done.returncode == 2
    assert f"matches 'decode-7h*'; it has {PROBLEM}" in done.stderr
