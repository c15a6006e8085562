"""Reports of two accesses that nothing orders: the fault that names both, and what is missing between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from ...chip import ALL_LANES
from ...errors import (
    BarrierError,
    DataRace,
    Fault,
    Level,
    MissingProxyFence,
    MissingWait,
    OutOfBounds,
    UnwrittenRead,
    place,
)
from ...leniency import Grade, Leniency
from ...ptx.kinds import Kind
from ...ptx.syntax import Instr, Vector
from ..order.access import Access, Issuer, LaneAgent, TaintedStore
from ..order.clocks import ASYNC_VISIBLE_OUTSIDE, ORDERED, Clock, Unsynced
from ..order.history import History
from ..order.operations import EarlierAccess
from ..order.shadow import MBARRIER, UNWRITTEN, Shadow
from ..order.strong import StrongOrder
from ..synchronisation.mbarrier import MBarrier
from ..synchronisation.pipe import Pipe
from .butterfly import summed_lanes
from .reordering import moves_above
from .suspects import WHOLE, LoadedPart, report_overwrite, report_read

SHOWN_RUNS = 3
NOUN = {"write": "written", "read": "read"}


def report_conflict(
    me: Access,
    clock: Clock,
    verb: str,
    cells: str,
    history: History,
    number: int,
    kind: str,
    near: tuple[tuple[str, str], ...] = (),
    level: Grade = Level.FAULT,
    part: LoadedPart = WHOLE,
) -> None:
    """Report that `me` "reads" or "writes" (`verb`) `cells` in conflict with another access, see Launch.report.

    number: the other access in the history; special below SPECIAL. kind: what it did, "write" or "read". near: writes
    close by, for an unwritten read. level: of a race. part: the part of a load, see `LoadedPart`.
    """
    other = history.accesses[number]
    if other is None:
        _special(me, verb, cells, number, near, part)
        return
    for late in me.unordered_parts(other, clock):
        if not _race(me, clock, verb, cells, history, late, kind, level, part):
            return


def unwritten_cells(warp: object, line: int) -> tuple[object, object, int]:
    """Return the key of `Launch.registry` under which memories keep the cells of the warp's read that nothing wrote."""
    return UnwrittenRead, warp, line


def tainted_store_fault(store: TaintedStore, me: Access) -> Fault:
    """Return the fault of a load whose suspect value was stored and is read from there by `me`."""
    return store.fault.followed(("stored at", place(store.instr, store.warp)), ("read at", place(me.instr, me.warp)))


def _race(
    me: Access,
    clock: Clock,
    verb: str,
    cells: str,
    history: History,
    other: Access,
    kind: str,
    level: Grade,
    part: LoadedPart,
) -> bool:
    """Report a conflict with one other access. Return whether the report is deferred."""
    if isinstance(other, EarlierAccess):
        beside = other.race(me, clock, verb, cells, kind)
        beside.grade(level)
        if verb == "reads":
            report_read(me, beside, part)
        else:
            me.warp.cta.launch.report(beside)
        return False
    ordered = other.seen_by(clock)
    if ordered and verb == "writes" and kind == "read" and not me.generic and (found := other.overtaken(clock)):
        read, arrival = found
        what = (
            f"{me.what} writes {cells}, which {read.what} of {read.warp} may still be reading: nothing uses its values "
            f"before {arrival.opcode}, which does not wait for them"
        )
        missing = f"fence.proxy.async, or a use of the values, between PTX lines {read.instr.line} and {arrival.line}"
        lines = (*_party(read, kind), ("released at", place(arrival, read.warp)), ("missing", missing))
        me.warp.cta.launch.report(MissingProxyFence(what, me.instr, me.warp, lines, level))
        return False
    if ordered and not me.generic and other.generic and not other.seen_by(clock, me.visible):
        needed = "fence.proxy.async" + " (or .async.global)" * (me.visible == ASYNC_VISIBLE_OUTSIDE)
        fence = MissingProxyFence(
            f"{me.what} {verb} {cells} through the async proxy; {other.warp} {_did(kind)} it through the generic "
            f"proxy, with no {needed} between",
            me.instr,
            me.warp,
            (
                *_party(other, kind),
                (
                    "missing",
                    f"{needed} after PTX line {other.instr.line}, before the "
                    f"barrier that leads to PTX line {me.instr.line}",
                ),
            ),
            level if other.via is None else Leniency.CP_ASYNC_FENCE,  # cp.async, see CopyThread
        )
        me.warp.cta.launch.report(fence)
        return False
    if other.warp.cta.cluster_id == me.warp.cta.cluster_id:
        unsynced = (clock.unsynced or {}).get(other.component)
    else:
        unsynced = (clock.far or {}).get((other.warp.cta.cluster_id, other.component))
    if not ordered and unsynced is not None and unsynced.times[ORDERED] >= other.time:
        return _report(me, verb, _released_by_some(me, verb, cells, other, kind, unsynced), other, kind, part)
    earlier = me.intended_write(other, clock, history.accesses) if verb == "reads" else None
    if earlier is not None:
        missing = (
            f"an arrival of {me.warp} after its read, on a barrier that {other.warp} waits for before PTX line "
            f"{other.instr.line}: this write came too early, PTX line {me.instr.line} should read the value that PTX "
            f"line {earlier.instr.line} wrote there"
        )
    elif other.instr is me.instr and other.warp is me.warp and other.issued == me.issued and other.via is not None:
        missing = _issued_again(me)
    elif verb == "writes" and kind == "write" and isinstance(other.via, MBarrier) and not any(me.replaced[1]):
        missing = (
            f"an arrival of the consumer, after its read, on a barrier that {me.warp} waits for before PTX line "
            f"{me.instr.line}: this write came too early, nothing has read the value of PTX line {other.instr.line}"
        )
    elif clock is me.warp.after_sync and other.seen_by(me.warp.clock):
        missing = f"tcgen05.fence::after_thread_sync in {me.warp}, between its wait and PTX line {me.instr.line}"
        level = Leniency.TCGEN05_FENCE
    else:
        if isinstance(other.via, Pipe) and other.via.lacks_fence(other, me.warp.clock):
            level = Leniency.TCGEN05_FENCE
        missing = other.via.missing(other, me) if other.via is not None else _unordered(other, me)
        missing += ended_without(other, me.warp)
        if verb == "reads" and other.compiled:
            missing += (
                f"; or, if PTX line {me.instr.line} should read the value before that, an arrival of {me.warp} after "
                f"it on a barrier that {other.warp} waits for before PTX line {other.instr.line}"
            )
    fault = DataRace if other.via is None else MissingWait
    what = f"{me.what} {verb} {cells}, not ordered after {other.what} that {_did(kind)} it"
    race = fault(what, me.instr, me.warp, (*_party(other, kind), ("missing", missing)), level)
    return _report(me, verb, race, other, kind, part)


