"""The dashboard, a clone's history as HTML pages: milestones over accepted commits, and every run with its verdict.

The pages are plain files that link to each other. They run no scripts and access no network.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from harness.host.files import write_atomically
from harness.host.repository import Repository
from harness.host.verdict import Verdict
from harness.report import chart, history, page
from harness.report.history import Difference, Point
from harness.report.page import Run
from harness.report.steps import Segment, segments
from harness.report.templating import environment
from stages.catalog import CATALOG, Milestone

FOLDER, INDEX, MATRIX = "dashboard", "index.html", "matrix.html"
EXPORTS = ("history.csv", "history.json")
#: A figure has moved if it differs by more than this fraction: seeds and arithmetic are the same in every run.
MOVED = 0.01
MOST_COMMITS = 200
NONE_STALE: Mapping[str, str] = MappingProxyType({})
#: Smaller values are written with an exponent.
SMALL = 1e-3


@dataclass(frozen=True)
class Charted:
    """A figure that is drawn over runs. `noisy`: equal kernels differ in it; `wall`: other work makes it longer."""

    title: str
    value: Callable[[Point], float | None]
    noisy: bool = False
    wall: bool = False


FIGURES = (
    Charted("lse error", lambda point: point.lse_error, noisy=True),  # a seed is new in every run
    Charted("predicted cycles of the first case", lambda point: point.cycles),
    Charted("registers of a thread", lambda point: point.registers),
    Charted("slowest compile, s", lambda point: point.compile_s, noisy=True, wall=True),
    Charted("emulated launches, s", lambda point: point.launch_s, noisy=True, wall=True),
)


@dataclass(frozen=True)
class Moved:
    """An accepted run of a milestone, and the figures that moved since the run before."""

    point: Point
    figures: list[str]


@dataclass(frozen=True)
class Step:
    """A point at which the level of a figure changed."""

    figure: str
    point: Point
    before: str
    after: str


@dataclass(frozen=True)
class Standing:
    """A milestone, its accepted runs, oldest first, and those that were not accepted, newest first."""

    milestone: Milestone
    points: list[Point]
    rejected: list[Point]
    #: The commit since whose tree it was not judged; "" if it was judged on the accepted tree, or never.
    stale: str = ""

    @property
    def last(self) -> Point | None:
        return self.points[-1] if self.points else None

    @property
    def nearest(self) -> str:
        """The metric of the last run that is nearest to its pin."""
        if self.last is None or not self.last.distances:
            return ""
        (tensor, metric), far = max(self.last.distances.items(), key=lambda pair: pair[1])
        return f"{tensor} {metric}: {far:.2f}"

    def moves(self) -> Iterator[Moved]:
        """Yield the accepted runs, newest first."""
        for before, point in reversed(list(zip([None, *self.points[:-1]], self.points, strict=True))):
            yield Moved(point, list(_moved(before, point)) if before else [])

    @cached_property
    def levels(self) -> dict[str, list[Segment]]:
        """The segments of each figure's series, which are numbered like `points`.

        Runs without a value, and busy ones if the figure is a wall time, are left out.
        """
        found = {}
        for each in FIGURES:
            values = {
                i: value
                for i, point in enumerate(self.points)
                if not (each.wall and point.busy) and (value := each.value(point)) is not None
            }
            kept, cut = list(values), segments(list(values.values()), each.noisy)
            found[each.title] = [replace(one, start=kept[one.start], end=kept[one.end - 1] + 1) for one in cut]
        return found

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all figures, newest first."""
        found = []
        for name, levels in self.levels.items():
            for before, after in pairwise(levels):
                found.append((after.start, Step(name, self.points[after.start], *_levels(before, after))))
        yield from (step for _, step in sorted(found, key=lambda each: -each[0]))

    def case_cycles(self) -> list[Difference]:
        """Return the cycles of every case of the newest run that has several, and those of the run before."""
        after = self.last.cycles_by_case if self.last else {}
        before = self.points[-2].cycles_by_case if len(self.points) > 1 else {}
        rows = [history.difference(case, (before.get(case), cycles), ",.0f", "") for case, cycles in after.items()]
        return rows if len(rows) > 1 else []

    def charts(self) -> Iterator[str]:
        """Yield charts of the figures over time, as SVGs."""
        runs = [(point.run.subject.commit[:7], f"{point.run.id}.html") for point in self.points]
        tensors = [tensor for tensor in ("O", "U", "lse", "m") if any(point.nearest(tensor) for point in self.points)]
        far = {tensor: [point.nearest(tensor) for point in self.points] for tensor in tensors}
        yield chart.lines("error, as a fraction of its pin", runs, far, limit=1.0)
        for each in FIGURES:
            values = [each.value(point) for point in self.points]
            busy = [each.wall and point.busy for point in self.points]
            said = f"{each.title} (hollow: the machine was busy)" if any(busy) else each.title
            if any(values):
                yield chart.lines(said, runs, {"": values}, levels=self.levels.get(each.title, ()), busy=busy)
        if self.case_cycles():
            mean = history.relative_cycles(self.points)
            yield chart.lines("predicted cycles of all cases, newest = 1", runs, {"": mean})


