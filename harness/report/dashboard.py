"""The history of a clone as pages: the milestones over accepted commits, and every run with its verdict.

Plain files that link to each other: nothing runs in them and nothing is fetched.
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
#: A figure of the pinned seeds moved when it differs by this part; the seeds and the arithmetic are the same each time.
MOVED = 0.01


@dataclass(frozen=True)
class Point:
    """A milestone as an accepted run measured it."""

    run: Run
    record: Record

    @cached_property
    def distances(self) -> dict[tuple[str, str], float]:
        """Of the pinned seeds, how far each metric came towards its pin."""
        return self.record.distances(fresh=False)

    def nearest(self, tensor: str) -> float | None:
        """The metric of a tensor that came nearest to its pin."""
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
    """An accepted run of a milestone, and what it moved against the one before."""

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
        """The metric that is nearest to its pin now."""
        if self.last is None or not self.last.distances:
            return ""
        (tensor, metric), far = max(self.last.distances.items(), key=lambda pair: pair[1])
        return f"{tensor} {metric}: {far:.2f}"

    def steps(self) -> Iterator[Step]:
        """Newest first."""
        for before, point in reversed(list(zip([None, *self.points[:-1]], self.points, strict=True))):
            yield Step(point, list(_moved(before, point)) if before else [])

    def charts(self) -> Iterator[str]:
        """What is worth seeing over time, an SVG each."""
        runs = [(point.run.subject.commit[:7], f"{point.run.id}.html") for point in self.points]
        tensors = [tensor for tensor in ("O", "U", "lse", "m") if any(point.nearest(tensor) for point in self.points)]
        far = {tensor: [point.nearest(tensor) for point in self.points] for tensor in tensors}
        yield chart.lines("error, as a part of what its pin admits", runs, far, limit=1.0)
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
    """Write the pages of `runs`, newest first, into `results`/dashboard. Returns the first page."""
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
    """Every milestone with what accepted runs measured of it; the gate of any of them counts as D1.1's."""
    points: dict[str, list[Point]] = {}
    for run in reversed(runs):
        if run.verdict == Verdict.ACCEPT.name:
            for _, record in run.records():
                points.setdefault(record.milestone, []).append(Point(run, record))
    for milestone in CATALOG:
        yield Standing(milestone, points.get(milestone.id, []))


def _moved(before: Point, now: Point) -> Iterator[str]:
    """What differs between two accepted runs by more than chance."""
    for (tensor, metric), far in now.distances.items():
        was = before.distances.get((tensor, metric))
        if was is not None and abs(far - was) > MOVED * max(far, was):
            yield f"{tensor} {metric} {was:.3g} → {far:.3g} of its pin"
    if before.registers and now.registers and before.registers != now.registers:
        yield f"registers {before.registers} → {now.registers}"
    if before.cycles and now.cycles and before.cycles != now.cycles:
        bound = f", bound by {now.bound}" + (f", before by {before.bound}" if before.bound != now.bound else "")
        yield f"predicted cycles {before.cycles:,.0f} → {now.cycles:,.0f}{bound}"
