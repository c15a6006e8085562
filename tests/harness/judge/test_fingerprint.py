"""The fingerprint's comparison of installed packages with the lock."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions

from harness.judge.fingerprint import differences, installed
from harness.paths import ROOT


def test_installed_agrees_with_the_packages_own_texts() -> None:
    own = {each.metadata["Name"]: each.version for each in distributions()}
    pins = "".join(f"{name}=={version}\n" for name, version in own.items())
    assert len(own) > 20
    assert not list(differences(pins, installed()))


def test_differences_name_what_is_missing_or_another_version() -> None:
    lock = "numpy==2.0\nno_such.package==1\ncolorama==0.4 ; sys_platform == 'win32'\nPyYAML==6.0\n"
    found = list(differences(lock, {"numpy": "2.1", "pyyaml": "6.0"}))
    assert found == ["numpy is 2.1, pinned ==2.0", "no_such.package is missing"]


def test_exact_pins_are_held_without_packaging() -> None:
    """Importing it takes longer than the rest of the fingerprint, which every run waits for twice."""
    lock = 'numpy==2.0\\ntorch==2.13.0 ; sys_platform == "linux"\\n'
    found = "{'numpy': '2.0', 'torch': '2.13.0+cpu'}"
    program = f"""
import sys
from harness.judge.fingerprint import differences
assert not list(differences('{lock}', {found})) and 'packaging' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
