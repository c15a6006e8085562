"""The dashboard, a clone's history as HTML pages: milestones over accepted commits, and every run with its verdict.

The pages are plain files that link to each other. They run no scripts and access no network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from harness.host.files import write_atomically
from harness.host.repository import Repository
from harness.host.verdict import Verdict
from harness.report import chart, page
from harness.report.page import Run
from harness.report.record import Record
from stages.catalog import CATALOG, Milestone

FOLDER, INDEX = "dashboard", "index.html"
#: A figure has moved if it differs by more than this fraction: seeds and arithmetic are the same in every run.
MOVED = 0.01


@dataclass(frozen=True)
class Point:
    """The figures of a milestone in one accepted run."""

    run: Run
    record: Record

    @cached_property
    def distances(self) -> dict[tuple[str, str], float]:
        """The largest error of each metric over the pinned seeds, as a fraction of its pin."""
        return self.record.distances(fresh=False)

    def nearest(self, tensor: str) -> float | None:
        """Return the largest error of a tensor's metrics, as a fraction of the pin."""
        return max((far for (name, _), far in self.distances.items() if name == tensor), default=None)

    @property
    def lse_error(self) -> float | None:
        return self.record.worst("lse", "error")

    @property
    def compile_s(self) -> float | None:
        return max((each.seconds for each in self.record.compiles), default=None)

    @property
    def registers(self) -> int | None:
        return max((each.registers for each in self.record.compiles), default=0) or None

    @property
    def cycles(self) -> float | None:
        return self.record.prediction.cycles if self.record.prediction else None

    @property
    def bound(self) -> str:
        return self.record.prediction.bound if self.record.prediction else "-"

    @property
    def launch_s(self) -> float:
        return sum(launch.seconds for case in self.record.cases for launch in case.launches)


@dataclass(frozen=True)
class Step:
    """An accepted run of a milestone, and the figures that moved since the run before."""

    point: Point
    moved: list[str]


@dataclass(frozen=True)
class Standing:
    """A milestone and its accepted runs, oldest first."""

    milestone: Milestone
    points: list[Point]

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

    def steps(self) -> Iterator[Step]:
        """Yield the accepted runs, newest first."""
        for before, point in reversed(list(zip([None, *self.points[:-1]], self.points, strict=True))):
            yield Step(point, list(_moved(before, point)) if before else [])

    def charts(self) -> Iterator[str]:
        """Yield charts of the figures over time, as SVGs."""
        runs = [(point.run.subject.commit[:7], f"{point.run.id}.html") for point in self.points]
        tensors = [tensor for tensor in ("O", "U", "lse", "m") if any(point.nearest(tensor) for point in self.points)]
        far = {tensor: [point.nearest(tensor) for point in self.points] for tensor in tensors}
        yield chart.lines("error, as a fraction of its pin", runs, far, limit=1.0)
        single: dict[str, Callable[[Point], float | None]] = {
            "lse error": lambda point: point.lse_error,
            "predicted cycles of the first case": lambda point: point.cycles,
            "slowest compile, s": lambda point: point.compile_s,
            "registers of a thread": lambda point: point.registers,
            "emulated launches, s": lambda point: point.launch_s,
        }
        for title, value in single.items():
            values = [value(point) for point in self.points]
            if any(values):
                yield chart.lines(title, runs, {"": values})


def write(results: Path, runs: Sequence[Run], repository: Repository) -> Path:
    """Write the pages of `runs`, newest first, into `results`/dashboard. Return the path of the first page."""
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{run.id}.html": page for run, page in _run_pages(folder, runs, repository)}
    standings = list(_standings(runs))
    templates = page.environment()
    for each in standings:
        if each.points:
            pages[f"{each.milestone.id}.html"] = templates.get_template("milestone.html").render(standing=each)
    pages[INDEX] = templates.get_template("dashboard.html").render(standings=standings, runs=runs)
    for name, text in pages.items():
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


def _standings(runs: Sequence[Run]) -> Iterator[Standing]:
    """Yield every milestone with the figures of accepted runs. The gate of each run counts for D1.1."""
    points: dict[str, list[Point]] = {}
    for run in reversed(runs):
        if run.verdict == Verdict.ACCEPT.name:
            for _, record in run.records():
                points.setdefault(record.milestone, []).append(Point(run, record))
    for milestone in CATALOG:
        yield Standing(milestone, points.get(milestone.id, []))


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
