"""The summary of a run in the terminal: a table of figures, the first failure, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.host.verdict import Verdict
from harness.report.record import Case, Figure, Record

SIGN = {"at least": "≥", "at most": "≤", "within": "±"}


def show_end(console: Console, record: Record, path: Path) -> None:
    """Print the table, the first error message, the verdict, and the `path` of the page or report."""
    names = {case.name for case in record.cases if case.figures}
    if names:
        console.print(figures_table(record) if len(names) == 1 else cases_table(record))
    if shown := record.negative_controls:
        rejected = sum(each.refused for each in shown)
        console.print(f"negative controls: {rejected} of {len(shown)} rejected", highlight=False)
    if record.proven:
        console.print(Text(f"seen in PTX and launches (cases): {record.proven_shown}"), soft_wrap=True)
    if record.prediction:
        console.print(Text(f"predicted, not measured: {record.prediction}"), soft_wrap=True)
        if record.untimed:
            console.print(Text(f"no cycles predicted, for want of time: {', '.join(record.untimed)}"), soft_wrap=True)
        if record.unpinned:
            console.print(Text(f"cycles predicted without a pin: {', '.join(record.unpinned)}"), soft_wrap=True)
    failed = [case for case in record.cases if case.outcome == "failed"]
    if failed:
        console.print(Text(f"\n{failed[0].message}\n"), soft_wrap=True)
    verdict = Verdict[record.verdict]
    style = "bold green" if verdict is Verdict.ACCEPT else "bold red"
    said = f"  {verdict.meaning}" + (f": {record.reason}" if record.reason else "")
    console.print(Text.assemble((f"{record.milestone} {verdict.name}", style), said), soft_wrap=True)
    console.print(Text(str(path)), soft_wrap=True)


def overview(records: Iterable[Record]) -> Table:
    """Return a table with one row for each milestone: worst figures, seconds and verdict."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    for head in ("milestone", "cosine", "lse error", "z", "cases", "predicted cycles", "seconds", "verdict"):
        table.add_column(head, justify="left" if head in ("milestone", "verdict") else "right", no_wrap=True)
    for record in records:
        table.add_row(
            record.milestone,
            record.worst_shown("O", "cosine"),
            record.worst_shown("lse", "error"),
            record.worst_shown("O", "z"),
            str(len(record.cases)),
            record.cycles_shown,
            f"{record.seconds:.1f}",
            Text(record.verdict, "green" if record.verdict == Verdict.ACCEPT.name else "bold red"),
        )
    return table


def cases_table(record: Record) -> Table:
    """Return a table with one row for each case: the worst figures of its seeds, and whether all of them hold."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column(f"{record.milestone} on {record.target}", overflow="fold")
    for head in ("O cosine", "lse error", "O z", ""):
        table.add_column(head, justify="right", no_wrap=True)
    cases = sorted((case for case in record.cases if case.figures), key=lambda case: case.name)
    for name, group in groupby(cases, key=lambda case: case.name):
        seeds = list(group)
        alone = Record(record.run, record.milestone, record.target, record.started, record.tree, cases=seeds)
        shown = (alone.worst_shown(*figure) for figure in (("O", "cosine"), ("lse", "error"), ("O", "z")))
        holds = all(figure.holds for case in seeds for figure in case.figures)
        table.add_row(name, *shown, Text("pass", "green") if holds else Text("FAIL", "bold red"))
    return table


def figures_table(record: Record) -> Table:
    """Return the table of one case: a row for each metric and a column for each seed."""
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
