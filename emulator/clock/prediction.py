"""The prediction for a launch: seconds, the bounding resource, and where its warps wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from ..html import folded, preformatted
from .chips import Chip
from .conditions import USUAL, Conditions
from .grid import Grid, GridTime
from .power import Pace, at_first, balanced, frequency
from .stretch import ALU, FMA, ISSUE, LSU, MUFU, PIPES
from .trace import Recorder
from .warps import SUB_PARTITIONS, TimedWarp

if TYPE_CHECKING:
    from ..machine.launch.launch import Launch
    from ..program import Program
    from ..ptx.syntax import Instr
    from .skeleton import Skeleton

READ_ONCE: Final = "each tensor that TMA loads is read from HBM once; repeated loads of the same bytes hit L2"
BOUND: Final = 0.5
HBM_MATTERS: Final = 0.25
"""HBM use below which HBM does not bound a launch; at a lower clock HBM is even less busy."""
WAITS: Final = 4
"""The number of waits shown per role."""


@dataclass(frozen=True)
class Wait:
    """A wait of a role: its reason, PTX line and, if known, source line.

    cycles, times: average cycles and number of waits per warp.
    """

    what: str
    line: int
    source: str
    cycles: float
    times: float


@dataclass(frozen=True)
class Role:
    """Warps that wait for the same things.

    running, waits: cycles per warp, of the `cycles` that its cluster takes.
    """

    warps: tuple[int, ...]
    cycles: float
    running: float
    waits: tuple[Wait, ...]


@dataclass(frozen=True)
class Prediction:
    """The predicted time of one launch on a chip.

    cycles: of the SM's clock, from the first instruction to the last.
    seconds: with the launch overhead, at `ghz`, of a launch after a pause. pace: why it has this rate.
    sustained: the same in continuous work, at the rate that power allows.
    conditions: what L2 holds, the data, and the rate if it is given.
    busy: the utilisation of each part of an SM and of the chip, the highest first.
    flops: of tensor core instructions.
    clusters: in the grid. slots: clusters at a time. resident: CTAs per SM. limit: the resource that limits `resident`.
    trace: the recorded events, if they were requested.
    """

    chip: str
    kernel: str
    cycles: float
    ghz: float
    seconds: float
    flops: float
    busy: dict[str, float]
    clusters: int
    slots: int
    resident: int
    limit: str
    roles: tuple[Role, ...]
    assumptions: tuple[str, ...]
    pace: str
    sustained: Pace
    conditions: Conditions = USUAL
    trace: Recorder | None = field(default=None, repr=False)

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
        part, share = next(iter(self.busy.items()))
        return part if share >= BOUND else "latency"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """Return the prediction for a notebook, its assumptions below a line."""
        text, _, assumed = str(self).partition("\n  assumed:\n")
        return preformatted(text) + folded("assumptions", preformatted(assumed))

    def _lines(self) -> Iterator[str]:
        yield f"{self.kernel[:60]}: predicted {self.seconds * 1e6:,.1f} us on a {self.chip} (nothing was measured)"
        yield f"  {self.cycles:,.0f} cycles at {self.ghz:.3f} GHz ({self.pace}), {self.tflops:,.0f} TFLOP/s"
        if self.sustained.ghz != self.ghz:
            rate = self.flops / self.sustained.seconds / 1e12
            us = f"{self.sustained.seconds * 1e6:,.1f} us at {self.sustained.ghz:.3f} GHz"
            yield f"  in continuous work: {us} ({self.sustained.why}), {rate:,.0f} TFLOP/s"
        yield f"  L2 {self.conditions.l2}, data {self.conditions.data}"
        yield (
            f"  {self.clusters} clusters, {self.slots} at a time ({self.resident} CTAs per SM, "
            f"limited by {self.limit}): {self.waves:.2f} waves, the last {_tail(self.waves):.0%} full"
        )
        yield "  busy: " + ", ".join(f"{what} {share:.0%}" for what, share in self.busy.items())
        for role in self.roles:
            names = ", ".join(map(str, role.warps))
            yield f"  warps {names}: running {role.running / role.cycles:.0%}"
            for wait in role.waits:
                at = f"PTX line {wait.line}" + (f", {wait.source}" if wait.source else "")
                yield f"    {wait.cycles / role.cycles:4.0%} waiting for {wait.what} ({wait.times:,.0f} times; {at})"
        yield "  assumed:"
        yield from (f"    {text}" for text in self.assumptions)


def _tail(waves: float) -> float:
    return 1 - (ceil(waves) - waves)


def predict(
    chip: Chip,
    launch: Launch,
    skeleton: Skeleton,
    program: Program,
    recorder: Recorder | None = None,
    conditions: Conditions = USUAL,
) -> Prediction:
    """Predict the time of a launch. program: the lowered skeleton."""
    grid = Grid(chip, launch, program, skeleton.stretches, conditions)
    ghz = conditions.ghz or chip.max_clock_ghz
    time = grid.time(ghz, recorder)
    sustained = _sustained(chip, grid, time, conditions)
    pace = at_first(chip, conditions, time.cycles, sustained)
    busy = _busy(chip, time, time.cycles, ghz)
    return Prediction(
        chip.name,
        launch.kernel.name,
        time.cycles,
        pace.ghz,
        pace.seconds,
        time.used.get("flops", 0.0) * time.occupancy.clusters,
        busy,
        time.occupancy.clusters,
        time.occupancy.slots,
        time.occupancy.resident,
        time.occupancy.limit,
        tuple(_roles(time, launch)),
        (*_decided(skeleton), READ_ONCE, *chip.assumptions),
        pace.why,
        sustained,
        conditions,
        recorder,
    )


def _sustained(chip: Chip, grid: Grid, time: GridTime, conditions: Conditions) -> Pace:
    """Return the pace in continuous work. time: at the highest rate, or at the one that the conditions give."""
    if conditions.ghz is not None:
        return at_first(chip, conditions, time.cycles, Pace(conditions.ghz, time.cycles, 0.0, ""))

    def rate_of(cycles: float) -> float:
        return frequency(chip, time.used.get("products", 0.0) / _cycles(chip, time, cycles), conditions.data)

    ghz, cycles = rate_of(time.cycles), time.cycles
    if ghz < chip.max_clock_ghz and _busy(chip, time, cycles, chip.max_clock_ghz)["HBM"] > HBM_MATTERS:
        slow, fast = (ghz, grid.time(ghz).cycles), (chip.max_clock_ghz, time.cycles)
        ghz, cycles = balanced(rate_of, fast, slow, frequency(chip, 1.0, conditions.data))
    why = "limited by power" if ghz < chip.max_clock_ghz else "the chip's highest"
    return Pace(ghz, cycles, cycles / (1e9 * ghz) + chip.launch_us * 1e-6, why)


def _cycles(chip: Chip, time: GridTime, cycles: float) -> float:
    """Return the cycles of all SMs divided by the number of clusters, for a launch that takes `cycles`."""
    return cycles * chip.sms / time.occupancy.clusters


def _busy(chip: Chip, time: GridTime, cycles: float, ghz: float) -> dict[str, float]:
    """Return the utilisation of each part of the chip in a launch that takes `cycles` at clock rate `ghz`."""
    whole, used = _cycles(chip, time, cycles), time.used
    found = {"tensor core": used.get("tensor core", 0.0) / whole}
    for pipe in (ISSUE, FMA, ALU, MUFU):
        found[PIPES[pipe]] = used.get(pipe, 0.0) / SUB_PARTITIONS / whole
    found["shared memory"] = (used.get("shared memory", 0.0) + used.get(LSU, 0.0)) / whole
    found["TMA"] = used.get("TMA", 0.0) / whole
    found["L2"] = used.get("L2 bytes", 0.0) / chip.l2_share(chip.sms) / whole
    found["HBM"] = used.get("HBM bytes", 0.0) / chip.hbm_share(chip.sms, ghz) / whole
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _roles(time: GridTime, launch: Launch) -> Iterator[Role]:
    cluster = max(time.executed, key=lambda e: e.share).cluster
    roles: dict[frozenset[int], list[TimedWarp]] = {}
    for warp in cluster.ctas[0].warps:
        roles.setdefault(frozenset(line for line, _ in warp.waits), []).append(warp)
    instrs = {instr.line: instr for instr in launch.kernel.instrs}
    for warps in roles.values():
        found: dict[tuple[int, str], tuple[float, float]] = {}
        for warp in warps:
            for key, wait in warp.waits.items():
                cycles, times = found.get(key, (0.0, 0.0))
                found[key] = cycles + wait.cycles / len(warps), times + wait.times / len(warps)
        most = sorted((item for item in found.items() if item[1][0]), key=lambda item: -item[1][0])[:WAITS]
        waits = [Wait(what, line, _source(launch, instrs[line]), *spent) for (line, what), spent in most]
        running = sum(warp.running_cycles for warp in warps) / len(warps)
        yield Role(tuple(w.index for w in warps), cluster.end - cluster.start, running, tuple(waits))


def _source(launch: Launch, instr: Instr) -> str:
    place = launch.source_place(instr)
    return "" if place is None else (place.caller or place).where


def _decided(skeleton: Skeleton) -> Sequence[str]:
    return [
        f"the comparison in PTX line {i.line} is false: it depends on data and decides a branch"
        for i in skeleton.decided
    ]
