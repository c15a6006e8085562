"""The pytest plugin that runs a milestone's module: it provides device and seeds, and writes the record."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from harness.judge.predict import over_time
from harness.judge.record_writer import RecordWriter
from harness.report.page import PTX_LINE
from harness.report.picture import error_picture
from remote.device import Emulated
from stages.catalog import Milestone
from stages.device import Device

if TYPE_CHECKING:
    from stages.case import Case


class MilestonePlugin:
    """Passes the results of a milestone's tests to `recorder`."""

    def __init__(
        self, milestone: Milestone, recorder: RecordWriter, device: Device, beside: Sequence[Case] = ()
    ) -> None:
        """Judge a milestone, and the cases of others `beside` it."""
        self._milestone, self._beside = milestone, beside
        self._module = milestone.load()
        self._recorder = recorder
        self._device = device

    @pytest.fixture
    def device(self) -> Device:
        """Provide the device that runs launches."""
        return self._device

    @pytest.fixture
    def recorder(self) -> RecordWriter:
        """Provide the recorder of results."""
        return self._recorder

    @pytest.fixture
    def seeds(self) -> tuple[int, ...]:
        """Provide the milestone's own seeds."""
        return tuple(self._module.SEEDS)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize tests over the cases of the milestone, unless they name their own, and over seeds.

        All tests of a case follow each other, because they compare with the same reference.
        """
        others = "other" in metafunc.fixturenames
        if others:
            metafunc.parametrize("other", self._beside, ids=self._milestone.name_of)
        if "seed" in metafunc.fixturenames:
            seeds = [*(() if others else self._module.SEEDS), self._recorder.fresh_seed]
            metafunc.parametrize("seed", seeds, ids=[f"seed={seed}" for seed in seeds])
        named = metafunc.definition.iter_markers("parametrize")
        if "case" in metafunc.fixturenames and not any(mark.args[0] == "case" for mark in named):
            metafunc.parametrize("case", self._module.CASES, ids=str, scope="module")
        if "code" in metafunc.fixturenames:
            metafunc.parametrize("code", self._module.EVERY_CODE, ids=str)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """Record a case before it starts, so that the record of a killed run shows where it was."""
        self._recorder.open_case(self._name(item), _params(item).get("seed"))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record the outcome of a case. A skipped case counts as failed."""
        report = yield
        if report.skipped:
            report.outcome = "failed"
            vars(report).pop("wasxfail", None)
        if report.failed or report.when == "call":
            result, picture = self._recorder.last_result, b""
            shown = report.failed or (self._is_first_of_its_case() and "other" not in _params(item))
            if result is not None and result.got is not None and shown:
                picture = error_picture(result.case, result.got, result.want)
            message = _message(report, call)
            timeline = self._timeline(message) if report.failed else b""
            self._recorder.close_case(report.passed, call.duration, message, picture, timeline)
        return report

    def _timeline(self, message: str) -> bytes:
        """Draw warps and barriers over time for the first case that the emulator stopped; b"" for others."""
        result, cases = self._recorder.last_result, self._recorder.record.cases
        stopped = result is not None and any(trial.error for trial in result.trials)
        if result is None or not stopped or not isinstance(self._device, Emulated) or any(c.timeline for c in cases):
            return b""
        return over_time(result.case, self._device, map(int, PTX_LINE.findall(message)))

    def _is_first_of_its_case(self) -> bool:
        """Return True if the open case is the first seed of its shape."""
        cases = self._recorder.record.cases
        return all(case.name != cases[-1].name for case in cases[:-1])

    def _name(self, item: pytest.Item) -> str:
        """Return a test's name in words: `test_rejects_negative_controls[hd=64]` is "rejects negative controls hd=64".

        The word "holds" is dropped; a case of another milestone has that milestone's id before its name.
        """
        params = _params(item)
        if (other := params.get("other")) is not None:
            return self._milestone.name_of(other)
        test = getattr(item, "originalname", item.name).removeprefix("test_").removeprefix("holds")
        return f"{test.replace('_', ' ')} {params.get('case', params.get('code', ''))}".strip()


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _message(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """Return the text and notes of a test's error, without the traceback."""
    if report.passed or call.excinfo is None:
        return ""
    error = call.excinfo.value
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return "\n".join([f"{kind}{error}", *getattr(error, "__notes__", [])])
