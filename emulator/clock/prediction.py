"""What is predicted of a launch: seconds, what bounds it, and where its warps wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from .chips import Chip
from .grid import Grid, GridTime
from .stretch import ALU, FMA, ISSUE, LSU, MUFU, PIPES
from .trace import Recorder
from .warps import SUB_PARTITIONS, TimedWarp

if TYPE_CHECKING:
    from ..machine.launch.launch import Launch
    from ..program import Program
    from ..ptx.syntax import Instr
    from .skeleton import Skeleton

ONCE: Final = "each tensor that TMA loads is read from HBM once; what is loaded of it again is found in L2"
BOUND: Final = 0.5
MATTERS: Final = 0.25
"""HBM that is less busy than so at the highest rate does not bound a launch at a lower one either."""
HALVINGS: Final = 20
WAITS: Final = 4
"""Of a role, so many are shown."""


@dataclass(frozen=True)
class Wait:
    """Where a role waits: for what, the PTX line and, if known, the source's; cycles of a warp; how often."""

    what: str
    line: int
    source: str
    cycles: float
    times: float


@dataclass(frozen=True)
class Role:
    """Warps that wait for the same things. running, waiting: cycles of each, of the `cycles` that its cluster takes."""

    warps: tuple[int, ...]
    cycles: float
    running: float
    waits: tuple[Wait, ...]


@dataclass(frozen=True)
class Prediction:
    """What one launch would take on a chip.

    cycles: of the SM's clock, from the first instruction to the last; seconds: with the launch itself, at `ghz`.
    busy: the share of all cycles for which each part of an SM, or of the chip, is taken, the fullest first. flops: of
    the tensor cores' products. clusters: of the grid, slots at a time, resident CTAs an SM by the limit named. trace:
    if asked for.
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
    trace: Recorder | None = field(default=None, repr=False)

    @property
    def tflops(self) -> float:
        """Of the tensor core's products, a second."""
        return self.flops / self.seconds / 1e12

    @property
    def waves(self) -> float:
        """How often the chip is filled."""
        return self.clusters / self.slots

    @property
    def bound(self) -> str:
        """The part that is taken most, or latency where none is taken half of the time."""
        part, share = next(iter(self.busy.items()))
        return part if share >= BOUND else "latency"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.kernel[:60]}: predicted {self.seconds * 1e6:,.1f} us on a {self.chip} (nothing was measured)"
        yield f"  {self.cycles:,.0f} cycles at {self.ghz:.3f} GHz, {self.tflops:,.0f} TFLOP/s"
        yield (
            f"  {self.clusters} clusters, {self.slots} at a time ({self.resident} CTAs an SM, by {self.limit}): "
            f"{self.waves:.2f} waves, the last {_tail(self.waves):.0%} full"
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
    chip: Chip, launch: Launch, skeleton: Skeleton, program: Program, recorder: Recorder | None = None
) -> Prediction:
    """Predict a launch of a kernel. program: of its skeleton."""
    grid = Grid(chip, launch, program, skeleton.stretches)
    time = grid.time(chip.max_clock_ghz, recorder)
    used = _used(time)
    ghz = _rate(chip, time, used, time.cycles)
    if ghz < chip.max_clock_ghz and _busy(chip, time, used, chip.max_clock_ghz)["HBM"] > MATTERS:
        fast = time.cycles
        if recorder is not None:
            recorder.clear()
        time = grid.time(ghz, recorder)
        used = _used(time)
        ghz, cycles = _balanced(chip, time, used, fast, ghz)
        time = replace(time, cycles=cycles)
    busy = _busy(chip, time, used, ghz)
    return Prediction(
        chip.name,
        launch.kernel.name,
        time.cycles,
        ghz,
        time.cycles / (1e9 * ghz) + chip.launch_us * 1e-6,
        used.get("flops", 0.0) * time.occupancy.clusters,
        busy,
        time.occupancy.clusters,
        time.occupancy.slots,
        time.occupancy.resident,
        time.occupancy.limit,
        tuple(_roles(time, launch)),
        (*_decided(skeleton), ONCE, *chip.assumptions),
        recorder,
    )


def frequency(chip: Chip, utilisation: float) -> float:
    """The rate at which cycles pass, GHz, by the share of what the tensor cores could compute in these that they do.

    Power is the limit. Voltage goes with the rate, so power with its cube, times what switches: the tensor cores and
    all else. So fewer cycles for the same products never take longer.
    """
    switches = (chip.other_power + 1) / (chip.other_power + utilisation)
    return float(min(chip.max_clock_ghz, chip.busy_ghz * switches ** (1 / 3)))


def _rate(chip: Chip, time: GridTime, used: Mapping[str | int, float], cycles: float) -> float:
    """The rate if a launch took so many cycles."""
    return frequency(chip, used.get("products", 0.0) / _cycles(chip, replace(time, cycles=cycles)))


def _balanced(
    chip: Chip, slow: GridTime, used: Mapping[str | int, float], fast: float, ghz: float
) -> tuple[float, float]:
    """(rate, cycles) that agree: HBM gives more bytes a cycle where cycles pass slower, and fewer cycles for the same
    products make them pass slower still. slow: what was executed at `ghz`; fast: the cycles at the highest rate."""
    each = (fast - slow.cycles) / (chip.max_clock_ghz - ghz)

    def cycles(rate: float) -> float:
        return slow.cycles + each * (rate - ghz)

    low, high = frequency(chip, 1.0), ghz
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        low, high = (rate, high) if rate < _rate(chip, slow, used, cycles(rate)) else (low, rate)
    return high, cycles(high)


def _used(time: GridTime) -> dict[str | int, float]:
    """Of the parts of its SMs, what a cluster of the grid takes."""
    used: dict[str | int, float] = {}
    for executed in time.executed:
        for sm in executed.sms:
            for part, cycles in sm.busy.items():
                used[part] = used.get(part, 0.0) + executed.share * cycles / executed.together
    return used


def _cycles(chip: Chip, time: GridTime) -> float:
    """Of all SMs, for each cluster."""
    return time.cycles * chip.sms / time.occupancy.clusters


def _busy(chip: Chip, time: GridTime, used: Mapping[str | int, float], ghz: float) -> dict[str, float]:
    """Shares of the cycles of all SMs of the chip, which pass at a rate."""
    whole = _cycles(chip, time)
    found = {"tensor core": used.get("tensor core", 0.0) / whole}
    for pipe in (ISSUE, FMA, ALU, MUFU):
        found[PIPES[pipe]] = used.get(pipe, 0.0) / SUB_PARTITIONS / whole
    found["shared memory (ld, st)"] = used.get(LSU, 0.0) / whole
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
    return [f"PTX line {i.line} is false: a comparison of data that decides where warps go" for i in skeleton.decided]
