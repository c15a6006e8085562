"""The emulated device with the tools that attach to it. `emulate` makes one current: launches inside run on it.

A tool is imported when it is attached: a launch without tools does without them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from . import chip
from .bridge import driver
from .bridge.device import LaunchingDevice, Names, no_names
from .bridge.launchconfig import LaunchConfig
from .bridge.patches import cutedsl_calls
from .errors import EmulatorError
from .machine.execution.blas import one_thread
from .machine.launch.launch import Diagnostics, Launch, LevelName, Numerics
from .machine.order.completion import Completion
from .machine.order.operations import Surroundings
from .modules import LoadedKernel, Runner

if TYPE_CHECKING:
    from .bridge.order import Order
    from .clock.clock import Clock
    from .clock.conditions import Conditions
    from .clock.trace import Trace
    from .debug.recording import LaunchRecorder
    from .viewer.page import Pages


@dataclass
class EmulatedDevice(LaunchingDevice):
    """A device whose launches can be predicted, explored, debugged, recorded and shown."""

    clock: str | None = None
    trace: bool = False
    conditions: Conditions | None = None
    schedule: str = ""

    def __post_init__(self) -> None:
        """Attach the tools that the options name. Raises ValueError for an invalid option."""
        super().__post_init__()
        self.pages: Pages | None = None
        self._clock: Clock | None = None
        self._order: Order | None = None
        from .baseline import Baseline

        self.knows = Baseline(self.baseline).knows
        if self.completion == "all":
            from .exploration.explorer import runner

            self.runner = runner(self.schedule)
        if self.clock is not None:
            from .clock.clock import Clock

            self._clock = Clock(self.clock, self.runner, self.conditions, self.trace)
            self.runner = self._clock.run

    def surroundings_alone(self, kernel: LoadedKernel, config: LaunchConfig) -> Surroundings | None:
        """Return the launches that a launch may run beside by programmatic dependent launch, all on one stream."""
        triggers = kernel.syntax.triggers_dependents
        if self._order is None and (config.programmatic or triggers):
            from .bridge.order import Order

            self._order = Order()
        return None if self._order is None else self._order.begin(0, config.programmatic, triggers)

    def ended_alone(self, launch: Launch) -> None:
        """Record a launch for the programmatic dependent launches that follow."""
        if self._order is not None:
            self._order.end(launch, 0)

    def debug(
        self,
        commands: Iterable[str] | None = None,
        out: IO[str] | None = None,
        launches: Collection[int] | None = None,
    ) -> None:
        """Stop the launches that follow in a debugger, each before its first instruction.

        commands: of the debugger, executed in place of a prompt; after the last one launches run without stops. out:
        where answers go, default standard output. launches: their numbers, counted from 1 from now on; None for all.
        Raises ValueError with completion "all".
        """
        from .debug.console import Console
        from .debug.session import Session

        self._attach(Session(Console(commands, out).stopped, launches, commands is None).run)

    def record(self, launches: Collection[int] | None = None) -> LaunchRecorder:
        """Record the launches that follow, for `LaunchResult.blame`: every instruction with its results.

        launches: their numbers, counted from 1 from now on; None for all. A recorded launch takes some 30 to 100 times
        as long and keeps every value that was computed. Raises ValueError with completion "all".
        """
        from .debug.recording import LaunchRecorder

        recorder = LaunchRecorder(launches)
        self._attach(recorder.run)
        return recorder

    def view(self, folder: Path, launches: Collection[int] | None = None) -> None:
        """Write an HTML page of each launch that follows into a folder: what bounds it, its timeline, its findings.

        launches: their numbers, counted from 1 from now on; None for all. They are recorded, as by `record`.
        """
        from .viewer.page import Pages

        self.pages = Pages(folder, chip.NAME, self.record(launches))
        self._attach(self.pages.run)

    def _attach(self, runner: Runner) -> None:
        """Run the launches that follow by a tool. Under a clock it runs those that the clock executes."""
        if self.completion == "all":
            raise ValueError("completion is 'all'; allowed for debugging and recording: 'eager', 'lazy' or 'random'")
        if self._clock is None:
            self.runner = runner
        else:
            self._clock.runner = runner

    @property
    def recorder(self) -> Trace | None:
        """The trace of the newest launch under a clock, even if the launch failed."""
        return None if self._clock is None else self._clock.trace


@contextmanager
def emulate(
    completion: Completion = "lazy",
    seed: int = 0,
    *,
    budget: int | None = None,
    level: LevelName = "fault",
    numerics: Numerics = "fp32",
    diagnostics: Diagnostics = "stop",
    processes: int | None = None,
    names: Names = no_names,
    clock: str | None = None,
    trace: bool = False,
    conditions: Conditions | None = None,
    baseline: str | None = None,
    schedule: str = "",
) -> Iterator[EmulatedDevice]:
    """Make an emulated B200 current: every launch of a CuTeDSL function inside runs on it, on CPU tensors.

    - `completion`: when asynchronous work completes: "eager" immediately, "lazy" as late as PTX allows, "random" in
      between, drawn with `seed`. "all" runs each launch in every order of its synchronisation events that can have
      another effect, within limits. Memory then holds the results of the first run.
    - `schedule`: the one order to run with completion "all", as the note of an error gives it.
    - `budget`: the most warp-instructions that a warp may execute; None for no limit.
    - `level`: the findings that are errors. "fault": some legal timing breaks the program. "formal": also violations of
      PTX that no known hardware shows. "pedantic": also habits that PTX recommends. Formal findings are listed in the
      launch's `findings` at any level.
    - `numerics`: "fp32" accumulates tcgen05.mma in float32, "tc" rounds as the tensor core does.
    - `diagnostics`: "stop" raises the first error. "report" continues after errors that do not change memory (a missing
      wait or fence, a read of unwritten memory or outside of all tensors) and lists them in `findings`.
    - `processes`: how many processes share the clusters of a launch, with the same results as one; None chooses. A
      kernel whose clusters can communicate through global memory (atomics, flags, reductions), or that prints, runs in
      one process. So does every kernel if this process has other threads.
    - `baseline`: a file of known findings, as `run --report` writes it. They are listed and are no errors.
    - `names`: maps a kernel's name to its mbarriers' names, by byte offset in dynamic shared memory, for reports.
    - `clock`: a chip ("b200") whose time is predicted. Each launch then has a `prediction` and computes no outputs.
      None inside a device with a clock: the same clock, trace and conditions, and that device gets the launches too.
    - `trace`: also record the timeline of the prediction.
    - `conditions`: the assumptions about L2, the data and the clock rate; None for cold, random and
      the chip's own.

    Errors of a kernel are subclasses of EmulatorError. An error that a C program saw only as a CUDA error is raised at
    the end. Raises ValueError for an invalid option.
    """
    outer = driver.current()
    timed = outer if clock is None and isinstance(outer, EmulatedDevice) and outer.clock is not None else None
    if timed is not None:
        clock, trace, conditions = timed.clock, timed.trace, timed.conditions
    device = EmulatedDevice(
        completion, seed, budget, level, numerics, diagnostics, processes, names, baseline,
        clock, trace, conditions, schedule,
    )  # fmt: skip
    device.nested = isinstance(outer, LaunchingDevice)
    driver.make_current(device)
    try:
        with cutedsl_calls(), one_thread():
            yield device
    except Exception as error:
        if device.error is None or isinstance(error, EmulatorError):
            raise
        raise device.error from error
    else:
        if device.error is not None:
            raise device.error
    finally:
        driver.release(device)
        if timed is not None:
            timed.launches += device.launches
            timed.failures += device.failures
