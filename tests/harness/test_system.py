"""Tests of missing programs: a test that needs one is skipped and names it, and fails in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system import Checkout

ROOT = Path(__file__).parents[2]
BROWSER = "tests/harness/judge/test_run.py::test_a_browser_shows_figures_and_pictures"


@pytest.mark.parametrize(
    ("env", "outcome", "processes"),
    [({}, "SKIPPED", "0"), pytest.param({"FMHA_NO_SKIPS": "1"}, "E  ", "1", marks=pytest.mark.long)],
)
def test_without_a_browser(env: dict[str, str], outcome: str, processes: str) -> None:
    """This holds with and without distribution over processes."""
    kept = {name: value for name, value in os.environ.items() if name != "FMHA_NO_SKIPS"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", f"--numprocesses={processes}", BROWSER]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=kept | {"PATH": "/nowhere"} | env)
    said = [line for line in done.stdout.splitlines() if line.startswith(outcome)]
    assert any(line.endswith("needs chromium: install chromium") for line in said)
    assert done.returncode == (0 if outcome == "SKIPPED" else 1)


def test_an_edit_that_misses_its_aim_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(AssertionError, match=r"Makefile has 0 times 'no such text'"):
        Checkout(tmp_path).replace("Makefile", "no such text", "")
