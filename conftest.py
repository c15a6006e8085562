"""A test whose program is missing is skipped, saying what to install; under FMHA_NO_SKIPS (CI) it fails."""

import os
from pathlib import Path

import pytest

from harness.host.phase import ONE_THREAD
from tests.system import NEEDS, Checkout, make_checkout, program

# Before torch: on two busy cores the negative controls take 40 s of CPU, and 6 s so.
os.environ.update(ONE_THREAD | os.environ)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (programs, package) in NEEDS.items():
        if item.get_closest_marker(marker) and not program(marker):
            said = f"needs {programs[0]}: install {package}"
            if os.environ.get("FMHA_NO_SKIPS"):
                pytest.fail(said)
            pytest.skip(said)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A copy of the project to break."""
    return make_checkout(tmp_path / "checkout")


@pytest.fixture(scope="session")
def shared_checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of the project for the tests that only look, where a user may have it: the name of its folder is odd."""
    return make_checkout(tmp_path_factory.mktemp("shared") / "Ada's $HOME, é")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs a GPU, installs packages or takes long is left out unless the marker expression asks for it."""
    for marker in ("gpu", "install", "long"):
        if marker not in config.option.markexpr:
            needs = [item for item in items if item.get_closest_marker(marker)]
            config.hook.pytest_deselected(items=needs)
            items[:] = [item for item in items if item not in needs]
