"""What the fingerprint says of the packages that are installed."""

from __future__ import annotations

from importlib.metadata import distributions

from harness.judge.fingerprint import differences, installed


def test_installed_agrees_with_the_packages_own_texts() -> None:
    own = {each.metadata["Name"]: each.version for each in distributions()}
    pins = "".join(f"{name}=={version}\n" for name, version in own.items())
    assert len(own) > 20
    assert not list(differences(pins, installed()))


def test_differences_name_what_is_missing_or_another_version() -> None:
    lock = "numpy==2.0\nno_such.package==1\ncolorama==0.4 ; sys_platform == 'win32'\nPyYAML==6.0\n"
    found = list(differences(lock, {"numpy": "2.1", "pyyaml": "6.0"}))
    assert found == ["numpy is 2.1, pinned ==2.0", "no_such.package is missing"]
