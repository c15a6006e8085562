"""The pytest plugin: a fixture that provides an emulated B200 to a test, and options for its runs.

The package installs it. In a clone, use `-p emulator.pytest_plugin`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, get_args

import pytest

from .bridge.patches import CACHE_WARNING
from .errors import EmulatorError
from .findings import report_lines
from .machine.launch.launch import LevelName
from .machine.order.completion import Completion

if TYPE_CHECKING:
    from .bridge.device import EmulatedDevice

FIXTURE: Final = "emulated_device"
PACKAGE: Final = Path(__file__).parent


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
    group.addoption("--emulator-seed", type=int, default=0, help="seed for --emulator-completion=random (default: 0)")
    group.addoption(
        "--emulator-level",
        choices=get_args(LevelName),
        default="fault",
        help="which findings are errors (default: fault). Formal findings below this level are warnings.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Silence CuTeDSL's warning that it caches nothing while it keeps the PTX, which the emulator needs."""
    config.addinivalue_line("filterwarnings", f"ignore:{CACHE_WARNING}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the device once for each order of completion."""
    if FIXTURE in metafunc.fixturenames:
        modes = metafunc.config.getoption("emulator_completion") or ["lazy"]
        metafunc.parametrize(FIXTURE, list(dict.fromkeys(modes)), indirect=True)


@pytest.fixture
def emulated_device(request: pytest.FixtureRequest) -> Iterator[EmulatedDevice]:
    """Provide an emulated B200 as this test's only GPU: torch's `cuda` device, CUDA's driver, and every launch.

    Errors raise from the launch. Findings that are no errors at the chosen level are a warning at the test's end.
    """
    from .host.session import emulated_gpu

    config = request.config
    seed, level = config.getoption("emulator_seed"), config.getoption("emulator_level")
    with emulated_gpu(completion=request.param, seed=seed, level=level) as device:
        yield device
    said = "".join(report_lines(device.launches))
    if said:
        warnings.warn(EmulatorWarning(said), stacklevel=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End the traceback of a report in the test's own code."""
    try:
        yield
    except EmulatorError as error:
        trace = error.__traceback__
        _end_outside(trace.tb_next if trace is not None else None)
        raise


def _end_outside(trace: TracebackType | None) -> None:
    """Cut a traceback off before the first function of this package."""
    while trace is not None and trace.tb_next is not None:
        if Path(trace.tb_next.tb_frame.f_code.co_filename).is_relative_to(PACKAGE):
            trace.tb_next = None
        trace = trace.tb_next
