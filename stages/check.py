"""The one comparison that kernels and mutants go through: every metric of every tensor beside its pin."""

from collections.abc import Sequence
from dataclasses import dataclass

from stages.case import Case, Outputs
from stages.metrics import METRICS, Bound, measure
from stages.tolerances import pins


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
        return f"{self.tensor}.{self.metric} = {self.value:.7g}, {self.bound} {self.pin:.7g}: {mark}"


def compare(case: Case, got: Outputs, want: Outputs) -> tuple[Figure, ...]:
    """Every pinned metric of `got` against the reference `want`."""
    figures = []
    for tensor, bounds in pins(case.milestone, case.name, case.head_dim).items():
        values = measure(got[tensor], want[tensor])
        for metric in METRICS[tensor]:
            value, pin = values[metric.name], bounds[metric.name]
            holds = metric.holds(value, pin)
            figures.append(Figure(tensor, metric.name, value, metric.bound, pin, holds))
    return tuple(figures)


def failing(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Those figures that lie outside their pins."""
    return tuple(figure for figure in figures if not figure.holds)
