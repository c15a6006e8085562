"""A debugger's control over a launch: where it stops, how it goes on, and how it goes back."""

from __future__ import annotations

import signal
import threading
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ..errors import EmulatorError
from ..machine.agents.boxes import Load
from ..machine.execution.scheduler import RunOptions, run
from ..machine.launch.launch import Launch
from ..machine.order.completion import AsyncOperation
from ..machine.topology import Cluster, Cta, Warp
from ..modules import LoadedKernel, execute
from ..program import Program
from ..tensors import NamedTensor, tensors_of_callers
from .places import source_line, warp_name, where
from .stepping import Observer, Snapshot, SteppedProgram
from .stops import Stop, Watch

COMPLETED: Final = 16
"""The number of completed asynchronous operations that are remembered."""


class Rewind(BaseException):
    """The launch has to start again and stop before instruction `count`. No handler may catch it."""

    def __init__(self, count: int) -> None:
        self.count = count


@dataclass(frozen=True)
class Issued:
    """An asynchronous operation: the warp and the instruction that issued it, and when."""

    warp: Warp
    at: int
    count: int


@dataclass
class Plan:
    """The condition of the next stop. wants: returns True to stop before a warp's instruction.

    block: stop when another warp than this has to wait.
    """

    wants: Callable[[Warp, int], bool] = lambda warp, at: False
    block: Warp | None = None


