"""The kernel of this commit is accepted on every milestone, in a fresh clone and by the command that users run."""

import subprocess
import sys
from pathlib import Path

import pytest

from stages.catalog import CATALOG


@pytest.mark.long
def test_every_milestone_is_accepted(stages_clone: Path, published: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", published, stages_clone], check=True)
    make = ["make", "stages", f"VENV={Path(sys.executable).parents[1]}", "READY="]
    done = subprocess.run(make, cwd=stages_clone, capture_output=True, text=True, timeout=5000)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    for milestone in CATALOG:
        assert f"{milestone.id} ACCEPT" in " ".join(done.stdout.split()), milestone.id
