"""Tests that need something of the system are skipped, by name, where it is missing; under FMHA_NO_SKIPS they fail."""

import os
import shutil

import pytest

#: A marker, the programs that satisfy it (any one), and the Debian package that brings one.
NEEDS = {
    "browser": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "sshd": (("sshd", "/usr/sbin/sshd"), "openssh-server"),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (programs, package) in NEEDS.items():
        if item.get_closest_marker(marker) and not any(map(shutil.which, programs)):
            said = f"needs {programs[0]}: install {package}"
            if os.environ.get("FMHA_NO_SKIPS"):
                pytest.fail(said)
            pytest.skip(said)
