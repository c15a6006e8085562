"""Accesses of memory, who issues them, and which of them come after which."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from ...errors import Fault, Level
from .clocks import ASYNC_VISIBLE, ORDERED, Clock

if TYPE_CHECKING:
    from ...ptx.syntax import Instr
    from ..formats.descriptors import Pattern
    from ..launch.launch import Dim3, Launch
    from .completion import Wait


CTA, CLUSTER, GPU = 1, 2, 3
"""How far a release, an acquire or a strong access reaches; system scope is no further here."""


class IssuerCta(Protocol):
    """The CTA of an issuer, as reports name it."""

    launch: Launch
    name: str
    ctaid: Dim3

    @property
    def cluster_id(self) -> Any:
        """Its cluster, as clocks name it."""


class Issuer:
    """A warp, as accesses and barriers know it: its clock, what it has seen, and why it waits.

    The component after its own says up to which time its lanes have seen what the others of them did.
    """

    cta: IssuerCta
    serial: int
    """Its number among the warps of the launch."""

    def __init__(self, cta: IssuerCta, index: int, component: int, clock: Clock) -> None:
        self.cta, self.index, self.component, self.clock = cta, index, component, clock
        self.time = 1
        self.clock.v[ORDERED, component] = 1
        self.done = False
        self.waiting: Wait | None = None
        self.granted: Any = None
        """What a suspended instruction left for its second run: its barrier's generation, an answer of no."""
        self.phases: dict[Any, int] = {}
        """How many phases of each mbarrier it has seen completed."""
        self.unread_answers: dict[Any, Instr] = {}
        """Of mbarriers, where it asked and did not read the answer."""
        self.published: set[Any] = set()
        """mbarriers that its fence.mbarrier_init covers, whatever barrier it arrives on next."""
        self.known: set[Any] = set()
        """mbarriers whose initialisation it knows of: by such a fence of another warp, or its clock has seen it."""
        self.arrivals: list[int] = []
        """Its times when it arrived at named barriers, before each."""
        self.fenced: list[Clock | None] = [None] * (GPU + 1)
        """What its last releasing fence of each scope or a wider one covers, for relaxed writes after it."""
        self.seen: list[Clock | None] = [None] * (GPU + 1)
        """What relaxed reads have seen of each scope, for the next acquiring fence of that or a wider one."""
        self.lane_syncs: list[tuple[int, int]] = []
        """Where some of its lanes (bits) met, but not all, and the time up to which these then saw what they did."""
        self.lanes: np.ndarray | None = None
        """The lanes of the access in progress; None if it is one for all that are active."""
        self.stored: Any = None
        """Of the program's stores that are machine code, by number, the lanes that ever executed each: uint32[n]."""
        self.taint: Any = None
        """A `suspects.TaintTracker` of what it loaded and should not use, if there is something."""
        self.after_sync: Clock | None = Clock(clock.v.shape[1]) if cta.launch.asks(Level.PEDANTIC) else None
        """Pedantic: what its tensor operations come after, by tcgen05.fence::after_thread_sync."""

    def __str__(self) -> str:
        return f"warp {self.index} of CTA {self.cta.name}"

    def access(self, instr: Instr, what: str) -> Access:
        """An access of this warp through the generic proxy, now."""
        return Access(self.component, self.time, True, instr, self, what)

    def tick(self) -> None:
        """Later accesses are not covered by what was released so far."""
        self.time += 1
        self.clock.v[ORDERED, self.component] = self.time

    def acquire(self, clock: Clock) -> None:
        """See all that `clock` has seen; and each lane what the others released before."""
        self.clock.merge(clock)
        self.clock.v[ORDERED, self.component + 1] = self.time - 1

    def sync_lanes(self) -> None:
        """bar.warp.sync: each lane sees all that the others did."""
        self.tick()
        self.clock.v[ORDERED, self.component + 1] = self.time - 1

    def sync_some_lanes(self, lanes: int) -> None:
        """bar.warp.sync among some of the lanes (bits)."""
        met = self.clock.at(self.component + 1)
        self.tick()
        self.lane_syncs = [*((time, those) for time, those in self.lane_syncs if time > met), (self.time - 1, lanes)]

    def lanes_ordered_before(self, lane: int, since: int) -> int:
        """The lanes whose accesses at the time `since` come before what `lane` does now, its own among them."""
        before = 1 << lane
        for time, lanes in reversed(self.lane_syncs):
            if time < since:
                break
            if lanes & before:
                before |= lanes
        return before

    def fence(self, acquire: bool, release: bool, scope: int) -> None:
        """fence.acquire, .release, or both."""
        for reach in range(CTA, scope + 1):
            if acquire and (seen := self.seen[reach]) is not None:
                self.acquire(seen)
                self.seen[reach] = None
        if release:
            self.fenced[CTA : scope + 1] = [self.clock.copy()] * scope
            self.tick()

    def observe_relaxed(self, clock: Clock, scope: int = CTA) -> None:
        """A relaxed read saw what carries `clock`, which was released at this scope."""
        seen = self.seen[scope]
        if seen is None:
            self.seen[scope] = clock.copy()
        else:
            seen.merge(clock)

    @property
    def tensor_clock(self) -> Clock:
        """What accesses of tensor memory come after."""
        return self.clock if self.after_sync is None else self.after_sync

    def after_thread_sync(self) -> None:
        """tcgen05.fence::after_thread_sync."""
        if self.after_sync is not None:
            self.after_sync = self.clock.copy()


