"""One run of a launch, in steps whose order is chosen from outside.

Its synchronisation events say which pairs of steps have an order that matters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final, Literal

from ..chip import RANK_SHIFT
from ..debug.decode import Operands
from ..debug.stepping import Observer, SteppedProgram
from ..engine.divergence import lanes_of
from ..engine.effects import Effect
from ..errors import BudgetExceeded, Deadlock
from ..isa.ld_st import STRONG
from ..machine.execution.ending import finish
from ..machine.execution.scheduler import STUCK, TURNS, change_arms, leave, stopped
from ..machine.launch.launch import Dim3, Launch
from ..machine.memory.global_shadow import GlobalShadow
from ..machine.memory.shared import OFFSET_MASK
from ..machine.order.completion import AsyncOperation
from ..machine.synchronisation.barriers import Generation
from ..machine.synchronisation.mbarrier import MBarrier
from ..machine.topology import Cluster, Warp
from ..program import Program
from ..ptx.kinds import Kind
from ..ptx.syntax import Address

Process = tuple[Hashable, ...]
"""A warp, by cluster, CTA and index, or asynchronous work, by the warp that issued it and its number."""


@dataclass(frozen=True, slots=True)
class Touch:
    """An effect of a step on a barrier or a location.

    arrive: an arrival in `phase`; ends: it completes the phase. wait: a wait that ended: all phases before `phase` are
    complete. read, write, add: strong accesses of a location; two `add` commute.
    """

    kind: Literal["arrive", "wait", "read", "write", "add"]
    place: Hashable
    phase: int = 0
    ends: bool = False


@dataclass
class Step:
    """A piece of one process, up to its next synchronisation instruction.

    options: the runnable processes; the one at `chosen` ran, without a search the one at `default`.
    """

    options: Sequence[Process]
    default: int
    chosen: int
    touches: tuple[Touch, ...] = ()
    clock: dict[Process, int] = field(default_factory=dict)
    """Number of steps of each process that happen before this one, itself included."""

    @property
    def process(self) -> Process:
        """The process that took the step."""
        return self.options[self.chosen]


def ordered(first: Touch, later: Touch) -> bool:
    """Return whether two touches were ordered: by necessity, or because the other order has another effect."""
    if first.place != later.place:
        return False
    if {first.kind, later.kind} == {"arrive", "wait"}:
        return first.phase < later.phase if first.kind == "arrive" else later.ends
    return swappable(first, later)


def swappable(first: Touch, later: Touch) -> bool:
    """Return whether the other order of two touches, if nothing else orders them, is possible and has another effect.

    A wait could not have come before the arrival that ended its phase. Before the arrival that ended the phase before
    that one, its parity would have been right too.
    """
    if first.place != later.place:
        return False
    kinds = (first.kind, later.kind)
    if kinds == ("arrive", "arrive"):
        return first.phase != later.phase
    if kinds == ("wait", "arrive"):
        return later.ends
    if kinds == ("arrive", "wait"):
        return first.ends and first.phase == later.phase - 2
    return "write" in kinds or set(kinds) == {"read", "add"}


def independent(a: Sequence[Touch], b: Sequence[Touch]) -> bool:
    """Return whether two steps have the same effect in either order."""
    return not any(ordered(x, y) or ordered(y, x) for x in a for y in b)


def set_clocks(steps: Sequence[Step], issued: dict[Process, int]) -> list[tuple[int, int]]:
    """Set the clock of each step. Return the pairs (earlier, later) of steps whose order could have been the other.

    issued: the step that issued each asynchronous work. The end of a phase comes after all its arrivals, whichever of
    them was the last.
    """
    pairs, of_place, count = list[tuple[int, int]](), dict[Hashable, list[int]](), dict[Process, int]()
    last = dict[Process, dict[Process, int]]()
    for at, step in enumerate(steps):
        start = issued.get(step.process)
        clock = dict(last.get(step.process) or ({} if start is None else steps[start].clock))
        others = sorted({i for touch in step.touches for i in of_place.get(touch.place, ())}, reverse=True)
        ending = dict(clock)
        for other in others:
            if any(_one_phase(x, y) for x in steps[other].touches for y in step.touches):
                _join(ending, steps[other].clock)
        for other in others:
            earlier = steps[other]
            both = [(x, y) for x in earlier.touches for y in step.touches if ordered(x, y)]
            if not both or earlier.process == step.process:
                continue
            time = earlier.clock[earlier.process]
            if any(
                swappable(x, y) and (ending if x.kind == "wait" else clock).get(earlier.process, 0) < time
                for x, y in both
            ):
                pairs.append((other, at))
            _join(clock, earlier.clock)
        count[step.process] = clock[step.process] = count.get(step.process, 0) + 1
        step.clock = last[step.process] = clock
        for place in {touch.place for touch in step.touches}:
            of_place.setdefault(place, []).append(at)
    return pairs


def _one_phase(x: Touch, y: Touch) -> bool:
    return x.kind == y.kind == "arrive" and x.place == y.place and x.phase == y.phase


def _join(clock: dict[Process, int], other: dict[Process, int]) -> None:
    for process, time in other.items():
        if clock.get(process, 0) < time:
            clock[process] = time


def happens_before(earlier: Step, later: Step) -> bool:
    """Return whether one step happens before another, by their clocks."""
    return later.clock.get(earlier.process, 0) >= earlier.clock[earlier.process]


Choose = Callable[[Sequence[Step], Sequence[Process], int], int | None]
"""Chooses one of the processes that can go on, given the steps so far and the default's number. None ends the run."""
Seen = list[tuple[Any, Any, int]]
"""The objects or locations that an instruction may touch, with their places, and phases beforehand."""
TAKES_RESOURCE: Final = {Kind.TENSOR_ALLOCATION: "columns", Kind.TENSOR_FREE: "columns", Kind.WORK_STEALING: "work"}
"""Kinds whose effect depends on their order in the cluster, with the resource that they take or return."""
QUANTUM: Final = 1 << 14
"""The most instructions of a step: a loop of weak loads may wait for other warps."""


