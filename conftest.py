"""Skip tests whose program is missing, with the package to install. With FMHA_NO_SKIPS set (CI) they fail instead."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from harness.host.phase import ONE_THREAD
from tests.system import NEEDS, Checkout, make_checkout, program

# Before torch is imported: on two busy cores one thread cuts the negative controls' CPU time from 40 s to 6 s.
os.environ.update(ONE_THREAD | os.environ)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from modules and tests, which live to the end: 2.5 of 10.6 CPU seconds a worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (programs, package) in NEEDS.items():
        if item.get_closest_marker(marker) and not program(marker):
            reason = f"needs {programs[0]}: install {package}"
            if os.environ.get("FMHA_NO_SKIPS"):
                pytest.fail(reason)
            pytest.skip(reason)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Copy the project, for tests that change it."""
    return make_checkout(tmp_path / "checkout")


#: Markers of tests that only a marker expression with their name selects. The first that a test has counts.
ON_REQUEST = ("thorough", "gpu", "long")
#: A test that is repeated for every completion mode runs with the default mode of `emulator.emulate` in `make test`.
OTHER_MODES = {"eager", "random"}


def of_another_mode(item: pytest.Item) -> bool:
    """Return True if a parameter of a test is a completion mode that is not the default."""
    called = getattr(item, "callspec", None)
    return called is not None and any(
        value in OTHER_MODES for value in called.params.values() if isinstance(value, str)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests with a marker of ON_REQUEST unless the marker expression, or the command by their id, names them.

    The longest test comes first, or all other workers would end before it.
    """
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        if of_another_mode(item):
            item.add_marker("long")
        marker = next(filter(item.get_closest_marker, ON_REQUEST), "")
        named = item.nodeid in config.args
        (selected if named or marker in config.option.markexpr else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = sorted(selected, key=lambda item: item.path.name != "test_milestones.py")
