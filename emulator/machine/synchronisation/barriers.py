"""Barriers of whole warps: the sixteen named barriers of a CTA, the fence of a warpgroup, and the cluster barrier."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...chip import LANES
from ...errors import BarrierError, place
from ...leniency import Leniency
from ...ptx.syntax import Instr
from ..order.access import Issuer
from ..order.clocks import Clock
from ..order.completion import Wait
from ..order.owner import ClusterOwner, CtaOwner

PAST: Final = 3
"""The number of completed uses of a named barrier that reports show."""


class Generation:
    """One use of a barrier: the warps that arrived, their merged clock, their votes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.arrived: list[tuple[Issuer, Instr]] = []
        """Arrivals at a named barrier, where a warp may arrive more than once."""
        self.came: dict[Issuer, Instr] = {}
        """Arrivals at the cluster barrier, where each warp arrives once."""
        self.waiters: list[Issuer] = []
        self.votes: list[Any] = []
        self.published: frozenset[Any] = frozenset()
        """mbarriers whose initialisation was published by fence.mbarrier_init."""
        self.over = False


def _warps(arrived: Sequence[tuple[Issuer, Instr]]) -> str:
    return ", ".join(f"{warp.index} (line {instr.line})" for warp, instr in arrived) or "none"


class NamedBarrier:
    """bar / barrier.cta number `index`: complete when `expected` threads arrived."""

    def __init__(self, cta: CtaOwner, index: int) -> None:
        self.cta, self.index = cta, index
        self.expected: int | None = None
        self.counted_by: Instr | None = None
        self.generation = Generation(cta.cluster.history.clock())
        self.completed = 0
        self.past: deque[list[tuple[Issuer, Instr]]] = deque(maxlen=PAST)
        """The arrivals that completed it the last times."""

    def __str__(self) -> str:
        return f"barrier {self.index} of CTA {self.cta.name}"

    def state(self) -> str:
        """Describe the barrier for the deadlock table."""
        came = self.generation.arrived
        before = f"; completed before {self._completed_by()}" if self.past else ""
        return f"{self}: {len(came) * LANES} of {self._needed()} threads arrived, from warps {_warps(came)}{before}"

    def without(self, warp: Issuer, other: Issuer) -> str:
        """Describe its last uses if a warp passed it without another one that uses it too; empty if it did not."""
        uses = [{each for each, _ in arrived} for arrived in (*self.past, self.generation.arrived)]
        alone = any(warp in use and other not in use for use in uses[:-1])
        if not alone or not any(other in use for use in uses):
            return ""
        return f"{self} completed {self._completed_by()}: warps {warp.index} and {other.index} did not meet there"

    def _completed_by(self) -> str:
        last = f", the last {PAST}" if self.completed > PAST else ""
        return f"({self.completed} times{last}) by warps {', then '.join(map(_warps, self.past))}"

    def _needed(self) -> int:
        if self.expected is not None:
            return self.expected
        return self.cta.running * LANES

    def arrive(self, warp: Issuer, threads: int | None, instr: Instr, vote: Any = None) -> Generation:
        """Let one warp arrive and expect `threads` threads, or the whole CTA for None.

        Raises BarrierError for a count that cannot be reached or that differs from other warps' counts.
        """
        self._agree(warp, threads, instr)
        generation = self.generation
        generation.arrived.append((warp, instr))
        generation.votes.append(vote)
        generation.clock.merge(warp.clock)
        # barrier.cta: what the warp does after its arrival is not released (test_pairs.py::test_broken).
        warp.arrivals.append(warp.time)
        warp.tick()
        self.complete_if_due()
        return generation

    def _agree(self, warp: Issuer, threads: int | None, instr: Instr) -> None:
        whole = self.cta.launch.warps * LANES
        if threads is not None and (threads % LANES or not 0 < threads <= whole):
            raise BarrierError(
                f"{self} expects {threads} threads; allowed is a multiple of {LANES} up to the CTA's {whole}",
                instr,
                warp,
            )
        if not self.generation.arrived:
            self.expected, self.counted_by = threads, instr
        elif threads != self.expected and self.counted_by is not None:
            raise BarrierError(
                f"{self} is used with {threads or 'all'} threads while others wait there for {self.expected or 'all'}",
                instr,
                warp,
                (("others at", place(self.counted_by, warp)),),
            )

    def complete_if_due(self) -> None:
        """Complete the barrier and wake its waiters if all expected threads arrived."""
        generation = self.generation
        if not generation.arrived or len(generation.arrived) * LANES < self._needed():
            return
        if self.expected is None and self.cta.running < self.cta.launch.warps:
            self._report_ended(*generation.arrived[0])
        generation.over = True
        self.completed += 1
        self.past.append(generation.arrived)
        self.generation = Generation(self.cta.cluster.history.clock())
        self.cta.cluster.wake(generation.waiters)

    def _report_ended(self, warp: Issuer, instr: Instr) -> None:
        """Report a barrier of the whole CTA that ended warps bypassed."""
        ended = self.cta.launch.warps - self.cta.running
        what = f"{instr.opcode} of the whole CTA completes without {ended * LANES} threads, which have ended"
        missing = ("missing", f"{instr.opcode} of all threads of CTA {self.cta.name}, or a count of threads")
        self.cta.launch.report(BarrierError(what, instr, warp, (missing,), Leniency.ENDED_THREADS))


