"""Predict the time of a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final

from ..machine.launch.launch import Launch
from ..machine.launch.statistics import KINDS
from ..program import Program
from .accesses import Load
from .chips import Chip, reading
from .conditions import USUAL, Conditions
from .grid import Grid, GridTime
from .operations import operation
from .power import Pace, balanced, frequency, paced
from .prediction import Prediction, Roofline, bound
from .profile import Places, issued, lines, roles
from .segment import ALU, FMA, ISSUE, LSU, MUFU, PIPES, SUB_PARTITIONS, WARP_MMA
from .skeleton import Skeleton
from .trace import Trace
from .uncertainty import BY_WARPS, GATHERS, LAUNCH, never_compared, range_of

READ_ONCE: Final = "each tensor that TMA loads is read from HBM once; repeated loads of the same bytes hit L2"
HBM_MATTERS: Final = 0.25
"""HBM use below which HBM does not bound a launch; at a lower clock HBM is even less busy."""

Skeletons = Callable[[Chip, Mapping[int, Load] | None], tuple["Skeleton", "Program"]]
"""Returns a kernel's skeleton on a chip, and its lowered program, by what its loads request; None: to find that out."""


@dataclass
class Timed:
    """A launch on a chip."""

    chip: Chip
    grid: Grid
    conditions: Conditions

    @cached_property
    def ghz(self) -> float:
        """The highest clock rate, or the one that the conditions give."""
        return self.conditions.ghz or self.chip.max_clock_ghz

    def fastest(self, time: GridTime) -> Pace:
        """Return the pace at the highest rate. time: at that rate."""
        return paced(self.chip, self.ghz, time.cycles, "as given" if self.conditions.ghz else "the chip's highest")

    def pace(self, time: GridTime) -> Pace:
        """Return the pace among launches of the same kind, which power limits. time: at the highest rate."""
        chip, fastest = self.chip, self.fastest(time)

        def rate_of(cycles: float) -> float:
            return frequency(chip, time.used.get("products", 0.0) / whole(chip, time, cycles), self.conditions.data)

        ghz, cycles = rate_of(time.cycles), time.cycles
        if self.conditions.ghz or ghz == chip.max_clock_ghz:
            return fastest
        if busy(chip, time, fastest)["HBM"] > HBM_MATTERS:
            slow, fast = (ghz, self.grid.time(ghz).cycles), (chip.max_clock_ghz, time.cycles)
            ghz, cycles = balanced(rate_of, fast, slow, frequency(chip, 1.0, self.conditions.data))
        return paced(chip, ghz, cycles, "limited by power")


def predict(
    chip: Chip,
    launch: Launch,
    skeletons: Skeletons,
    trace: Trace | None = None,
    conditions: Conditions = USUAL,
) -> Prediction:
    """Predict the time of a launch."""
    skeleton, program = skeletons(chip, None)
    places = Places(launch)
    if trace is not None:
        trace.source = places.source
    recording, figures = reading(chip)
    grid = Grid(recording, launch, program, skeleton, conditions)
    if skeleton.sites:
        skeleton, program = skeletons(chip, grid.loads())
        grid = grid.on(program, skeleton)
    timed = Timed(recording, grid, conditions)
    time = timed.grid.time(timed.ghz, trace)
    pace, fastest = timed.pace(time), timed.fastest(time)
    figures |= skeleton.figures
    occupancy, used = time.occupancy, busy(chip, time, pace)
    instructions = issued(time, skeleton.segments, places)
    shares = timed.grid.shares | {LAUNCH: chip.launch_us * 1e-6 / pace.seconds}
    return Prediction(
        chip.name,
        launch.kernel.name,
        time.cycles,
        pace,
        fastest,
        range_of(bound(used), shares[BY_WARPS], shares[LAUNCH], tuple(_missing(grid, skeleton))),
        time.used.get("flops", 0.0) * occupancy.clusters,
        time.used.get(ISSUE, 0.0) * occupancy.clusters,
        _roofline(chip, time, pace.ghz),
        used,
        occupancy.clusters,
        occupancy.slots,
        occupancy.resident,
        occupancy.limit,
        time.work(KINDS, {i.line: i.opcode for i in launch.kernel.instrs if operation(i)}, skeleton.segments),
        timed.grid.registers,
        tuple(roles(time, skeleton.segments, places)),
        tuple(lines(time, skeleton.segments, places)),
        instructions,
        tuple(_assumptions(chip, skeleton, timed, time, figures)),
        tuple(never_compared(chip, figures, shares)),
        conditions,
        trace,
    )


