"""Part of a page: why a candidate is slower than the accepted commit, by role, mbarrier and source line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.commands.comparison.differences import Change, line_changes
from emulator.commands.comparison.text import difference, notable, shown
from harness.report.record import Prediction, Record, RecordError, Role, load

MOST_LINES = 15


@dataclass(frozen=True)
class Row:
    """A row of a table: what it is about, its source lines, and the cycles of both commits."""

    name: str
    where: str
    base: str
    head: str
    change: str
    slower: bool


@dataclass(frozen=True)
class Slower:
    """A milestone whose prediction exceeds its pin.

    accepted: the run that has the accepted commit's prediction, "" if none is here. pictures: title and file of
    both timelines, each with its share of the longer one's time. tables: rows by title.
    """

    milestone: str
    said: str
    accepted: str
    pictures: Sequence[tuple[str, str, float]]
    tables: Mapping[str, Sequence[Row]]


def slower(milestone: str, found: Prediction, folder: Path, record: Path, accepted: Path | None) -> Slower:
    """Return the part of the page about a prediction that exceeds its pin.

    folder: the run's results. record: the folder of its record. accepted: that of the accepted commit's record.
    """
    over = f"{found.cycles - found.most:,.0f} cycles ({found.cycles / found.most - 1:.1%}) more than its pin allows"
    said = f"{milestone} is predicted to be slower: {found}. That is {over}."
    before = _load(accepted)
    past = None if before is None else before.prediction
    sides = [("candidate", found, record)]
    if before is None or past is None or accepted is None or (past.case, past.chip) != (found.case, found.chip):
        return Slower(milestone, said, "", _pictures(sides, folder), {})
    return Slower(
        milestone,
        said,
        before.run,
        _pictures([("accepted", past, accepted), *sides], folder),
        dict(_tables(past, found)),
    )


def _pictures(sides: Sequence[tuple[str, Prediction, Path]], folder: Path) -> list[tuple[str, str, float]]:
    """Return (title, path from `folder`, share of the longer time) of each side's timeline."""
    longest = max(each.cycles for _, each, _ in sides)
    return [
        (f"{name}, {each.cycles:,.0f} cycles", os.path.relpath(at / each.picture, folder), each.cycles / longest)
        for name, each, at in sides
        if each.picture
    ]


def _load(folder: Path | None) -> Record | None:
    try:
        return None if folder is None else load(folder)
    except RecordError:
        return None


def _tables(before: Prediction, found: Prediction) -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables that have rows: one for each role, and one of source lines."""
    names = dict.fromkeys(role.name for role in [*before.roles, *found.roles])
    for name in names:
        sides = [_cycles(next((r for r in each.roles if r.name == name), None), each) for each in (before, found)]
        changes = [
            _change(what, sides[0].get(what), sides[1].get(what)) for what in dict.fromkeys([*sides[0], *sides[1]])
        ]
        if rows := [_row(each) for each in notable(sorted(changes, key=lambda each: -abs(each.delta or 0.0)))]:
            yield name, rows
    lines = [{each.where: (each.text, each.share * side.cycles) for each in side.lines} for side in (before, found)]
    if all(lines) and (rows := [_row(each) for each in notable(line_changes(lines[0], lines[1]))[:MOST_LINES]]):
        yield "source lines, all warps", rows


def _cycles(role: Role | None, of: Prediction) -> dict[str, tuple[float, str]]:
    """Return the cycles in which a role's warps run, and wait, by reason, each with the place of the longest."""
    found: dict[str, tuple[float, str]] = {}
    if role is not None:
        found["runs"] = role.running * of.cycles, ""
        for wait in sorted(role.waits, key=lambda each: -each.share):
            cycles, where = found.get(wait.what, (0.0, wait.where))
            found[wait.what] = cycles + wait.share * of.cycles, where
    return found


def _change(what: str, base: tuple[float, str] | None, head: tuple[float, str] | None) -> Change:
    (before, at), (after, to) = base or (None, ""), head or (None, "")
    return Change(what, before, after, "cycles", (at, to))


def _row(change: Change) -> Row:
    where = " -> ".join(dict.fromkeys(each for each in change.where if each))
    values = shown(change.base, change.unit), shown(change.head, change.unit)
    return Row(change.name, where, *values, difference(change), (change.delta or 0.0) > 0)
