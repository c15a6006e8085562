"""Figures of many seeds, to see that a right kernel stays within the bounds of the error model.

`make sweep D1.2 SEEDS=40` measures the milestone's own seeds and 40 more, on the cores of this machine or on TARGET,
and prints the largest value of each figure. Seeds that were measured for the same tree before are not measured
again, so an interrupted sweep continues, and a sweep of more seeds reuses one of fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from harness.client.driver import Driver
from harness.client.run_store import Entry, RunStore
from harness.judge.sweep import NAME, Measured
from remote.target import Target
from stages.catalog import Milestone

FIRST_SEED = 1000


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


def largest(known: Sequence[Measured]) -> Iterator[str]:
    """Yield a line for each figure: the value nearest to its pin or beyond it, its case and seed."""
    names = dict.fromkeys(name for each in known for name in each.figures)
    for name in names:
        values = [(each.figures[name], each) for each in known if name in each.figures]
        smallest = name.endswith(" cosine")
        value, at = min(values, key=lambda pair: _badness(pair[0], smallest))
        yield f"{name:14} {'NaN' if value is None else f'{value:.7g}':>12}  {at.case} seed={at.seed}"


def _badness(value: float | None, smallest: bool) -> float:
    """Return a key by which the worst value comes first; None is NaN."""
    if value is None:
        return -math.inf
    return value if smallest else -abs(value)
