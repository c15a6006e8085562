"""Clock rates: the highest at first, and the rate that power allows in continuous work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .chips import Chip
from .conditions import Conditions, Data

HALVINGS: Final = 20


@dataclass(frozen=True)
class Pace:
    """The speed of a launch. ghz: the clock rate; cycles: at that rate; seconds: with the launch overhead."""

    ghz: float
    cycles: float
    seconds: float
    why: str


def frequency(chip: Chip, utilisation: float, data: Data = "random") -> float:
    """Return the clock rate in GHz that power allows in continuous work, at a tensor core utilisation.

    Power is proportional to the cube of the rate, because voltage scales with the rate, times the switching activity
    of the tensor cores and of everything else. Hence fewer cycles never take longer.
    """
    switching = utilisation * (chip.zeros_power if data == "zeros" else 1.0)
    return float(
        min(chip.max_clock_ghz, chip.busy_ghz * ((chip.other_power + 1) / (chip.other_power + switching)) ** (1 / 3))
    )


def at_first(chip: Chip, conditions: Conditions, cycles: float, sustained: Pace) -> Pace:
    """Return the pace of a launch that begins after a pause.

    cycles: at the highest rate, or at the one that the conditions give.
    """
    overhead = chip.launch_us * 1e-6
    if conditions.ghz is not None:
        return Pace(conditions.ghz, cycles, cycles / (1e9 * conditions.ghz) + overhead, "as given")
    seconds, full = cycles / (1e9 * chip.max_clock_ghz), 1e-3 * chip.boost_ms
    if seconds <= full or sustained.ghz == chip.max_clock_ghz:
        return Pace(chip.max_clock_ghz, cycles, seconds + overhead, "the chip's highest")
    seconds = full + (1 - full / seconds) * sustained.cycles / (1e9 * sustained.ghz)
    why = f"the chip's highest for {chip.boost_ms:g} ms, then limited by power"
    return Pace(cycles / (1e9 * seconds), cycles, seconds + overhead, why)


def balanced(
    rate_of: Callable[[float], float], fast: tuple[float, float], slow: tuple[float, float], least: float
) -> tuple[float, float]:
    """Return a consistent (rate, cycles).

    At a lower rate HBM delivers more bytes per cycle, so a launch takes fewer cycles. That raises the utilisation,
    which lowers the rate further. Cycles are taken to be linear in the rate.
    rate_of: the rate of a launch that takes some cycles; fast, slow: two rates with their cycles; least: of all rates.
    """
    each = (fast[1] - slow[1]) / (fast[0] - slow[0])

    def cycles(rate: float) -> float:
        return slow[1] + each * (rate - slow[0])

    low, high = least, slow[0]
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        low, high = (rate, high) if rate < rate_of(cycles(rate)) else (low, rate)
    return high, cycles(high)
