"""pytest's side of the emulator: a fixture that makes the B200 there for a test, and options for how it runs.

Installed with the package; in the clone `-p emulator.pytest_plugin` brings it.
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
    """What a test's launches did that its level does not ask for: PTX forbids it, or it is seldom meant."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run."""
    group = parser.getgroup("emulator", "emulated B200")
    group.addoption(
        "--emulator-completion",
        action="append",
        choices=get_args(Completion),
        help="how asynchronous work completes; given several times, each test of the device runs under each "
        "(default: lazy)",
    )
    group.addoption("--emulator-seed", type=int, default=0, help="of --emulator-completion=random (default: 0)")
    group.addoption(
        "--emulator-level",
        choices=get_args(LevelName),
        default="fault",
        help="what is asked of a program (default: fault); what is formal and not asked for is a warning",
    )


def pytest_configure(config: pytest.Config) -> None:
    """CuTeDSL says that it caches nothing while it keeps the PTX, which the emulator asks for."""
    config.addinivalue_line("filterwarnings", f"ignore:{CACHE_WARNING}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of the device for each order of completion."""
    if FIXTURE in metafunc.fixturenames:
        modes = metafunc.config.getoption("emulator_completion") or ["lazy"]
        metafunc.parametrize(FIXTURE, list(dict.fromkeys(modes)), indirect=True)


@pytest.fixture
def emulated_device(request: pytest.FixtureRequest) -> Iterator[EmulatedDevice]:
    """An emulated B200 as this test's only GPU: torch's `cuda` device, CUDA's driver, and every launch.

    What is found wrong raises from the launch; what is listed only is a warning at the test's end.
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
    """The trace of a report ends in the test's own code."""
    try:
        yield
    except EmulatorError as error:
        trace = error.__traceback__
        _end_outside(trace.tb_next if trace is not None else None)
        raise


def _end_outside(trace: TracebackType | None) -> None:
    """Cut a trace off before the first function of this package."""
    while trace is not None and trace.tb_next is not None:
        if Path(trace.tb_next.tb_frame.f_code.co_filename).is_relative_to(PACKAGE):
            trace.tb_next = None
        trace = trace.tb_next