class ClusterBarrier:
    """barrier.cluster: complete when every warp of every CTA of the cluster arrived or ended.

    `generations`: the incomplete uses, the present one first. There is a second one only if a warp arrives again before
    it waited, which PTX leaves undefined.
    """

    def __init__(self, cluster: ClusterOwner) -> None:
        self.cluster = cluster
        self.generations = [Generation(cluster.history.clock())]

    def state(self) -> str:
        """Describe the barrier for the deadlock table."""
        missing = [w for w in self.cluster.warps if not w.done and w not in self.generations[0].came]
        return f"barrier.cluster: still to arrive are {', '.join(map(str, missing))}"

    def arrive(self, warp: Issuer, instr: Instr, clock: Clock | None) -> Generation:
        """Let one warp arrive and release `clock`."""
        generation = next((g for g in self.generations if warp not in g.came), None)
        if generation is None:
            generation = Generation(self.cluster.history.clock())
            self.generations.append(generation)
        generation.came[warp] = instr
        generation.published |= warp.published
        warp.published = frozenset()  # later generations are of warps that know of this one
        if clock is not None:
            generation.clock.merge(clock)
        self.complete_if_due()
        return generation

    def complete_if_due(self) -> None:
        """Complete the barrier and wake its waiters if all running warps arrived."""
        while came := self.generations[0].came:
            if len(came) < self.cluster.running or not all(w.done or w in came for w in self.cluster.warps):
                return
            generation = self.generations[0]
            generation.over = True
            self.generations = self.generations[1:] or [Generation(self.cluster.history.clock())]
            self.cluster.wake(generation.waiters)


def meet(warp: Issuer, instr: Instr, arrive: Callable[[], tuple[Generation, NamedBarrier]]) -> Generation | None:
    """Let a warp arrive, or resume after it waited. Return the barrier's generation, None if the warp has to wait."""
    if isinstance(warp.wait_result, Generation):
        generation, warp.wait_result = warp.wait_result, None
        return generation
    generation, barrier = arrive()
    if generation.over:
        return generation
    wait_for(generation, warp, instr, barrier)
    return None


def wait_for(generation: Generation, warp: Issuer, instr: Instr, barrier: NamedBarrier | ClusterBarrier) -> None:
    """Suspend `warp` until `generation` is over."""
    warp.wait_result = generation
    generation.waiters.append(warp)
    cluster = barrier.cluster if isinstance(barrier, ClusterBarrier) else barrier.cta.cluster
    cluster.suspend(warp, Wait(instr, (barrier,), barrier.state))
