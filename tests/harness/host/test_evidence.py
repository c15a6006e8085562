"""Results that leave a host: files of known kinds. Anything may lie in their place."""

from __future__ import annotations

import os
from pathlib import Path

from harness.host.evidence import manifest, read_record
from harness.host.files import remove


def fill(out: Path, *names: str) -> None:
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")


def test_files_of_kinds_that_a_browser_runs_stay_on_the_host(tmp_path: Path) -> None:
    fill(tmp_path, "record.json", "logs/gate.log", "a.ptx", "a.layouts.txt", "timeline.png")
    known = set(manifest(tmp_path))
    fill(tmp_path, "x.svg", "x.xhtml", "x.html", "index.htm", "filler", "x.js", "gate/report.html")
    assert set(manifest(tmp_path)) == known
    assert len(known) == 5


def test_a_pipe_or_a_link_in_place_of_a_record_is_no_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "record.json")
    assert read_record(tmp_path) == {}
    (tmp_path / "record.json").unlink()
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "record.json").symlink_to("other.json")
    assert read_record(tmp_path) == {}
    assert set(manifest(tmp_path)) == {"other.json"}


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
    assert set(manifest(tmp_path)) == {"record.json"}
    remove(tmp_path / "d")
    assert not (tmp_path / "d").exists()
