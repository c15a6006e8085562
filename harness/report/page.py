"""The page of a run: its verdict, failures with the source around them, the change, and the figures of its milestones.

The page runs no scripts and accesses no network. It shows text from records, and pictures from the folder of results.
The client writes it, so the host of the run cannot change it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from harness.host.files import write_atomically
from harness.host.repository import GitError, Repository
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from harness.report.next_step import next_step
from harness.report.record import PAGE_NAME, REPORT_NAME, Case, Record, load_all
from harness.report.templating import environment

if TYPE_CHECKING:
    from jinja2 import Template

    from harness.report.slower import Slower

#: A line of a source file, as an error of the emulator or a traceback names it.
SOURCE = re.compile(r"\b((?:kernel|stages|examples)/[\w./-]+\.py):(\d+)")
PTX_LINE = re.compile(r"\bPTX line (\d+)")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
AROUND = 4
MOST_SOURCES = 6
MOST_DIFF_LINES = 1000


@dataclass(frozen=True)
class Run:
    """One run as its page shows it. `verdict` is "" until the run has ended; `folder` holds its results.

    `accepted` has the folders of the records, by milestone, that a rejected candidate is compared with. `arch` is the
    target's.
    """

    subject: Subject
    started: str
    verdict: str
    reason: str
    folder: Path
    accepted: Mapping[str, Path] = field(default_factory=dict)
    arch: str = "sm_100a"

    @property
    def id(self) -> str:
        return self.subject.run

    @property
    def title(self) -> str:
        milestones = self.subject.milestones
        return milestones[0] if len(milestones) == 1 else f"{len(milestones)} milestones"

    @property
    def meaning(self) -> str:
        return Verdict[self.verdict].meaning if self.verdict else "no verdict yet: the run is going on, or was left"

    @property
    def mark(self) -> str:
        """The CSS class of the verdict."""
        return mark(self.verdict)

    @property
    def next_step(self) -> str:
        """The command or page that leads on after a run that was not accepted, or ""."""
        records = (record for _, record in self.records())
        return next_step(Verdict[self.verdict], self.reason, records, self.folder, self.arch) if self.verdict else ""

    @cached_property
    def why(self) -> str:
        """The reason in one line; of a rejection its first failure, with the source line that it names."""
        if not (self.verdict and Verdict[self.verdict].rejects):
            return self.reason
        failed = (case for _, record in self.records() for case in record.cases if case.outcome == "failed")
        return next((summary(case.message) for case in failed if case.message), self.reason)

    def records(self) -> Iterator[tuple[str, Record]]:
        """Yield the records with their folders, as `load_all` does."""
        return load_all(self.folder, self.subject.milestones)


def summary(message: str) -> str:
    """Return a failure in one line: the finding and its source line, or the first figure and the pattern of errors."""
    first, *rest = message.splitlines()
    if first.endswith("outside its pins") and rest:
        worst = next(line for line in reversed(rest) if not line.startswith(" "))
        pattern = f"; {worst.partition(' ')[0]}: {rest[-1].strip()}" if rest[-1].startswith(" ") else ""
        return rest[0].removesuffix(": FAILS") + pattern
    place = SOURCE.search(message)
    return f"{first} ({place[0]})" if place else first


@dataclass
class Failure:
    """Cases that failed in the same way: the message of the first, and the source lines that it names."""

    message: str
    where: list[str]
    picture: str
    timeline: str
    sources: list[Excerpt] = field(default_factory=list)


@dataclass(frozen=True)
class Line:
    text: str
    named: bool


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file around the lines that a message names."""

    name: str
    lines: list[Line]


def write(run: Run, repository: Repository) -> Path:
    """Write the page of a run into its folder of results, and the reports of its milestones. Return the page's path."""
    path = run.folder / PAGE_NAME
    write_reports(run)
    write_atomically(path, render(run, repository).encode("utf-8", "replace"))
    return path


def write_reports(run: Run) -> None:
    """Write the report of each milestone of a run from its record."""
    from harness.report import pytest_page

    for name, record in run.records():
        pytest_page.write(run.folder / name, record)


def render(run: Run, repository: Repository, up: str = "./", **site: object) -> str:
    """Return the page of a run. `up` is the relative path from the page to the run's results."""
    records = list(run.records())
    return template().render(
        run=run,
        up=up,
        failures=list(_failures(run, records, repository)),
        slower=list(_slower(run, records)),
        diff=list(diff_lines(repository, run.subject.base, run.subject.commit)),
        parts=list(_parts(run, records)),
        **site,
    )


def prepare() -> None:
    """Load what writing a page needs, which takes half a second."""
    from harness.report import pytest_page  # noqa: F401

    template()


def template() -> Template:
    """Return the template of a run's page."""
    return environment().get_template("run.html")


def mark(verdict: str) -> str:
    """Return the CSS class of a verdict: ACCEPT, the party at fault, or going."""
    if verdict == Verdict.ACCEPT.name:
        return verdict
    return Verdict[verdict].fault.name if verdict else "going"


