"""The history of a clone: the figures of each milestone in each run, as the dashboard draws and exports them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean

from harness.host.repository import GitError, Repository
from harness.host.verdict import Verdict
from harness.report.page import Run, mark
from harness.report.record import Record

#: Runnable threads for each core above which other work made a run's wall times longer: a run alone reaches 1.
BUSY = 1.5
#: Cells of a CSV file that begin with these are formulas to a spreadsheet.
FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True)
class Point:
    """The figures of a milestone in one run. `subject` is that of the run's commit, "" if it is not here."""

    run: Run
    record: Record
    subject: str = ""

    @cached_property
    def distances(self) -> dict[tuple[str, str], float]:
        """The largest error of each metric over the pinned seeds, as a fraction of its pin."""
        return self.record.distances(fresh=False)

    def nearest(self, tensor: str) -> float | None:
        """Return the largest error of a tensor's metrics, as a fraction of the pin."""
        return max((far for (name, _), far in self.distances.items() if name == tensor), default=None)

    @property
    def verdict(self) -> str:
        return self.record.verdict or self.run.verdict

    @property
    def mark(self) -> str:
        """The CSS class of the verdict."""
        return mark(self.verdict if self.verdict in Verdict.__members__ else "")

    @property
    def lse_error(self) -> float | None:
        return self.record.worst("lse", "error")

    @property
    def compile_s(self) -> float | None:
        """The seconds of the slowest compile; None if all kernels were compiled by an earlier run."""
        return max((each.seconds for each in self.record.compiles if not each.found), default=None)

    @property
    def registers(self) -> int | None:
        return max((each.registers for each in self.record.compiles), default=0) or None

    @property
    def cycles(self) -> float | None:
        """The predicted cycles of the first case."""
        return self.record.prediction.cycles if self.record.prediction else None

    @cached_property
    def cycles_by_case(self) -> dict[str, float]:
        """The predicted cycles of every case that the record has."""
        first = self.record.prediction
        return self.record.cycles or ({first.case: first.cycles} if first else {})

    @property
    def bound(self) -> str:
        return self.record.prediction.bound if self.record.prediction else "-"

    @property
    def launch_s(self) -> float:
        return sum(launch.seconds for case in self.record.cases for launch in case.launches)

    @property
    def load(self) -> float | None:
        """The largest load of the machine during the run, in runnable threads for each core; None if not known."""
        return max((each.load for each in self.record.phases if each.load is not None), default=None)

    @property
    def busy(self) -> bool:
        return self.load is not None and self.load > BUSY


@dataclass(frozen=True)
class Difference:
    """A figure in two runs, as text, and the change."""

    figure: str
    before: str
    after: str
    change: str = ""


def difference(figure: str, values: Sequence[float | None], form: str, absent: str = "-") -> Difference:
    """Return a figure of two runs as text in a format, and its change in percent. absent: text for None."""
    before, after = values
    shown = [absent if value is None else f"{value:{form}}" for value in values]
    change = f"{after / before - 1:+.1%}" if before and after is not None and before != after else ""
    return Difference(figure, shown[0], shown[1], change)


def _nearest_pin(point: Point) -> float | None:
    nearest = max(point.distances.values(), default=None)
    return nearest if nearest is not None and math.isfinite(nearest) else None


COLUMNS: dict[str, Callable[[Point], str | float | None]] = {
    "run": lambda point: point.run.id,
    "started": lambda point: point.record.started,
    "commit": lambda point: point.run.subject.commit,
    "subject": lambda point: point.subject,
    "milestone": lambda point: point.record.milestone,
    "target": lambda point: point.run.subject.target,
    "user": lambda point: point.run.subject.user,
    "verdict": lambda point: point.verdict,
    "cosine": lambda point: point.record.worst("O", "cosine"),
    "lse_error": lambda point: point.lse_error,
    "nearest_pin": _nearest_pin,
    "predicted_cycles": lambda point: point.cycles,
    "registers": lambda point: point.registers,
    "compile_s": lambda point: point.compile_s,
    "launches_s": lambda point: point.launch_s,
    "seconds": lambda point: point.record.seconds,
    "load": lambda point: point.load,
}
"""The columns of the CSV export, which are the keys of the JSON export."""


def row(point: Point) -> dict[str, str | float | None]:
    """Return the exported row of a point."""
    return {name: value(point) for name, value in COLUMNS.items()}


def points(runs: Iterable[Run], subjects: Mapping[str, str]) -> Iterator[Point]:
    """Yield the figures of all milestones of runs."""
    for run in runs:
        for _, record in run.records():
            yield Point(run, record, subjects.get(run.subject.commit, ""))


def subjects(runs: Sequence[Run], repository: Repository) -> dict[str, str]:
    """Return the subject of each run's commit that is in this repository."""
    commits = list(dict.fromkeys(run.subject.commit for run in runs))
    options = ("--no-walk=unsorted", "--ignore-missing", "--no-commit-header", "--format=%H %s", "--stdin")
    try:
        listed = repository.git("rev-list", *options, stdin="\n".join(commits)) if commits else ""
    except GitError:
        return {}
    return dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)


def as_csv(found: Sequence[Point]) -> str:
    """Return the rows of points as CSV, with a header."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for point in found:
        cells = row(point).values()
        writer.writerow(f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell for cell in cells)
    return text.getvalue()


def as_json(found: Sequence[Point]) -> str:
    """Return the rows of points as a JSON list, each with its predicted cycles by case."""
    rows = [row(point) | {"cycles_by_case": point.cycles_by_case} for point in found]
    return json.dumps(rows, indent=1)


def relative_cycles(found: Sequence[Point]) -> list[float | None]:
    """Return, for each point, the geometric mean of its cases' cycles over those of the last point.

    Cases that are not in both are left out; None if there are none.
    """
    last = found[-1].cycles_by_case if found else {}
    ratios = ([cycles / last[case] for case, cycles in each.cycles_by_case.items() if last.get(case)] for each in found)
    return [geometric_mean(each) if each and min(each) > 0 else None for each in ratios]
