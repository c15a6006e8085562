"""Results that leave a host: files of known kinds, and pages that the judge wrote."""

from __future__ import annotations

from pathlib import Path

from harness.host.evidence import manifest, remove_pages


def fill(out: Path, *names: str) -> None:
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")


def test_files_of_kinds_that_a_browser_runs_stay_on_the_host(tmp_path: Path) -> None:
    fill(tmp_path, "record.json", "logs/gate.log", "a.ptx", "a.layouts.txt", "timeline.png", "report.html")
    known = set(manifest(tmp_path))
    fill(tmp_path, "x.svg", "x.xhtml", "x.html", "index.htm", "filler", "x.js", "gate/x.html")
    assert set(manifest(tmp_path)) == known
    assert len(known) == 6


def test_pages_that_no_judge_wrote_are_removed(tmp_path: Path) -> None:
    fill(tmp_path, "gate/report.html", "report.html", "recordings/report.html")
    remove_pages(tmp_path, [tmp_path / "gate/record.json"])
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("**/*.html")] == ["gate/report.html"]
