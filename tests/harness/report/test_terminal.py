"""The summary of a run in the terminal."""

import io
import re

import pytest
from rich.console import Console

from harness.host.verdict import Verdict
from harness.judge.record_writer import RecordWriter
from harness.report.record import Case, Figure, Launch, NegativeControl, Phase, Prediction, Record, Tree, load
from harness.report.terminal import show_end
from stages import d1_1
from stages.verify import Result, Trial

STARTED = "2026-11-21T09:00:00Z"


def figure(tensor: str, metric: str, value: float | None, bound: str, pin: float, holds: bool) -> Figure:
    return Figure(tensor, metric, value, bound, pin, holds)  # type: ignore[arg-type]


def make(verdict: str) -> Record:
    record = Record("run", "D1.1", "sim", STARTED, Tree("0" * 40, []))
    record.phases = [Phase("compile", STARTED, "passed", 2.0), Phase("stage", STARTED, "passed", 3.0)]
    good = [
        figure("O", "cosine", 0.9999976, "at least", 0.999997, True),
        figure("lse", "error", 4.9e-7, "at most", 1e-6, True),
    ]
    bad = [
        figure("O", "cosine", 0.73, "at least", 0.999997, False),
        figure("lse", "error", None, "at most", 1e-6, False),
    ]
    launches = [Launch("eager", 0.5), Launch("lazy", 0.6)]
    record.cases = [
        Case("hd=64 n=128", "passed", 1.1, 1, False, launches, good),
        Case("hd=64 n=128", "failed", 1.1, 123456789, True, launches, bad, "D1.1 hd=64 n=128: outside its pins"),
    ]
    record.negative_controls = [NegativeControl("O: scaled by 2", True), NegativeControl("O: one row zeroed", False)]
    record.proven = {"hd=64 n=128": ["P in shared memory"]}
    record.not_asked = {"2-CTA MMA": "a wgmma is of one CTA"}
    record.verdict, record.reason = verdict, "failed: hd=64 n=128 seed=123456789"
    return record


@pytest.fixture
def pipe() -> Console:
    """Return what is printed if standard output is a pipe."""
    return Console(file=io.StringIO())


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_the_table_without_colours(pipe: Console, tmp_path) -> None:
    show_end(pipe, make("REJECT_GATE"), tmp_path)
    text = said(pipe)
    assert "\x1b" not in text
    table = [line.split() for line in text.splitlines()]
    assert ["O", "cosine", "≥", "0.999997", "0.9999976", "0.7300000", "FAIL"] in table
    assert ["lse", "error", "≤", "1e-06", "4.9e-07", "NaN", "FAIL"] in table
    assert max(len(line) for line in text.split("negative controls:")[0].splitlines()) <= 80
    assert "negative controls: 1 of 2 rejected" in text
    assert "(cases): P in shared memory (1), not 2-CTA MMA: a wgmma is of one CTA" in text
    assert "D1.1 hd=64 n=128: outside its pins" in text
    assert "D1.1 REJECT_GATE  the hd=64 gate does not hold: failed: hd=64 n=128 seed=123456789" in text
    assert text.endswith(f"{tmp_path}\n")


def test_words_of_a_kernel_move_no_cursor(pipe: Console, tmp_path) -> None:
    """They are in messages and reasons: the error of a call that was not recorded, names in PTX."""
    hostile = "\x1b[2J\x1b[1;1H\x9b1mD1.1 ACCEPT\u202e TPECCA\r\a\nnext line"
    writer = RecordWriter(tmp_path, Record("run", "D1.1", "sim", STARTED, Tree("0" * 40, [])), 7)
    writer.open_case("hd=64", 7)
    writer.result(Result(d1_1.CASES[0], 7, (Trial("eager", 0.1, None, ValueError(hostile)),), (), None, {}))
    writer.close_case(False, 1.0, hostile, b"")
    writer.finish(Verdict.REJECT_GATE, hostile)
    for text in (load(tmp_path).cases[0].launches[0].error, load(tmp_path).reason):
        assert all(each.isprintable() or each == "\n" for each in text) and "D1.1 ACCEPT" in text
    show_end(pipe, load(tmp_path), tmp_path)
    assert all(each.isprintable() or each == "\n" for each in said(pipe)) and "next line" in said(pipe)


def test_a_terminal_gets_colours() -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    from pathlib import Path

    show_end(console, make("ACCEPT"), Path("/nowhere"))
    assert re.search("\x1b\\[1;32mD1.1 ACCEPT", said(console))


def test_a_run_that_did_not_compile_has_no_table(pipe: Console, tmp_path) -> None:
    record = Record("run", "D1.1", "sim", STARTED, Tree("0" * 40, []))
    record.verdict, record.reason = (
        "COMPILE_ERROR",
        "NameError: name 'tOrP' is not defined\n  at kernel/a.py:7 in gemm: tOrP",
    )
    show_end(pipe, record, tmp_path)
    assert said(pipe).splitlines() == [
        "D1.1 COMPILE_ERROR  the compiler rejected the kernel: NameError: name 'tOrP' is not defined",
        "  at kernel/a.py:7 in gemm: tOrP",
        str(tmp_path),
    ]


def test_cases_without_a_prediction_or_a_pin_are_named(pipe: Console, tmp_path) -> None:
    record = make("ACCEPT")
    first, figures = record.cases[0].name, record.cases[0].figures
    record.cases = [Case(name, "passed", 1.0, 1, False, [], figures) for name in (first, "hd=64 n=256", "hd=64 n=1")]
    record.cases.append(Case("D1.2 hd=64 n=129", "passed", 1.0, 7, True, [], figures))
    record.cycles = {first: 7000.0, "hd=64 n=1": 6000.0}
    assert record.untimed == [], "nothing was predicted"
    record.prediction = Prediction(first, "B200", 7000.0, 6e-6, 9000.0, "latency", {}, [], [])
    assert record.unpinned == [], "no pin was read"
    record.most_cycles = {first: 9000.0}
    show_end(pipe, record, tmp_path)
    lines = said(pipe).splitlines()
    assert "no cycles predicted, for want of time: hd=64 n=256" in lines
    assert "cycles predicted without a pin: hd=64 n=1" in lines


def test_of_many_cases_each_is_a_row(pipe: Console, tmp_path) -> None:
    record = make("REJECT_STAGE")
    record.cases.append(Case("hd=64 n=256", "passed", 1.0, 1, False, [], record.cases[0].figures))
    show_end(pipe, record, tmp_path)
    rows = [" ".join(line.split()) for line in said(pipe).splitlines()]
    assert "hd=64 n=128 0.7300000 - - FAIL" in rows
    assert "hd=64 n=256 0.9999976 4.9e-07 - pass" in rows
