"""The unchanged kernel, accepted once for the tests of all workers."""

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.system import Checkout, make_checkout


@dataclass(frozen=True)
class Accepted:
    """A copy of the project in which `python -m harness stage D1.1` ended with ACCEPT, and what it printed."""

    checkout: Checkout
    output: str


@pytest.fixture(scope="session")
def accepted_once(tmp_path_factory: pytest.TempPathFactory) -> Accepted:
    """Judge the unchanged kernel in the first worker that asks; the others wait. Tests read it, or copy it first.

    The folder has spaces, quotes and accents in its name.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path, output = folder / "Ada's $HOME, é", folder / "accepted.txt"
    command = [sys.executable, "-m", "harness", "stage", "D1.1"]
    env = os.environ | {"PYTEST_ADDOPTS": "-k nothing"}  # the user's options must not choose what runs
    with open(folder / "accepted.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            make_checkout(path)
            done = subprocess.run(command, cwd=path, capture_output=True, text=True, timeout=600, env=env)
            assert done.returncode == 0, done.stdout + done.stderr
            output.write_text(done.stdout)
    return Accepted(Checkout(path), output.read_text())
