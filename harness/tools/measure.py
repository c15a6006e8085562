"""Pins from the figures of many seeds: the worst value of each figure, with headroom.

`make sweep D1.2 SEEDS=40` measures the milestone's own seeds and 40 more, on the cores of this machine or on TARGET,
and prints the lines for stages/tolerances.toml. Seeds that were measured for the same tree before are not measured
again, so an interrupted sweep continues, and a sweep of more seeds reuses one of fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.client.driver import Driver
from harness.client.run_store import Entry, RunStore
from harness.judge.sweep import NAME, Measured
from remote.target import Target
from stages.catalog import Milestone

if TYPE_CHECKING:
    from stages.case import Case
    from stages.metrics import Metric

FIRST_SEED = 1000
HEADROOM = 2.0
ROUNDING = 1e-12  # rounding error of the metrics themselves, which are computed in float64
M_BELOW = 8 * math.log(2)  # the kernel updates its maximum once a row exceeds it by a factor of 2^8
M_ROUNDING = 2e-6  # of the maximum itself, where Q is not multiplied

Figures = dict[tuple[str, str], float]


def sweep(driver: Driver, milestone: Milestone, count: int, target: Target) -> tuple[Entry | None, list[Measured]]:
    """Measure the milestone's own seeds and `count` more, except those that were measured for this tree before.

    Return the run (None if nothing was left to measure), and all results for these seeds. Raises as `Driver.sweep`.
    """
    wanted = [*milestone.load().SEEDS, *range(FIRST_SEED, FIRST_SEED + count)]
    trees: list[str] = []

    def missing(tree: str) -> list[int]:
        trees.append(tree)
        done = {each.seed for each in measured_before(driver.store, milestone, tree)}
        return [seed for seed in wanted if seed not in done]

    entry = driver.sweep(milestone.id, missing, target)
    known = measured_before(driver.store, milestone, trees[0])
    return entry, [each for each in known if each.seed in set(wanted)]


def measured_before(store: RunStore, milestone: Milestone, tree: str) -> list[Measured]:
    """Return the results of all sweeps of the same tree, including interrupted ones."""
    found: dict[tuple[str, int], Measured] = {}
    for entry in store.newest_first():
        if entry.seeds and entry.subject.milestones == [milestone.id] and entry.candidate.tree == tree:
            for path in store.folder(entry.run).glob(f"*/{NAME}"):
                part = msgspec.json.decode(path.read_bytes(), type=list[Measured])
                found |= {(each.case, each.seed): each for each in part}
    return list(found.values())


def pins(milestone: Milestone, known: Sequence[Measured], gpu: bool = False) -> Iterator[str]:
    """Yield the lines for stages/tolerances.toml, or for stages/tolerances.gpu.toml."""
    for case in milestone.load().CASES:
        worst = worst_figures(each.figures for each in known if each.case == case.name)
        if worst:
            yield from lines(case, worst, gpu)


def worst_figures(measured: Iterable[Mapping[str, float | None]]) -> Figures:
    """Return the worst value of each figure, by tensor and metric. Values that are not numbers are errors elsewhere."""
    from stages.metrics import ALL_METRICS

    worst: Figures = {}
    for figures in measured:
        for name, value in figures.items():
            tensor, metric = name.split(" ")
            bound = next(each.bound for each in ALL_METRICS[tensor] if each.name == metric)
            further = min if bound == "at least" else max
            if value is not None:
                worst[tensor, metric] = further(worst.get((tensor, metric), value), value)
    return worst


def lines(case: Case, worst: Figures, gpu: bool = False) -> Iterator[str]:
    """Yield a case's table of pins, one line for each tensor, no looser than the floor of the device."""
    from stages.tolerances import floor, required

    yield f'["{case.milestone}"."{case.name}"]'
    lags = case.served is None
    for tensor in case.tensors:
        floors = floor(case.floor, gpu)
        bounds = floors.get(tensor, {})
        pins = [
            f"{metric.name} = {pin(metric, worst[tensor, metric.name], bounds.get(metric.name), case.peak, lags)}"
            for metric in required(tensor, floors)
        ]
        yield f"{tensor} = {{ {', '.join(pins)} }}"
    yield ""


def pin(metric: Metric, worst: float, floor: float | None, peak: int = 1, lags: bool = True) -> str:
    """Return a pin: twice the worst error, rounded down to two digits, but no looser than `floor`.

    lags: m may lie below the row maximum, as the kernel's reference does; else it is the maximum.
    """
    if metric.name == "masks":
        return "0"
    if metric.name == "element_or":
        return "1.0"  # the bound of FlashMLA's own tests, whatever was measured
    if metric.name == "below" and lags:
        behind = peak > 1 or worst > 1e-5  # peaked rows may all move at once for many seeds, and yet stay behind
        return f"{M_BELOW + M_ROUNDING * peak:.6f}" if behind else rounded_down(HEADROOM * worst + ROUNDING)
    if metric.bound == "at most":
        text = rounded_down(HEADROOM * worst + ROUNDING)
        return text if floor is None or float(text) <= floor else shown(repr(floor))
    text = repr(round(1 - float(rounded_down(HEADROOM * (1 - worst) + ROUNDING)), 14))
    return text if floor is None or float(text) >= floor else f"{floor}"


def rounded_down(x: float) -> str:
    """Return `x` with two significant digits, rounded towards zero."""
    digits = math.floor(math.log10(x)) - 1
    return shown(f"{math.floor(x / 10.0**digits) * 10.0**digits:.1e}")


def shown(number: str) -> str:
    """Return a number without leading zeros in its exponent."""
    return number.replace("e-0", "e-").replace("e+00", "")
