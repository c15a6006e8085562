"""Operations around a launch: what they accessed, and which of them happen before a warp of the launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ...errors import DataRace, Fault, MissingProxyFence
from .access import Access, Issuer
from .clocks import ORDERED, ROWS, Clock
from .global_access import GlobalAccess

_SEEN: Final = np.ones((ROWS, 1), np.int32)
_UNFENCED: Final = _SEEN.copy()
"""Clock rows of an operation that happens before, without a proxy fence for what it did through the generic proxy."""
_UNFENCED[ORDERED + 1 :] = 0


class _Nobody:
    """The issuer of an access that no warp of the launch made."""

    time = 0
    cta = SimpleNamespace(cluster_id=None)


@dataclass(frozen=True)
class By:
    """A kind of access that an operation makes.

    what: the instruction or function. place: where it is, for reports. strong: the scope of a strong access. late: made
    after the kernel's griddepcontrol.launch_dependents. system: made in system scope, for the host to see.
    """

    what: str
    place: Callable[[], object]
    strong: int = 0
    generic: bool = True
    late: bool = False
    system: bool = False

    def of(self, operation: Operation) -> str:
        """Describe the access with its operation."""
        return str(operation) if self.what == operation.name else f"{self.what} of {operation}"


@dataclass(frozen=True)
class Runs:
    """The bytes that an operation accesses, as runs of addresses in ascending order.

    starts, ends: int64[runs]. writes: bool[runs]. which: the index in `by` of the access of each run.
    """

    starts: np.ndarray
    ends: np.ndarray
    writes: np.ndarray
    which: np.ndarray
    by: Sequence[By]

    @classmethod
    def of(cls, runs: Iterable[tuple[np.ndarray, np.ndarray, bool, Any]], by: Sequence[By]) -> Runs:
        """Make a footprint of groups of runs: starts, ends, whether they are writes, and their indices in `by`."""
        groups = list(runs)
        if not groups:
            return NOTHING
        starts, ends = (np.concatenate([np.asarray(group[i], np.int64) for group in groups]) for i in (0, 1))
        writes, which = (np.concatenate([np.broadcast_to(g[i], len(g[0])) for g in groups]) for i in (2, 3))
        order = np.argsort(starts, kind="stable")
        return cls(starts[order], ends[order], writes[order].astype(bool), which[order], by)

    def part(self, keep: np.ndarray) -> Runs:
        """Return the runs in a mask."""
        return Runs(self.starts[keep], self.ends[keep], self.writes[keep], self.which[keep], self.by)

    def within(self, low: int, high: int) -> Runs:
        """Return the runs that touch bytes `low` to `high - 1`."""
        return self.part((self.starts < high) & (self.ends > low))

    def system(self, run: int) -> bool:
        """Return whether a run is of an access in system scope."""
        access = self.by[int(self.which[run])]
        return access.system

    def conflict(self, other: Runs) -> tuple[int, int] | None:
        """Return the indices of a run of this and one of the other that share bytes, at least one a write."""
        if not (self.starts.size and other.starts.size):
            return None
        low, high = max(self.starts[0], other.starts[0]), min(self.ends.max(), other.ends.max())
        if low >= high:
            return None
        for mine, theirs in ((True, True), (True, False), (False, True)):
            own, others = np.flatnonzero(self.writes == mine), np.flatnonzero(other.writes == theirs)
            if own.size and others.size and (found := _overlap(self, own, other, others)) is not None:
                return found
        return None


_NONE: Final = np.zeros(0, np.int64)
NOTHING: Final = Runs(_NONE, _NONE, _NONE.astype(bool), _NONE, ())


def _overlap(one: Runs, own: np.ndarray, other: Runs, others: np.ndarray) -> tuple[int, int] | None:
    """Return the first of the runs `own` that shares bytes with one of `others`, and that one."""
    reach = np.maximum.accumulate(other.ends[others])
    first = np.searchsorted(reach, one.starts[own], "right")  # the first run that ends after the start
    hit = (first < others.size) & (other.starts[others][np.minimum(first, others.size - 1)] < one.ends[own])
    at = np.flatnonzero(hit)
    return (int(own[at[0]]), int(others[first[at[0]]])) if at.size else None


@dataclass(eq=False)
class Operation:
    """A launch, copy, operator or free. number: its bit in sets of operations.

    name: what it is. stream: its stream, as reports name it. at: where the program submitted it. find: returns its
    footprint. triggers: it is the part of a launch before griddepcontrol.launch_dependents. frees: how many frees of
    memory it takes into account. before: the operations (bits) that happen before it. released: the keys of the flags
    that it released to the device.
    """

    number: int
    name: str
    stream: str
    at: object
    find: Callable[[], Runs]
    triggers: bool = False
    frees: int = 0
    before: int = 0
    released: Sequence[Any] = ()

    @cached_property
    def footprint(self) -> Runs:
        return self.find()

    def __str__(self) -> str:
        return f"{self.name} on {self.stream}"

    def forget(self, spans: Iterable[tuple[int, int]]) -> None:
        """Remove these bytes from the footprint: they were freed later, and may hold something else by now."""
        for low, high in spans:
            own = self.footprint
            outside = (own.ends <= low) | (own.starts >= high)
            if not outside.all():
                self.footprint = own.part(outside)


class EarlierAccess(GlobalAccess):
    """An access of an operation around the launch, in the launch's shadow."""

    def __init__(self, operation: Operation, by: By, missing: str) -> None:
        super().__init__(0, 1, by.generic, None, _Nobody(), by.what)  # type: ignore[arg-type]
        self.strong, self.cluster_id = by.strong, operation
        self.operation, self.by, self.missing = operation, by, missing

    @property
    def combines_as(self) -> type[Access]:
        return GlobalAccess

    def seen_by(self, clock: Clock, row: int = ORDERED) -> bool:
        rows = None if clock.remote is None else clock.remote.get(self.operation)
        return rows is not None and bool(rows[row, 0])

    def race(self, me: Access, clock: Clock, verb: str, cells: str, kind: str) -> Fault:
        """Return the fault of an access `me` of the launch that conflicts with this one."""
        did = "wrote" if kind == "write" else "reads"
        what = f"{me.what} {verb} {cells}, not ordered after {self.by.of(self.operation)}, which {did} it"
        missing, fault = self.missing, DataRace
        if self.seen_by(clock):
            fault = MissingProxyFence
            what = f"{me.what} {verb} {cells} through the async proxy; {self.operation} {did} it before"
            missing = "fence.proxy.async, or griddepcontrol.wait"
        missing = f"{missing} before PTX line {me.instr.line}" if missing.endswith("wait") else missing
        lines = ((f"{'written' if kind == 'write' else 'read'} at", str(self.by.place())), ("missing", missing))
        return fault(what, me.instr, me.warp, lines)


