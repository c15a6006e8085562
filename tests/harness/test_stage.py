"""A run that does not come to a verdict by itself gets one."""

from pathlib import Path

import pytest

from harness import stage
from harness.record import Record, load
from harness.stage import StageError, run_stage
from stages.catalog import GATE
from tests.system import Checkout

COMPILING = "    start = time.perf_counter()\n"


@pytest.fixture
def run(checkout: Checkout, monkeypatch: pytest.MonkeyPatch):
    """Runs the gate in the copy, with 5 s to compile in; gives the record and its folder."""
    monkeypatch.setattr(stage, "ROOT", checkout.path)
    monkeypatch.setattr(stage, "RESULTS", checkout.path / "results")
    monkeypatch.setitem(stage.BUDGETS_S, "compile", 5.0)

    def go() -> tuple[Record, Path]:
        return run_stage(GATE, "sim", "emulator", lambda record, seconds: None)

    return go


def test_a_compiler_that_hangs_is_ended_at_its_budget(checkout: Checkout, run) -> None:
    checkout.replace("kernel/compiled.py", COMPILING, f"{COMPILING}    time.sleep(1000)\n")
    record, folder = run()
    assert record.verdict == "COMPILE_HANG"
    assert record.reason == "phase compile did not end within 5 s"
    assert load(folder) == record


def test_a_compiler_that_dies_is_no_fault_of_the_figures(checkout: Checkout, run) -> None:
    checkout.replace("kernel/compiled.py", COMPILING, f"{COMPILING}    import os; os.abort()\n")
    record, _ = run()
    assert record.verdict == "INFRA"
    assert record.reason == "ended with -6 in phase compile"


def test_a_run_without_a_record_names_its_log(checkout: Checkout, run) -> None:
    (checkout.path / "harness/run.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(StageError, match=r"record.json: No such file .* ended with 3, see .*/log.txt"):
        run()
