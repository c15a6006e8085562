"""`make layout` imports the kernel of the working tree, behind the walls of a run's phases."""

import subprocess
import sys
from pathlib import Path

from tests.harness.host.test_walls import needs_walls
from tests.system import ROOT

COMMAND = [sys.executable, "-m", "harness.tools.behind_walls"]


@needs_walls
def test_a_command_writes_to_its_folder_and_its_home_only(tmp_path: Path) -> None:
    out, other = tmp_path / "made/out", tmp_path / "other"
    code = f"""
import os, pathlib
(pathlib.Path.home() / "cache").touch()
pathlib.Path({str(out)!r}, "drawing").touch()
print(os.environ.get("SECRET"), flush=True)
pathlib.Path({str(other)!r}).touch()
"""
    command = [*COMMAND, str(out), "--", sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env={"SECRET": "1"}, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (1, "None\n"), done.stderr
    assert "Read-only file system" in done.stderr and not other.exists() and (out / "drawing").exists()


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    command = [*COMMAND, str(tmp_path), "--", sys.executable, "-c", "raise SystemExit(3)"]
    assert subprocess.run(command, cwd=ROOT, timeout=600).returncode == 3


def test_make_layout_runs_behind_walls() -> None:
    done = subprocess.run(["make", "-n", "layout", "D1.3"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert "harness.tools.behind_walls results/layout -- " in done.stdout, done.stdout + done.stderr
