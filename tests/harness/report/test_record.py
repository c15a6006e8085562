"""The record of a run on disk."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.report.record import (
    RECORD_NAME,
    Case,
    Compile,
    Figure,
    Launch,
    NegativeControl,
    Phase,
    Record,
    RecordError,
    Tree,
    load,
    new_run_id,
)


def make() -> Record:
    figures = [
        Figure("O", "cosine", 0.9999976, "at least", 0.999997, True),
        Figure("lse", "error", 4.9e-7, "at most", 1e-6, True),
    ]
    cases = [Case("hd=64 n=128", "passed", 1.5, 7, False, [Launch("eager", 0.5)], figures)]
    phases = [Phase("compile", "2026-11-21T09:00:00Z", "passed", 2.0), Phase("stage", "2026-11-21T09:00:02Z")]
    tree = Tree("0123456789abcdef", ["kernel/fmha.py"])
    about = ("20261121-090000-D1.1-abcdef", "D1.1", "sim", "2026-11-21T09:00:00Z")
    return Record(*about, tree, {"torch": "2"}, phases, [], cases, [NegativeControl("O: scaled by 2", True, "O.diff")])


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    make().save(tmp_path)
    assert load(tmp_path) == make()
    assert [path.name for path in tmp_path.iterdir()] == [RECORD_NAME], "no temporary file is left"


@pytest.mark.parametrize(
    "said",
    [
        {"name": "\x1b[2J"},
        {"name": "a\u202eb"},
        {"seconds": 1e300},
        {"seconds": -1.0},
        {"registers": 256},
        {"key": "x"},
        {"files": ["\n"]},
    ],
)
def test_what_a_process_says_of_compiling_is_checked(said: dict[str, Any], tmp_path: Path) -> None:
    record = make()
    record.compiles = [msgspec.structs.replace(Compile("hd=64", 1.0, []), **said)]
    record.save(tmp_path)
    with pytest.raises(RecordError):
        load(tmp_path)


def test_a_figure_that_is_no_number_survives_json(tmp_path: Path) -> None:
    record = make()
    record.cases[0].figures = [Figure("O", "cosine", None, "at least", 0.999997, False)]
    record.save(tmp_path)
    assert load(tmp_path).cases[0].figures[0].value is None
    assert load(tmp_path).worst("O", "cosine") is None


def test_negative_controls_keep_the_key_of_older_records(tmp_path: Path) -> None:
    make().save(tmp_path)
    assert json.loads((tmp_path / RECORD_NAME).read_text())["mutants"][0]["name"] == "O: scaled by 2"


def test_another_schema_is_refused(tmp_path: Path) -> None:
    make().save(tmp_path)
    path = tmp_path / RECORD_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))
    with pytest.raises(RecordError, match="schema 99, this version reads 1"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1, "run": 3}', "[]", "null"])
def test_a_damaged_record_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD_NAME).write_text(text)
    with pytest.raises(RecordError, match=RECORD_NAME):
        load(tmp_path)


def test_an_absent_record_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=RECORD_NAME):
        load(tmp_path)


def test_a_failed_write_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make().save(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    changed = make()
    changed.verdict = "ACCEPT"
    with pytest.raises(OSError, match="No space"):
        changed.save(tmp_path)
    assert load(tmp_path) == make()
    assert len(list(tmp_path.iterdir())) == 1


def test_worst_looks_to_the_wrong_side_of_the_pin() -> None:
    record = make()
    other = Case("hd=64 n=128", "passed", 1.5, 8)
    other.figures = [
        Figure("O", "cosine", 0.9999970, "at least", 0.999997, True),
        Figure("lse", "error", 1e-7, "at most", 1e-6, True),
    ]
    record.cases.append(other)
    assert record.worst("O", "cosine") == 0.9999970
    assert record.worst("lse", "error") == 4.9e-7
    assert record.worst("U", "diff") is None


def test_run_ids_sort_by_time_and_differ() -> None:
    first, second = new_run_id("D1.1"), new_run_id("D1.1")
    assert first != second
    assert first[:15] <= second[:15]
    assert first[15:21] == "-D1.1-"