class Session(Observer):
    """The state of a debugged launch. console: called at each stop with the reason; it returns to go on.

    which: numbers of the launches to debug, from 1; None for all. asks: whether a person is asked at a stop, so that
    Ctrl-C stops the launch.
    """

    def __init__(
        self, console: Callable[[Session, str], None], which: Collection[int] | None = None, asks: bool = False
    ) -> None:
        self._console, self._which, self._asks = console, which, asks
        self._asking = self._interrupted = False
        self.launches = 0
        self.detached = False
        self.stops: list[Stop] = []
        self.numbered = 0
        self.tensors: dict[str, NamedTensor] = {}
        self.launch: Launch
        self.program: SteppedProgram
        self._clear()

    def _clear(self) -> None:
        self.clusters: list[Cluster] = []
        self.count = 0
        """The number of instructions executed in the launch, by all warps together."""
        self.trail: dict[Any, array[int]] = {}
        """For each warp, by CTA and index, the count before each of its instructions."""
        self.pending: dict[AsyncOperation, Issued] = {}
        self.finished: deque[tuple[int, Issued]] = deque(maxlen=COMPLETED)
        self._loads: list[Load] = []
        self.warp: Warp | None = None
        """The warp that commands are about."""
        self.running: tuple[Warp, int] | None = None
        self.plan = Plan(lambda warp, at: True)
        self._target = 0

    # running a launch ----------------------------------------------------------------------------------------------

    def run(self, launch: Launch, kernel: LoadedKernel, options: RunOptions) -> Mapping[str, Any]:
        """Run a launch under the debugger. Its counts and findings are those of the last time that it ran."""
        self.launches += 1
        if self.detached or (self._which is not None and self.launches not in self._which):
            return execute(launch, kernel, options)
        self.tensors = tensors_of_callers()
        snapshot, target = Snapshot(launch), 0
        while True:
            self.launch = replace(launch)
            try:
                with self._stopped_by_interrupts():
                    self._run(kernel.program, target, replace(options, processes=1, keeps_ended=True))
                return {}
            except Rewind as back:
                target = back.count
                snapshot.restore()
            finally:
                launch.stats = self.launch.stats
                launch.findings[:] = self.launch.findings

    def _run(self, program: Program, target: int, options: RunOptions) -> None:
        self._clear()
        self.program = SteppedProgram(program, self)
        self._target = target
        for stop in self.stops:
            stop.reset()
        try:
            run(self.launch, self.program, options)
        except EmulatorError as error:
            self._stop(f"stopped by an error\n{type(error).__name__}: {error}")
            raise
        self.running = None
        if not self.detached:
            self._stop(f"the launch has ended after {self.count} instructions")

    def _stop(self, reason: str) -> None:
        if self.running is not None:
            self.warp = self.running[0]
        self.plan = Plan()
        self._console(self, reason)

    def asking(self, now: bool) -> None:
        """Store whether the prompt reads a line. Ctrl-C then drops that line."""
        self._asking, self._interrupted = now, self._interrupted and not now

    @contextmanager
    def _stopped_by_interrupts(self) -> Iterator[None]:
        """Stop before the next instruction on Ctrl-C while the context is open. A second one interrupts the launch."""
        if not self._asks or threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: object) -> None:
            if self._asking or self._interrupted or self.detached:
                raise KeyboardInterrupt
            self._interrupted = True

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            self._asking = self._interrupted = False
            signal.signal(signal.SIGINT, before)

    # notifications of a stepped launch -----------------------------------------------------------------------------

    def started(self, cluster: Cluster) -> None:
        """Add a cluster that has started."""
        self.clusters = [known for known in self.clusters if not known.ended] + [cluster]
        if self.warp is None:
            self.warp = cluster.warps[0]
        self._prime(cluster)

    def before(self, warp: Warp, at: int) -> None:
        """Stop here if a plan or a breakpoint asks for it."""
        self.running = warp, at
        if self.count < self._target or self.detached:
            return
        if self._target:
            self._target = 0
            for cluster in self.clusters:
                self._prime(cluster)
            self._stop(f"back: {warp_name(warp)}\n{where(self.launch.kernel, at)}")
            return
        hit = [stop for stop in self.stops if stop.before(warp, at)]
        if hit:
            self._stop(f"breakpoint {hit[0].number}: {warp_name(warp)}\n{where(self.launch.kernel, at)}")
        elif self._interrupted or self.plan.wants(warp, at):
            reason = "interrupted: " if self._interrupted else ""
            self._stop(f"{reason}{warp_name(warp)}\n{where(self.launch.kernel, at)}")

    def after(self, warp: Warp, at: int, lanes: int) -> None:
        """Count the instruction, and stop if it changed something watched."""
        self.trail.setdefault((warp.cta.ctaid, warp.index), array("q")).append(self.count)
        self.count += 1
        self._check(warp.cta.cluster, f"by {warp_name(warp)}\n{where(self.launch.kernel, at)}", warp)

    def blocked(self, warp: Warp, at: int) -> None:
        """Stop if the plan was to go on until another warp waits."""
        if self.plan.block is not None and self.plan.block is not warp and self._live():
            self._stop(f"{warp_name(warp)} waits\n{where(self.launch.kernel, at)}")

    def issued(self, operation: AsyncOperation) -> None:
        """Add an asynchronous operation with the instruction that issued it."""
        if self.running is not None:
            self.pending[operation] = Issued(*self.running, self.count)
        if isinstance(operation.about, list):
            self._loads += operation.about

    def completed(self, operation: AsyncOperation) -> None:
        """Stop if the operation changed something watched."""
        issued = self.pending.pop(operation)
        self.finished.append((self.count, issued))
        text = f"by asynchronous work of {warp_name(issued.warp)}\n{where(self.launch.kernel, issued.at)}"
        self._check(issued.warp.cta.cluster, text, None)

    def _live(self) -> bool:
        return not self._target and not self.detached

    def _check(self, cluster: Cluster, by: str, warp: Warp | None) -> None:
        if not self.stops or not self._live():
            return
        for stop in self.stops:
            if (said := stop.change(cluster, warp)) is not None:
                self._stop(f"stop {stop.number}: {said}\n{by}")

    def _prime(self, cluster: Cluster) -> None:
        """Skip the events in a cluster until now."""
        for stop in self.stops:
            stop.prime(cluster)

    def loads(self, cta: Cta) -> dict[int, Load]:
        """Return the last TMA load to each offset of a CTA's shared memory."""
        return {load.offset: load for load in self._loads if load.cta is cta}

    # how to go on --------------------------------------------------------------------------------------------------

    def add(self, stop: Stop) -> None:
        """Add a reason to stop."""
        self.stops.append(stop)
        for cluster in self.clusters if isinstance(stop, Watch) else ():
            stop.prime(cluster)

    def next_number(self) -> int:
        """Return a number for a new stop."""
        self.numbered += 1
        return self.numbered

    def step_instructions(self, count: int) -> None:
        """Go on until the warp has executed `count` instructions."""
        warp, until = self.focus, self.focus.executed + count
        self.plan = Plan(lambda one, at: one is warp and warp.executed >= until)

    def step_lines(self, count: int) -> None:
        """Go on until the warp has come to another source line `count` times."""
        warp, kernel = self.focus, self.launch.kernel
        last, left = source_line(kernel, warp.pc), count

        def wants(one: Warp, at: int) -> bool:
            nonlocal last, left
            if one is not warp or (here := source_line(kernel, at)) == last:
                return False
            last, left = here, left - 1
            return left == 0

        self.plan = Plan(wants)

    def until_another_blocks(self) -> None:
        """Go on until another warp has to wait."""
        self.plan = Plan(block=self.focus)

    def back(self, count: int) -> None:
        """Run again to where the warp was `count` instructions ago. Raises ValueError if it was not there yet."""
        warp = self.focus
        trail = self.trail.get((warp.cta.ctaid, warp.index), array("q"))
        if not 0 < count <= len(trail):
            raise ValueError(f"back {count}: {warp_name(warp)} has executed {len(trail)} instructions")
        raise Rewind(trail[-count])

    def go_to(self, count: int) -> None:
        """Run to the moment before instruction `count`, from the start if it is past."""
        if count < self.count:
            raise Rewind(count)
        self.plan = Plan(lambda warp, at: self.count >= count)

    @property
    def focus(self) -> Warp:
        """The warp that commands are about. Raises ValueError if there is none."""
        if self.warp is None:
            raise ValueError("no warp has started")
        return self.warp

    @property
    def warps(self) -> Sequence[Warp]:
        """The warps of the running clusters."""
        return [warp for cluster in self.clusters for warp in cluster.warps]
