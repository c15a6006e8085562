"""Starts detached programs.

It is sent over the link as text, so it imports the standard library only. `main` takes one JSON object and prints one.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

START_S = 60.0


class Refused(Exception):
    """Raised when a program did not start; the message is its output."""


def start(argv: list[str], cwd: str, log: str, begun: str) -> None:
    """Start `argv` in a session of its own, with output to the file `log`, and wait until the file `begun` exists.

    If `begun` exists already, nothing is started. Raises Refused.
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
            raise Refused(f"the supervisor did not start: {said.strip()[-300:]}")
        time.sleep(0.01)


def main(text: str) -> None:
    """Start the programs, and print one JSON object, which has "refused" if that failed."""
    try:
        for program in json.loads(text)["programs"]:
            start(**program)
        print(json.dumps({}))
    except (Refused, OSError) as error:
        print(json.dumps({"refused": str(error)}))
