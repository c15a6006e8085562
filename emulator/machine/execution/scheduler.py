"""The scheduler: runs warps until they wait, completes asynchronous work by the completion mode, cluster by cluster.

A cluster whose warps only poll memory that another cluster must write is suspended, and further clusters run
concurrently, as many as fit on the device.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from ... import progress
from ...chip import ALL_LANES, LANES, RANK_SHIFT
from ...errors import BudgetExceeded, Deadlock, EmulatorError, Interrupted, UnwrittenRead, source
from ...garbage import uncollected
from ...ptx.syntax import Instr
from ..launch.launch import Dim3, Launch
from ..launch.names import kernel_name
from ..launch.source import locating_errors
from ..launch.statistics import Stats
from ..memory.global_shadow import GlobalShadow
from ..memory.shared import OFFSET_MASK
from ..order.completion import Completion
from ..synchronisation.mbarrier import MBarrier
from ..topology import Cluster, Warp
from .blas import one_thread
from .ending import finish
from .look_ahead import with_writer
from .processes import can_fork, spread

EARLY = 0.3
"""The probability, in random mode, of a completion between two time slices of warps."""
PAUSE: Final = 0.5
"""The probability, in random mode, that other clusters run after a time slice, and that a further cluster starts."""
POLLS = 64
"""The number of consecutive rounds of failed polling, with no wait ending, that count as a deadlock."""
PATIENCE = 4096
"""The number of fruitless reads by all clusters together that count as a deadlock."""
UNCHANGED = 8
"""The number of consecutive unchanged reads, with no mbarrier phase ending, that count as polling whatever other warps
do: those may pass the value on through shared memory and a barrier, round after round."""
QUANTUM = 1 << 20
"""The number of instructions in a warp's time slice. Then other warps run, of other clusters too: a loop of weak loads
may wait for their stores."""
ROUNDS_OF_AN_ARM: Final = 8
"""The number of fruitless rounds by all clusters after which the next arm of each polling warp has its turn."""
TURNS: Final = 2 * LANES
"""The number of changes between arms, with no wait ending, that count as a deadlock."""
STUCK = "deadlock: no warp can run and nothing can complete"
SHOWN_PLACES: Final = 4
"""The places of arrivals that a report lists for one mbarrier."""
SHOWN_WARPS = 64
"""The number of warps shown for a launch that stopped."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run of a launch.

    budget: warp-instructions that each warp may execute, None for no limit. processes: the number of processes that may
    share the clusters where that is unobservable; None for as many as pay off. keeps_ended: keep the memories and the
    synchronisation state of clusters that have ended.
    """

    completion: Completion = "lazy"
    seed: int = 0
    budget: int | None = None
    processes: int | None = 1
    keeps_ended: bool = False


class Program(Protocol):
    """A lowered kernel as the scheduler uses it.

    foreseen: whether its last launch, if processes could share it, wrote only allocations that were known before.
    """

    foreseen: bool

    @property
    def independent(self) -> bool:
        """True if no cluster can observe another one before the launch ends, except by a race."""

    @property
    def stored(self) -> frozenset[int]:
        """The parameters, by offset, that store addresses are computed from. A tensor map begins with an address."""

    def start(self, warps: Sequence[Warp]) -> None:
        """Set warps to the kernel's first instruction. They are in the order of CTAs, with the same number for each."""

    def advance(self, warp: Warp) -> None:
        """Run the warp until it waits, yields or is done."""

    def line_of(self, warp: Warp) -> int:
        """Return the PTX line at which a warp is."""

    def change_arm(self, warp: Warp, turn: int) -> bool:
        """Let other lanes of a warp run that waits, see `engine.arms`. Return False if there are none."""


