"""The uncertainty of a prediction, from the classes of figures that it depends on."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any, Final

from .chips import ERRORS, Chip, parent_of

NEVER_COMPARED: Final = 0.3
"""The error of figures that no measurement on the chip was compared with: a guess."""
RATES: Final = ("_per_cycle", "_per_us", "_saving")
"""The ends of names of figures that make a kernel faster if they are larger."""
LEANS: Final = 0.05
"""The share of a launch's bytes or time from which it leans on a class."""

GATHERS: Final = "TMA gathers"
NARROW: Final = "TMA boxes with rows of less than 32 bytes"
STORES: Final = "TMA stores"
BY_WARPS: Final = "loads and stores of warps, global and generic"
LAUNCH: Final = "launch and start of CTAs"


@dataclass(frozen=True)
class FigureClass:
    """Figures that one kind of measurement tests.

    errors, sets: by chip, the clock's mean error and the sets of `make clock` that it was found by.
    """

    name: str
    figures: frozenset[str]
    errors: Mapping[str, float]
    sets: Mapping[str, tuple[str, ...]]

    def error(self, chip: str) -> float | None:
        """Return the error on a chip, or on the chip that it is like; None if it was compared with neither."""
        name: str | None = chip
        while name is not None and name not in self.errors:
            name = parent_of(name)
        return None if name is None else self.errors[name]


@cache
def classes() -> tuple[FigureClass, ...]:
    """Return the classes of errors.toml."""
    found = []
    for name, entry in tomllib.loads(ERRORS.read_text()).items():
        figures = frozenset(entry.pop("figures"))
        errors = {chip: float(known["error"]) for chip, known in entry.items()}
        found.append(FigureClass(name, figures, errors, {chip: tuple(known["sets"]) for chip, known in entry.items()}))
    return tuple(found)


def mean_error(chip: str) -> float:
    """Return the mean error of the classes that were compared with a chip, or with the one that it is like."""
    return fmean(error for each in classes() if (error := each.error(chip)) is not None)


@cache
def extremes(chip: Chip) -> tuple[Chip, Chip]:
    """Return a faster and a slower chip: each figure is wrong by the error of its class."""
    faster: dict[str, Any] = {}
    slower: dict[str, Any] = {}
    for each in classes():
        error = each.error(chip.file)
        error = NEVER_COMPARED if error is None else error
        for figure in each.figures:
            value, sign = getattr(chip, figure), 1 if figure.endswith(RATES) else -1
            faster[figure], slower[figure] = value * (1 + sign * error), value * (1 - sign * error)
    return replace(chip, **faster), replace(chip, **slower)


def never_compared(chip: Chip, used: Collection[str], shares: Mapping[str, float]) -> Iterator[str]:
    """Yield the classes that a launch leans on and that were never compared with the chip.

    used: the figures that it reads. shares: of its bytes or its time, by class; the other classes count if used.
    """
    for each in classes():
        if each.error(chip.file) is not None:
            continue
        if shares[each.name] >= LEANS if each.name in shares else not each.figures.isdisjoint(used):
            yield each.name