class Agent:
    """Work that completes after it was issued, of which a warp learns by waiting."""

    def waited_for(self, access: Access) -> bool:
        """Whether the warp that issued `access` waited for it itself, whatever others know."""
        return False


@dataclass(slots=True, eq=False)
class Access:
    """One instruction's access by one warp or the agent that it set to work.

    component, time: its epoch, where on the clocks its completion shows. generic: made through the generic proxy.
    follows: components whose earlier accesses it is ordered after by the hardware's pipeline. via: the mbarrier or
    group that tells of its completion. strong: the scope of an atomic or ordered access, which does not race with
    another that is within its scope and has it within its own. parts: for reads that nothing orders among themselves,
    each of them. pattern: how TMA laid down what it wrote. route: from where to where a bulk copy brings its bytes.
    together: of a read, the lanes that the instruction read for, as bits; 0 where that is not kept. merged: of a read,
    earlier ones of its warp whose lanes are noted with its own, as they did not meet since: of each instruction the
    last, and the lanes (bits) of all.
    """

    visible: ClassVar = ASYNC_VISIBLE
    """The row of a clock that tells the async proxy which generic accesses of this memory it may see."""
    component: int
    time: int
    generic: bool
    instr: Instr
    warp: Issuer
    what: str
    follows: tuple[int, ...] = ()
    via: Any = None
    strong: int = 0
    parts: tuple[Access, ...] = ()
    pattern: Pattern | None = None
    route: tuple[int, ...] = ()
    together: int = 0
    merged: tuple[tuple[Access, int], ...] = ()
    replaced: Sequence[Iterable[int]] = ((), ())
    """Of a write: the writers and the readers that its cells had before, as numbers of the history."""
    compiled: bool = False
    """Whether machine code made it: another write of its own may have come between what it replaced and it."""
    issued: int = field(init=False)
    """When the warp issued it, by its own clock."""

    def __post_init__(self) -> None:
        self.issued = self.warp.time

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        """Whether the owner of `clock` is ordered after this access."""
        if self.parts:
            return all(part.seen_by(clock, row) for part in self.parts)
        return clock.at(self.component, row) >= self.time

    def orders(self, earlier: Access, clock: Clock, row: int = ORDERED) -> bool:
        """Whether this access, issued under `clock`, comes after `earlier`."""
        if earlier.parts:
            return all(self.orders(part, clock, row) for part in earlier.parts)
        return self.comes_after(earlier, clock, row) or self.morally_strong(earlier)

    def comes_after(self, earlier: Access, clock: Clock, row: int = ORDERED) -> bool:
        """The same of one access, by what the program did between them: not as two strong ones need no order."""
        if earlier.component in self.follows or earlier.seen_by(clock, row):
            return True
        return earlier.warp is self.warp and isinstance(earlier.via, Agent) and earlier.via.waited_for(earlier)

    def morally_strong(self, other: Access) -> bool:
        """Whether both are strong, and each within the scope of the other."""
        reach = min(self.strong, other.strong)
        if not reach or reach == GPU:
            return bool(reach)
        mine, theirs = self.warp.cta, other.warp.cta
        return mine is theirs or (reach == CLUSTER and mine.cluster_id == theirs.cluster_id)

    def unsynced_since(self, earlier: Access, clock: Clock) -> int:
        """If `earlier` is of the same warp, and not all of its lanes met in between: since when they should, else 0."""
        lanes = self.warp.component
        if earlier.component == lanes:
            since = 0 if self.strong and earlier.strong else earlier.time
        elif earlier.generic and earlier.via is not None and earlier.warp is self.warp:
            since = earlier.via.waited_at(earlier)
        else:
            return 0
        return since if clock.at(lanes + 1) < since else 0

    def ordered_after_arrivals(self, clock: Clock) -> bool:
        """Whether the owner of `clock` has seen all that this warp did before its last arrival at a named barrier that
        came before this access."""
        arrivals = self.warp.arrivals
        before = bisect_left(arrivals, self.time)
        return before == 0 or clock.at(self.component) >= arrivals[before - 1]

    @property
    def last(self) -> Access:
        """Itself; of reads that nothing orders, the last."""
        return self.parts[-1] if self.parts else self

    def merge_lanes(self, earlier: Iterable[Access], lanes: int, theirs: int) -> None:
        """Reads `earlier` of the same warp, in lanes `theirs`, are noted with this one in `lanes` (both as bits)."""
        self.together = self.together or lanes
        found = {id(read.instr): (read, bits) for read, bits in self.merged}
        for other in earlier:
            for read, bits in (*other.merged, (other, other.together or theirs)):
                known = found.get(id(read.instr), (read, 0))[1]
                found[id(read.instr)] = read, bits & theirs | known
        self.merged = tuple(found.values())

    def origin(self) -> str:
        """Who made it, for a report."""
        return f"{self.what} of {self.warp}, PTX line {self.instr.line}"

    def intended_write(self, write: Access, clock: Clock, accesses: Sequence[Access | None]) -> Access | None:
        """The write that this read comes after, if `write` replaced it before this instruction had read it.

        A read that is ordered after the issue of `write` means to see it.
        """
        if clock.at(write.warp.component, ORDERED) >= write.issued:
            return None
        writers, readers = ([a for n in numbers if (a := accesses[n]) is not None] for numbers in write.replaced)
        parts = (part for reader in readers for part in reader.parts or (reader,))
        if any(part.instr is self.instr and part.warp is self.warp for part in parts):
            return None
        return next((writer for writer in writers if self.orders(writer, clock)), None)

    def unordered_parts(self, earlier: Access, clock: Clock) -> Sequence[Access]:
        """The parts of `earlier` that this access is not ordered after, for the report."""
        return [part for part in earlier.parts if not self.orders(part, clock)] or [earlier]


class TaintedStore(Access):
    """What the access `store`, a number of the history, stored of a load that it should not have made: `fault`.

    Nothing is known to come after it, so that whoever touches its cells asks.
    """

    def __init__(self, by: Access, store: int, fault: Fault) -> None:
        super().__init__(-1, by.time, by.generic, by.instr, by.warp, by.what)
        self.by, self.store, self.fault = by, store, fault

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        """Never."""
        return False


def missing_release(warp: Issuer, waiting_for: str, me: Access) -> str:
    """What orders `me` after something that only `warp` waited for, for the report of a conflict."""
    if warp.cta.cluster_id != me.warp.cta.cluster_id:
        return (
            f"a release of {warp} after its {waiting_for} and an acquire of {me.warp} that sees it before PTX line "
            f"{me.instr.line}, both of scope .gpu; or another place for one of them"
        )
    return (
        f"a barrier that {warp} arrives on after its {waiting_for} and {me.warp} waits for "
        f"before PTX line {me.instr.line}"
    )
