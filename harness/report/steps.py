"""Steps in a series of figures: where its level changed, and how far single values stray from the level.

The series is cut into constant segments of least squares, with a penalty for each cut. Optimal partitioning finds the
best cuts exactly (Jackson et al., "An algorithm for optimal partitioning of data on an interval", 2005). The penalty is
that of the Bayesian information criterion for a new level and its place (Yao, 1988), with a margin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Times the variance and the logarithm of the length: 2 would be BIC. Of 1,000 series of 100 normal values without a
#: step, 102 have one with 2, and 2 with 4; of 20 values, 188 and 42.
PENALTY = 4.0
#: Measured values of a segment, at least: one slow run is no step.
SHORTEST = 3
#: Computed figures have no noise. A change by less than a few times this fraction is no step.
LEAST_NOISE = 1e-3
#: The median of the difference of two normal values, in standard deviations.
MEDIAN_DIFFERENCE = 0.6745 * math.sqrt(2.0)


@dataclass(frozen=True)
class Segment:
    """Values `start` to `end` (exclusive) of a series, their mean, and the standard deviation of a measured value."""

    start: int
    end: int
    mean: float
    noise: float


def segments(values: Sequence[float], measured: bool) -> list[Segment]:
    """Cut finite values into segments, and return them in order; [] if there is no value.

    measured: values have noise, which is estimated from their differences; computed ones have none.
    """
    if not values:
        return []
    series = np.asarray(values, float)
    noise = LEAST_NOISE * float(np.median(np.abs(series)))
    if measured and len(series) > 1:
        noise = max(noise, float(np.median(np.abs(np.diff(series)))) / MEDIAN_DIFFERENCE)
    penalty = PENALTY * noise**2 * math.log(max(len(series), 2))
    ends = _cuts(series - series.mean(), penalty, SHORTEST if measured else 1)
    starts = [0, *ends[:-1]]
    return [
        Segment(a, b, float(series[a:b].mean()), noise if measured else 0.0) for a, b in zip(starts, ends, strict=True)
    ]


def _cuts(series: np.ndarray, penalty: float, shortest: int) -> list[int]:
    """Return the end of each segment of the best partition."""
    count = len(series)
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (series, series**2))
    best, before = np.full(count + 1, math.inf), np.zeros(count + 1, int)
    best[0] = 0.0
    for end in range(min(shortest, count), count + 1):
        start = np.arange(0, max(end - shortest, 0) + 1)
        cost = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
        total = best[start] + cost + penalty
        before[end] = start[np.argmin(total)]
        best[end] = total.min()
    ends = [count]
    while before[ends[0]] > 0:
        ends.insert(0, int(before[ends[0]]))
    return ends
