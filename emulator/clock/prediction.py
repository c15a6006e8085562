"""The prediction for a launch: seconds with their range, the bounding resource, and where its warps wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any, Final

from ..html import collapsible, preformatted
from .conditions import USUAL, Conditions
from .power import Pace
from .profile import LEAST, Line, Role
from .registers import Registers
from .trace import Trace
from .uncertainty import Range

BOUND: Final = 0.5
SHOWN: Final = 10
"""The number of waits and of lines that the text shows."""
SMALLEST: Final = 0.01
"""The smallest share of time that the text shows."""


@dataclass(frozen=True)
class Roofline:
    """The most TFLOP/s that the tensor cores and HBM allow together.

    intensity: flops of tensor core instructions per byte of HBM, infinite without HBM traffic. tensor, hbm: TFLOP/s
    that each allows alone.
    """

    intensity: float
    tensor: float
    hbm: float

    @property
    def tflops(self) -> float:
        """The lower of the two bounds."""
        return min(self.tensor, self.hbm)


def bound(busy: Mapping[str, float]) -> str:
    """Return the busiest part, or "latency" if no part is busy half of the time. busy: the busiest part first."""
    part, share = next(iter(busy.items()))
    return part if share >= BOUND else "latency"


@dataclass(frozen=True)
class Prediction:
    """The predicted time of one launch on a chip.

    cycles: of the SM's clock at its highest rate, from the first instruction to the last.
    pace: the pace of one of many equal launches in sequence; has `seconds` and `ghz`.
    fastest: the launch at the highest rate. range: of `seconds`, from measured launches.
    conditions: what L2 holds, the data, and the rate if it is given.
    busy: the utilisation of each part of an SM and of the chip, the highest first.
    flops: of tensor core instructions. instructions: of warps, that take an issue slot. roofline: None without them.
    clusters: in the grid. slots: clusters at a time. resident: CTAs per SM. limit: the resource that limits `resident`.
    work: the instructions, bytes and operations of all clusters by kind, as `Stats.work` has them.
    registers: of a thread, None if something else limits an SM to one CTA.
    lines: where the warps' time goes, by source line. issued: instructions of all warps of a CTA, by opcode.
    assumptions: unmeasured figures that it depends on. never_compared: instruction classes that it depends on and
    whose times were never compared with the chip's.
    trace: the recorded events, if they were requested.
    """

    chip: str
    kernel: str
    cycles: float
    pace: Pace
    fastest: Pace
    range: Range
    flops: float
    instructions: float
    roofline: Roofline | None
    busy: dict[str, float]
    clusters: int
    slots: int
    resident: int
    limit: str
    work: dict[str, float]
    registers: Registers | None
    roles: tuple[Role, ...]
    lines: tuple[Line, ...]
    issued: dict[str, float]
    assumptions: tuple[str, ...]
    never_compared: tuple[str, ...]
    conditions: Conditions = USUAL
    trace: Trace | None = field(default=None, repr=False)

    @property
    def ghz(self) -> float:
        """The clock rate."""
        return self.pace.ghz

    @property
    def seconds(self) -> float:
        """The time of the launch, with its overhead."""
        return self.pace.seconds

    @property
    def tflops(self) -> float:
        """Tensor core TFLOP/s."""
        return self.flops / self.seconds / 1e12

    @property
    def waves(self) -> float:
        """The number of waves of clusters."""
        return self.clusters / self.slots

    @property
    def bound(self) -> str:
        """The busiest part, or "latency" if no part is busy half of the time."""
        return bound(self.busy)

    @property
    def seconds_range(self) -> tuple[float, float]:
        """The range that holds the time of 90% of measured launches of this kind."""
        return self.range.of(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return the prediction as JSON's types, without its trace."""
        found = asdict(replace(self, trace=None))
        found["conditions"]["clusters"] = sorted(self.conditions.clusters)
        del found["trace"]
        count, how = (None, None) if self.registers is None else (self.registers.count, self.registers.how)
        found |= {"registers": count, "registers_from": how, "ghz": self.ghz, "seconds": self.seconds}
        found["seconds_range"] = self.seconds_range
        return found | {"tflops": self.tflops, "waves": self.waves, "bound": self.bound}

    def __str__(self) -> str:
        return "\n".join([*self.text(), *self.assumed()])

    def _repr_html_(self) -> str:
        """Return the prediction for a notebook, its assumptions folded."""
        shown, assumed = "\n".join(self.text()), "\n".join(self.assumed())
        return preformatted(shown) + collapsible("assumptions", preformatted(assumed))

    def assumed(self) -> Iterator[str]:
        """Yield the lines that list what this prediction assumes."""
        if self.assumptions:
            yield "  assumed:"
        yield from (f"    {text}" for text in self.assumptions)

    def text(self) -> Iterator[str]:
        """Yield the lines of the prediction, all but its assumptions."""
        low, high = (1e6 * seconds for seconds in self.seconds_range)
        times, fastest = f" ({low:,.1f} to {high:,.1f})" if self.conditions.ranges else "", ""
        us = f"{self.seconds * 1e6:,.1f} us{times} on the {self.chip}"
        yield f"{self.kernel[:60]}: predicted {us} (nothing was measured)"
        yield f"  {self.tflops:,.0f} TFLOP/s at {self.ghz:.3f} GHz ({self.pace.why})"
        if (fast := self.fastest) != self.pace:
            rate = self.flops / fast.seconds / 1e12
            fastest = f"; at the highest rate, {fast.ghz:.3f} GHz: {1e6 * fast.seconds:,.1f} us, {rate:,.0f} TFLOP/s"
        yield f"  {self.cycles:,.0f} cycles{fastest}"
        if self.conditions.ranges:
            yield f"  {self.range}"
        yield f"  L2 {self.conditions.l2}, data {self.conditions.data}; instructions: a list schedule of the PTX"
        yield from self._bounds()
        yield from self._profile()
        if self.never_compared:
            yield f"  never compared with the {self.chip}: {'; '.join(self.never_compared)}"

    def _bounds(self) -> Iterator[str]:
        """Yield the lines of what bounds the launch: parts, roofline and occupancy."""
        share = max(self.busy.values())
        yield f"  bound by {self.bound}" + ("" if share < BOUND else f" at {share:.0%} of its peak")
        yield "  busy: " + ", ".join(f"{what} {share:.0%}" for what, share in self.busy.items())
        if (roof := self.roofline) is not None:
            what = "tensor cores" if roof.tensor <= roof.hbm else "HBM"
            yield (
                f"  roofline: {roof.intensity:,.0f} FLOP per byte of HBM, so {what} allow{'s' * (what == 'HBM')} "
                f"{roof.tflops:,.0f} TFLOP/s; {self.tflops / roof.tflops:.0%} of that"
            )
        known = self.registers
        registers = "" if known is None else f"; {known.count} registers a thread, {known.how}"
        resident = f"{self.resident} CTAs per SM, limited by {self.limit}{registers}"
        waves = f"{self.waves:.2f} waves, the last {_tail(self.waves):.0%} full"
        yield f"  {self.clusters} clusters, {self.slots} at a time ({resident}): {waves}"

    def _profile(self) -> Iterator[str]:
        """Yield the lines of where the warps' time goes."""
        for role in self.roles:
            running, stalls = (_shares(each, role.cycles) for each in (role.parts, role.stalls))
            inside = f" ({', '.join(running)})" if running else ""
            yield "  " + ", ".join([f"{role.names}: running {role.running / role.cycles:.0%}{inside}", *stalls])
        waits = sorted(((w.cycles / r.cycles, r, w) for r in self.roles for w in r.waits), key=lambda each: -each[0])
        if waits and waits[0][0] >= SMALLEST:
            yield "  waits, as shares of the CTA's time:"
        for share, role, wait in waits[:SHOWN]:
            if share >= SMALLEST:
                yield f"    {share:4.0%} {wait.what} at {wait.where}, {role.names} ({_shown(wait.times)} times)"
        longest = [line for line in self.lines[:SHOWN] if line.share >= LEAST]
        if longest:
            yield "  lines, as shares of all warps' time:"
            yield f"    {'issued':>7}{'stalled':>9}{'waiting':>9}"
        for line in longest:
            most = next(iter(line.stalls), "")
            reason = f" ({most})" if most else ""
            yield f"    {line.issued:>7.1%}{line.stalled:>9.1%}{line.waited:>9.1%}  {line.where}{reason}"
        for line in sorted((each for each in self.lines if each.conflicts), key=lambda each: -each.conflicts)[:SHOWN]:
            yield f"  bank conflicts: {line.conflicts:,.0f} cycles per CTA at {line.where}"
        for line in sorted((each for each in self.lines if each.wasted), key=lambda each: -each.wasted)[:SHOWN]:
            yield f"  sectors: {line.wasted:,.0f} bytes per CTA that no lane asked for, at {line.where}"


def _shown(times: float) -> str:
    """Return a mean number of waits per warp."""
    return f"{times:,.0f}" if times >= 1 else f"{times:.1f}"


def _shares(parts: Mapping[str, float], whole: float) -> list[str]:
    """Return the parts of a time that are large enough to be shown, as shares."""
    return [f"{what} {cycles / whole:.0%}" for what, cycles in parts.items() if cycles >= LEAST * whole]


def _tail(waves: float) -> float:
    return 1 - (ceil(waves) - waves)
