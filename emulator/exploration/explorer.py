"""Systematic search over the orders of a launch's synchronisation events, with partial-order reduction.

After each run, every pair of steps that nothing orders and whose other order may have another effect becomes a run in
which the later one's process goes first (dynamic partial-order reduction, Flanagan and Godefroid 2005). Orders that
differ only in steps without effect on each other are run once (sleep sets, Godefroid 1996).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..debug.stepping import Snapshot
from ..errors import EmulatorError, Incomplete
from ..garbage import uncollected
from ..machine.execution.blas import one_thread
from ..machine.execution.scheduler import RunOptions
from ..machine.launch.launch import Launch
from ..machine.launch.source import locating_errors
from ..machine.topology import Cluster
from ..modules import LoadedKernel, Runner
from ..program import Program
from .execution import Choose, Execution, Process, Pruned, Step, Touch, happens_before, independent, set_clocks

RUNS: Final = 1000
"""The most runs of one launch."""
DENY: Final = "deny,"
"""The beginning of the schedule of a run in which tests of mbarriers and requests for clusters are denied."""
SECONDS: Final = 60.0
"""The time after which no further run of a launch begins."""


@dataclass
class _Choice:
    """A step at which several processes are runnable.

    tried: processes with their touches. wanted: processes to be tried. asleep: processes that need not be tried.
    """

    options: Sequence[Process]
    process: Process
    asleep: dict[Process, tuple[Touch, ...]]
    tried: dict[Process, tuple[Touch, ...]] = field(default_factory=dict)
    wanted: set[Process] = field(default_factory=set)

    def left(self) -> list[Process]:
        """Return the processes to be tried, in the order of the options."""
        return [p for p in self.options if p in self.wanted and p not in self.tried and p not in self.asleep]


class Explorer:
    """The search over the orders of one launch. runs: the number of runs so far."""

    def __init__(self, launch: Launch, program: Program, budget: int | None) -> None:
        self._launch, self._program, self._budget = launch, program, budget
        self._stack: list[_Choice] = []
        self.runs = 0

    def run(self) -> None:
        """Run the launch in every order, once with negative answers. Memory then holds the first run's results.

        Raises the errors of a run, and Incomplete if runs or time are used up.
        """
        before, began = Snapshot(self._launch), time.monotonic()
        self._add_run(run_once(self._launch, self._program, self._choose, self._budget))
        self.runs, after = 1, Snapshot(self._launch)
        try:
            if Cluster.denies in self._launch.registry:
                before.restore()
                denied = replace(self._launch, denies=True)
                run_once(denied, self._program, by_schedule(""), self._budget)
                self._add_findings(denied)
            while self._backtrack():
                if self.runs == RUNS or time.monotonic() - began > SECONDS:
                    raise Incomplete(self._covered(), ())
                before.restore()
                again = replace(self._launch)
                self._add_run(run_once(again, self._program, self._choose, self._budget))
                self.runs += 1
                self._add_findings(again)
        finally:
            after.restore()

    def _add_findings(self, run: Launch) -> None:
        known = self._launch.findings
        known += [fault for fault in run.findings if not any(each.same_cause(fault) for each in known)]

    def _covered(self) -> str:
        left = sum(len(choice.left()) for choice in self._stack)
        return (
            f"not every order of this launch was run: {self.runs:,} orders gave no error, at least {left:,} are left\n"
            f"  kernel {self._launch.kernel.name}, completion all; limits: {RUNS:,} runs, {SECONDS:.0f} s"
        )

    def _choose(self, steps: Sequence[Step], options: Sequence[Process], default: int) -> int | None:
        """Choose as the stack says, then by default, but no process that is asleep."""
        at = len(steps)
        if at < len(self._stack):
            return options.index(self._stack[at].process)
        asleep: dict[Process, tuple[Touch, ...]] = {}
        if at:
            last, touches = self._stack[-1], steps[-1].touches
            others = {**last.asleep, **last.tried}
            asleep = {p: t for p, t in others.items() if p != last.process and independent(t, touches)}
        awake = [number for number, process in enumerate(options) if process not in asleep]
        if not awake:
            return None
        chosen = default if default in awake else awake[0]
        self._stack.append(_Choice(options, options[chosen], asleep))
        return chosen

    def _add_run(self, execution: Execution) -> None:
        """Store the touches of each choice of a run, and the choices that its pairs of steps require."""
        steps = execution.steps
        for choice, step in zip(self._stack, steps, strict=True):
            choice.tried[choice.process] = step.touches
        for earlier, later in set_clocks(steps, execution.origins):
            choice, wanted = self._stack[earlier], steps[later]
            if wanted.process in choice.options:
                choice.wanted.add(wanted.process)
                continue
            between = (step for step in steps[earlier + 1 : later] if step.process in choice.options)
            first = next((step.process for step in between if happens_before(step, wanted)), None)
            choice.wanted.update(choice.options if first is None else (first,))

    def _backtrack(self) -> bool:
        """Go back to the last choice that has a process left to try. Return False if there is none."""
        while self._stack:
            choice = self._stack[-1]
            if left := choice.left():
                choice.process = left[0]
                return True
            self._stack.pop()
        return False


def run_once(launch: Launch, program: Program, choose: Choose, budget: int | None) -> Execution:
    """Run a launch in the order that `choose` gives. The note of an error says how to run that order again."""
    execution = Execution(launch, program, choose, budget)
    try:
        with one_thread(), locating_errors(launch.kernel), uncollected():
            execution.run()
    except Pruned:
        pass
    except EmulatorError as error:
        schedule = DENY * launch.denies + _written(execution.steps)
        error.add_note(f"this order again: completion='all', schedule={schedule!r}")
        raise
    return execution


def by_schedule(schedule: str) -> Choose:
    """Return a function that chooses as a schedule says: STEP:OPTION, separated by commas, else by default.

    Raises ValueError.
    """
    try:
        chosen = {int(at): int(option) for at, option in (pair.split(":") for pair in schedule.split(",") if pair)}
    except ValueError:
        raise ValueError(
            f"schedule is {schedule!r}; allowed: STEP:OPTION, separated by commas, such as 7:1,9:0"
        ) from None

    def choose(steps: Sequence[Step], options: Sequence[Process], default: int) -> int:
        return min(chosen.get(len(steps), default), len(options) - 1)

    return choose


def _written(steps: Sequence[Step]) -> str:
    return ",".join(f"{at}:{step.chosen}" for at, step in enumerate(steps) if step.chosen != step.default) or "0:0"


def runner(schedule: str) -> Runner:
    """Make a runner that runs launches in every order, or in the one that `schedule` describes if it is not empty.

    Raises ValueError for an invalid schedule.
    """
    choose = by_schedule(schedule.removeprefix(DENY))

    def explore(launch: Launch, kernel: LoadedKernel, options: RunOptions) -> Mapping[str, Any]:
        if schedule:
            launch.denies = schedule.startswith(DENY)
            run_once(launch, kernel.program, choose, options.budget)
        else:
            Explorer(launch, kernel.program, options.budget).run()
        return {}

    return explore
