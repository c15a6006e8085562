"""The parts of the report: text from a run is escaped."""

from pathlib import Path

from harness.report import pytest_page as page
from harness.report.record import REPORT_NAME, Case, Figure, NegativeControl, Record, Tree

EVIL = "<script>alert(1)</script>"


def make() -> Record:
    record = Record("run", "D1.1", "sim", "2026-11-21T09:00:00Z", Tree("0" * 40, []))
    record.negative_controls = [NegativeControl(EVIL, True, EVIL), NegativeControl("O: scaled by 2", False)]
    record.verdict, record.reason = "REJECT_GATE", EVIL
    return record


def test_the_columns_are_those_of_the_report() -> None:
    heads = " ".join(page.header_cells())
    assert all(f">{title}</th>" in heads for title in ("cosine", "diff", "worst row", "lse error", "seconds"))
    figures = [Figure("lse", "error", 4.9e-7, "at most", 1e-6, True)]
    cells = page.row_cells(Case("hd=64 n=128", "passed", 1.25, 7, True, [], figures))
    assert len(cells) == 1 + len(page.header_cells())
    assert ">hd=64 n=128 seed=7 (fresh)<" in cells[0]
    assert ">4.9e-07<" in cells[4]
    assert ">1.25<" in cells[5]


def test_text_of_a_run_is_escaped() -> None:
    case = Case(EVIL, "failed", 1.0, message=EVIL)
    shown = page.summary(make()) + " ".join(page.row_cells(case)) + page.message(case)
    assert EVIL not in shown
    assert "&lt;script&gt;" in shown
    assert "1 of 2 negative controls rejected" in shown
    assert "ADMITTED" in shown


def test_the_verdict_takes_the_place_that_was_kept_for_it(tmp_path: Path) -> None:
    record = make()
    path = tmp_path / REPORT_NAME
    maker = 'by <a href="https://somewhere.invalid/x">pytest-html</a>'
    path.write_text(f"<body>{maker}{page.summary(record)}</body>")
    page.stamp(tmp_path, record)
    text = path.read_text()
    assert "by pytest-html" in text and "https:" not in text
    assert "No verdict yet" not in text
    assert '<strong class="REJECT_GATE">REJECT_GATE</strong>' in text
    assert EVIL not in text


def test_a_run_without_a_report_gets_none(tmp_path: Path) -> None:
    page.stamp(tmp_path, make())
    assert not list(tmp_path.iterdir())
