"""Memory accesses, the warps that issue them, and the happens-before order between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ClassVar, Protocol

import numpy as np

from ...chip import ALL_LANES
from ...errors import Fault
from ...leniency import Leniency
from ...ptx.syntax import Instr
from ..formats.descriptors import Pattern
from ..launch.launch import Dim3, Launch
from .clocks import ASYNC_VISIBLE, ORDERED, Clock
from .completion import Wait

CTA, CLUSTER, GPU = 1, 2, 3
"""Scopes of a release, an acquire or a strong access. System scope is treated as GPU scope."""


class IssuerCta(Protocol):
    """The CTA of an issuer, for reports and scopes."""

    launch: Launch
    name: str
    ctaid: Dim3
    barriers: dict[int, Any]
    """Its named barriers, by number."""

    @property
    def cluster_id(self) -> Any:
        """The index of its cluster."""


class Issuer:
    """The part of a warp that accesses and barriers use: its clock, its synchronisation state, and why it waits.

    The clock component after the warp's own holds the time up to which its lanes have seen each other's accesses.
    """

    cta: IssuerCta
    serial: int
    """The warp's number within the launch."""

    def __init__(self, cta: IssuerCta, index: int, component: int, clock: Clock) -> None:
        self.cta, self.index, self.component, self.clock = cta, index, component, clock
        self.time = 1
        # Memory Consistency Model, proxies: the async proxy sees no generic access without fence.proxy.async
        # (test_the_source_must_be_fenced).
        clock.begin(component)
        self.bits = self.ended = self.absent = 0
        """Lanes: those that run, those that have ended, and among these those that the block does not have."""
        self.done = False
        self.waiting: Wait | None = None
        self.wait_result: Any = None
        """State for the second run of a suspended instruction: a barrier generation, or False for a negative answer."""
        self.phases: dict[Any, int] = {}
        """The number of completed phases that the warp has observed, by mbarrier."""
        self.unread_answers: dict[Any, Instr] = {}
        """mbarriers that the warp tested without reading the result, each with the instruction that tested it."""
        self.published: frozenset[Any] = frozenset()
        """mbarriers covered by the warp's fence.mbarrier_init: its next cluster barrier arrival publishes them."""
        self.known: frozenset[Any] = frozenset()
        """mbarriers whose initialisation is ordered before the warp, by such a fence or by its clock."""
        self.arrivals: list[int] = []
        """The warp's times just before each of its arrivals at named barriers."""
        self.releases: list[tuple[int, Instr]] = []
        """The warp's releases with its times, if the kernel has reads in flight at arrivals."""
        self.narrow_arrivals: list[tuple[int, Instr]] = []
        """Arrivals of scope .cta at mbarriers of other CTAs, each with the warp's time."""
        self.fenced: list[Clock | None] = [None] * (GPU + 1)
        """By scope: the clock of the last releasing fence of that scope or wider. Later relaxed writes release it."""
        self.seen: list[Clock | None] = [None] * (GPU + 1)
        """By scope: clocks observed by relaxed reads. The next acquiring fence of that scope or wider acquires them."""
        self.observed: Clock | None = None
        """Accesses before the strong writes that the warp's strong reads observed, see `strong.StrongOrder`."""
        self.floor: Clock | None = None
        """Accesses before the fence.sc of other warps that precede one of this warp, see `strong.StrongOrder`."""
        self.lane_syncs: list[tuple[int, int]] = []
        """Synchronisations of some of the lanes: (time up to which they see each other's accesses, lanes as bits)."""
        self.lanes: np.ndarray | None = None
        """The lanes of the access in progress; None if it is one access for all active lanes."""
        self.stored: Any = None
        """Lanes that ever executed each compiled store, by the store's number: uint32[n] of bits."""
        self.taint: Any = None
        """An `engine.taint.TaintTracker` while registers hold values that the warp should not use, else None."""
        pedantic = cta.launch.enforces(Leniency.TCGEN05_FENCE)
        self.after_sync: Clock | None = Clock(clock.v.shape[1], None, clock.block) if pedantic else None
        """Pedantic level: the clock of the last tcgen05.fence::after_thread_sync, which orders tensor operations."""

    def __str__(self) -> str:
        return f"warp {self.index} of CTA {self.cta.name}"

    def access(self, instr: Instr, what: str) -> Access:
        """Return an access of this warp through the generic proxy at the present time."""
        return Access(self.component, self.time, True, instr, self, what)

    def tick(self) -> None:
        """Advance the warp's time: earlier releases do not cover later accesses."""
        self.time += 1
        self.clock.v[ORDERED, self.component] = self.time

    def acquire(self, clock: Clock) -> None:
        """Merge `clock`, and let each lane see what the other lanes did before."""
        self.clock.merge(clock)
        # All lanes execute the instruction that acquires (test_a_barrier_that_all_lanes_wait_for_will_do).
        self.clock.v[ORDERED, self.component + 1] = self.time - 1

    def sync_lanes(self) -> None:
        """Execute bar.warp.sync: each lane sees the accesses of all lanes."""
        # bar.warp.sync: "guarantees memory ordering among participating threads"
        # (test_with_bar_warp_sync_all_is_well).
        self.tick()
        self.clock.v[ORDERED, self.component + 1] = self.time - 1

    def sync_some_lanes(self, lanes: int) -> None:
        """Execute bar.warp.sync for some of the lanes (bits)."""
        met = self.clock.at(self.component + 1)
        self.tick()
        # The same lanes synchronised again: the later synchronisation alone orders as much.
        before = self.lane_syncs[:-1] if self.lane_syncs and self.lane_syncs[-1][1] == lanes else self.lane_syncs
        self.lane_syncs = [*((time, those) for time, those in before if time > met), (self.time - 1, lanes)]

    def lanes_ordered_before(self, lane: int, since: int) -> int:
        """Return the lanes (bits) whose accesses at time `since` happen before the next access of `lane`."""
        before = 1 << lane
        for time, lanes in reversed(self.lane_syncs):
            if time < since:
                break
            if lanes & before:
                before |= lanes
        return before

    def fence(self, acquire: bool, release: bool, scope: int) -> None:
        """Execute a fence that acquires, releases, or both."""
        # Release and acquire patterns: a fence acquires what relaxed reads of its scope or a narrower one observed.
        for reach in range(CTA, scope + 1):
            if acquire and (seen := self.seen[reach]) is not None:
                self.acquire(seen)
                self.seen[reach] = None
        if release:
            # A later write of a narrower scope releases too; one of a wider scope does not
            # (test_a_flag_that_lacks_something).
            self.fenced[CTA : scope + 1] = [self.clock.copy()] * scope
            # What the warp does after the fence is not released (test_a_store_of_other_bits_that_no_load_may_see).
            self.tick()

    def observe_relaxed(self, clock: Clock, scope: int = CTA) -> None:
        """Record that a relaxed read observed a value that carries `clock`, released at this scope."""
        seen = self.seen[scope]
        if seen is None:
            self.seen[scope] = clock.copy()
        else:
            seen.merge(clock)

    @property
    def tensor_clock(self) -> Clock:
        """The clock that orders the warp's accesses of tensor memory."""
        return self.clock if self.after_sync is None else self.after_sync

    def after_thread_sync(self) -> None:
        """Execute tcgen05.fence::after_thread_sync."""
        if self.after_sync is not None:
            self.after_sync = self.clock.copy()


