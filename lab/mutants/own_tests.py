"""The tests of milestones besides their cases, run under pytest in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.paths import ROOT
from remote.device import Emulated
from stages import codes, every
from stages.catalog import find

OPTIONS = ("-q", "-x", "--noconftest", "-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={ROOT}")
EVERY = ("test_holds", "test_rejects_negative_controls")
"""Tests that every milestone has: cases, which run without pytest, and checks without a kernel."""

Ended = Callable[[str, float], None]


def run(milestone: str, only: Sequence[str] = (), ended: Ended = lambda test, seconds: None) -> tuple[str, str] | None:
    """Run a milestone's own tests, or some of them, up to the first that fails; return its name and what it says.

    ended: receives the name of each test function that ended, and its seconds.
    """
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    module = find(milestone).load()
    plugin = _Plugin(module, only, ended)
    coded = [codes.__file__] if hasattr(module, "EVERY_CODE") else []
    pytest.main([*OPTIONS, every.__file__, str(find(milestone).module), *coded], [plugin])
    return plugin.failed


class _Plugin:
    """Brings a milestone's tests what the harness brings them."""

    def __init__(self, module: Any, only: Sequence[str], ended: Ended) -> None:
        self._module, self._only, self._ended = module, only, ended
        self.failed: tuple[str, str] | None = None

    def pytest_generate_tests(self, metafunc: Any) -> None:
        given = {"seed": self._module.SEEDS, "case": self._module.CASES, "device": [Emulated()]}
        given |= {
            "code": getattr(self._module, "EVERY_CODE", ()),
            "recorder": [_Recorder()],
            "seeds": [tuple(self._module.SEEDS)],
        }
        named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
        for name, values in given.items():
            if name in metafunc.fixturenames and name not in named:
                metafunc.parametrize(name, values, ids=["device"] if name == "device" else str)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [each for each in items if each.originalname not in EVERY]
        if self._only:
            items[:] = [each for each in items if each.originalname in self._only]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        started = time.process_time()
        try:
            return (yield)
        finally:
            self._ended(item.originalname, time.process_time() - started)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid.rpartition("::")[2], report.longreprtext[-400:]


class _Recorder:
    """Keeps nothing."""

    def result(self, result: object) -> None: ...

    def negative_control(self, name: str, rejected_by: object) -> None: ...
