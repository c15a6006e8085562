"""The time of a launch's warps, by role, by barrier and by source line."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..machine.launch.launch import Launch
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr
from .grid import Executed, GridTime
from .segment import BUSY_PIPES, FIXED_LATENCY, LONG_SCOREBOARD, SHORT_SCOREBOARD, Segment
from .warps import TimedWarp, Waiting

LEAST: Final = 0.005
"""The share of its warps' time below which a wait or a line is not shown."""
ELEMENT: Final = re.compile(r"\[\d+\]$| #\d+ at 0x[0-9a-f]+$")
"""The end of an mbarrier's name that tells it from the others of its array, or from others without a name."""

SPACES: Final = ("global", "shared", "local", "param")
ACCESSES: Final = (Kind.LOAD, Kind.STORE, Kind.ATOMIC, Kind.REDUCTION)


@dataclass(frozen=True)
class Wait:
    """A wait of a role: its reason, the PTX line of its longest part and, if known, the source line.

    Barriers of one array that are waited for in one source line are one wait.
    cycles, times: average cycles and number of waits per warp.
    """

    what: str
    line: int
    source: str
    cycles: float
    times: float

    @property
    def where(self) -> str:
        """The source line, or the PTX line if there is none."""
        return self.source or f"PTX line {self.line}"


@dataclass(frozen=True)
class Role:
    """Warps that wait for the same things.

    running, waits: cycles per warp, of the `cycles` that its cluster takes. parts: of `running`: issuing, and stalls by
    reason, as scheduled for a warp that is alone; what other warps add is stalls for busy pipes. stalls: the cycles of
    the waits by reason, the longest first.
    """

    warps: tuple[int, ...]
    cycles: float
    running: float
    parts: Mapping[str, float]
    waits: tuple[Wait, ...]
    stalls: Mapping[str, float]

    @property
    def names(self) -> str:
        """The warps' numbers, as ranges."""
        return warp_names(self.warps)

    @property
    def long_waits(self) -> list[Wait]:
        """The waits that take enough of the time to be shown."""
        return [wait for wait in self.waits if wait.cycles >= LEAST * self.cycles]


def warp_names(warps: Sequence[int]) -> str:
    """Return the numbers of warps as ranges, such as "warps 0 to 3, 8"."""
    starts = [w for w in warps if w - 1 not in warps]
    ends = [w for w in warps if w + 1 not in warps]
    spans = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)]
    return f"warp{'s' * (len(warps) > 1)} {', '.join(spans)}"


@dataclass(frozen=True)
class Line:
    """The time of all warps of a CTA in one source line, as shares of their time.

    issued: issuing instructions. stalled: between two of them, because of latencies and pipes; what other warps add is
    split by issued instructions. waited: at barriers, for copies, and for values from L2 or HBM. conflicts: cycles per
    CTA that bank conflicts add. wasted: bytes per CTA of global memory's sectors that no lane asked for. stalls: the
    shares of `stalled` and `waited` by reason, the largest first.
    """

    where: str
    issued: float
    stalled: float
    waited: float
    conflicts: float
    wasted: float
    stalls: Mapping[str, float]

    @property
    def share(self) -> float:
        """The share of all warps' time."""
        return self.issued + self.stalled + self.waited


class Places:
    """The source lines and instructions of a launch's PTX lines."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._instrs: Mapping[int, Instr] = {instr.line: instr for instr in launch.kernel.instrs}
        self._sources: dict[int, str] = {}

    def source(self, line: int) -> str:
        """Return the source line of a PTX line, "" if it is not known."""
        if line not in self._sources:
            place = self._launch.source_place(self._instrs[line])
            self._sources[line] = "" if place is None else place.own_call.where
        return self._sources[line]

    def where(self, line: int) -> str:
        """Return the source line of a PTX line, or the PTX line."""
        return self.source(line) or f"PTX line {line}"

    def opcode(self, line: int) -> str:
        """Return the opcode of a PTX line, with the state space of an access."""
        instr = self._instrs[line]
        space = next((m.partition("::")[0] for m in instr.modifiers if m.partition("::")[0] in SPACES), "")
        return f"{instr.opcode}.{space}" if space and instr.kind in ACCESSES else instr.opcode


def typical(time: GridTime) -> Executed:
    """Return the executed cluster that represents most of the grid."""
    return max(time.executed, key=lambda e: e.share)


def roles(time: GridTime, segments: Sequence[Segment], places: Places) -> Iterator[Role]:
    """Yield the roles of the typical cluster's first CTA."""
    cluster = typical(time).cluster
    alike: dict[frozenset[int], list[TimedWarp]] = {}
    for warp in cluster.ctas[0].warps:
        barriers = frozenset(line for line, what in warp.waits if what != LONG_SCOREBOARD)
        alike.setdefault(barriers, []).append(warp)
    whole = cluster.end - cluster.start
    for warps in alike.values():
        count, stalls = len(warps), Counter[str]()
        for wait in (wait for warp in warps for wait in warp.waits.values()):
            stalls.update({reason: cycles / count for reason, cycles in wait.reasons.items()})
        running = sum(warp.running_cycles for warp in warps) / count
        waits, parts = tuple(_merged(warps, places)), _parts(running, warps, segments)
        yield Role(tuple(w.index for w in warps), whole, running, parts, waits, dict(stalls.most_common()))


