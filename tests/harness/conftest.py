"""The unchanged kernel, accepted once for the tests of all workers."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.system import Checkout, make_checkout


@dataclass(frozen=True)
class Accepted:
    """A copy of the project in which `python -m harness stage D1.1` ended with ACCEPT, and what it printed."""

    checkout: Checkout
    output: str


@pytest.fixture(scope="session")
def accepted_once(made_once: MadeOnce) -> Accepted:
    """Judge the unchanged kernel. Tests read the checkout, or copy it first.

    Its folder has spaces, quotes and accents in its name.
    """
    name, output = "Ada's $HOME, é", "accepted.txt"

    def judge(folder: Path) -> None:
        make_checkout(folder / name)
        command = [sys.executable, "-m", "harness", "stage", "D1.1"]
        env = os.environ | {"PYTEST_ADDOPTS": "-k nothing"}  # the user's options must not choose what runs
        done = subprocess.run(command, cwd=folder / name, capture_output=True, text=True, timeout=600, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        (folder / output).write_text(done.stdout)

    folder = made_once("accepted", judge)
    return Accepted(Checkout(folder / name), (folder / output).read_text())