def run(launch: Launch, program: Program, options: RunOptions, only: Dim3 | None = None) -> Stats:
    """Run a launch to its end, or one of its clusters. Raises subclasses of emulator.errors.EmulatorError."""

    drawn = options.completion == "random" and not program.independent

    def start(index: Dim3) -> Cluster:
        cluster = Cluster(launch, index, options.completion, Random(f"{options.seed}:{index}"), drawn)
        for warp in cluster.warps:
            warp.budget = sys.maxsize if options.budget is None else options.budget
        program.start(cluster.warps)
        return cluster

    def run_cluster(index: Dim3) -> None:
        _run_clusters(launch, program, iter((index,)), start, options.keeps_ended)

    GlobalShadow.of(launch).expect(program.stored)
    try:
        with one_thread(), locating_errors(launch.kernel), uncollected():  # collecting would take 7% of a launch
            if only is not None:
                run_cluster(only)
            elif options.processes != 1 and launch.grid != launch.cluster and can_fork() and program.independent:
                program.foreseen = spread(launch, run_cluster, options.processes, program.foreseen)
            else:
                clusters = launch.clusters(Random(options.seed) if drawn else None)
                _run_clusters(launch, program, clusters, start, options.keeps_ended)
    except Interrupted:
        raise
    except EmulatorError as error:
        if (first := launch.first(error)) is not error:
            raise first from None
        raise
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted between clusters\n  kernel {kernel_name(launch.kernel)}", ()) from None
    return launch.stats


