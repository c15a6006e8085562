"""Barriers of whole warps: the sixteen named ones of a CTA, and the one of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...chip import LANES
from ...errors import BarrierError, place
from ..order.completion import Wait

if TYPE_CHECKING:
    from ...ptx.syntax import Instr
    from ..order.access import Issuer
    from ..order.clocks import Clock
    from ..order.owner import ClusterOwner, CtaOwner


class Generation:
    """One use of a barrier: who came, what they had seen, what they voted."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.arrived: list[tuple[Issuer, Instr]] = []
        """At a named barrier, where a warp may come more than once."""
        self.came: dict[Issuer, Instr] = {}
        """At the cluster's, where each comes once a use."""
        self.waiters: list[Issuer] = []
        self.votes: list[Any] = []
        self.published: set[Any] = set()
        """mbarriers whose initialisation went along by fence.mbarrier_init."""
        self.over = False


class NamedBarrier:
    """bar / barrier.cta number `index`: complete when `expected` threads arrived."""

    def __init__(self, cta: CtaOwner, index: int) -> None:
        self.cta, self.index = cta, index
        self.expected: int | None = None
        self.counted_by: Instr | None = None
        self.generation = Generation(cta.cluster.history.clock())

    def __str__(self) -> str:
        return f"barrier {self.index} of CTA {self.cta.name}"

    def state(self) -> str:
        """What the deadlock table says."""
        came = self.generation.arrived
        names = ", ".join(f"{w.index} (line {i.line})" for w, i in came) or "none"
        return f"{self}: {len(came) * LANES} of {self._needed()} threads arrived, from warps {names}"

    def _needed(self) -> int:
        if self.expected is not None:
            return self.expected
        return self.cta.running * LANES

    def arrive(self, warp: Issuer, threads: int | None, instr: Instr, vote: Any = None) -> Generation:
        """One warp comes, locating_errors a count of `threads`, or None for the whole CTA.

        Raises BarrierError for a count that cannot be met or that others do not share.
        """
        self._agree(warp, threads, instr)
        generation = self.generation
        generation.arrived.append((warp, instr))
        generation.votes.append(vote)
        generation.clock.merge(warp.clock)
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
        """Let everyone go if all came."""
        generation = self.generation
        if not generation.arrived or len(generation.arrived) * LANES < self._needed():
            return
        generation.over = True
        self.generation = Generation(self.cta.cluster.history.clock())
        self.cta.cluster.wake(generation.waiters)


class WarpGroupBarrier(NamedBarrier):
    """Where the four warps from `first` on wait for one another, at wgmma.fence."""

    def __init__(self, cta: CtaOwner, first: int) -> None:
        super().__init__(cta, first)
        self.products: list[Instr] = []
        """The wgmma.mma_async that each of the four executes, as the first of them did."""

    def __str__(self) -> str:
        return f"wgmma.fence of warps {self.index} to {self.index + 3} of CTA {self.cta.name}"


class ClusterBarrier:
    """barrier.cluster: complete when every warp of every CTA of the cluster arrived (or ended).

    `generations`: the uses that are not over, the present one first. Only a warp that arrives again before it waited,
    which PTX leaves undefined, opens a second one.
    """

    def __init__(self, cluster: ClusterOwner) -> None:
        self.cluster = cluster
        self.generations = [Generation(cluster.history.clock())]

    def state(self) -> str:
        """What the deadlock table says."""
        missing = [w for w in self.cluster.warps if not w.done and w not in self.generations[0].came]
        return f"barrier.cluster: still to arrive are {', '.join(map(str, missing))}"

    def arrive(self, warp: Issuer, instr: Instr, clock: Clock | None) -> Generation:
        """One warp comes, and releases `clock`."""
        generation = next((g for g in self.generations if warp not in g.came), None)
        if generation is None:
            generation = Generation(self.cluster.history.clock())
            self.generations.append(generation)
        generation.came[warp] = instr
        generation.published |= warp.published
        if clock is not None:
            generation.clock.merge(clock)
        self.complete_if_due()
        return generation

    def complete_if_due(self) -> None:
        """Let everyone go if all came."""
        while came := self.generations[0].came:
            if len(came) < self.cluster.running or not all(w.done or w in came for w in self.cluster.warps):
                return
            generation = self.generations[0]
            generation.over = True
            self.generations = self.generations[1:] or [Generation(self.cluster.history.clock())]
            self.cluster.wake(generation.waiters)


def wait_for(generation: Generation, warp: Issuer, instr: Instr, barrier: NamedBarrier | ClusterBarrier) -> None:
    """Suspend `warp` until `generation` is over."""
    warp.granted = generation
    generation.waiters.append(warp)
    warp.waiting = Wait(instr, (barrier,), barrier.state)