class Agent:
    """Asynchronous work that the issuing warp itself can wait for."""

    def waited_for(self, access: Access) -> bool:
        """Return whether the warp that issued `access` has waited for it."""
        return False


class LaneAgent:
    """Asynchronous work that lanes of a warp wait for, each for its own."""

    lane: int | None = None
    """The lane that issues all of it, None if several do."""

    def waited_at(self, access: Access) -> int:
        """Return the warp's time when the lanes had waited for `access`, 0 if something else reported it."""
        return 0

    def waited_together(self, access: Access) -> bool:
        """Return whether all lanes waited for `access` in one instruction."""
        return False


@dataclass(slots=True, eq=False)
class Access:
    """One instruction's access of memory, by a warp or by the agent that the warp started.

    component, time: the clock component and its time from which on the access is complete. generic: made through the
    generic proxy. follows: components whose earlier accesses the hardware's pipeline orders before it. via: the
    mbarrier or group that reports its completion. strong: the scope of an atomic or ordered access. Two strong accesses
    do not race if each is within the scope of the other. parts: several unordered accesses that this one represents, in
    order. overwrote: reads before a strong write that others may still race with. pattern: the layout in which TMA
    wrote. route: source and destination of a bulk copy.
    together: the lanes (bits) that a read served, 0 if not kept. merged: earlier reads of the same warp that share its
    record because the lanes did not synchronise in between, one per instruction, with the lanes (bits) of all.
    """

    visible: ClassVar = ASYNC_VISIBLE
    """The row of a clock that holds which generic accesses of this memory the async proxy sees."""
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
    overwrote: tuple[Access, ...] = ()
    pattern: Pattern | None = None
    route: tuple[int, ...] = ()
    together: int = 0
    merged: tuple[tuple[Access, int], ...] = ()
    replaced: Sequence[Iterable[int]] = ((), ())
    """The writers and the readers that a write replaced, as numbers of the history."""
    compiled: bool = False
    """True if compiled code made it. Then another of its own writes may lie between it and what it replaced."""
    issued: int = field(init=False)
    """The warp's time at the issue."""

    def __post_init__(self) -> None:
        self.issued = self.warp.time

    @property
    def combines_as(self) -> type[Access]:
        """The class of an access that represents this one and others."""
        return type(self)

    def alone(self) -> Clock:
        """Return a clock that has seen this access alone, and no later access of other lanes."""
        clock = Clock(0, self.warp.cta.cluster_id)
        clock.advance(self.component, self.time)
        clock.advance(self.component + 1, self.time - 1)
        return clock

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        """Return whether this access happens before the owner of `clock`."""
        # Several accesses that nothing orders: all of them must happen before.
        if self.parts:
            return all(part.seen_by(clock, row) for part in self.parts)
        if clock.at(self.component, row) >= self.time:
            return True
        # Program order: a releasing lane needs no synchronisation for its own accesses
        # (test_the_lane_that_arrives_needs_no_synchronisation_for_its_own_accesses).
        return clock.unsynced is not None and clock.shares(self.component, self.time, row, self.instr.place)

    def orders(self, earlier: Access, clock: Clock, row: int = ORDERED) -> bool:
        """Return whether this access, issued under `clock`, cannot race with `earlier`."""
        if earlier.parts:
            return all(self.orders(part, clock, row) for part in earlier.parts)
        return self.comes_after(earlier, clock, row) or self.morally_strong(earlier)

    def comes_after(self, earlier: Access, clock: Clock, row: int = ORDERED) -> bool:
        """Return whether one `earlier` access happens before this one, regardless of both being strong."""
        # tcgen05 memory consistency, pipelined instructions: mma after mma, cp or shift of one thread need no commit
        # (test_tcgen05_mma.py::test_integers). wgmma completes in order too.
        if earlier.component in self.follows or earlier.seen_by(clock, row):
            return True
        # tcgen05.wait::ld and ::st, wgmma.wait_group: the wait of the issuing warp orders the work before what follows.
        return earlier.warp is self.warp and isinstance(earlier.via, Agent) and earlier.via.waited_for(earlier)

    def morally_strong(self, other: Access) -> bool:
        """Return whether both accesses are strong and each is within the scope of the other."""
        reach = min(self.strong, other.strong)
        # Morally strong operations: each must be within the scope of the other
        # (test_strong_accesses_race_outside_of_each_others_scope).
        if not reach or reach == GPU:
            return bool(reach)
        mine, theirs = self.warp.cta, other.warp.cta
        return mine is theirs or (reach == CLUSTER and mine.cluster_id == theirs.cluster_id)

    def unsynced_since(self, earlier: Access, clock: Clock) -> int:
        """Return the time since which the lanes of the warp should have synchronised for `earlier`, 0 if they did.

        Also 0 if `earlier` is of another warp.
        """
        if earlier.warp is not self.warp:
            return 0
        lanes, since = self.warp.component, 0
        if earlier.component == lanes:
            # Strong accesses of two lanes are morally strong; weak ones need bar.warp.sync
            # (test_two_lanes_that_store_different_values_in_one_place).
            since = 0 if self.strong and earlier.strong and not self.trades_with(earlier) else earlier.time
        elif isinstance(earlier.via, LaneAgent):
            # cp.async.wait_group: each lane waits for its own copies only (test_each_lane_waits_for_its_own_copies).
            since = earlier.via.waited_at(earlier)
        return since if clock.at(lanes + 1) < since else 0

    def trades_with(self, earlier: Access) -> bool:
        """Return whether lanes that run together trade data by this strong access and a strong `earlier` one.

        Both are loads or stores, as of volatile memory. Lanes that part may use flags, which order them; so may the
        last lane of a warp (test_arms_that_wait_for_each_other, a lock for each lane).
        """
        running = self.warp.bits
        together = running.bit_count() > 1 and running | self.warp.ended == ALL_LANES
        plain = not (self.instr.kind.is_read_modify_write or earlier.instr.kind.is_read_modify_write)
        return together and plain and bool(self.strong and earlier.strong)

    def ordered_after_arrivals(self, clock: Clock) -> bool:
        """Return whether `clock` covers the warp's last named-barrier arrival before this access."""
        arrivals = self.warp.arrivals
        before = bisect_left(arrivals, self.time)
        return before == 0 or clock.at(self.component) >= arrivals[before - 1]

    @property
    def last(self) -> Access:
        """The access itself, or the last of its parts."""
        return self.parts[-1] if self.parts else self

    def merge_lanes(self, earlier: Iterable[Access], lanes: int, theirs: int) -> None:
        """Record earlier reads of the same warp, in lanes `theirs`, with this one in `lanes` (both as bits)."""
        self.together = self.together or lanes
        found = {id(read.instr): (read, bits) for read, bits in self.merged}
        for other in earlier:
            for read, bits in (*other.merged, (other, other.together or theirs)):
                known = found.get(id(read.instr), (read, 0))[1]
                found[id(read.instr)] = read, bits & theirs | known
        self.merged = tuple(found.values())

    def origin(self) -> str:
        """Describe the access and its warp, for a report."""
        return f"{self.what} of {self.warp}, PTX line {self.instr.line}"

    def intended_write(self, write: Access, clock: Clock, accesses: Sequence[Access | None]) -> Access | None:
        """Return the write that this read should see, if `write` of its cluster replaced it too early; None otherwise.

        `write` came too early if this instruction had not read the cells before. A read that is ordered after the issue
        of `write` is meant to see `write` itself.
        """
        if write.warp.cta.cluster_id != self.warp.cta.cluster_id or clock.at(write.warp.component) >= write.issued:
            return None
        writers, readers = ([a for n in numbers if (a := accesses[n]) is not None] for numbers in write.replaced)
        parts = (part for reader in readers for part in reader.parts or (reader,))
        if any(part.instr is self.instr and part.warp is self.warp for part in parts):
            return None
        return next((writer for writer in writers if self.orders(writer, clock)), None)

    def overtaken(self, clock: Clock) -> tuple[Access, Instr] | None:
        """Return a read that this is or represents, with the last arrival that it was in flight at.

        None unless this read is still in flight for the owner of `clock`, who is ordered after its issue.
        """
        for read in self.parts or (self,):
            releases, known = read.warp.releases, read.warp.cta.launch.reads_in_flight
            at = first = bisect_left(releases, read.time, key=itemgetter(0))
            while at < len(releases) and read.instr.place in known.get(releases[at][1].place, ()):
                at += 1
            if at > first and (at == len(releases) or clock.at(read.component) < releases[at][0]):
                return read, releases[at - 1][1]
        return None

    def unordered_parts(self, earlier: Access, clock: Clock) -> Sequence[Access]:
        """Return the parts of `earlier` that are not ordered before this access, for the report."""
        return [part for part in earlier.parts if not self.orders(part, clock)] or [earlier]


class TaintedStore(Access):
    """A store of a suspect value: `fault` describes the load that should not have read it.

    store: the number of the store `by` in the history. No clock covers it, so every access of its cells is reported.
    """

    def __init__(self, by: Access, store: int, fault: Fault) -> None:
        super().__init__(-1, by.time, by.generic, by.instr, by.warp, by.what)
        self.by, self.store, self.fault = by, store, fault

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        """Return False: every access has to be checked."""
        return False


def missing_release(warp: Issuer, waiting_for: str, me: Access) -> str:
    """Describe the release and acquire that are missing after a wait of `warp`, for the report of a conflict."""
    if warp.cta.cluster_id != me.warp.cta.cluster_id:
        return (
            f"a release of {warp} after its {waiting_for} and an acquire of {me.warp} that sees it before PTX line "
            f"{me.instr.line}, both of scope .gpu; or a separate location for one of them"
        )
    return (
        f"a barrier that {warp} arrives on after its {waiting_for} and {me.warp} waits for "
        f"before PTX line {me.instr.line}"
    )
