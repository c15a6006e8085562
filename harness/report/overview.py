"""One page for a run of many milestones: the matrix milestone x case, and the way to each milestone's own report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from harness.host.files import write_atomically
from harness.report.page import REPORT_NAME
from harness.report.record import Case, Record

STYLE = """
body { font: 14px system-ui, sans-serif; color: #222; margin: 24px; }
table { border-collapse: collapse; } th, td { padding: 4px 10px; text-align: left; vertical-align: top; }
tr + tr { border-top: 1px solid #ddd; } td.figure { text-align: right; font-variant-numeric: tabular-nums; }
.cases { max-width: 720px; } .case { display: inline-block; padding: 0 5px; margin: 1px; border-radius: 3px; }
.passed { background: #dff0d8; } .failed, .running { background: #b00020; color: white; }
"""
HEAD = ("milestone", "verdict", "cosine", "lse error", "negative controls refused", "seconds", "cases")


def write(folder: Path, title: str, records: Sequence[tuple[str, Record]]) -> Path:
    """Write `folder/report.html` of milestones, each the name of its own folder and its record; newest first."""
    rows = "".join(_row(record, folder / name) for name, record in reversed(records))
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    path = folder / REPORT_NAME
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1><table><tr>{head}</tr>{rows}</table></html>\n"
    )
    write_atomically(path, page.encode())
    return path


def _row(record: Record, own: Path) -> str:
    cosine, lse_error = record.worst("O", "cosine"), record.worst("lse", "error")
    refused = sum(each.refused for each in record.negative_controls)
    figures = (
        "-" if cosine is None else f"{cosine:.7f}",
        "-" if lse_error is None else f"{lse_error:.1e}",
        f"{refused} of {len(record.negative_controls)}",
        f"{record.seconds:.1f}",
    )
    name = escape(record.milestone)
    link = f'<a href="{escape(own.name)}/{REPORT_NAME}">{name}</a>' if (own / REPORT_NAME).exists() else name
    cells = "".join(f'<td class="figure">{figure}</td>' for figure in figures)
    return (
        f'<tr><td>{link}</td><td>{escape(record.verdict)}</td>{cells}<td class="cases">{_cases(record.cases)}</td></tr>'
    )


def _cases(cases: Iterable[Case]) -> str:
    """One mark a case, its seeds together: green where all of them passed."""
    worst: dict[str, Case] = {}
    for case in cases:
        known = worst.get(case.name)
        if known is None or known.outcome == "passed":
            worst[case.name] = case
    return " ".join(
        f'<span class="case {case.outcome}" title="{escape(case.message[:300])}">{escape(name)}</span>'
        for name, case in worst.items()
    )
