"""The tests execute every family that the coverage table calls supported. A few tests are run and recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulator.executed import supported

HERE = Path(__file__).parent


@pytest.mark.long
def test_every_supported_family_is_executed_by_a_test(tmp_path: Path) -> None:
    """If a test was removed or a family added, make cover.txt again as tests/emulator/executed.py describes."""
    noted, chosen = tmp_path / "executed.json", (HERE / "cover.txt").read_text().splitlines()
    plugins = ("-p", "tests.emulator.executed", "-p", "no:xdist", "-p", "no:cacheprovider", f"--executed={noted}")
    command = (sys.executable, "-m", "pytest", "-q", *plugins, *chosen)
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    by_test = json.loads(noted.read_text())
    assert set(by_test) == set(chosen)
    assert supported() - {name for names in by_test.values() for name in names} == set()
