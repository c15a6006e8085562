"""Faults that are planted in a program, each located by its first output or by the command that this names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
NEXT = "no fault found. next, if a result is wrong: ptx-emulator "


@dataclass(frozen=True)
class Planted:
    """A line of a program, what makes it wrong, and a pattern of the output that locates it."""

    name: str
    right: str
    wrong: str
    says: str

    def __str__(self) -> str:
        return self.name

    def plant(self, program: str, folder: Path) -> Path:
        """Write the program with the fault into a folder."""
        text = (PROGRAMS / program).read_text()
        assert text.count(self.right) == 1, self
        (folder / program).write_text(text.replace(self.right, self.wrong))
        return folder / program

    def is_located(self, program: Path, expected: str = "", **variables: str) -> None:
        """Run a program, and the command that it is told if there is no finding. expected: the file that it takes."""
        command = [sys.executable, "-m", "emulator"]
        env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{variables.pop('PYTHONPATH', '')}"} | variables

        def run(*words: str) -> tuple[int, str, str]:
            done = subprocess.run([*command, *words], cwd=program.parent, env=env, capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr

        code, said, errors = run("run", str(program))
        if code != 3:
            assert code == 1, errors
            (told,) = re.findall(f"{re.escape(NEXT)}(.*)", errors)
            code, said, errors = run(*shlex.split(told.replace("FILE", expected)))
            assert code == 0, errors
        else:
            said = errors
        assert re.search(self.says, said), said