class Pruned(Exception):
    """Every runnable event was tried before from this state, with the same effect."""


class Execution(Observer):
    """A launch that runs step by step. A step ends before the warp's next synchronisation instruction.

    steps: those taken. origins: the step that issued each asynchronous work.
    """

    def __init__(self, launch: Launch, program: Program, choose: Choose, budget: int | None) -> None:
        self._launch, self._choose = launch, choose
        self._budget = sys.maxsize if budget is None else budget
        self._program = SteppedProgram(program, self)
        self.steps: list[Step] = []
        self.origins: dict[Process, int] = {}
        self._clusters: list[Cluster] = []
        self._work: dict[AsyncOperation, Process] = {}
        self._issued: dict[Process, int] = {}
        self._polling: set[Process] = set()
        """Warps that found what they had read before. They go on after a write, or if nothing else can."""
        self._turns = 0
        """Changes between the arms of warps since a step had an effect on others."""
        self._now: Process = ()
        self._generations: dict[Any, list[Generation]] = {}
        self._joined: dict[Process, tuple[Any, int]] = {}
        """The named barrier, and its use by number, that each warp waits for."""

    def run(self) -> None:
        """Run the launch to its end. Raises EmulatorError, and Pruned if `choose` ends the run."""
        GlobalShadow.of(self._launch).expect(self._program.stored)
        waiting = self._launch.clusters()
        while True:
            for cluster in [c for c in self._clusters if c.ended]:
                finish(cluster)
                cluster.release()
                self._clusters.remove(cluster)
            self._start(waiting)
            if not self._clusters:
                return
            ready = self._ready()
            if not ready and self._change_arms():
                continue
            if not ready:
                raise Deadlock(*stopped(self._clusters, self._program, STUCK))
            options = list(ready)
            default = options.index(self._now) if self._now in ready else 0
            chosen = self._choose(self.steps, options, default)
            if chosen is None:
                raise Pruned
            self.steps.append(Step(options, default, chosen))
            self._now = options[chosen]
            ready[self._now]()

    def _change_arms(self) -> bool:
        """Let other lanes run of the warps that wait. Return False if there are none, or all had their turns."""
        changed = [change_arms(cluster, self._program, self._turns) for cluster in self._clusters]
        self._polling.clear()
        self._turns += 1
        return any(changed) and self._turns <= TURNS

    def _start(self, waiting: Iterator[Dim3]) -> None:
        while len(self._clusters) < self._launch.resident_clusters:
            index = next(waiting, None)
            if index is None:
                return
            cluster = Cluster(self._launch, index, "all", Random(0))
            for warp in cluster.warps:
                warp.budget = self._budget
            self._program.start(cluster.warps)
            self._clusters.append(cluster)

    def _ready(self) -> dict[Process, Callable[[], None]]:
        """List the processes that can go on: warps, then asynchronous work."""
        found: dict[Process, Callable[[], None]] = {}
        polling: dict[Process, Callable[[], None]] = {}
        for warp in (warp for cluster in self._clusters for warp in cluster.warps):
            if not warp.done and warp.waiting is None:
                name = _name(warp)
                (polling if name in self._polling else found)[name] = partial(self._advance, warp)
        for cluster in self._clusters:
            queues: set[int] = set()
            for operation in cluster.agents.pending:
                if operation.targets and id(operation.order) not in queues:
                    queues.update({id(operation.order)} if operation.order is not None else ())
                    found[self._work[operation]] = partial(self._complete, cluster, operation)
        if found:
            return found
        peeking = [w for c in self._clusters for w in c.warps if w.waiting is not None and w.waiting.peek]
        return {_name(warp): partial(self._answer, warp) for warp in peeking[:1] if not polling}

    def _answer(self, warp: Warp) -> None:
        """Give a negative answer to a warp that only tests its wait."""
        warp.wait_result = False
        warp.cta.cluster.resume(warp)
        self._advance(warp)

    def _advance(self, warp: Warp) -> None:
        """Run a warp from its synchronisation instruction to before the next one."""
        program, touches, name = self._program, list[Touch](), _name(warp)
        end = warp.executed + QUANTUM
        first = True
        while program.settle(warp) and warp.waiting is None and warp.executed < end:
            effect = program.effects[warp.pc]
            lanes = program.executing(warp, effect)
            touching = bool(lanes) and _synchronises(effect)
            if touching and not first:
                break
            seen = self._before(warp, effect, lanes) if touching else []
            first = False
            warp.go_on_once()
            program.advance(warp)
            touches += self._after(warp, effect, seen)
            if warp.executed >= warp.budget:
                what = f"the instruction budget is spent by {warp}"
                raise BudgetExceeded(*stopped(self._clusters, program, what))
            if warp.progress == "polled":
                self._polling.add(name)
                break
        if warp.done:
            leave(warp)
        if warp.progress == "polled":  # an atomic that read the same value as before changes nothing
            touches = [replace(touch, kind="read") if touch.kind == "write" else touch for touch in touches]
        self._end_step(touches)

    def _complete(self, cluster: Cluster, operation: AsyncOperation) -> None:
        """Complete asynchronous work and all that is queued before it."""
        queue = [operation] if operation.order is None else [*operation.order]
        done = queue[: queue.index(operation) + 1]
        barriers = {t: t.phase for each in done for t in each.targets if isinstance(t, MBarrier)}
        cluster.agents.complete(operation)
        self._end_step([_arrival(barrier, phase) for barrier, phase in barriers.items()])

    def _end_step(self, touches: Sequence[Touch]) -> None:
        self.steps[-1].touches = tuple(touches)
        if any(touch.kind in ("write", "add") for touch in touches):
            self._polling.clear()
            self._turns = 0

    # what an instruction touches --------------------------------------------------------------------------------------

    def _before(self, warp: Warp, effect: Effect, lanes: int) -> Seen:
        """List the objects that an instruction may touch, with their present phases."""
        kind, cluster = effect.instr.kind, warp.cta.cluster
        if kind.is_mbarrier:
            return [(barrier, _place(barrier), barrier.phase) for barrier in self._mbarriers(warp, effect, lanes)]
        if kind is Kind.CLUSTER_BARRIER:
            place: Any = ("barrier.cluster", cluster.index)
            if "arrive" in effect.instr.modifiers:
                use = cluster.barrier.generations[0]
                return [(use, place, self._number(place, use))]
            return [(None, place, self._number(place, use)) for use in warp.cluster_arrivals[:1]]
        if kind.is_cta_barrier:
            if isinstance(warp.wait_result, Generation):
                return [(None, *self._joined[_name(warp)])]
            number = self._lanes(warp, effect.sources[0], lanes)[0]
            place, use = ("barrier", cluster.index, warp.cta.rank, number), warp.cta.barrier(number).generation
            self._joined[_name(warp)] = place, self._number(place, use)
            return [(use, *self._joined[_name(warp)])]
        if kind in TAKES_RESOURCE:
            return [(None, (TAKES_RESOURCE[kind], cluster.index, warp.cta.rank), 0)]
        operand = next(operand for operand in effect.instr.operands if isinstance(operand, Address))
        return [(None, ("memory", address), 0) for address in sorted({*self._lanes(warp, operand, lanes)})]

    def _after(self, warp: Warp, effect: Effect, seen: Seen) -> list[Touch]:
        """List the touches of an instruction. A wait that suspends its warp touches nothing."""
        kind, blocked = effect.instr.kind, warp.waiting is not None
        if kind.is_mbarrier:
            if kind.asks_mbarrier:
                return [] if blocked else [Touch("wait", place, barrier.phase) for barrier, place, _ in seen]
            return [_arrival(barrier, phase) for barrier, _, phase in seen]
        if kind.is_barrier:
            return [touch for each in seen for touch in _at_barrier(warp, effect, *each)]
        if blocked:
            return []
        what: Any = "add" if kind is Kind.REDUCTION else "read" if kind is Kind.LOAD else "write"
        return [Touch(what, place) for _, place, _ in seen]

    def _number(self, place: Any, use: Generation) -> int:
        """Return the number of a use of a barrier."""
        known = self._generations.setdefault(place, [])
        if use not in known:
            known.append(use)
        return known.index(use)

    def _lanes(self, warp: Warp, operand: Any, lanes: int) -> list[int]:
        values = Operands(self._program, warp).lanes(operand)
        return [int(value) for value in values[lanes_of(lanes)]]

    def _mbarriers(self, warp: Warp, effect: Effect, lanes: int) -> Iterator[MBarrier]:
        operand = next(operand for operand in effect.instr.operands if isinstance(operand, Address))
        ctas = warp.cta.cluster.ctas
        for address in dict.fromkeys(self._lanes(warp, operand, lanes)):
            rank = (address & 0xFFFF_FFFF) >> RANK_SHIFT
            found = ctas[rank].smem.mbarriers.get(address & OFFSET_MASK) if rank < len(ctas) else None
            if found is not None:
                yield found

    # notifications of the stepped program -----------------------------------------------------------------------------

    def issued(self, operation: AsyncOperation) -> None:
        """Name asynchronous work after the process that issued it."""
        number = self._issued[self._now] = self._issued.get(self._now, 0) + 1
        name = self._work[operation] = ("work", *self._now, number)
        self.origins[name] = len(self.steps) - 1

    def completed(self, operation: AsyncOperation) -> None:
        """Forget asynchronous work."""
        del self._work[operation]


