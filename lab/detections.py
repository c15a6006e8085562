"""Errors that the comparison sees, by milestone: `python -m lab.detections [--write] [MILESTONE...]`.

Every case of a milestone is compared with the negative controls of stages/negative_controls.py, and with kernels in
numpy that make one small error. --write replaces the rows of these milestones in lab/data/detections.csv; afterwards
`python -m lab.pages` renews the page.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.tools import tables
from lab.right_kernel import RightKernel
from stages.case import Case
from stages.catalog import CATALOG, find
from stages.check import Figure, compare, failing
from stages.error_model import ErrorModel
from stages.expected import Outputs, Seen, reference
from stages.inputs import draw
from stages.metrics import Array
from stages.negative_controls import negative_controls, stored

TABLE: Final = Path(__file__).parent / "data" / "detections.csv"
Change = Callable[[NDArray[np.intp]], NDArray[np.intp]]
HEAD: Final = ("milestone", "error", "cases", "seen", "no trace", "peaked", "other", "thinnest")
CONTROLS: Final = "negative controls"
#: Sizes at which one key among many is lost, doubled or swapped, in addition to the milestones.
SIZES: Final = {f"{keys} keys": (Case("D0", 64, keys, heads=32),) for keys in (8, 128, 1024)}


def lost(each: Seen) -> Seen:
    """Lose the key in the middle."""
    return _reading(each, lambda keys: np.delete(keys, len(keys) // 2))


def doubled(each: Seen) -> Seen:
    """Read the key in the middle twice."""
    return _reading(each, lambda keys: np.insert(keys, 0, len(keys) // 2))


def swapped(each: Seen) -> Seen:
    """Exchange the values of the two keys in the middle."""
    values, middle = each.values.copy(), len(each.values) // 2
    values[[middle - 1, middle]] = values[[middle, middle - 1]]
    return each._replace(values=values)


def heavier_sink(each: Seen) -> Seen:
    """Give the sink 1% more weight."""
    return each._replace(sink=each.sink + math.log(1.01))


def coarse_power(exponents: Array) -> Array:
    """Return 2^x; of every fourth pair of keys by kernel/sm100's polynomial with its last coefficient doubled."""
    power, fraction = np.exp2(exponents), exponents - np.rint(exponents)
    wrong = np.arange(exponents.shape[1]) // 2 % 4 == 3
    return np.where(wrong, power * (1 + 0.00133 * fraction**5 / np.exp2(fraction)), power)


ERRORS: Final = {
    "P 0.1% too small": RightKernel(p_factor=0.999),
    "a key lost": RightKernel(change=lost),
    "a key doubled": RightKernel(change=doubled),
    "values swapped": RightKernel(change=swapped),
    "sink 1% heavier": RightKernel(change=heavier_sink),
    "scale 0.1% too large": RightKernel(scale_factor=1.001),
    "some 2^x 0.006% off": RightKernel(power=coarse_power),
}


@dataclass
class Row:
    """The result of one error in the cases of a milestone. strength: the smallest ratio of figure to bound."""

    cases: int = 0
    seen: int = 0
    no_trace: int = 0
    peaked: int = 0
    other: int = 0
    strength: float = math.inf
    thinnest: str = "-"

    def add(self, case: Case, wrong: Outputs, right: Outputs, figures: tuple[Figure, ...]) -> None:
        """Add one case."""
        self.cases += 1
        if found := failing(figures):
            self.seen += 1
            best = max(found, key=strength)
            if strength(best) < self.strength:
                self.strength, self.thinnest = strength(best), f"{best.tensor}.{best.metric} {strength(best):.2f}"
        elif all(np.array_equal(wrong[name], right[name], equal_nan=True) for name in right):
            self.no_trace += 1
        elif case.peak > 1:
            self.peaked += 1
        else:
            self.other += 1

    def cells(self) -> tuple[str, ...]:
        """Return the numbers as text."""
        return (*map(str, (self.cases, self.seen, self.no_trace, self.peaked, self.other)), self.thinnest)


def strength(figure: Figure) -> float:
    """Return a figure in units of its bound."""
    value, pin = (1 - figure.value, 1 - figure.pin) if figure.bound == "at least" else (abs(figure.value), figure.pin)
    return value / pin if pin and np.isfinite(value) else math.inf


def rows(name: str, cases: tuple[Case, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each error that some case can have."""
    found = {error: Row() for error in (CONTROLS, *ERRORS)}
    for case in cases:
        inputs = draw(case, 1)
        want, model = reference(case, inputs), ErrorModel(case, inputs)
        correct, right = stored(want), RightKernel().outputs(case, inputs, want)
        for control in negative_controls(case) if name not in SIZES else ():
            wrong = control.make(inputs, correct)
            if any(not np.array_equal(wrong[tensor], correct[tensor]) for tensor in correct):
                found[CONTROLS].add(case, wrong, correct, compare(case, wrong, want, model))
        for error, kernel in ERRORS.items():
            if kernel.change is not heavier_sink or case.sinks is not None:
                wrong = kernel.outputs(case, inputs, want)
                found[error].add(case, wrong, right, compare(case, wrong, want, model))
    yield from ((name, error, *row.cells()) for error, row in found.items() if row.cases)


def main() -> None:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m lab.detections", description=__doc__)
    parser.add_argument("milestones", nargs="*", metavar="MILESTONE")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    args = parser.parse_args()
    everything = {each.id: tuple(each.load().CASES) for each in CATALOG} | SIZES
    chosen = [name if name in SIZES else find(name).id for name in args.milestones] or list(everything)
    known = {row[:2]: row for row in tables.read(TABLE)} if TABLE.exists() else {}
    for name in chosen:
        known = {key: row for key, row in known.items() if key[0] != name}
        for row in rows(name, everything[name]):
            print(*row, sep=", ", flush=True)
            known[row[:2]] = row
    if args.write:
        order = list(everything)
        tables.write(TABLE, HEAD, sorted(known.values(), key=lambda row: order.index(row[0])))


def _reading(each: Seen, change: Change) -> Seen:
    """Return a group with other keys. A group of a single key stays, because a kernel without keys writes zeros."""
    if len(each.keys) < 2:
        return each
    keys = change(np.arange(len(each.keys)))
    return each._replace(keys=each.keys[keys], values=each.values[keys], repeats=each.repeats[keys])


if __name__ == "__main__":
    main()