def _run_clusters(
    launch: Launch, program: Program, indices: Iterator[Dim3], start: Callable[[Dim3], Cluster], keep_ended: bool
) -> None:
    """Run clusters in order, each until it ends or only polls."""
    running: list[Cluster] = []
    fruitless = 0
    try:
        while True:
            gone_on = max([False, *(_run_cluster(cluster, program) for cluster in running)])
            if _finish_ended(running, keep_ended):
                gc.collect(0)  # keeps a forked process from writing to shared pages
            if gone_on and running:
                fruitless = 0
                if not running[0].pauses or running[0].random.random() > PAUSE:
                    continue
            if _start_more(running, program, indices, start):
                continue
            if not running:
                return
            fruitless += 1
            for cluster in running if fruitless % ROUNDS_OF_AN_ARM == 0 else ():
                change_arms(cluster, program, fruitless // ROUNDS_OF_AN_ARM - 1)
            if fruitless * len(running) > PATIENCE:
                raise Deadlock(*stopped(running, program, STUCK))
    except EmulatorError as error:
        warps = (warp for cluster in running for warp in cluster.warps if warp.taint is not None)
        unused = (fault for warp in warps for fault in warp.taint.unused() if fault is not error)
        for fault in {launch.source_place(fault.instr) or fault.line: fault for fault in unused}.values():
            error.add_note(f"loaded before, and not used yet: {fault}")
        raise
    except KeyboardInterrupt:
        if not running:
            raise
        raise Interrupted(*stopped(running, program, "interrupted")) from None


def _start_more(
    running: list[Cluster], program: Program, indices: Iterator[Dim3], start: Callable[[Dim3], Cluster]
) -> bool:
    """Start clusters until one ends, or the device holds no more. Return whether it started any."""
    held = len(running)
    most = running[0].launch.resident_clusters if running else 1
    while len(running) < most and (index := next(indices, None)) is not None:
        running.append(cluster := start(index))
        most = cluster.launch.resident_clusters
        if cluster.pauses:
            if cluster.random.random() < PAUSE:
                break
            continue  # further ones start before it runs
        _run_cluster(cluster, program)
        if cluster.ended:
            break
    return len(running) > held


def _finish_ended(running: list[Cluster], keep: bool) -> bool:
    """Remove and finish the clusters that have ended. Return whether there were any."""
    ended = [cluster for cluster in running if cluster.ended]
    for cluster in ended:
        finish(cluster)
        if not keep:
            cluster.release()
        running.remove(cluster)
    return bool(ended)


def _run_cluster(cluster: Cluster, program: Program) -> bool:
    """Run a cluster until it ends or only polls memory that others must write. Return False if it only polled."""
    gone_on = False
    _peek(cluster)
    while True:
        progress.at("cluster", cluster.index)
        went_on = _run_ready(cluster, program)
        gone_on |= went_on
        if cluster.ended or cluster.paused:
            cluster.paused = False
            return gone_on
        if _unblock(cluster):
            gone_on = True
        elif (went_on or not cluster.ready) and _peek(cluster):
            continue
        elif cluster.ready and cluster.agents.complete_first():
            gone_on = True
        elif cluster.ready:
            return gone_on
        elif cluster.turns < TURNS and change_arms(cluster, program, cluster.turns):
            cluster.turns += 1
        else:
            raise Deadlock(*stopped([cluster], program, STUCK))


def change_arms(cluster: Cluster, program: Program, turn: int) -> bool:
    """Switch each warp that polls or waits for an mbarrier to its next arm. Return False if there is none."""
    changed = False
    for warp in cluster.warps:
        wait = warp.waiting
        waits = warp.progress != "went on" if wait is None else all(isinstance(t, MBarrier) for t in wait.targets)
        if warp.stack and waits and program.change_arm(warp, turn):
            changed, warp.wait_result = True, None
            cluster.resume(warp)
    return changed


def _run_ready(cluster: Cluster, program: Program) -> bool:
    """Run warps until all wait, poll or are done. Return False if all warps that ran only polled."""
    ready = cluster.ready
    by_chance = cluster.agents.completion == "random"
    gone_on, polling = False, 0
    while ready and polling <= len(ready):
        if by_chance:
            _shuffle(cluster)
        warp = ready.popleft()
        warp.progress = "went on"
        warp.until = min(warp.executed + QUANTUM, warp.budget)
        try:
            program.advance(warp)
        except UnwrittenRead as fault:
            if fault.warp is not warp:
                raise
            raise with_writer(fault, cluster, partial(_go_on, cluster, program)) from None
        if warp.executed >= warp.until:
            warp.progress = "polled"
        if warp.done or warp.progress == "went on":
            gone_on, polling = True, 0
        elif warp.progress == "polled":
            polling += 1
        if warp.done:
            cluster.unchanged = 0
            leave(warp)
        elif warp.waiting is None:
            warp.yielded = False
            ready.append(warp)
            if warp.executed >= warp.budget:
                raise BudgetExceeded(*stopped([cluster], program, f"the instruction budget is spent by {warp}"))
        if cluster.unchanged and cluster.unchanged % UNCHANGED == 0 and warp.progress == "polled":
            return False
        # Beyond UNCHANGED a pause would end each round before its polls count: test_a_poll_whose_answer_is_handed_on.
        if cluster.pauses and cluster.unchanged < UNCHANGED and cluster.random.random() < PAUSE:
            cluster.paused = True
            return gone_on
    return gone_on


def _go_on(cluster: Cluster, program: Program) -> bool:
    """Run the cluster's other warps after one failed. Return False if none can run."""
    if not cluster.ready and not _unblock(cluster) and not _peek(cluster):
        return False
    _run_ready(cluster, program)
    return True


def _shuffle(cluster: Cluster) -> None:
    random = cluster.random
    cluster.ready.rotate(random.randrange(len(cluster.ready)))
    while random.random() < EARLY and cluster.agents.complete_any():
        pass


def _unblock(cluster: Cluster) -> bool:
    """Complete operations that let a blocked warp continue. Return False if there are none."""
    agents = cluster.agents
    if agents.completion == "random" and agents.complete_any():
        return True
    if not agents.pending:
        return False
    wanted: Set[Any] = cluster.wanted.keys()
    if cluster.polls > POLLS // 2:
        wanted = wanted | cluster.tested.keys()
    completed = False
    while not cluster.ready and agents.complete_first(wanted):  # until a warp can continue
        completed = True
    return completed


def _peek(cluster: Cluster) -> bool:
    """Give a negative answer to warps that only test their wait. Return False if there are none, or too many rounds."""
    peeking = [warp for warp in cluster.warps if warp.waiting is not None and warp.waiting.peek]
    if not peeking or cluster.polls > POLLS:
        return False
    cluster.polls += 1
    for warp in peeking:
        warp.wait_result = False
        cluster.resume(warp)
    return True


def leave(warp: Warp) -> None:
    """Remove a warp that ended from the barriers that count running warps."""
    warp.cta.running -= 1
    warp.cta.cluster.running -= 1
    for barrier in warp.cta.barriers.values():
        if barrier.expected is None:
            barrier.complete_if_due()
    warp.cta.cluster.barrier.complete_if_due()


def stopped(
    clusters: Sequence[Cluster], program: Program, what: str
) -> tuple[str, tuple[str, ...], tuple[Instr, Warp] | None]:
    """Return the headline of a report, its lines, and the instruction and warp of the first wait.

    The lines are each warp's position and wait, and each mbarrier waited for.
    """
    first, *others = clusters
    mode = first.agents.completion
    shown = first.index if not others else f"{first.index} and {len(others)} more"
    headline = f"{what}\n  kernel {kernel_name(first.launch.kernel)}, completion {mode}, cluster {shown}"
    warps = [warp for cluster in clusters for warp in cluster.warps]
    left = len(warps) - SHOWN_WARPS
    rows = [f"  {warp}: {_doing(warp, program)}" for warp in warps[:SHOWN_WARPS]]
    waits = [warp.waiting for warp in warps[:SHOWN_WARPS] if warp.waiting is not None]
    barriers = dict.fromkeys(t for wait in waits for t in wait.targets if isinstance(t, MBarrier))
    arrivals = {barrier: barrier.arrivals_by_address() for barrier in barriers}
    causes_first = sorted(arrivals.items(), key=lambda item: bool(item[1][0]))
    states = [line for barrier, found in causes_first for line in _state(barrier, *found)]
    first_wait = next(((warp.waiting.instr, warp) for warp in warps if warp.waiting is not None), None)
    polling = next(((warp.polled[0], warp) for warp in warps if warp.polled is not None and not warp.done), None)
    return headline, tuple(rows + [f"  and {left} more warps"] * (left > 0) + states), first_wait or polling


def _state(barrier: MBarrier, places: Sequence[str], unknown: Sequence[int]) -> Iterator[str]:
    """Yield lines about an mbarrier that is waited for: its state, and the places of arrivals with its address.

    unknown: the PTX lines of arrivals whose address the kernel computes.
    """
    yield f"  {barrier.state()}".replace("\n", "\n      ")
    if barrier.repeated is not None:
        yield f"      stale wait: {barrier.stale_wait(barrier.repeated)}".replace("\n", "\n          ")
    yield from (f"      arrives on it: {place}" for place in places[:SHOWN_PLACES])
    if len(places) > SHOWN_PLACES:
        yield f"      and {len(places) - SHOWN_PLACES} more places"
    if not places:
        others = ", ".join(map(str, unknown[:SHOWN_PLACES])) + ", ..." * (len(unknown) > SHOWN_PLACES)
        computed = f"; that of PTX line {others} is computed" if unknown else ""
        yield f"      no arrival, commit or copy has its address{computed}"


def _doing(warp: Warp, program: Program) -> str:
    if warp.done:
        return "has ended"
    wait = warp.waiting
    if wait is None and warp.progress != "went on" and warp.polled is not None:
        instr, address, value = warp.polled
        by = _last_writer(warp, instr, address)
        lane = f" in lane {(warp.bits & -warp.bits).bit_length() - 1}" if warp.bits != ALL_LANES else ""
        what = f"{instr.opcode} reads {address:#x}{lane} again and again: {value:#x}, {by}"
        return f"PTX line {instr.line}: {what}{_below(instr, warp)}"
    if wait is None:
        line = program.line_of(warp)
        near = next(instr for instr in warp.cta.launch.kernel.instrs if instr.line == line)
        return f"PTX line {line}: running{_below(near, warp)}"
    return f"PTX line {wait.instr.line}: {wait.instr.opcode} waits for {wait.text()}{_below(wait.instr, warp)}"


def _last_writer(warp: Warp, instr: Instr, address: int) -> str:
    """Describe the last write of the address that a warp polls."""
    cluster = warp.cta.cluster
    rank = (address & 0xFFFF_FFFF) >> RANK_SHIFT
    if any(modifier.startswith("shared") for modifier in instr.modifiers):
        smem = cluster.ctas[rank].smem if rank < len(cluster.ctas) else warp.cta.smem
        wrote = smem.last_writer(address & OFFSET_MASK)
    else:
        area = cluster.outside.area(address, address + 1)
        wrote = None if area is None else area.last_writer(address)
    return "which nothing in this launch wrote" if wrote is None else f"written by {wrote.origin()}"


def _below(instr: Instr, warp: Warp) -> str:
    return source(instr, warp).replace("\n", "\n      ")
