"""The line about what a command does: on a real terminal (a pseudoterminal), and nowhere else."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from debug_programs import GEMM

import emulator
from emulator import progress
from emulator.commands.main import main

COLUMNS = 60
SCRIPT = f"""
import numpy as np
import emulator
print("before")
emulator.launch({GEMM!r}, None, [np.zeros(2048, "u2"), np.zeros(512, "u2"), np.zeros((128, 32), "f4")], block=192)
print("after")
raise SystemExit(3)
"""


class Terminal:
    """A pseudoterminal, to which this process's standard error and output go."""

    def __init__(self) -> None:
        self._reader, slave = os.openpty()
        self.stream = os.fdopen(slave, "w")

    def said(self) -> str:
        """Return everything that was written."""
        self.stream.flush()
        os.set_blocking(self._reader, False)
        parts = []
        with suppress(BlockingIOError):
            while True:
                parts.append(os.read(self._reader, 1 << 16))
        return b"".join(parts).decode().replace("\r\n", "\n")


def left(written: str) -> str:
    """Return what remains on the screen, by the control that the line uses."""
    return re.sub(r"[^\n]*\r\x1b\[K", "", written)


def terminal(patch: pytest.MonkeyPatch) -> Terminal:
    """Give this process a terminal for the rest of the test."""
    patch.setattr(progress, "_line", None)
    patch.setattr(progress, "OFTEN_S", 0)
    patch.setenv("TERM", "xterm")
    patch.setenv("COLUMNS", str(COLUMNS))
    found = Terminal()
    patch.setattr(sys, "stdout", found.stream)
    patch.setattr(sys, "stderr", found.stream)
    return found


@pytest.mark.parametrize("command", [["run"], ["time"], ["blame", "--output", "args[2]", "--element", "0,0"]])
def test_a_command_says_what_it_does(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the launch and its cluster, is erased before other output, and leaves nothing on the screen."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    screen = terminal(monkeypatch)
    with suppress(SystemExit):
        main([*command, str(script)])
    written = screen.said()
    assert "\r\x1b[Klaunch 1: gemm, grid (1, 1, 1)" in written
    assert "time" in command or re.search(r"cluster \(0, 0, 0\), \d+ s", written)
    lines = left(written).splitlines()
    assert lines[:2] == ["before", "after"] and not any("grid" in line for line in lines[2:] if "blame" not in command)


def test_activities_inside_others_are_shown_with_them_and_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    progress.show()
    with progress.doing("configuration 1 of 2"):
        with progress.doing("compiling " + "x" * 80):
            print("printed")
        progress.at("part", 7)
    written = screen.said()
    assert max(len(line) for line in re.split(r"\r\x1b\[K|\n", written)) == COLUMNS - 1
    assert re.search(r"configuration 1 of 2, part 7, \d+ s", written)
    assert left(written) == "printed\n"


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_line", None)
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    progress.show()
    with progress.doing("something"):
        progress.at("part", 1)
    assert pipe.getvalue() == "" and progress._line is None


def test_a_terminal_that_cannot_erase_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    progress.show()
    with progress.doing("something"):
        pass
    assert screen.said() == ""


def test_the_line_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR has nothing to switch off: the only control erases the line."""
    screen = terminal(monkeypatch)
    progress.show()
    with emulator.emulate(), progress.doing("something"):
        pass
    assert set(re.findall(r"\x1b\[[^A-Za-z]*[A-Za-z]", screen.said())) == {"\x1b[K"}
