"""Two runs side by side: what differs in their verdicts, figures and commits, as text and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.host.files import write_atomically
from harness.host.repository import Repository
from harness.report import history, page
from harness.report.history import Difference, Point, difference
from harness.report.page import DiffLine, Run
from harness.report.templating import environment


@dataclass(frozen=True)
class Comparison:
    """Two runs, the figures of each milestone that differ, how many are equal, and the diff of their commits."""

    before: Run
    after: Run
    subjects: tuple[str, str]
    differences: dict[str, list[Difference]]
    equal: dict[str, int]
    diff: list[DiffLine]


def compare(before: Run, after: Run, repository: Repository) -> Comparison:
    """Compare two runs, by milestone."""
    names = history.subjects([before, after], repository)
    sides = [{each.record.milestone: each for each in history.points([run], names)} for run in (before, after)]
    differences, equal = {}, {}
    for milestone in dict.fromkeys([*sides[0], *sides[1]]):
        rows = list(_figures(sides[0].get(milestone), sides[1].get(milestone)))
        differences[milestone] = [row for row in rows if row.before != row.after]
        equal[milestone] = len(rows) - len(differences[milestone])
    diff = list(page.diff_lines(repository, before.subject.commit, after.subject.commit))
    subjects = tuple(names.get(run.subject.commit, "") for run in (before, after))
    return Comparison(before, after, (subjects[0], subjects[1]), differences, equal, diff)


def lines(found: Comparison) -> Iterator[str]:
    """Yield the comparison as lines of text."""
    for run, subject in zip((found.before, found.after), found.subjects, strict=True):
        yield f"{run.id}  {run.verdict or 'going'}  {run.subject.commit[:12]}  {subject}".rstrip()
    for milestone, rows in found.differences.items():
        yield ""
        yield f"{milestone}: {len(rows)} figures differ, {found.equal[milestone]} are equal"
        widths = [max((len(cell) for cell in column), default=0) for column in zip(*map(_cells, rows), strict=True)]
        for row in rows:
            name, *others = _cells(row)
            columns = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            yield "  ".join([f"  {name:{widths[0]}}", *columns]).rstrip()
    changed = [line.text for line in found.diff if line.text.startswith("diff ")]
    if changed:
        yield ""
        said = "1 file differs" if len(changed) == 1 else f"{len(changed)} files differ"
        yield f"{said}: git diff {found.before.subject.commit} {found.after.subject.commit}"


def write(found: Comparison) -> Path:
    """Write the comparison as a page into the results of the second run, and return its path."""
    path = found.after.folder / f"diff-{found.before.id}.html"
    text = environment().get_template("diff.html").render(found=found)
    write_atomically(path, text.encode("utf-8", "replace"))
    return path


def _cells(row: Difference) -> tuple[str, str, str, str]:
    return row.figure, row.before, row.after, row.change


def _figures(before: Point | None, after: Point | None) -> Iterator[Difference]:
    """Yield the figures of a milestone in both runs: verdict, each metric over the pinned seeds, cycles and times."""
    sides = (before, after)
    yield Difference("verdict", *(each.verdict or "going" if each else "not run" for each in sides))
    metrics = [each.distances if each else {} for each in sides]
    for tensor, metric in dict.fromkeys([*metrics[0], *metrics[1]]):
        values = [each.get((tensor, metric)) for each in metrics]
        yield difference(f"{tensor} {metric}, of its pin", values, ".3g")
    cycles = [each.cycles_by_case if each else {} for each in sides]
    for case in dict.fromkeys([*cycles[0], *cycles[1]]):
        yield difference(f"predicted cycles, {case}", [each.get(case) for each in cycles], ",.0f")
    yield difference("registers of a thread", [each.registers if each else None for each in sides], "d")
    yield difference("slowest compile, s", [each.compile_s if each else None for each in sides], ".1f")
    yield difference("emulated launches, s", [each.launch_s if each else None for each in sides], ".1f")
    yield difference("wall time, s", [each.record.seconds if each else None for each in sides], ".1f")
    yield difference("load of the machine", [each.load if each else None for each in sides], ".1f")