def _failures(run: Run, records: Sequence[tuple[str, Record]], repository: Repository) -> Iterator[Failure]:
    """Yield each kind of failure once, in the order of occurrence."""
    found: dict[str, Failure] = {}
    for name, record in records:
        for case in record.cases:
            if case.outcome != "failed":
                continue
            where = f"{record.milestone} {case.label}"
            known = found.get(_kind(case))
            if known:
                known.where.append(where)
                continue
            picture, timeline = (f"{_prefix(name)}{file}" if file else "" for file in (case.picture, case.timeline))
            found[_kind(case)] = failure = Failure(case.message, [where], picture, timeline)
            failure.sources = list(_sources(run, run.folder / name, record, case, repository))
    yield from found.values()


def _slower(run: Run, records: Sequence[tuple[str, Record]]) -> Iterator[Slower]:
    """Yield the milestones of a rejected run whose prediction exceeds its pin."""
    for name, record in records:
        found = record.prediction
        if run.verdict and Verdict[run.verdict].rejects and found is not None and not found.holds:
            from harness.report.slower import slower  # imports the emulator, which no other page needs

            yield slower(record.milestone, found, run.folder, run.folder / name, run.accepted.get(record.milestone))


def _kind(case: Case) -> str:
    """Return the kind of a failure: its message without numbers and without the shape of the case."""
    return NUMBER.sub("#", case.message.replace(case.name, ""))


def _sources(run: Run, folder: Path, record: Record, case: Case, repository: Repository) -> Iterator[Excerpt]:
    """Yield the source around each line that a message names, from the commit's files and from the PTX."""
    named: dict[str, list[int]] = {}
    for path, number in list(dict.fromkeys(SOURCE.findall(case.message)))[:MOST_SOURCES]:
        named.setdefault(path, []).append(int(number))
    for path, numbers in named.items():
        try:
            yield from _excerpts(path, repository.git("show", f"{run.subject.commit}:{path}").splitlines(), numbers)
        except GitError:
            continue
    ptx = [file for each in record.compiles for file in each.files if file.endswith(".ptx")]
    lines = [int(number) for number in dict.fromkeys(PTX_LINE.findall(case.message))][:MOST_SOURCES]
    if len(ptx) == 1 and lines and (folder / ptx[0]).exists():
        yield from _excerpts(ptx[0], (folder / ptx[0]).read_text(errors="replace").splitlines(), lines)


def _excerpts(name: str, text: Sequence[str], numbers: Sequence[int]) -> Iterator[Excerpt]:
    """Yield excerpts around the lines `numbers`; overlapping ones are merged."""
    wanted = sorted(
        {n for number in numbers for n in range(number - AROUND, number + AROUND + 1) if 0 < n <= len(text)}
    )
    for _, group in groupby(enumerate(wanted), key=lambda pair: pair[1] - pair[0]):
        lines = [n for _, n in group]
        shown = [Line(f"{n:5}  {text[n - 1][:200]}", n in numbers) for n in lines]
        yield Excerpt(f"{name}, lines {lines[0]} to {lines[-1]}", shown)


@dataclass(frozen=True)
class DiffLine:
    text: str
    kind: str


def diff_lines(repository: Repository, base: str, commit: str) -> Iterator[DiffLine]:
    """Yield the diff of two commits; nothing if one of them is "" or not in this repository."""
    if not base or base == commit:
        return
    try:
        lines = repository.git("diff", "--no-color", "--no-ext-diff", base, commit).splitlines()
    except GitError:
        return
    kinds = {"+": "added", "-": "removed"}
    for line in lines[:MOST_DIFF_LINES]:
        header = line.startswith(("+++", "---", "diff ", "index ", "@@"))
        yield DiffLine(line[:300], "dim" if header else kinds.get(line[:1], ""))
    if len(lines) > MOST_DIFF_LINES:
        yield DiffLine(f"and {len(lines) - MOST_DIFF_LINES} more lines: git diff {base} {commit}", "dim")


@dataclass(frozen=True)
class Part:
    """A milestone of a run: its record, None if it was not run, and whether there is a report of its figures."""

    folder: str
    milestone: str
    verdict: str
    record: Record | None = None
    report: bool = False

    @property
    def prefix(self) -> str:
        return _prefix(self.folder)

    @property
    def mark(self) -> str:
        return mark(self.verdict) if self.record and self.record.verdict else "going"

    @property
    def figures(self) -> tuple[str, ...]:
        if self.record is None:
            return ("",) * 7
        refused = sum(each.refused for each in self.record.negative_controls)
        return (
            self.record.worst_shown("O", "cosine"),
            self.record.worst_shown("lse", "error"),
            self.record.worst_shown("O", "z"),
            f"{refused} of {len(self.record.negative_controls)}",
            self.record.cycles_shown,
            f"{max((each.seconds for each in self.record.compiles), default=0.0):.1f}",
            f"{self.record.seconds:.1f}",
        )


def _parts(run: Run, records: Sequence[tuple[str, Record]]) -> Iterator[Part]:
    """Yield every requested milestone, in order, with its verdict or its state."""
    by_milestone = {record.milestone: (name, record) for name, record in records}
    for milestone in dict.fromkeys([*by_milestone, *run.subject.milestones]):
        name, record = by_milestone.get(milestone, ("", None))
        if record is None:
            yield Part("", milestone, "not run" if run.verdict else "not yet")
        else:
            unended = "did not end" if run.verdict else "running"
            report = (run.folder / name / REPORT_NAME).exists()
            yield Part(name, milestone, record.verdict or unended, record, report)


def _prefix(folder: str) -> str:
    return "" if folder == "." else f"{folder}/"
