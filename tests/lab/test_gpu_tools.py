"""The tools for a machine with a GPU, as far as they need none: an emulated target takes the GPU's place."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab import gpu_failures
from lab.gpu_host import Machine, installed
from tests.system import ROOT


@pytest.mark.sshd
def test_steps_over_ssh_are_taken_and_noted(tmp_path: Path) -> None:
    """Client, server and device are this machine; a command that fails and one that takes too long are noted too."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/env").symlink_to(sys.prefix)
    machine = Machine(tmp_path / "folder", tmp_path / "work", "sm_100a", "emulator")
    try:
        machine.prepare()
        assert machine.take("trust", deadline_s=60.0).code == 0
        doctor = machine.take("doctor", deadline_s=60.0)
        assert doctor.code == 0, doctor.said
        assert machine.take("stage", "D9.9", deadline_s=60.0).code == 2
        assert machine.take("doctor", deadline_s=0.1).code is None
    finally:
        machine.close()
    steps = json.loads((tmp_path / "folder/steps.json").read_text())
    assert [(step["name"], step["code"]) for step in steps] == [
        ("trust", 0),
        ("doctor", 0),
        ("stage D9.9", 2),
        ("doctor", None),
    ]
    assert any("host key as pinned" in line for line in doctor.said), doctor.said


def test_a_lock_has_the_versions_of_this_interpreter() -> None:
    lock = installed("# a comment\nmsgspec==0.0.1\nno-such-package==1.0\n")
    assert "msgspec==" in lock and "0.0.1" not in lock and "no-such" not in lock and lock.startswith("# a comment\n")


@pytest.mark.parametrize("change", gpu_failures.CHANGES, ids=lambda change: change.name)
def test_every_failure_changes_one_place_of_the_kernel(change: gpu_failures.Change) -> None:
    text = (ROOT / change.path).read_text()
    assert text.count(change.old) == 1
    ast.parse(text.replace(change.old, change.new))


def test_processes_of_a_run_are_found_by_module_and_work_folder(tmp_path: Path) -> None:
    """A supervisor has the run's folder as argument, and a phase works in it."""
    inside, outside = tmp_path / "work/runs/r1", tmp_path / "other/runs/r1"
    module, started = "harness.host.supervisor", []
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        started.append(subprocess.Popen([*program, module], cwd=folder))
        started.append(subprocess.Popen([*program, module, str(folder)]))
    started.append(subprocess.Popen([*program, "harness.judge.run"], cwd=inside))
    try:
        assert sorted(gpu_failures.processes(module, tmp_path / "work")) == sorted(each.pid for each in started[:2])
    finally:
        for each in started:
            each.kill()
            each.wait()
