"""Skip tests whose program is missing, with the package to install. With FMHA_NO_SKIPS set (CI) they fail instead."""

import gc
import itertools
import os
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from harness.host.phase import ONE_THREAD
from tests.system import NEEDS, Checkout, make_checkout, program

# Before torch is imported: on two busy cores one thread cuts the negative controls' CPU time from 40 s to 6 s, and with
# one Inductor has no pool, whose threads would outlive its tests.
os.environ.update(ONE_THREAD | {"TORCHINDUCTOR_COMPILE_THREADS": "1"} | os.environ)


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


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Wait until the threads of a module's tests have ended. A process with a second one does not fork for a launch."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), f"{thread} outlives the tests of its module"


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


#: Files whose tests the workers begin with, or one would run them when all others have ended.
LONGEST = ("test_milestones.py", "test_sm90_cases.py")
#: Folders of tests that compile the kernel. They come last, and find what the run of all milestones has compiled.
COMPILING = {"kernel", "flash_mla", "stages", "lab"}


def in_order(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order tests for the workers of xdist, each of which begins with an equal part of the list."""
    first = [item for name in LONGEST for item in items if item.path.name == name]
    parts = [first[worker::workers] for worker in range(workers)]
    compiling: list[pytest.Item] = []
    for _, group in itertools.groupby(items, lambda item: item.path):
        tests = list(group)
        if tests[0].path.name not in LONGEST:
            (compiling if tests[0].path.parent.name in COMPILING else min(parts, key=len)).extend(tests)
    for part in parts:
        count = max(0, len(items) // workers - len(part))
        part += compiling[:count]
        del compiling[:count]
    return [*itertools.chain(*parts), *compiling]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests with a marker of ON_REQUEST unless the marker expression, or the command by their id, names them.

    Order the others.
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
    items[:] = in_order(selected, getattr(config, "workerinput", {}).get("workercount", 1))
