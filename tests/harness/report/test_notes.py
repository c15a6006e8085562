"""The generated table of STAGE_NOTES.md."""

from pathlib import Path

import pytest

from harness.client.candidate import Candidate
from harness.client.run_store import Entry, RunStore
from harness.host.subject import Subject
from harness.report import notes
from harness.report.notes import BEGIN, END, NotesError
from harness.report.record import Case, Figure, Phase, Prediction, Record, Tree

TEXT = f"# Notes\n\n{BEGIN}\n{END}\n\n## Lessons\n\nBy hand.\n"


def run(results: Path, name: str, verdict: str, started: str, target: str = "sim") -> None:
    """Store a run of a commit whose id consists of the letter `name`."""
    run_id = f"20261120-100000-D1.1-{name * 6}"
    figures = [
        Figure("O", "cosine", 0.9999976, "at least", 0.999997, True),
        Figure("lse", "error", 4.9e-7, "at most", 1e-6, True),
    ]
    record = Record(run_id, "D1.1", target, started, Tree(name * 40, []))
    record.phases = [Phase("compile", started, "passed", 2.0), Phase("stage", started, "passed", 3.25)]
    record.cases = [Case("hd=64 n=128", "passed", 1.0, 1, False, [], figures)]
    record.prediction = Prediction("hd=64 n=128", "B200", 8431.4, 6e-6, 8700.0, "latency", {}, [], [])
    record.verdict = "ACCEPT"
    about = Subject(run=run_id, commit=name * 40, milestones=["D1.1"], target=target, user="ada", pins="")
    entry = Entry(about, Candidate("", name * 40, "", "", ""), started)
    entry.verdict = verdict
    RunStore(results).save(entry)
    record.save(results / run_id)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "STAGE_NOTES.md"
    path.write_text(TEXT)
    return path


def row(path: Path, milestone: str) -> str:
    (line,) = [line for line in path.read_text().splitlines() if line.startswith(f"| {milestone} |")]
    return line


def test_the_newest_accepted_run_is_the_row(path: Path, tmp_path: Path) -> None:
    run(tmp_path / "results", "b", "ACCEPT", "2026-11-21T10:00:00Z")
    run(tmp_path / "results", "a", "ACCEPT", "2026-11-20T10:00:00Z")
    run(tmp_path / "results", "c", "REJECT_GATE", "2026-11-22T10:00:00Z")
    assert notes.update(path, RunStore(tmp_path / "results").accepted())
    assert row(path, "D1.1") == "| D1.1 | sim | bbbbbbbbbb | 0.9999976 | 4.9e-07 | 8,431 | 5.2 | 2026-11-21 |"
    assert row(path, "D1.2") == "| D1.2 | not run yet | - | - | - | - | - | - |"
    assert path.read_text().endswith(f"{END}\n\n## Lessons\n\nBy hand.\n")


def test_an_update_without_news_changes_nothing(path: Path, tmp_path: Path) -> None:
    run(tmp_path / "results", "a", "ACCEPT", "2026-11-20T10:00:00Z")
    assert notes.update(path, RunStore(tmp_path / "results").accepted())
    before = path.read_bytes()
    assert not notes.update(path, RunStore(tmp_path / "results").accepted())
    assert path.read_bytes() == before


def test_rows_whose_records_are_elsewhere_stay(path: Path, tmp_path: Path) -> None:
    run(tmp_path / "theirs", "a", "ACCEPT", "2026-11-20T10:00:00Z", target="b200")
    notes.update(path, RunStore(tmp_path / "theirs").accepted())
    run(tmp_path / "mine", "b", "ACCEPT", "2026-11-21T10:00:00Z")
    notes.update(path, RunStore(tmp_path / "mine").accepted())
    assert "| D1.1 | b200 | aaaaaaaaaa |" in path.read_text()
    assert "| D1.1 | sim | bbbbbbbbbb |" in path.read_text()


def test_a_damaged_record_does_not_stop_the_others(path: Path, tmp_path: Path) -> None:
    run(tmp_path / "results", "a", "ACCEPT", "2026-11-20T10:00:00Z")
    run(tmp_path / "results", "b", "ACCEPT", "2026-11-21T10:00:00Z")
    (tmp_path / "results/20261120-100000-D1.1-bbbbbb/record.json").write_text("{")
    notes.update(path, RunStore(tmp_path / "results").accepted())
    assert "aaaaaaaaaa" in row(path, "D1.1")


def test_a_record_without_a_run_is_no_news(path: Path, tmp_path: Path) -> None:
    """The sample run is in git, and the row in the table may be newer than the sample."""
    run(tmp_path / "results", "a", "ACCEPT", "2026-11-20T10:00:00Z")
    (tmp_path / "results/20261120-100000-D1.1-aaaaaa/run.json").unlink()
    notes.update(path, RunStore(tmp_path / "results").accepted())
    assert row(path, "D1.1") == "| D1.1 | not run yet | - | - | - | - | - | - |"


@pytest.mark.parametrize("text", ["# Notes\n", f"{END}\n{BEGIN}\n", BEGIN])
def test_a_file_without_its_markers_is_refused_and_kept(path: Path, tmp_path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(NotesError, match=r"STAGE_NOTES\.md: the markers are missing"):
        notes.update(path, RunStore(tmp_path).accepted())
    assert path.read_text() == text
