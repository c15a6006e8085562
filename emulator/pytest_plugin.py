"""The pytest plugin: a fixture that provides an emulated B200 to a test, and options for its runs.

The package installs it. In a clone, use `-p emulator.pytest_plugin`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, get_args

import pytest

from .bridge.patches import CACHE_WARNING
from .commands.sarif import as_text
from .emulation import EmulatedDevice
from .errors import EmulatorError
from .machine.order.completion import Completion
from .options import SHARED, add_options

FIXTURE: Final = "emulated_device"
MARKER: Final = "emulator"
_OPTIONS: Final = (*SHARED, "clock")
"""The options of `emulate` that the command line sets, besides the completion mode."""
PACKAGE: Final = Path(__file__).parent
VERDICT: Final = "emulator_verdict"
FINDINGS: Final = "emulator_findings"
_REPORT: Final = "--emulator-report"
_DEVICE: Final = pytest.StashKey["EmulatedDevice"]()


class EmulatorWarning(UserWarning):
    """Findings of a test's launches below the level of errors, and suspicious counts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    group = parser.getgroup("emulator", "emulated B200")
    group.addoption(
        "--emulator-completion",
        action="append",
        choices=get_args(Completion),
        help="order in which asynchronous work completes (default: lazy). Repeat the option to run each test of the "
        "device under each order.",
    )
    add_options(group.addoption, "--emulator-")
    group.addoption(
        "--emulator-clock",
        metavar="CHIP",
        help="predict the time of launches on a chip, like b200. Launches then compute no outputs.",
    )
    group.addoption(
        _REPORT, type=Path, metavar="FILE", help="write the verdict and findings of each test to FILE as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Silence CuTeDSL's warning that it caches nothing while it keeps the PTX, and start the report if asked for."""
    config.addinivalue_line("filterwarnings", f"ignore:{CACHE_WARNING}")
    config.addinivalue_line("markers", f"{MARKER}(**options): options of emulate() for the emulated device of a test")
    path, baseline = config.getoption(_REPORT), config.getoption("emulator_baseline")
    if (path or baseline) and not hasattr(config, "workerinput"):  # a worker of pytest-xdist sends its reports
        config.pluginmanager.register(_Report(path, baseline), "emulator-report")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the device once for each order of completion."""
    if FIXTURE in metafunc.fixturenames:
        marked = [
            marker.kwargs["completion"] for marker in _markers(metafunc.definition) if "completion" in marker.kwargs
        ]
        modes = marked[:1] or metafunc.config.getoption("emulator_completion") or ["lazy"]
        metafunc.parametrize(FIXTURE, list(dict.fromkeys(modes)), indirect=True)


def _markers(node: pytest.Item) -> Iterator[pytest.Mark]:
    """Yield the markers of a test, the closest first. Raises UsageError for one with positional arguments."""
    for marker in node.iter_markers(MARKER):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{MARKER}{marker.args}: give options of emulate() by name")
        yield marker


@pytest.fixture
def emulated_device(request: pytest.FixtureRequest) -> Iterator[EmulatedDevice]:
    """Provide an emulated B200 as this test's only GPU: torch's `cuda` device, CUDA's driver, and every launch.

    Errors raise from the launch. An error that the test's host code saw only as a CUDA error fails the test at its end.
    Findings that are no errors at the chosen level are a warning. `@pytest.mark.emulator(clock="b200")` sets options of
    `emulate` for a test, before those of the command line.
    """
    from .findings import finding_lines
    from .host.session import emulated_gpu

    options = {name: request.config.getoption(f"emulator_{name}") for name in _OPTIONS}
    for marker in reversed([*_markers(request.node)]):
        options |= marker.kwargs
    with emulated_gpu(**{**options, "completion": request.param}) as device:
        request.node.stash[_DEVICE] = device
        yield device
    said = "".join(finding_lines(device))
    if said:
        warnings.warn(EmulatorWarning(said), stacklevel=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Raise an error that only C code saw, and end the traceback of a report in the test's own code."""
    device = item.stash.get(_DEVICE, None)
    try:
        try:
            yield
        except Exception as error:
            if device is None or device.error is None or isinstance(error, EmulatorError):
                raise
            raise _taken(device) from error
        if device is not None and device.error is not None:
            raise _taken(device)
    except EmulatorError as error:
        trace = error.__traceback__
        _end_outside(trace.tb_next if trace is not None else None)
        raise
    finally:
        if device is not None:
            _record_verdict(item, device)


def _taken(device: EmulatedDevice) -> BaseException:
    """Return the device's pending error, which is then raised and no longer pending."""
    error, device.error = device.error, None
    assert error is not None
    return error


def _record_verdict(item: pytest.Item, device: EmulatedDevice) -> None:
    """Add the verdict to the test's properties, which JUnit files and pytest-xdist carry."""
    from .findings import Verdict

    verdict = Verdict.of(device)
    item.user_properties.append((VERDICT, verdict.word))
    if item.config.getoption(_REPORT) or item.config.getoption("emulator_baseline"):
        item.user_properties.append((FINDINGS, json.dumps(verdict.as_json())))


class _Report:
    """The verdicts of all tests, written to one file at the end and compared with the baseline."""

    def __init__(self, path: Path | None, baseline: str | None) -> None:
        self._path, self._baseline = path, baseline
        self._tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the verdict of a test that used the device."""
        found = dict(report.user_properties).get(FINDINGS)
        if report.when == "call" and isinstance(found, str):
            self._tests.append({"test": report.nodeid, "outcome": report.outcome, **json.loads(found)})

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        from .bridge.result import worst
        from .findings import FORMAT

        if self._path is None:
            return
        verdict = worst(test["verdict"] for test in self._tests)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(as_text({"format": FORMAT, "verdict": verdict, "tests": self._tests}, self._path))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the entries of the baseline that were not found again."""
        from .baseline import Baseline

        for line in Baseline(self._baseline).stale(self._tests):
            terminalreporter.write_line(line.rstrip())


def _end_outside(trace: TracebackType | None) -> None:
    """Cut a traceback off before the first function of this package."""
    while trace is not None and trace.tb_next is not None:
        if Path(trace.tb_next.tb_frame.f_code.co_filename).is_relative_to(PACKAGE):
            trace.tb_next = None
        trace = trace.tb_next
