"""Strong accesses that PTX lets pass each other: values that a read may still return, and order that only this run had.

Two strong accesses do not race, but without a fence nothing orders those of one thread at different places. A program
that relies on the order in which this run observed them is reported. In random mode loads return older values, and
stores come before others in the order of a place, where PTX allows it: coherence, causality order with observation, and
the order of fence.sc (PTX ISA 9.1, 8.8 and 8.9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...errors import DataRace, Level, place
from ...leniency import Grade, Leniency
from .access import Access, Issuer
from .clocks import Clock
from .flags import Flags, Released, within
from .global_access import GlobalAccess

WEAK: Final = 0.4
"""In random mode, the probability that an access passes another one where PTX allows it."""
KEPT: Final = 4
"""The number of values kept of a place."""


@dataclass(slots=True, eq=False)
class Value:
    """A value of a place. access: the strong write, None for the value found there. atomic: a read-modify-write.

    observed: what the writer had done or observed before. released: what it releases. reads: those that returned
    it, by warp and instruction.
    """

    access: GlobalAccess | None
    row: np.ndarray
    atomic: bool = False
    observed: Clock | None = None
    released: Released | None = None
    reads: dict[Any, GlobalAccess] = field(default_factory=dict)

    def known_to(self, warp: Issuer) -> bool:
        """Return whether no older value may be read, or come later, from this warp's view."""
        found = (*self.reads.values(), *(() if self.access is None else (self.access,)))
        return any(_before(each, warp) for each in found)


def _before(access: GlobalAccess, warp: Issuer) -> bool:
    """Return whether an access happens before the next one of a warp, or before an earlier fence.sc that it follows."""
    return access.warp is warp or access.seen_by(warp.clock) or (warp.floor is not None and access.seen_by(warp.floor))


class StrongOrder:
    """The values of the places that strong accesses of a launch touch.

    retried: the loads, by `Instr.place`, whose value decides a loop that they are in. An older value is no surprise to
    these, and what follows depends on the value.
    """

    def __init__(self, retried: frozenset[Any]) -> None:
        self.retried = retried
        self._values: dict[Any, list[Value]] = {}
        self._fences: dict[Any, Clock] = {}

    def read(self, me: Access, memory: Any, at: int, row: np.ndarray, atomic: bool) -> Value | None:
        """Record a strong read of `row` at a place. Return the older value that it returns instead, if it does."""
        warp, here = me.warp, GlobalAccess.of(me)
        values = self._of(memory, at, row)
        last = found = values[-1]
        if not atomic:
            if not last.known_to(warp):
                self._check(here, last.access, "reads")
            oldest = self._oldest(values, warp)
            if oldest < len(values) - 1 and _by_chance(warp):
                found = warp.cta.cluster.random.choice(values[oldest:-1])  # type: ignore[attr-defined]
        found.reads.setdefault((warp, me.instr.place), here)
        if found.observed is not None:
            warp.observed = warp.observed or Clock(0)
            warp.observed.merge(found.observed)
        return found if found is not last else None

    def write(self, me: Access, memory: Any, at: int, old: np.ndarray, row: np.ndarray, atomic: bool) -> bool:
        """Record a strong write of `row` over `old`. Return False if another one already came after it at the place."""
        warp, here = me.warp, GlobalAccess.of(me)
        values = self._of(memory, at, old)
        last = values[-1]
        if not atomic and not last.known_to(warp):
            self._check(here, last.access, "writes")
        for read in () if atomic else tuple(last.reads.values()):
            if read.instr.place not in self.retried:
                self._check(here, read, "writes")
        observed = warp.clock.for_other_clusters()
        if warp.observed is not None:
            observed.merge(warp.observed)
        value = Value(here, row.copy(), atomic, observed)
        late = not atomic and last.access is not None and not last.atomic and not last.known_to(warp)
        values.insert(len(values) - (late and _by_chance(warp)), value)
        del values[:-KEPT]
        return values[-1] is value

    def released(self, warp: Issuer, memory: Any, places: list[int], flags: Flags) -> None:
        """Record the clocks that a warp's last writes of places release."""
        for at in places:
            written = [v for v in self._values[id(memory), at] if v.access is not None and v.access.warp is warp]
            written[-1].released = dict(flags.released((id(memory), at)) or {})

    def fence(self, warp: Issuer, scope: int) -> None:
        """Execute fence.sc: the warp comes after all earlier ones if each is within the other's scope."""
        warp.floor = warp.floor or Clock(0)
        for _, key in within(warp, scope):
            known = self._fences.setdefault(key, Clock(0))
            warp.floor.merge(known)
            known.merge(warp.clock.for_other_clusters())
            known.merge(warp.floor)

    def _of(self, memory: Any, at: int, row: np.ndarray) -> list[Value]:
        """Return the values of a place, the newest last. It starts again if something else wrote there."""
        values = self._values.get((id(memory), at))
        if values is None or not np.array_equal(values[-1].row, row):
            values = self._values[id(memory), at] = [Value(None, row.copy())]
        return values

    def _oldest(self, values: list[Value], warp: Issuer) -> int:
        return next((i for i in reversed(range(len(values))) if values[i].known_to(warp)), 0)

    def _check(self, me: GlobalAccess, other: GlobalAccess | None, verb: str) -> None:
        """Report an access whose order after `other` follows only from what this run observed."""
        warp = me.warp
        if other is None or warp.observed is None or me.instr.place in self.retried or not me.morally_strong(other):
            return
        if _before(other, warp) or not other.seen_by(warp.observed):
            return
        did = "wrote" if other.instr.opcode[:2] != "ld" else "read"
        waits = any(other.seen_by(seen) for seen in warp.seen if seen is not None)
        fence = "fence.acq_rel.gpu (__threadfence)"
        mine = f"{fence} before PTX line {me.instr.line}, after the access that observes {other.warp}"
        theirs = "" if waits else f"; {fence} after PTX line {other.instr.line}, before the write observed"
        level: Grade = Leniency.STRONG_IN_CTA if other.warp.cta is warp.cta else Level.FAULT
        warp.cta.launch.report(
            DataRace(
                f"{me.what} {verb} what {other.what} {did} before, by this run's order alone: no fence orders them, so "
                "strong accesses of one thread may pass each other",
                me.instr,
                warp,
                (
                    ("written at" if did == "wrote" else "read at", place(other.instr, other.warp)),
                    ("by", str(other.warp)),
                    ("missing", mine + theirs),
                ),
                level,
            )
        )


def _by_chance(warp: Issuer) -> bool:
    cluster: Any = warp.cta.cluster  # type: ignore[attr-defined]
    return bool(cluster.agents.completion == "random" and cluster.random.random() < WEAK)
