"""Results that leave a host: files of known kinds. Anything may lie in their place."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.host import evidence
from harness.host.evidence import MAX_FILES, manifest, planted, read_record
from harness.host.files import LONGEST_PATH, remove
from harness.host.job import Job, RunFolder, Step
from harness.host.phase import Ended
from harness.host.ruling import MAX_BYTES, ResultFile, Ruling
from harness.host.subject import Subject
from harness.host.verdict import Verdict

#: A phase with its record in the root of the results.
STEP = Step("stage", [], 1.0, record=".")


def fill(out: Path, *names: str) -> None:
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")


def test_files_of_kinds_that_a_browser_runs_stay_on_the_host(tmp_path: Path) -> None:
    fill(tmp_path, "record.json", "logs/gate.log", "a.ptx", "a.layouts.txt", "timeline.png")
    known = set(manifest(tmp_path, [STEP]))
    fill(tmp_path, "x.svg", "x.xhtml", "x.html", "index.htm", "filler", "x.js", "gate/report.html")
    assert set(manifest(tmp_path, [STEP])) == known
    assert len(known) == 5


def test_forged_records_and_files_of_the_client_stay_on_the_host(tmp_path: Path) -> None:
    """The client would read the records of milestones that were not judged, and verdicts that nobody gave."""
    fill(tmp_path, "record.json", "gate/record.json", "logs/gate.log")
    gate = Step("gate", [], 1.0, record="gate")
    known = set(manifest(tmp_path, [STEP, gate]))
    assert known == {"record.json", "gate/record.json", "logs/gate.log"}
    forged = {"D5d/record.json", "verdict.json", "D1.2/run.json", "gate/verdict.json"}
    fill(tmp_path, *forged)
    assert set(manifest(tmp_path, [STEP, gate])) == known
    assert {path.relative_to(tmp_path).as_posix() for path in planted(tmp_path, [STEP, gate])} == forged
    assert [path.name for path in planted(tmp_path, [gate])].count("record.json") == 2


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("precious"), os.mkfifo], ids=["link", "pipe"])
def test_nothing_is_written_where_a_phase_may_have_left_a_link_or_a_pipe(tmp_path: Path, make: Any) -> None:
    """A link leads out of the walls, and a pipe has no reader."""
    run = RunFolder(tmp_path)
    fill(run.out, "precious")
    make(run.out / ".probe")
    job = cast(Job, None)
    ruled = evidence.verdict_of(run, job, replace(STEP, failed="REJECT_GATE"), Ended(1, 0.0))
    assert ruled is not None and ruled.verdict is Verdict.REJECT_GATE
    assert (run.out / "precious").read_text() == "x"


def test_many_files_do_not_push_the_records_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MAX_FILES", 2)
    fill(tmp_path, "a.txt", "b.txt", "c.txt", "record.json")
    assert set(manifest(tmp_path, [STEP])) == {"record.json", "a.txt"}


@pytest.mark.parametrize("name", ["n" * 245 + ".txt", "\x1b[2J.txt", "é.txt", "-n.txt", ".hidden.txt", "a b.txt"])
def test_files_with_names_that_a_client_rejects_stay_on_the_host(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "record.json", "logs/gate.log", name)
    assert set(manifest(tmp_path, [STEP])) == {"record.json", "logs/gate.log"}


def test_the_most_and_longest_names_fit_in_a_verdict_file(tmp_path: Path) -> None:
    kept = {f"{'n' * (LONGEST_PATH - 4)}{number:04}": ResultFile(MAX_BYTES, "0" * 64) for number in range(MAX_FILES)}
    about = Subject(run="r", commit="c", milestones=["D1.1"], target="sim", user="ada", pins="p")
    assert len(Ruling(about, Verdict.REJECT_GATE, "", "gate", "t", "t", files=kept).encode()) < MAX_BYTES


def test_a_pipe_or_a_link_in_place_of_a_record_is_no_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "record.json")
    assert read_record(tmp_path) == {}
    (tmp_path / "record.json").unlink()
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "record.json").symlink_to("other.json")
    assert read_record(tmp_path) == {}
    assert set(manifest(tmp_path, [STEP])) == {"other.json"}


def test_folders_of_any_depth_are_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    assert set(manifest(tmp_path, [STEP])) == {"record.json"}
    remove(tmp_path / "d")
    assert not (tmp_path / "d").exists()
