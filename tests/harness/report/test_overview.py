"""The one page of a run of many milestones."""

from pathlib import Path

from harness.report import overview
from harness.report.record import Case, Record, Tree


def make(milestone: str, *cases: Case) -> Record:
    record = Record("run", milestone, "sim", "2026-11-21T09:00:00Z", Tree("0" * 40, []), cases=list(cases))
    record.verdict = "ACCEPT" if all(case.outcome == "passed" for case in cases) else "REJECT_STAGE"
    return record


def test_newest_first_seeds_together_and_only_reports_that_exist_are_linked(tmp_path: Path) -> None:
    (tmp_path / "D1.2").mkdir()
    (tmp_path / "D1.2/report.html").touch()
    good, bad = Case("n=128", "passed", 1.0, 1), Case("n=128", "failed", 1.0, 2, message="<script>")
    records = [("gate", make("D1.1", good)), ("D1.2", make("D1.2", good, bad))]
    page = overview.write(tmp_path, "a run", records).read_text()
    assert page.index("D1.2") < page.index("D1.1")
    assert '<a href="D1.2/report.html">D1.2</a>' in page and '<a href="gate' not in page
    assert page.count('class="case failed"') == 1 and page.count('class="case passed"') == 1
    assert "<script>" not in page and "&lt;script&gt;" in page
