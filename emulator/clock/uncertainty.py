"""The uncertainty of a prediction: its range, and the classes of figures that it depends on."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Final

from .chips import ERRORS, RANGES, Chip, parent_of

NEVER_COMPARED: Final = 0.3
"""The error of figures that no measurement on the chip was compared with: a guess."""
MOST: Final = 0.5
WIDER: Final = 1.5
"""The factor by which a range widens, as a logarithm, if the model lacks a property of the launch."""
KINDS: Final = {"MUFU": "SFU", "FMA": "arithmetic", "ALU": "arithmetic", "issue slots": "arithmetic"}
"""The kinds of launches that are not named after the busiest part."""
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


@dataclass(frozen=True)
class Range:
    """The factors of a predicted time between which 90% of the measured launches of a kind lie.

    kind: what bounds them. points: of these measurements, 0 if the widest known range stands for it.
    missing: the properties of the launch that the model lacks; they make the range wider.
    """

    kind: str
    points: int
    low: float
    high: float
    missing: tuple[str, ...] = ()

    def of(self, seconds: float) -> tuple[float, float]:
        """Return the range of a predicted time."""
        more = WIDER if self.missing else 1.0
        return seconds * self.low**more, seconds * self.high**more

    def __str__(self) -> str:
        known = f"{self.points} measured points" if self.points else "no measured point"
        lacks = f"; not modelled: {', '.join(self.missing)}" if self.missing else ""
        return f"range of 90% of launches bound by {self.kind}, from {known}{lacks}"


@cache
def _known_ranges() -> dict[str, Range]:
    return {kind: Range(kind, **entry) for kind, entry in tomllib.loads(RANGES.read_text()).items()}


def range_of(bound: str, by_warps: float, launch: float, missing: Collection[str] = ()) -> Range:
    """Return the range of a launch.

    bound: its busiest part, or latency. by_warps: the share of its bytes that warps load. launch: the share of its
    time before the first instruction and after the last one.
    """
    kind = "launch" if launch >= MOST else "ordinary loads" if by_warps >= MOST else KINDS.get(bound, bound)
    known = _known_ranges()
    widest = max(known.values(), key=lambda each: each.high / each.low)
    found = known.get(kind) or Range(kind, 0, widest.low, widest.high)
    return replace(found, missing=tuple(missing))


def never_compared(chip: Chip, used: Collection[str], shares: Mapping[str, float]) -> Iterator[str]:
    """Yield the instruction classes that a launch's time depends on and that were never compared with the chip.

    used: the figures that it reads. shares: of its bytes or its time, by class; the other classes count if used.
    """
    for each in classes():
        if each.error(chip.file) is not None:
            continue
        if shares[each.name] >= LEANS if each.name in shares else not each.figures.isdisjoint(used):
            yield each.name
