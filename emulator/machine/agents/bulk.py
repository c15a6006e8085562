"""Copy agents: bulk copies in both directions, cp.async, and the groups of all copies."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ...chip import ALL_LANES, LANES
from ...errors import Misaligned
from ...leniency import Leniency
from ...ptx.syntax import Instr
from ..order.access import CLUSTER, GPU, Access, LaneAgent, missing_release
from ..order.completion import AsyncOperation, Wait
from ..order.global_access import GlobalAccess
from ..synchronisation.mbarrier import MBarrier, Party
from ..topology import Cta, Warp


class Group:
    """Copies that are waited for together. `last`: the time of the newest, known when the group is committed.

    lanes: the lanes (bits) that committed a group of cp.async.
    """

    def __init__(self) -> None:
        self.outstanding = 0
        self.last = 0
        self.lanes = ALL_LANES
        self.waiters: list[Warp] = []


def suspended_for(groups: Sequence[Group], warp: Warp, instr: Instr, kind: str) -> bool:
    """Suspend a warp until these groups of a kind are complete. Return False if there are none."""
    for group in groups:
        group.waiters.append(warp)
    if groups:
        warp.cta.cluster.suspend(warp, Wait(instr, tuple(groups), lambda: f"{len(groups)} {kind} groups"))
    return bool(groups)


class CopyThread(LaneAgent):
    """The groups of one thread's bulk copies. Its component's time counts copies.

    generic: the copies go through the generic proxy, so PTX asks for fence.proxy.async before the async proxy reads
    them. NVIDIA's programs omit it after cp.async: only level `pedantic` reports that. queue: in-order completion.
    """

    def __init__(
        self, warp: Warp, key: Any, waiting_for: str, generic: bool, queue: deque[AsyncOperation] | None
    ) -> None:
        self.warp, self.waiting_for, self.generic, self.queue = warp, waiting_for, generic, queue
        # cp.async goes through the generic proxy: PTX asks for fence.proxy.async before the async proxy reads its
        # results (test_what_programs_leave_out).
        self.published = not generic or not warp.cta.launch.enforces(Leniency.CP_ASYNC_FENCE)
        self.component = warp.cta.cluster.history.component(warp.cta.rank, warp.index, key)
        self.issued = self.committed_until = 0
        self.open = Group()
        self.groups: list[Group] = []
        self.waits: list[tuple[int, int, Instr, bool]] = []
        """Waits, as (copies complete by then, the warp's time, the instruction, whether all lanes executed it)."""
        self.writes = Writes(self)

    def access(self, instr: Instr, what: str, after: int = 0) -> Access:
        """Return an access of the copy that is issued next, or `after` copies later."""
        return Access(self.component, self.issued + 1 + after, self.generic, instr, self.warp, what, via=self)

    def issue(self, instr: Instr, perform: Any, count: int = 1, about: Any = None) -> None:
        """Queue a checked copy, or several as one, in the open group. about: see `AsyncOperation`."""
        group, cluster = self.open, self.warp.cta.cluster
        self.issued += count
        group.outstanding += count

        def complete() -> None:
            perform()
            group.outstanding -= count
            if not group.outstanding:
                waiters, group.waiters = group.waiters, []
                cluster.wake(waiters)

        cluster.agents.issue(AsyncOperation((group,), complete, self.queue, about))

    def commit(self) -> None:
        """Close the open group."""
        self.open.last = self.committed_until = self.issued
        self.groups.append(self.open)
        self.writes.groups.append(self.issued)
        self.open = Group()

    def unfinished(self, allowed: int) -> list[Group]:
        """Return the incomplete groups among the committed ones except the latest `allowed`."""
        return [g for g in self._covered(allowed) if g.outstanding]

    def waited(self, allowed: int, by: Instr, lanes: int = 0) -> None:
        """Record that all committed groups except the latest `allowed` were waited for, by these lanes (bits)."""
        covered = self._covered(allowed)
        if covered:
            self.waits.append((covered[-1].last, self.warp.time, by, lanes | self.warp.ended == ALL_LANES))
            self.warp.clock.advance(self.component, covered[-1].last, visible=self.published)
            del self.groups[: len(covered)]

    def wait_for(self, access: Access) -> tuple[int, int, Instr, bool] | None:
        """Return the first of `waits` that covers a copy, or None."""
        at = bisect_left(self.waits, access.time, key=itemgetter(0))
        return self.waits[at] if at < len(self.waits) else None

    def waited_at(self, access: Access) -> int:
        """Return the time at which each lane had waited for its own copies, 0 if something else reported them."""
        wait = self.wait_for(access)
        return 0 if wait is None else wait[1]

    def waited_together(self, access: Access) -> bool:
        """Return whether all lanes waited for the copy in one instruction."""
        wait = self.wait_for(access)
        return wait is not None and wait[3]

    def _covered(self, allowed: int) -> list[Group]:
        return self.groups[: max(len(self.groups) - allowed, 0)]

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after `access`, for the report of a conflict."""
        if access.time > self.committed_until:
            return f"{self.waiting_for} in {self.warp} after a commit_group that follows PTX line {access.instr.line}"
        if self.warp.clock.at(self.component) < access.time:
            return f"{self.waiting_for} in {self.warp}{self._which()} that covers PTX line {access.instr.line}"
        return missing_release(self.warp, self.waiting_for, me)

    def _which(self) -> str:
        """Name the lanes that have to wait, if not all."""
        return ""


class WarpCopies(CopyThread):
    """The cp.async of a warp. Each lane commits its own groups and waits for them."""

    def __init__(self, warp: Warp) -> None:
        super().__init__(warp, "cp.async", "cp.async.wait_group", True, deque())
        self._makers: list[tuple[int, int]] = []
        """The lanes (bits) that issue copies, as (first copy, lanes)."""
        self._reached: list[int] | None = None
        """The last own copy that each lane waited for; None while all lanes commit and wait together."""

    def made_by(self, lanes: int) -> None:
        """Record that these lanes (bits) issue the next copies."""
        if not self._makers or self._makers[-1][1] != lanes:
            self._makers.append((self.issued + 1, lanes))

    def commit(self, lanes: int = ALL_LANES) -> None:
        """Close the open group of these lanes (bits)."""
        self._part(lanes)
        self.open.lanes = lanes
        super().commit()

    def unfinished(self, allowed: int, lanes: int = ALL_LANES) -> list[Group]:
        """Return the incomplete groups up to the newest one that these lanes have to wait for, see `waited`."""
        self._part(lanes)
        if self._reached is None:
            return super().unfinished(allowed)
        last = max((own[-1].last for own in self._own(allowed, lanes).values()), default=0)
        return [group for group in self.groups if group.last <= last and group.outstanding]

    def waited(self, allowed: int, by: Instr, lanes: int = ALL_LANES) -> None:
        """Record that these lanes (bits) waited for their groups except the latest `allowed`, each for its own."""
        before = self.warp.clock.at(self.component)
        if self._reached is None:
            super().waited(allowed, by, lanes)
        else:
            for lane, own in self._own(allowed, lanes).items():
                self._reached[lane] = max(self._reached[lane], own[-1].last)
            over = self._up_to(lambda makers: min(self._reached[lane] for lane in _lanes(makers)))  # type: ignore[index]
            self.warp.clock.advance(self.component, over, visible=self.published)
            self.groups = [group for group in self.groups if group.last > over]
            if over > before:
                self.waits.append((over, self.warp.time, by, lanes | self.warp.ended == ALL_LANES))
        over = self.warp.clock.at(self.component)
        while len(self._makers) > 1 and self._makers[1][0] <= over:
            del self._makers[0]

    def made_up_to(self, lanes: int) -> int:
        """Return the number of the copy up to which these lanes (bits) issued all copies that were not waited for."""
        return self._up_to(lambda makers: 0 if makers & ~lanes else self.issued)

    def _part(self, lanes: int) -> None:
        if lanes != ALL_LANES and self._reached is None:
            self._reached = [self.warp.clock.at(self.component)] * LANES

    def _own(self, allowed: int, lanes: int) -> dict[int, list[Group]]:
        """Return each lane's groups except the latest `allowed`, for lanes that have any."""
        own = {lane: [group for group in self.groups if group.lanes >> lane & 1] for lane in _lanes(lanes)}
        return {lane: groups[: len(groups) - allowed] for lane, groups in own.items() if len(groups) > allowed}

    def _up_to(self, reached: Callable[[int], int]) -> int:
        """Return the number of the copy up to which all are complete. reached: the same for copies of some lanes."""
        over = self.warp.clock.at(self.component)
        ends = [start - 1 for start, _ in self._makers[1:]] + [self.issued]
        for (_, makers), end in zip(self._makers, ends, strict=False):
            if end > over:
                over = max(over, min(reached(makers), end))
                if over < end:
                    break
        return over

    def _which(self) -> str:
        if self._reached is not None:
            return " in the lanes that copied, after a commit_group of theirs,"
        return " in the lanes that copied" if any(lanes != ALL_LANES for _, lanes in self._makers) else ""


def _lanes(bits: int) -> list[int]:
    return [lane for lane in range(LANES) if bits >> lane & 1]


class Writes:
    """The writes of a thread's bulk copies to global memory, complete at a wait_group without .read."""

    def __init__(self, copies: CopyThread) -> None:
        self.copies = copies
        warp = copies.warp
        self.component = warp.cta.cluster.history.component(warp.cta.rank, warp.index, "writes", copies.component)
        self.groups: list[int] = []
        """The number of copies issued before the commit of each group that was not waited for."""
        self.complete = 0
        """The number of copies that were waited for."""

    def access(self, instr: Instr, what: str, reduces: bool) -> GlobalAccess:
        """Return the write of the copy that is issued next. reduces: it is an atomic reduction."""
        time, strong = self.copies.issued + 1, GPU * reduces
        return GlobalAccess(self.component, time, False, instr, self.copies.warp, what, via=self, strong=strong)

    def waited(self, allowed: int) -> None:
        """Record that all committed groups except the latest `allowed` were waited for, without .read."""
        covered = self.groups[: max(len(self.groups) - allowed, 0)]
        if covered:
            self.complete = covered[-1]
            # cp.async.bulk.wait_group without .read: the writes are visible to the executing thread
            # (test_after_the_wait_all_may_read_and_write).
            self.copies.warp.clock.advance(self.component, self.complete)
            del self.groups[: len(covered)]

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after `access`, for the report of a conflict."""
        warp, wait = self.copies.warp, self.copies.waiting_for
        if access.time > self.copies.committed_until:
            return f"{wait} in {warp} after a commit_group that follows PTX line {access.instr.line}"
        if self.complete < access.time:
            return f"{wait} (not .read) in {warp} that covers PTX line {access.instr.line}"
        return missing_release(warp, wait, me)


def aligned(offset: int, alignment: int, what: str, instr: Instr, warp: Warp) -> None:
    """Raise Misaligned unless `offset` is a multiple of `alignment`."""
    if offset % alignment:
        raise Misaligned(f"{what} at shared offset {offset:#x}, which is not a multiple of {alignment}", instr, warp)


def fill(
    instr: Instr,
    warp: Warp,
    cta: Cta,
    offset: int,
    size: int,
    barrier: MBarrier,
    what: str,
    move: Any,
    counted: int | None = None,
    reduces: bool = False,
    route: tuple[int, ...] = (),
) -> None:
    """Queue a copy of `size` bytes into shared memory: checked now, moved and reported at completion.

    counted: the bytes that the mbarrier counts, if not `size`. reduces: the copy is an atomic reduction of the
    destination. route: source and destination of the bytes.
    """
    cta.smem.check_span(offset, size, instr, warp, what)
    cta.launch.stats.copied_in_bytes += size
    me = Access(
        barrier.component,
        barrier.phase + 1,
        False,
        instr,
        warp,
        what,
        via=barrier,
        strong=CLUSTER * reduces,
        route=route,
    )
    if reduces:
        # cp.reduce.async.bulk reads its destination; by .relaxed.cluster it is morally strong with other reductions.
        cta.smem.shadow.read(cta.smem.span(offset, size), me, warp.clock)
    cta.smem.shadow.write(cta.smem.span(offset, size), me, warp.clock)
    party = Party(instr, warp, what, (me.component, me.time))
    barrier.copies.append(party)

    def perform() -> None:
        move()
        barrier.complete_tx(size if counted is None else counted, party)

    warp.cta.cluster.agents.issue(AsyncOperation((barrier,), perform))


def bulk_thread(warp: Warp, lane: int) -> CopyThread:
    """Return the bulk copies of a lane."""
    found: CopyThread | None = warp.bulk.get(lane)
    if found is None:
        found = warp.bulk[lane] = CopyThread(warp, ("bulk", lane), "cp.async.bulk.wait_group", False, None)
        found.lane = lane
    return found


def warp_copies(warp: Warp) -> WarpCopies:
    """Return the cp.async of a warp."""
    found: WarpCopies | None = warp.copies
    if found is None:
        found = warp.copies = WarpCopies(warp)
    return found