@dataclass
class Surroundings:
    """The operations around a launch.

    concurrent: those that do not all happen before its start, the newest first. missing: for each, what would order it.
    begun, waited: sets of operations (bits) that happen before the launch and before griddepcontrol.wait returns.
    """

    concurrent: Sequence[Operation] = ()
    missing: Sequence[str] = ()
    begun: int = 0
    waited: int = 0
    has_waited: bool = False
    triggers_waited: bool = False
    """True if griddepcontrol.wait happens before a CTA's griddepcontrol.launch_dependents."""

    def __post_init__(self) -> None:
        self.triggered: set[Any] = set()
        """The CTAs that executed griddepcontrol.launch_dependents."""
        self._before_trigger = Clock(0)
        self._waited = Clock(0)
        self._waited.remote = {one: _SEEN for one in self.concurrent if self.waited >> one.number & 1}
        self.remote: Mapping[Any, np.ndarray] | None = {
            one: _UNFENCED for one in self.concurrent if self.begun >> one.number & 1
        } or None
        """The operations that a warp's clock covers when the warp starts."""

    def wait(self, warp: Issuer) -> None:
        """Execute griddepcontrol.wait: all operations that the launch depends on happen before what follows."""
        warp.clock.merge(self._waited)
        self.has_waited = True

    def trigger(self, warp: Issuer) -> None:
        """Execute griddepcontrol.launch_dependents. The first of a CTA counts."""
        if warp.cta.ctaid not in self.triggered:
            self.triggered.add(warp.cta.ctaid)
            self._before_trigger.merge(warp.clock.for_other_clusters())
            seen = warp.clock.remote or {}
            self.triggers_waited |= all(one in seen and seen[one][ORDERED + 1, 0] for one in self._waited.remote or ())
            warp.tick()

    def is_late(self, access: Access) -> bool:
        """Return whether an access of the launch may come after its dependents were launched."""
        # griddepcontrol.launch_dependents: dependents start when all CTAs have executed it or have ended.
        return access.warp.cta.ctaid in self.triggered and not access.seen_by(self._before_trigger)

    def releases(self) -> Iterator[tuple[Sequence[Any], Clock]]:
        """Yield the flags that each operation released, with the clock of what acquires them."""
        for operation in self.concurrent:
            clock = Clock(0)
            covered = operation.before | 1 << operation.number
            clock.remote = {one: _SEEN for one in self.concurrent if covered >> one.number & 1}
            yield operation.released, clock

    def accesses_within(self, low: int, high: int) -> Iterator[tuple[int, int, bool, EarlierAccess]]:
        """Yield the runs of accesses of bytes `low` to `high - 1`: start, end, whether it is a write, the access."""
        for operation, missing in zip(self.concurrent, self.missing, strict=True):
            found = operation.footprint.within(low, high)
            made = [EarlierAccess(operation, by, missing) for by in found.by] if found.starts.size else []
            for start, end, write, which in zip(
                found.starts.tolist(), found.ends.tolist(), found.writes.tolist(), found.which.tolist(), strict=True
            ):
                yield max(start, low), min(end, high), write, made[which]
