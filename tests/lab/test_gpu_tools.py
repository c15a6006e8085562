"""The tools for a machine with a GPU, as far as they need none: an emulated target takes the GPU's place."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lab.gpu_host import Machine, installed


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