def _released_by_some(me: Access, verb: str, cells: str, other: Access, kind: str, unsynced: Unsynced) -> DataRace:
    """Return the race with accesses that other lanes made than those which released them.

    The level is formal if an instruction in between makes the lanes converge, as for `report_lane_race`.
    """
    by = unsynced.by
    what = (
        f"{me.what} {verb} {cells}, not ordered after {other.what} that {_did(kind)} it: other lanes of {other.warp} "
        f"than those that released it with {by.opcode}"
    )
    steps = (other.instr, *me.warp.cta.launch.between(other.instr, by), by)
    level = Leniency.CONVERGED_LANES if any(map(_brings_lanes_together, steps)) else Level.FAULT
    missing = f"bar.warp.sync between PTX lines {other.instr.line} and {by.line}"
    lines = (*_party(other, kind), ("released at", place(by, other.warp)), ("missing", missing))
    return (DataRace if other.via is None else MissingWait)(what, me.instr, me.warp, lines, level)


def report_lane_race(
    me: Access,
    verb: str,
    cells: np.ndarray,
    racing: np.ndarray,
    lanes: np.ndarray,
    shadow: Shadow,
    number: int,
    kind: str,
    shown: Callable[[Any], str],
    read_together: bool = False,
) -> None:
    """Report that `lanes` (bits, of each cell) of `me` touch cells in conflict with other lanes of access `number`.

    racing: the cells with a conflict, as a mask. The report is about the first of them, which `shown` names.
    The level is formal if an instruction in between makes the lanes converge: no known hardware shows such a race. The
    same holds for lanes that may have `read_together`, in one instruction, and for copies that all lanes waited for in
    one instruction. It is a fault if the assembler moves the load above the store, see `reordering`.
    """
    other = shadow.history.accesses[number]
    assert other is not None
    other = other.last
    at = tuple(np.argwhere(racing)[0])
    touched = (shadow.writer_lanes if kind == "write" else shadow.reader_lanes)[cells]
    lanes = np.broadcast_to(lanes, racing.shape)
    part = LoadedPart(int(np.bitwise_or.reduce((lanes & ~touched)[racing])))
    agent = other.via.lane if isinstance(other.via, LaneAgent) else None
    mine, theirs, place = int(lanes[at]), int(touched[at]) if agent is None else 1 << agent, shown(cells[at])
    races = list[tuple[DataRace, Access, int]]()
    for access, those in reversed((*other.merged, (other, other.together or theirs)) if kind == "read" else ()):
        before = those & theirs & ~_own(me, mine, access)
        if before and not _polls(me, access):
            in_order = read_together and not (mine | before) & ~(access.together & theirs)
            races.append((_between(me, verb, place, mine, access, kind, before, in_order), access, before))
    if kind == "write" and not _polls(me, other):
        races.append((_between(me, verb, place, mine, other, kind, theirs, False), other, theirs & ~mine))
    for race, access, before in [r for r in races if r[0].level == Level.FAULT] or races[:1]:
        if not _report(me, verb, race, access, kind, part, before):
            return