@dataclass(frozen=True)
class Commit:
    """A row of the matrix: a commit, and the newest run of each milestone on it (None: not run)."""

    name: str
    subject: str
    date: str
    cells: list[Point | None]


def write(results: Path, runs: Sequence[Run], repository: Repository, stale: Mapping[str, str] = NONE_STALE) -> Path:
    """Write the pages of `runs`, newest first, into `results`/dashboard. Return the path of the first page.

    stale: the milestones that were not judged on the accepted tree, each with the commit on which it was last.
    """
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    subjects = history.subjects(runs, repository)
    found = list(history.points(runs, subjects))
    pages = {f"{run.id}.html": page for run, page in _run_pages(folder, runs, repository)}
    standings = [replace(each, stale=stale.get(each.milestone.id, "")) for each in _standings(found)]
    templates = environment()
    for each in standings:
        if each.points or each.rejected:
            pages[f"{each.milestone.id}.html"] = templates.get_template("milestone.html").render(standing=each)
    first = templates.get_template("dashboard.html")
    pages[INDEX] = first.render(standings=standings, runs=runs, subjects=subjects, exports=EXPORTS, matrix=MATRIX)
    pages[MATRIX] = templates.get_template("matrix.html").render(commits=list(_commits(found)), milestones=CATALOG)
    for name, text in (*pages.items(), *zip(EXPORTS, (history.as_csv(found), history.as_json(found)), strict=True)):
        write_atomically(folder / name, text.encode("utf-8", "replace"))
    for old in set(folder.glob("*.html")) - {folder / name for name in pages}:
        old.unlink()
    return folder / INDEX


def _run_pages(folder: Path, runs: Sequence[Run], repository: Repository) -> Iterator[tuple[Run, str]]:
    for i, run in enumerate(runs):
        newer = runs[i - 1].id if i else ""
        older = runs[i + 1].id if i + 1 < len(runs) else ""
        up = quote(os.path.relpath(run.folder, folder)) + "/"
        yield run, page.render(run, repository, up, site=True, older=older, newer=newer)


def _standings(found: Sequence[Point]) -> Iterator[Standing]:
    """Yield every milestone with its points, which come newest first. The gate of each run counts for D1.1."""
    for milestone in CATALOG:
        own = [point for point in found if point.record.milestone == milestone.id]
        accepted = [point for point in reversed(own) if point.run.verdict == Verdict.ACCEPT.name]
        rejected = [point for point in own if point.verdict not in ("", Verdict.ACCEPT.name)]
        yield Standing(milestone, accepted, rejected)


def _commits(found: Sequence[Point]) -> Iterator[Commit]:
    """Yield the commits of runs, newest first."""
    by_commit: dict[str, dict[str, Point]] = {}
    for point in found:
        by_commit.setdefault(point.run.subject.commit, {}).setdefault(point.record.milestone, point)
    for name, cells in list(by_commit.items())[:MOST_COMMITS]:
        any_point = next(iter(cells.values()))
        yield Commit(name, any_point.subject, any_point.run.started[:10], [cells.get(each.id) for each in CATALOG])


def _levels(before: Segment, after: Segment) -> tuple[str, str]:
    """Return two levels as text, with as many digits as show their difference."""
    return next(
        (low, high)
        for digits in range(3, 18)
        if (low := _shown(before.mean, digits)) != (high := _shown(after.mean, digits)) or digits == 17
    )


def _shown(value: float, digits: int) -> str:
    """Return a value with at least `digits` significant digits."""
    if 0 < abs(value) < SMALL:
        return f"{value:.{digits - 1}e}"
    whole = math.floor(math.log10(abs(value))) + 1 if value else 1
    return f"{value:,.{max(0, digits - whole)}f}"


def _moved(before: Point, now: Point) -> Iterator[str]:
    """Yield the figures that moved between two accepted runs."""
    for (tensor, metric), far in now.distances.items():
        was = before.distances.get((tensor, metric))
        if was is not None and abs(far - was) > MOVED * max(far, was):
            yield f"{tensor} {metric} {was:.3g} → {far:.3g} of its pin"
    if before.registers and now.registers and before.registers != now.registers:
        yield f"registers {before.registers} → {now.registers}"
    if before.cycles and now.cycles and before.cycles != now.cycles:
        bound = f", bound by {now.bound}" + (f", before by {before.bound}" if before.bound != now.bound else "")
        yield f"predicted cycles {before.cycles:,.0f} → {now.cycles:,.0f}{bound}"
