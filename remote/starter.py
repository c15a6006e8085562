"""Starts a program that outlives whoever started it. Sent over the link as text, it stands alone.

`main` takes one JSON object and prints one.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

START_S = 60.0


class Refused(Exception):
    """It did not start; the message is what it said instead."""


def start(argv: list[str], cwd: str, log: str, begun: str) -> None:
    """Start `argv` in a session of its own, its output in the file `log`, and wait for the file `begun`.

    Where `begun` is there already, nothing is started. Raises Refused.
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
    """Do it; the last line is one JSON object, with "refused" where it was not done."""
    try:
        for program in json.loads(text)["programs"]:
            start(**program)
        print(json.dumps({}))
    except (Refused, OSError) as error:
        print(json.dumps({"refused": str(error)}))
