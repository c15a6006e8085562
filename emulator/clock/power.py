"""Clock rates: the highest, and the rate that power allows among launches of one kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .chips import Chip
from .conditions import Data

HALVINGS: Final = 20


@dataclass(frozen=True)
class Pace:
    """The speed of a launch. ghz: the clock rate; cycles: at that rate; seconds: with the launch overhead."""

    ghz: float
    cycles: float
    seconds: float
    why: str


def frequency(chip: Chip, utilisation: float, data: Data = "random") -> float:
    """Return the clock rate in GHz that power allows at a tensor core utilisation.

    Power is proportional to the cube of the rate, because voltage scales with the rate, times the switching activity
    of the tensor cores and of everything else. Hence fewer cycles never take longer.
    """
    switching = utilisation * (chip.zeros_power if data == "zeros" else 1.0)
    return float(
        min(chip.max_clock_ghz, chip.busy_ghz * ((chip.other_power + 1) / (chip.other_power + switching)) ** (1 / 3))
    )


def paced(chip: Chip, ghz: float, cycles: float, why: str) -> Pace:
    """Return the pace of a launch that takes `cycles` at a clock rate."""
    return Pace(ghz, cycles, cycles / (1e9 * ghz) + chip.launch_us * 1e-6, why)


def balanced(
    rate_of: Callable[[float], float], fast: tuple[float, float], slow: tuple[float, float], least: float
) -> tuple[float, float]:
    """Return a consistent (rate, cycles).

    At a lower rate HBM delivers more bytes per cycle, so a launch takes fewer cycles. That raises the utilisation,
    which lowers the rate further. Cycles are taken to be linear in the rate.
    rate_of: returns the rate of a launch by its cycles; fast, slow: two rates with their cycles; least: the lowest
    rate.
    """
    each = (fast[1] - slow[1]) / (fast[0] - slow[0])

    def cycles(rate: float) -> float:
        return slow[1] + each * (rate - slow[0])

    low, high = least, slow[0]
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        low, high = (rate, high) if rate < rate_of(cycles(rate)) else (low, rate)
    return high, cycles(high)
