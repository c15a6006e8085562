"""Run one milestone as a child, watch its phases' budgets, and see that its record ends with a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from harness import page, phase, record
from harness.surroundings import ROOT
from harness.verdict import Verdict
from stages.catalog import Milestone

RESULTS = ROOT / "results"
LOG_NAME = "log.txt"
GRACE_S = 2.0

#: Seconds that a phase may take, and the verdict on one that takes longer.
BUDGETS_S = {"compile": 60.0, "stage": 600.0}
HANGS = {"compile": Verdict.COMPILE_HANG, "stage": Verdict.GPU_HANG}

#: BLAS threads fight over two cores: a 128x128x16 product takes 15 us on one thread and 2 ms on two.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class StageError(Exception):
    """The child ended without a record."""


class Watch:
    """Follows the record of a child; asks for its end when a phase passes its budget."""

    def __init__(self, folder: Path, show: Callable[[record.Record, float], None]) -> None:
        self.folder = folder
        self.show = show
        self.phase = ""
        self.since = 0.0
        self.overdue = ""

    def __call__(self, seconds: float) -> phase.Stop | None:
        """Look once, `seconds` after the start."""
        try:
            seen = record.load(self.folder)
        except record.RecordError:
            return None
        running = seen.phases[-1].name if seen.phases else ""
        if running != self.phase:
            self.phase, self.since = running, seconds
        self.show(seen, seconds - self.since)
        if seen.phases and seen.phases[-1].outcome == "running" and seconds - self.since > BUDGETS_S[running]:
            self.overdue = running
            return phase.Stop.BUDGET
        return None


def run_stage(
    milestone: Milestone, target: str, device: str, show: Callable[[record.Record, float], None]
) -> tuple[record.Record, Path]:
    """Run `milestone`; `show` gets the record as it grows, and the seconds of the phase that runs.

    Returns the judged record and its folder under `results/`. Raises StageError where there is none to judge.
    """
    folder = RESULTS / record.new_run_id(milestone.id)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "harness.run", milestone.id]
    command += ["--device", device, "--target", target, "--out", str(folder)]
    watch = Watch(folder, show)
    ended = phase.run(command, ROOT, os.environ | ONE_THREAD, folder / LOG_NAME, GRACE_S, watch)
    try:
        done = record.load(folder)
    except record.RecordError as error:
        raise StageError(f"{error}; the run ended with {ended.code}, see {folder / LOG_NAME}") from error
    if not done.verdict:
        _judge_killed(done, ended, watch.overdue)
        done.save(folder)
        page.stamp(folder, done)
    return done, folder


def _judge_killed(done: record.Record, ended: phase.Ended, overdue: str) -> None:
    """The verdict on a child that did not come to one itself."""
    doing = done.phases[-1].name if done.phases else "start"
    if overdue:
        verdict, reason = HANGS[overdue], f"phase {overdue} did not end within {BUDGETS_S[overdue]:g} s"
    else:
        verdict, reason = Verdict.INFRA, f"ended with {ended.code} in phase {doing}"
    running = [case.label for case in done.cases if case.outcome == "running"]
    done.verdict = verdict.name
    done.reason = ", in case ".join([reason, *running])