def _polls(me: Access, other: Access) -> bool:
    """Return whether two strong accesses of a warp's lanes are of a flag: one polls it."""
    order: StrongOrder | None = me.warp.cta.launch.registry.get(StrongOrder)
    polls = order is not None and not order.retried.isdisjoint((me.instr.place, other.instr.place))
    return polls and me.trades_with(other)


def _own(me: Access, mine: int, access: Access) -> int:
    """Return the lanes (bits) whose `access` happens before the present access of `mine`, if that is one lane."""
    if mine & mine - 1:
        return 0
    return me.warp.lanes_ordered_before(mine.bit_length() - 1, access.time)


def _between(
    me: Access, verb: str, cells: str, mine: int, other: Access, kind: str, theirs: int, in_order: bool
) -> DataRace:
    what = (
        f"{me.what} {verb} {cells} in {_lanes(mine)}, not ordered after {other.what} that {_did(kind)} it "
        f"in {_lanes(theirs)} of the same warp"
    )
    first, missing = other.instr, f"bar.warp.sync between PTX lines {other.instr.line} and {me.instr.line}"
    if other.via is not None:
        first = other.via.wait_for(other)[2]
        missing = f"bar.warp.sync after {first.opcode} at PTX line {first.line}, before PTX line {me.instr.line}"
    steps = (other.instr, *me.warp.cta.launch.between(first, me.instr), me.instr)
    level: Grade = Level.FAULT
    if in_order or any(_brings_lanes_together(step) for step in steps):
        level = Leniency.CONVERGED_LANES
    elif other.via is not None and other.via.waited_together(other):
        level = Leniency.WAITED_TOGETHER
    if verb == "reads" and kind == "write" and moves_above(me.instr, other.instr, me.warp.cta.launch):
        level = Level.FAULT
    if me.trades_with(other):
        level = Leniency.STRONG_LANES
    race = _lane_race(me, what, other, kind, theirs, missing, level)
    race.between_lanes = True
    return race


def _report(
    me: Access, verb: str, race: Fault, other: Access, kind: str, part: LoadedPart, lanes: int = ALL_LANES
) -> bool:
    """Report a race. Return whether it is deferred.

    The level of a race with a load depends on the use of its value, in these lanes (bits) if the load came first.
    """
    if verb == "reads":
        report_read(me, race, part)
    elif kind == "read":
        return report_overwrite(me, race, other, lanes)
    else:
        me.warp.cta.launch.report(race)
    return False


def report_store_collision(
    me: Access, places: np.ndarray, values: np.ndarray, lanes: np.ndarray, shown: Callable[[int], str]
) -> None:
    """Report two lanes of one instruction that store different bytes at one address, if there are any.

    places: the address of each row of `values`, unsigned[n, count]. lanes: those that store each row, or each word of
    it, as bits. shown: names the memory of a row. The level is formal if all values are the same sum, rounded in
    another order.
    """
    stored, addresses = np.ascontiguousarray(values).view(np.uint8), places.astype(np.int64)
    each = (addresses[:, None] + np.arange(stored.shape[1])).ravel()[::-1]
    _, last, of = np.unique(each, return_index=True, return_inverse=True)
    left = stored.ravel()[::-1][last][of][::-1].reshape(stored.shape)
    lost = np.flatnonzero((left != stored).any(1))
    if not lost.size:
        return
    first = lost.item(0)
    winner = np.flatnonzero(np.abs(addresses - addresses[first]) < stored.shape[1])[-1]
    mine, theirs = (int(np.bitwise_or.reduce(lanes[row], axis=None)) for row in (winner, first))
    value, kernel = me.instr.operands[1], me.warp.cta.launch.kernel
    items = value.items if isinstance(value, Vector) else (value,)
    summed = reduce(int.__and__, (summed_lanes(item, kernel) for item in items))
    alike = bool(summed)
    if alike:
        numbers = np.frexp(lanes)[1] - 1
        _, once, group = np.unique(places, return_index=True, return_inverse=True)
        alike = not np.bitwise_or.reduce(numbers[once[group]] ^ numbers) & ~summed
    what = f"{me.what} writes {shown(first)} in {_lanes(mine)} and another value in {_lanes(theirs)}"
    what += ": either value may remain"
    missing = "an order between the two stores, or one lane that stores"
    level = Leniency.ONE_SUM if alike else Level.FAULT
    me.warp.cta.launch.report(_lane_race(me, what, me, "write", theirs, missing, level))


