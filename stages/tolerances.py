"""The pins of `tolerances.toml`: bounds of the error model for every milestone, and floors of each milestone."""

import tomllib
from collections import ChainMap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from stages.metrics import METRICS

FILE = Path(__file__).with_name("tolerances.toml")

Pins = dict[str, dict[str, float]]


class PinError(ValueError):
    """A pin is missing or unknown."""


def pins(milestone: str, gpu: bool = False) -> Pins:
    """Return the pins of a milestone by tensor and metric. Raises PinError.

    gpu: return those of a GPU, whose tensor core truncates sums.
    """
    table = _read(FILE)
    every, own = table["every"], table.get(milestone, {})
    layers = (every, every["gpu"] if gpu else {}, own, own.get("gpu", {}) if gpu else {})
    found = {
        tensor: dict(ChainMap(*(layer.get(tensor, {}) for layer in reversed(layers))))
        for tensor in every
        if tensor != "gpu"
    }
    return check(found, f"[{milestone}]")


def added_up() -> float:
    """Return the most standard deviations that z_factor of a case's seeds, added up, may have."""
    return float(_read(FILE)["every_seed"]["z_factor"])


def check(table: Pins, where: str) -> Pins:
    """Return `table`. Raises PinError unless it pins every metric of every tensor, and no other."""
    if table.keys() != METRICS.keys():
        raise PinError(f"{where}: there are {', '.join(METRICS)}, but pins of {', '.join(table)}")
    for tensor, bounds in table.items():
        names = {metric.name for metric in METRICS[tensor]}
        if names != bounds.keys():
            raise PinError(f"{where}: {tensor} must pin {sorted(names)}, but pins {sorted(bounds)}")
    return table


def cycles_file(chip: str) -> Path:
    """Return the file with the pinned cycles of a chip, `b200` or `h200`."""
    return FILE.with_name("cycles.toml" if chip == "b200" else f"cycles.{chip}.toml")


def most_cycles(milestone: str, cases: Sequence[object], margin: float, chip: str = "b200") -> dict[str, float]:
    """Return the most cycles that the cases of a milestone may be predicted to take on a chip.

    margin: how much slower than its pin it may be, as a share of the pin. The first case has a pin; later ones may lack
    theirs. Raises PinError if the first lacks it, or if there are more pins than cases.
    """
    file = cycles_file(chip)
    pinned = tomllib.loads(file.read_text()).get(milestone, [])
    if not 0 < len(pinned) <= len(cases):
        there = f"{file.name} has cycles of {len(pinned)} cases of {milestone}, which has {len(cases)}"
        raise PinError(f"{there}: make pin-cycles {milestone} writes them")
    return {str(case): cycles * (1 + margin) for case, cycles in zip(cases, pinned, strict=False)}


@cache
def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())
