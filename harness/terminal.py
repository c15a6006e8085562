"""What a run says in the terminal: progress while it goes, then one table of figures and the verdict."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from harness.page import REPORT_NAME
from harness.record import Case, Figure, Record
from harness.verdict import Verdict

SIGN = {"at least": "≥", "at most": "≤"}


class Progress:
    """How far a run is: one line a phase and case as it ends, and in a terminal a line that moves."""

    def __init__(self, console: Console, status: Status) -> None:
        self.console = console
        self.status = status
        self.said = 0

    def show(self, record: Record, seconds: float) -> None:
        """The record as it is, `seconds` into the phase that runs."""
        ended = _ended(record)
        for line in ended[self.said :]:
            self.console.print(Text(line), soft_wrap=True)
        self.said = len(ended)
        doing = [phase.name for phase in record.phases if phase.outcome == "running"]
        doing += [case.label for case in record.cases if case.outcome == "running"]
        self.status.update(Text(f"{', '.join(doing) or 'starting'}  {seconds:.0f} s"))


def _ended(record: Record) -> list[str]:
    """What has ended, in order: a phase comes after its cases."""
    lines = []
    for phase in record.phases:
        if phase.name == "stage":
            cases = [case for case in record.cases if case.outcome != "running"]
            lines += [f"  {case.label:36} {case.outcome} in {case.seconds:.1f} s{_launches(case)}" for case in cases]
        if phase.outcome != "running":
            lines.append(f"{phase.name:8} {phase.outcome} in {phase.seconds:.1f} s")
    return lines


def _launches(case: Case) -> str:
    each = ", ".join(f"{launch.mode} {launch.seconds:.2f}" for launch in case.launches)
    return f" ({each})" if each else ""


def show_end(console: Console, record: Record, folder: Path) -> None:
    """The table, what failed in its own words, the verdict, and where the rest lies."""
    if any(case.figures for case in record.cases):
        console.print(figures_table(record))
    if record.mutants:
        refused = sum(mutant.refused for mutant in record.mutants)
        console.print(f"mutants: {refused} of {len(record.mutants)} refused", highlight=False)
    failed = [case for case in record.cases if case.outcome == "failed"]
    if failed:
        console.print(Text(f"\n{failed[0].message}\n"), soft_wrap=True)
    verdict = Verdict[record.verdict]
    style = "bold green" if verdict is Verdict.ACCEPT else "bold red"
    said = f"  {verdict.meaning}" + (f": {record.reason}" if record.reason else "")
    console.print(Text.assemble((f"{record.milestone} {verdict.name}", style), said), soft_wrap=True)
    report = folder / REPORT_NAME
    console.print(Text(str(report if report.exists() else folder)), soft_wrap=True)


def figures_table(record: Record) -> Table:
    """One row a metric, one column a seed: pin, value, pass or FAIL."""
    cases = [case for case in record.cases if case.figures]
    seeds = list(dict.fromkeys((case.seed, case.fresh) for case in cases))
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column(f"{record.milestone} on {record.target}", no_wrap=True)
    for head in ("pin", *(f"{'fresh' if fresh else 'seed'}\n{seed}" for seed, fresh in seeds), ""):
        table.add_column(head, justify="right", no_wrap=True)
    for name, group in groupby(cases, key=lambda case: case.name):
        by_seed = {case.seed: case for case in group}
        table.add_row(Text(name, "bold"))
        _add_rows(table, [by_seed.get(seed) for seed, _ in seeds])
    return table


def _add_rows(table: Table, cases: list[Case | None]) -> None:
    columns = [case.figures if case else [] for case in cases]
    for index, figure in enumerate(next(column for column in columns if column)):
        across = [column[index] if column else None for column in columns]
        holds = all(each.holds for each in across if each)
        table.add_row(
            f"  {figure.tensor} {figure.metric}",
            f"{SIGN[figure.bound]} {figure.pin:.7g}",
            *map(_value, across),
            Text("pass", "green") if holds else Text("FAIL", "bold red"),
        )
    table.add_section()


def _value(figure: Figure | None) -> Text:
    if figure is None:
        return Text("-")
    return Text(figure.shown, "" if figure.holds else "bold red")