def _lane_race(me: Access, what: str, other: Access, kind: str, theirs: int, missing: str, level: Grade) -> DataRace:
    by = (f"{NOUN[kind]} at", place(other.instr, other.warp)), ("by", f"{_lanes(theirs)} of {other.warp}")
    return DataRace(what, me.instr, me.warp, (*by, ("missing", missing)), level)


def _brings_lanes_together(instr: Instr) -> bool:
    """Return whether lanes wait for each other at an instruction, or order their accesses, beyond what PTX promises."""
    return instr.kind is Kind.FENCE or instr.is_collective


def _lanes(bits: int) -> str:
    return f"lane {bits.bit_length() - 1}" if bits.bit_count() == 1 else "several lanes"


def _issued_again(me: Access) -> str:
    """Describe what is missing if one instruction starts agents twice on the same cells, by lanes or in a loop."""
    if me.instr.kind is Kind.LANE_COPY:
        return f"a separate destination for each copy of PTX line {me.instr.line}, or a wait between them"
    return (
        f"elect.sync, if several lanes of {me.warp} issue PTX line {me.instr.line} and one should; if one lane issues "
        "it several times, a separate destination for each or a wait between them"
    )


def _did(kind: str) -> str:
    return "wrote" if kind == "write" else "reads"


def _party(other: Access, kind: str) -> tuple[tuple[str, str], ...]:
    how = "by" if other.via is None else "issued by"
    return ((f"{NOUN[kind]} at", place(other.instr, other.warp)), (how, str(other.warp)))


def _unordered(other: Access, me: Access) -> str:
    if any(seen is not None and other.seen_by(seen) for seen in me.warp.seen):
        return (
            f"an acquire of {me.warp} (fence.acq_rel or ld.acquire) before PTX line {me.instr.line}, with a scope that "
            "includes both warps"
        )
    if other.warp.cta.cluster_id != me.warp.cta.cluster_id:
        return (
            f"a release of {other.warp} after PTX line {other.instr.line} and an acquire of {me.warp} that sees it "
            f"before PTX line {me.instr.line}, both of scope .gpu"
        )
    narrow = next((ins for time, ins in other.warp.narrow_arrivals if time >= other.time), None)
    if narrow is not None and other.warp.cta is not me.warp.cta:
        return f"scope .cluster in place of .cta in {narrow.opcode} at PTX line {narrow.line}"
    return (
        f"a barrier that {other.warp} arrives on after PTX line {other.instr.line} "
        f"and {me.warp} waits for before PTX line {me.instr.line}"
    )


def ended_without(other: Access, me: Issuer) -> str:
    """Name a barrier that `me` passed without `other`'s warp, which arrived at another time; empty if there is none."""
    for named in me.cta.barriers.values() if other.warp.cta is me.cta else ():
        if said := named.without(me, other.warp):
            return f"; {said}"
    for barrier, seen in me.phases.items():
        late = barrier.last
        phase = barrier.phase - (barrier.pending == barrier.expected)
        if late is not None and late.warp is other.warp and phase >= seen:
            return (
                f"; {me} waited for phase {seen - 1} of {barrier}, and {late} came in phase {phase}: "
                f"is a count of {barrier.expected} too small?"
            )
    return ""


def _special(
    me: Access, verb: str, cells: str, number: int, near: tuple[tuple[str, str], ...], part: LoadedPart = WHOLE
) -> None:
    what = f"{me.what} {verb} {cells}"
    if number == UNWRITTEN:
        report_read(me, UnwrittenRead(f"{what}, which nothing wrote", me.instr, me.warp, near), part)
    elif number == MBARRIER:
        why = "which holds an mbarrier: only mbarrier instructions may touch it"
        raise BarrierError(f"{what}, {why}", me.instr, me.warp)
    else:
        raise OutOfBounds(f"{what}, which is reserved or outside the window", me.instr, me.warp)


def written(writers: np.ndarray, at: int, accesses: list[Access | None]) -> list[tuple[int, int, Access]]:
    """Return the runs (first, last, writer) of cells with one writer that are nearest to cell `at`, in order."""
    edges = np.flatnonzero(np.diff(writers, prepend=-1, append=-1))
    runs = [(int(a), int(b) - 1, accesses[int(writers[a])]) for a, b in pairwise(edges)]
    known = [(first, last, writer) for first, last, writer in runs if writer is not None]
    return sorted(
        sorted(known, key=lambda run: min(abs(run[0] - at), abs(run[1] - at)))[:SHOWN_RUNS], key=lambda r: r[0]
    )
