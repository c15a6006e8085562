"""The comparison of a result with its pins, used for kernels and for negative controls alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stages.case import Case
from stages.expected import Outputs
from stages.metrics import ALL_METRICS, Bound, measure
from stages.tolerances import PinError, pins


@dataclass(frozen=True)
class Figure:
    """One metric of one tensor beside its pin."""

    tensor: str
    metric: str
    value: float
    bound: Bound
    pin: float
    holds: bool

    def __str__(self) -> str:
        mark = "holds" if self.holds else "FAILS"
        enough = (n for n in range(7, 18) if self.holds or f"{self.value:.{n}g}" != f"{self.pin:.{n}g}")
        digits = next(enough, 17)
        return f"{self.tensor}.{self.metric} = {self.value:.{digits}g}, {self.bound} {self.pin:.{digits}g}: {mark}"


def compare(
    case: Case, got: Outputs, want: Outputs, tensors: tuple[str, ...] | None = None, gpu: bool = False
) -> tuple[Figure, ...]:
    """Compare every metric of `got` against the reference `want` with its pin, for all tensors or for `tensors`.

    gpu: take the pins of a GPU. Raises PinError if a tensor has no pins.
    """
    table = pins(case.milestone, case.name, case.floor, gpu)
    if table.keys() != set(case.tensors):
        raise PinError(f"{case.milestone}, case {case.name!r}: pins {sorted(table)}, results {sorted(case.tensors)}")
    figures = []
    for tensor, values in measured(tensors or case.tensors, got, want).items():
        for metric in ALL_METRICS[tensor]:
            if metric.name not in table[tensor]:  # one that the floor of the case does not name
                continue
            value, pin = values[metric.name], table[tensor][metric.name]
            holds = metric.holds(value, pin)
            figures.append(Figure(tensor, metric.name, value, metric.bound, pin, holds))
    return tuple(figures)


def measured(tensors: Sequence[str], got: Outputs, want: Outputs) -> dict[str, dict[str, float]]:
    """Return every metric of every tensor, by tensor and name. U is first rescaled to the reference's maximum."""
    return {tensor: measure(referred(tensor, got, want), want[tensor]) for tensor in tensors}


def referred(tensor: str, got: Outputs, want: Outputs) -> np.ndarray:
    """Return a tensor of `got`; U as U exp(m - reference m), except in empty rows."""
    if tensor != "U":
        return got[tensor]
    with np.errstate(invalid="ignore", over="ignore"):
        factor = np.where(np.isneginf(want["m"]), 1.0, np.exp(got["m"] - want["m"]))
        return got["U"] * factor[:, None]


def failing(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return the figures outside their pins."""
    return tuple(figure for figure in figures if not figure.holds)
