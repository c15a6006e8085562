"""Runs a launch: warps until they wait, agents when the completion mode says so, clusters one after another."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from emulator.errors import BudgetExceeded, Deadlock, Interrupted, source
from emulator.machine.agents import Completion
from emulator.machine.blas import one_thread
from emulator.machine.cta import Cluster, Dim3, Launch
from emulator.machine.ending import finish
from emulator.machine.processes import can_fork, independent, spread
from emulator.machine.statistics import Stats

if TYPE_CHECKING:
    from emulator.machine.warp import Warp
    from emulator.ptx.syntax import Instr

EARLY = 0.3
"""In random mode, the chance of a completion between two turns of warps."""
POLLS = 64
"""So many rounds of polling answered no, with no wait ending in between, are a deadlock."""


class Program(Protocol):
    """What the scheduler needs of a lowered kernel."""

    def start(self, warp: Warp) -> None:
        """Set the warp at the kernel's first instruction."""

    def advance(self, warp: Warp) -> None:
        """Run the warp until it waits, yields or is done."""

    def line_of(self, pc: int) -> int:
        """PTX line of a warp's position."""


def run(
    launch: Launch,
    program: Program,
    completion: Completion = "lazy",
    seed: int = 0,
    budget: int | None = None,
    processes: int = 1,
) -> Stats:
    """Run a launch to its end. budget: warp-instructions that each warp may execute, None for no limit.

    processes: how many may share the clusters, where that cannot be told from one.
    Raises subclasses of emulator.errors.EmulatorError.
    """

    def run_cluster(index: Dim3) -> None:
        cluster = Cluster(launch, index, completion, Random(f"{seed}:{index}"))
        _run_cluster(cluster, program, budget)
        launch.stats.finish_cluster(cluster)

    with one_thread():
        if processes > 1 and can_fork() and independent(launch.kernel):
            spread(launch, run_cluster, processes)
        else:
            for index in launch.clusters():
                run_cluster(index)
    return launch.stats


def _run_cluster(cluster: Cluster, program: Program, budget: int | None) -> None:
    for warp in cluster.warps:
        warp.budget = budget
        program.start(warp)
    try:
        while True:
            _run_ready(cluster, program)
            if all(warp.done for warp in cluster.warps):
                break
            if not _unblock(cluster):
                raise Deadlock(*_stopped(cluster, program, "deadlock: no warp can run and nothing can complete"))
    except KeyboardInterrupt:
        raise Interrupted(*_stopped(cluster, program, "interrupted")) from None
    finish(cluster)


def _run_ready(cluster: Cluster, program: Program) -> None:
    """Run warps until all wait or are done."""
    ready = cluster.ready
    by_chance = cluster.agents.completion == "random"
    while ready:
        if by_chance:
            _shuffle(cluster)
        warp = ready.popleft()
        program.advance(warp)
        if warp.done:
            _leave(warp)
        elif warp.waiting is None:
            warp.yielded = False
            ready.append(warp)
            if warp.budget is not None and warp.budget <= 0:
                raise BudgetExceeded(*_stopped(cluster, program, f"the instruction budget is spent by {warp}"))


def _shuffle(cluster: Cluster) -> None:
    random = cluster.random
    cluster.ready.rotate(random.randrange(len(cluster.ready)))
    while random.random() < EARLY and cluster.agents.complete_any():
        pass


def _unblock(cluster: Cluster) -> bool:
    """Make some blocked warp's progress possible; False if nothing can."""
    agents = cluster.agents
    waits = [(w, w.waiting) for w in cluster.warps if w.waiting is not None]
    if agents.completion == "random" and agents.complete_any():
        return True
    polled_long = cluster.polls > POLLS // 2
    if agents.complete_for(t for _, wait in waits if polled_long or not wait.peek for t in wait.targets):
        return True
    peeking = [warp for warp, wait in waits if wait.peek]
    if not peeking or cluster.polls > POLLS:
        return False
    cluster.polls += 1
    for warp in peeking:
        warp.granted = False
        cluster.resume(warp)
    return True


def _leave(warp: Warp) -> None:
    """A warp ended: those that wait for it at a barrier wait no longer."""
    for barrier in warp.cta.barriers:
        if barrier.expected is None:
            barrier.settle()
    warp.cta.cluster.barrier.settle()


def _stopped(cluster: Cluster, program: Program, what: str) -> tuple[str, tuple[str, ...]]:
    mode = cluster.agents.completion
    headline = f"{what}\n  kernel {cluster.launch.kernel.name}, completion {mode}, cluster {cluster.index}"
    return headline, table(cluster, program)


def table(cluster: Cluster, program: Program) -> tuple[str, ...]:
    """One line a warp: where it is, and what it waits for."""
    return tuple(f"  {warp}: {_doing(warp, program)}" for warp in cluster.warps)


def _doing(warp: Warp, program: Program) -> str:
    if warp.done:
        return "has ended"
    wait = warp.waiting
    if wait is None:
        line = program.line_of(warp.pc)
        near = next(instr for instr in warp.cta.launch.kernel.instrs if instr.line == line)
        return f"PTX line {line}: running{_below(near, warp)}"
    return f"PTX line {wait.instr.line}: {wait.instr.opcode} waits for {wait.text()}{_below(wait.instr, warp)}"


def _below(instr: Instr, warp: Warp) -> str:
    return source(instr, warp).replace("\n", "\n      ")
