"""A sweep of the real kernel over the cores of this machine. Seeds that were measured before are not measured again."""

import re
import subprocess
import sys

import pytest


@pytest.mark.thorough
def test_sweep_takes_up_what_is_known(checkout) -> None:
    def sweep(seeds):
        command = [sys.executable, "-m", "harness", "sweep", "D1.1", "--seeds", str(seeds)]
        done = subprocess.run(command, cwd=checkout.path, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        runs = [folder for folder in (checkout.path / "results").iterdir() if (folder / "run.json").exists()]
        return done.stdout, len(runs)

    first, runs = sweep(4)
    assert "7 seeds of D1.1 measured, 0 launches failed" in first and runs == 1
    assert re.search(r'\["D1.1"."hd=64 n=128"\]\nO = { cosine = 0.99999', first), first
    again, runs = sweep(4)
    assert again.endswith(first[first.index('["D1.1"') :]) and runs == 1, "nothing was missing"
    more, runs = sweep(5)
    assert "8 seeds of D1.1 measured" in more and runs == 2
