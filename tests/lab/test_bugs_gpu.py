"""The corpus on a GPU: what is launched, and how outcomes are read. No GPU is needed."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from lab.bugs import gpu
from lab.bugs.programs import PROGRAMS
from lab.gpu import INVALID_PTX, DriverError, Job


class Double:
    """A GPU that leaves memory as it is, and knows one instruction less than others."""

    def run(self, job: Job) -> tuple[list[object], list[bytes]]:
        if "st.bulk" in job.text:
            raise DriverError("cuModuleLoadDataEx", INVALID_PTX)
        return [], list(job.before)


@pytest.mark.parametrize(
    ("program", "outcome"),
    [("mailbox", "60 of 60 wrong"), ("columns_of_no_tile", "0 of 60 wrong"), ("clear", gpu.REJECTED)],
)
def test_outputs_are_counted(program: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "Gpu", Double)
    assert gpu.launch(program, "") == outcome


@pytest.mark.parametrize(
    ("tool", "printed", "outcome"),
    [
        ("bare", "3 of 60 wrong", "3 of 60 wrong"),
        ("bare", "error 719", "error 719"),
        ("racecheck", "60 of 60 wrong\n=== RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)", "2 hazards"),
        ("memcheck", "0 of 60 wrong\n=== ERROR SUMMARY: 1 error", "1 error"),
        ("memcheck", "rejected\n=== ERROR SUMMARY: 1 error", gpu.REJECTED),
        ("bare", "", "no answer: a traceback"),
    ],
)
def test_outcomes(tool: str, printed: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(stdout=printed, stderr="a traceback")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert gpu._outcome("mailbox", "reset", tool) == outcome


def test_every_program_has_a_job() -> None:
    for name, program in PROGRAMS.items():
        job = gpu._job(name, "", program.inputs())
        assert len(job.parameters) == len(job.spans)
        assert job.name in job.text