def _synchronises(effect: Effect) -> bool:
    """Return whether the order of an instruction and those of other warps may matter."""
    kind = effect.instr.kind
    if kind.is_cta_barrier or kind is Kind.CLUSTER_BARRIER or kind.is_mbarrier:
        return True
    strong = kind in (Kind.LOAD, Kind.STORE) and not STRONG.isdisjoint(effect.instr.modifiers)
    return strong or kind.is_read_modify_write or kind in TAKES_RESOURCE


def _at_barrier(warp: Warp, effect: Effect, use: Generation | None, place: Any, number: int) -> Iterator[Touch]:
    """Yield what bar or barrier has touched at a use of the barrier, by its number. use: None without an arrival."""
    instr = effect.instr
    if use is not None:
        yield Touch("arrive", place, number, use.over)
    arrives_only = instr.kind is Kind.CTA_BARRIER_ARRIVE or "arrive" in instr.modifiers
    if not arrives_only and warp.waiting is None:
        yield Touch("wait", place, number + 1)


def _arrival(barrier: MBarrier, phase: int) -> Touch:
    return Touch("arrive", _place(barrier), phase, barrier.phase > phase)


def _place(barrier: MBarrier) -> tuple[Any, ...]:
    return ("mbarrier", barrier.cta.cluster.history.cluster_id, barrier.cta.window + barrier.offset)


def _name(warp: Warp) -> Process:
    return ("warp", warp.cta.cluster.index, warp.cta.rank, warp.index)
