"""The pins of `tolerances.toml`. Reading checks that they are complete, known, and no looser than the floor.

`tolerances.gpu.toml` has the pins and floors that are others on a GPU, whose tensor core truncates sums.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from stages.metrics import ALL_METRICS, METRICS, Metric

FILE = Path(__file__).with_name("tolerances.toml")
GPU_FILE = FILE.with_name("tolerances.gpu.toml")

Pins = dict[str, dict[str, float]]


class PinError(ValueError):
    """A pin is missing, unknown, or looser than the floor."""


def pins(milestone: str, case: str, floor_name: str, gpu: bool = False) -> Pins:
    """Return the pins of a case by tensor and metric, checked against the floor of that name. Raises PinError.

    gpu: return those of a GPU, not of the emulated device.
    """
    table = _table(milestone, case, gpu)
    if not table:
        raise PinError(f"{FILE.name} has no pins for {milestone}, case {case!r}: make sweep {milestone} prints them")
    return check(table, floor(floor_name, gpu), f'["{milestone}"."{case}"]')


def cycles_file(chip: str) -> Path:
    """Return the file with the pinned cycles of a chip, `b200` or `h200`."""
    return FILE.with_name("cycles.toml" if chip == "b200" else f"cycles.{chip}.toml")


def most_cycles(milestone: str, margin: float, chip: str = "b200") -> float:
    """Return the most cycles that a milestone's first case may be predicted to take on a chip. Raises PinError.

    margin: how much slower than its pin it may be, as a share of the pin.
    """
    file = cycles_file(chip)
    pinned = tomllib.loads(file.read_text()).get(milestone)
    if pinned is None:
        raise PinError(f"{file.name} has no cycles for {milestone}: make pin-cycles {milestone} writes them")
    return float(pinned) * (1 + margin)


def floor(name: str, gpu: bool = False) -> Pins:
    """Return the loosest pins that are allowed, by tensor and metric (docs/reference/milestones.md)."""
    return _table("floor", name, gpu)


def check(table: Pins, floor: Pins, where: str) -> Pins:
    """Return `table`. Raises PinError unless it pins every metric of its tensors, no looser than `floor`."""
    for tensor, bounds in table.items():
        if tensor not in METRICS:
            raise PinError(f"{where}: no tensor {tensor!r}; there are {', '.join(METRICS)}")
        by_name = {metric.name: metric for metric in required(tensor, floor)}
        if by_name.keys() != bounds.keys():
            raise PinError(f"{where}: {tensor} must pin {sorted(by_name)}, but pins {sorted(bounds)}")
        for name, lowest in floor.get(tensor, {}).items():
            if not by_name[name].holds(bounds[name], lowest):
                raise PinError(f"{where}: {tensor}.{name} = {bounds[name]} is looser than the floor {lowest}")
    return table


def required(tensor: str, floor: Pins) -> list[Metric]:
    """Return the metrics that a tensor's pins must have: those of every case, and those that the floor names."""
    return [each for each in ALL_METRICS[tensor] if each in METRICS[tensor] or each.name in floor.get(tensor, {})]


def _table(milestone: str, case: str, gpu: bool) -> Pins:
    """Return the pins of a case; with `gpu`, those of GPU_FILE take the place of others. {} if it has none."""
    found: Pins = _read(FILE).get(milestone, {}).get(case, {})
    other: Pins = _read(GPU_FILE).get(milestone, {}).get(case, {}) if gpu else {}
    return {tensor: bounds | other.get(tensor, {}) for tensor, bounds in found.items()}


@cache
def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())
