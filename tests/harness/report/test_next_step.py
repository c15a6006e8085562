"""The next step after each way to fail, and that its command runs."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from harness.host.verdict import Verdict
from harness.report.next_step import next_step
from harness.report.record import Case, Figure, Launch, Record, Tree
from tests.system import ROOT

RIGHT = Figure("O", "cosine", 1.0, "at least", 0.9, True)
WRONG = Figure("lse", "error", 1.0, "at most", 1e-5, False)


def after(verdict: Verdict, *cases: Case, reason: str = "", arch: str = "sm_100a") -> str:
    record = Record("run", "D1.1", "sim", "2026-11-21T09:00:00Z", Tree("0" * 40, []), cases=list(cases))
    return next_step(verdict, reason, [record], Path("/results"), arch)


def failed(message: str, *figures: Figure, mode: str = "lazy", error: str = "") -> Case:
    return Case("hd=64 n=128", "failed", 1.0, 2, False, [Launch(mode, 0.1, error)], list(figures), message)


def test_each_verdict_but_ACCEPT_leads_on_and_every_page_exists() -> None:
    """UNKNOWN has a next step of its own: to resume the run."""
    said = {verdict: after(verdict) for verdict in Verdict}
    assert {verdict for verdict, step in said.items() if not step} == {Verdict.ACCEPT, Verdict.UNKNOWN}
    found = "\n".join(said.values())
    found += after(Verdict.REJECT_STAGE, reason="gate: slower: D1.1")
    found += "".join(
        after(Verdict.REJECT_GATE, failed(f"{name}: what", error="what"))
        for name in ("Deadlock", "MissingWait", "OutOfBounds")
    )
    pages = re.findall(r"(docs/[\w/-]+\.md)(?:#([\w-]+))?", found)
    assert len(pages) > 6
    for page, section in pages:
        headings = re.findall(r"^#+ (.*)", (ROOT / page).read_text(), re.M)
        assert not section or section in [heading.lower().replace(" ", "-") for heading in headings], page


def test_a_finding_of_a_gpu_is_looked_for_on_the_emulator() -> None:
    said = after(Verdict.REJECT_GATE, failed("RuntimeError: CUDA error", mode="cuda", error="CUDA error"))
    assert said.startswith("make stage D1.1: ")


def test_a_finding_is_stopped_at_by_the_debugger() -> None:
    case = failed("MissingWait: early\n  at PTX line 40: ld", mode="random", error="early")
    said = after(Verdict.REJECT_GATE, case, arch="sm_90a")
    assert "CUTE_DSL_ARCH=sm_90a" in said and said.endswith("--seed 2, then `break ptx:40` and `continue`")


def test_a_case_of_another_milestone_is_launched_as_that_ones() -> None:
    case = failed("D1.2: outside its pins", RIGHT, WRONG)
    case.name = "D1.2 hd=64 n=256"
    assert after(Verdict.REJECT_GATE, case).endswith(" D1.2 --case 'hd=64 n=256' --seed 2")


@pytest.mark.long
def test_the_command_for_a_wrong_value_runs() -> None:
    command = shlex.split(after(Verdict.REJECT_GATE, failed("D1.1: outside its pins", RIGHT, WRONG)))
    command[command.index("--rtol") : command.index("--rtol") + 2] = ["--element", "0,0,3"]  # the kernel here is right
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^lse\[0, 0, 3\] is ", done.stdout, re.M) and "kernel/device/softmax.py" in done.stdout
