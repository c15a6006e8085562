"""Starts detached programs.

It is sent over the link as text, so it imports the standard library only. The client calls `start_all`.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

START_S = 60.0


def start_all(programs: list[dict[str, Any]]) -> dict[str, Any]:
    """Start programs, each given by the arguments of `start`."""
    for program in programs:
        start(**program)
    return {}


def start(argv: list[str], cwd: str, log: str, begun: str) -> None:
    """Start `argv` in a session of its own, with output to the file `log`, and wait until the file `begun` exists.

    If `begun` exists already, nothing is started.
    """
    if Path(begun).exists():
        return
    with open(log, "ab") as output:
        process = subprocess.Popen(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + START_S
    while not Path(begun).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            said = Path(log).read_text(errors="replace")
            raise SystemExit(f"the supervisor did not start: {said.strip()[-300:]}")
        time.sleep(0.01)