def _missing(grid: Grid, skeleton: Skeleton) -> Iterator[str]:
    """Yield the properties of a launch that the model lacks."""
    if grid.exceeds and (grid.shares[BY_WARPS] or grid.shares[GATHERS]):
        yield "what a full L2 drops of gathers and ordinary loads"
    if skeleton.polls:
        yield "waiting for other CTAs through global memory"


def _roofline(chip: Chip, time: GridTime, ghz: float) -> Roofline | None:
    used = time.used
    if not (flops := used.get("flops", 0.0)):
        return None
    intensity = flops / used["HBM bytes"] if used.get("HBM bytes") else inf
    peak = flops / used["products"] * chip.sms * ghz / 1e3
    return Roofline(intensity, peak, intensity * chip.hbm_bytes_per_us / 1e6)


def whole(chip: Chip, time: GridTime, cycles: float) -> float:
    """Return the cycles of all SMs divided by the number of clusters, for a launch that takes `cycles`."""
    return cycles * chip.sms / time.occupancy.clusters


def busy(chip: Chip, time: GridTime, pace: Pace) -> dict[str, float]:
    """Return the utilisation of each part of the chip in a launch at a pace, the highest first."""
    cycles, used = whole(chip, time, pace.cycles), time.used
    found = {"tensor core": (used.get("tensor core", 0.0) + used.get(WARP_MMA, 0.0) / SUB_PARTITIONS) / cycles}
    for pipe in (ISSUE, FMA, ALU, MUFU):
        found[PIPES[pipe]] = used.get(pipe, 0.0) / SUB_PARTITIONS / cycles
    found["shared memory"] = (used.get("shared memory", 0.0) + used.get(LSU, 0.0)) / cycles
    found["TMA"] = used.get("TMA", 0.0) / cycles
    found["L2"] = used.get("L2 bytes", 0.0) / chip.l2_share(chip.sms) / cycles
    found["HBM"] = used.get("HBM bytes", 0.0) / chip.hbm_share(chip.sms, pace.ghz) / cycles
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _assumptions(chip: Chip, skeleton: Skeleton, timed: Timed, time: GridTime, figures: set[str]) -> Iterator[str]:
    """Yield the assumptions of this launch's prediction."""
    if skeleton.decided:
        at = ", ".join(str(instr.line) for instr in skeleton.decided)
        if (outcomes := timed.grid.outcomes) is None:
            yield f"comparisons of data that decide a branch are false: PTX lines {at}"
        else:
            yield f"all clusters branch as cluster {outcomes.cluster} did, which was executed: PTX lines {at}"
    if skeleton.polls:
        at = ", ".join(str(instr.line) for instr in skeleton.polls)
        yield f"other CTAs have stored or arrived when a loop polls global memory: PTX lines {at}"
    touched, held = (f"{size / 2**20:,.0f} MiB" for size in (timed.grid.touched, chip.l2_bytes))
    if time.used.get("TMA"):
        yield f"L2 keeps the last {held} of {touched}, in the order of CTAs" if timed.grid.exceeds else READ_ONCE
    if timed.conditions.l2 == "warm" and not timed.grid.holds:
        yield f"L2 is cold although a warm one was asked for: the launch touches {touched}, L2 holds {held}"
    yield from (text for name, text in chip.assumptions.items() if name in figures)
