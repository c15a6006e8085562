"""The comparison of a result with its pins, used for kernels and for negative controls alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stages.case import Case
from stages.error_model import ROUNDS, ErrorModel
from stages.expected import Outputs
from stages.metrics import METRICS, Array, Bound, measure
from stages.tolerances import pins


@dataclass(frozen=True)
class Figure:
    """One metric of one tensor, with its pin."""

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
    case: Case, got: Outputs, want: Outputs, model: ErrorModel, tensors: tuple[str, ...] | None = None
) -> tuple[Figure, ...]:
    """Compare every metric of `got` against the reference `want` with its pin, for all tensors or for `tensors`.

    model: the error model of the case and its inputs. Raises PinError if the milestone has no pins.
    """
    table = pins(case.milestone, model.core is not ROUNDS)
    figures = []
    for tensor, values in measured(tensors or case.tensors, got, want, model).items():
        for metric in METRICS[tensor]:
            value, pin = values[metric.name], table[tensor][metric.name]
            figures.append(Figure(tensor, metric.name, value, metric.bound, pin, metric.holds(value, pin)))
    return tuple(figures)


def measured(tensors: Sequence[str], got: Outputs, want: Outputs, model: ErrorModel) -> dict[str, dict[str, float]]:
    """Return every metric of every tensor, by tensor and name."""
    found = {}
    for tensor in tensors:
        own, right = compared(tensor, got), compared(tensor, want)
        found[tensor] = measure(own, right) | model.figures(tensor, own, right)
    return found


def compared(tensor: str, outputs: Outputs) -> Array:
    """Return a tensor as it is compared: U divided by its row's sum of weights, exp(lse - m), except in empty rows.

    Then an error that all logits of a row share has no effect on U. lse and m show it.
    """
    if tensor != "U":
        return outputs[tensor]
    with np.errstate(invalid="ignore", over="ignore"):
        factor = np.where(np.isneginf(outputs["lse"]), 1.0, np.exp(outputs["m"] - outputs["lse"]))
        quotient: Array = outputs["U"] * factor[:, None]
        return quotient


def failing(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return the figures outside their pins."""
    return tuple(figure for figure in figures if not figure.holds)