def _parts(running: float, warps: Sequence[TimedWarp], segments: Sequence[Segment]) -> dict[str, float]:
    """Return the parts of the cycles in which warps run, per warp."""
    parts = {"issuing": 0.0, SHORT_SCOREBOARD: 0.0, FIXED_LATENCY: 0.0}
    for number, times in sum((warp.segments for warp in warps), Counter[int]()).items():
        for cost in segments[number].lines:
            parts["issuing"] += cost.issued * times / len(warps)
            if cost.reason in parts:
                parts[cost.reason] += cost.stalled * times / len(warps)
    return parts | {BUSY_PIPES: max(running - sum(parts.values()), 0.0)}


def _merged(warps: Sequence[TimedWarp], places: Places) -> Sequence[Wait]:
    """Return the waits of alike warps, per warp, the longest first."""
    alike: dict[tuple[str, str], list[tuple[int, Waiting]]] = {}
    for warp in warps:
        for (line, what), wait in warp.waits.items():
            alike.setdefault((ELEMENT.sub("", what), places.where(line)), []).append((line, wait))
    found = []
    for (array, _), waits in alike.items():
        line = max(waits, key=lambda item: item[1].cycles)[0]
        names = {wait.what for _, wait in waits}
        what = names.pop() if len(names) == 1 else array if f"{array}[" in min(names) else f"{len(names)} {array}s"
        cycles, times = sum(wait.cycles for _, wait in waits), sum(wait.times for _, wait in waits)
        found.append(Wait(what, line, places.source(line), cycles / len(warps), times / len(warps)))
    return sorted(found, key=lambda wait: -wait.cycles)


def lines(time: GridTime, segments: Sequence[Segment], places: Places) -> Sequence[Line]:
    """Return the source lines of the typical cluster's first CTA, those with the largest shares first."""
    executed = typical(time)
    cta = executed.cluster.ctas[0]
    whole = (executed.cluster.end - executed.cluster.start) * len(cta.warps)
    found: dict[str, list[float]] = {}
    stalls: dict[str, Counter[str]] = defaultdict(Counter)

    def add(line: int, *costs: float, reasons: Mapping[str, float]) -> None:
        sums = found.setdefault(places.where(line), [0.0] * 5)
        for i, cost in enumerate(costs):
            sums[i] += cost
        stalls[places.where(line)].update({reason: cycles / whole for reason, cycles in reasons.items()})

    for number, times in cta.sm.segments.items():
        for cost in segments[number].lines:
            each = times / executed.together
            costs = (each * c for c in (cost.issued, cost.stalled, 0.0, cost.conflicts, cost.wasted))
            add(cost.line, *costs, reasons={cost.reason: each * cost.stalled})
    issuing, alone = (sum(sum(sums[:count]) for sums in found.values()) for count in (1, 2))
    others = max(sum(warp.running_cycles for warp in cta.warps) - alone, 0.0)
    for where, sums in found.items():
        more = others * sums[0] / max(issuing, 1.0)
        sums[1] += more
        stalls[where].update({BUSY_PIPES: more / whole})
    for warp in cta.warps:
        for (line, _), wait in warp.waits.items():
            add(line, 0.0, 0.0, wait.cycles, reasons=wait.reasons)
    made = []
    for where, (issues, stalled, waited, conflicts, wasted) in found.items():
        reasons = dict((+stalls[where]).most_common())
        made.append(Line(where, issues / whole, stalled / whole, waited / whole, conflicts, wasted, reasons))
    return sorted(made, key=lambda m: -m.share)


def issued(time: GridTime, segments: Sequence[Segment], places: Places) -> dict[str, float]:
    """Return the instructions that the warps of the typical cluster's first CTA issue, by opcode, the most first.

    Instructions of which ptxas is taken to leave nothing are left out.
    """
    executed = typical(time)
    sm, found = executed.cluster.ctas[0].sm, defaultdict[str, float](float)
    for number, times in sm.segments.items():
        for cost in segments[number].lines:
            if cost.issued:
                found[places.opcode(cost.line)] += cost.issued * times / executed.together
    for line, times in sm.executed.items():
        found[places.opcode(line)] += times / executed.together
    return dict(sorted(found.items(), key=lambda item: -item[1]))
