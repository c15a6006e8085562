"""Locks that let one run at a time use a device, with a queue of the runs that wait.

A lock is a flock(2) on a file that children do not inherit, so a killed process releases it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

POLL_S = 0.2


def try_lock(stream: IO[str]) -> bool:
    """Lock an open file, and return False if another process holds the lock."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Return True if a living process holds the lock on the file `path`."""
    try:
        with open(path) as stream:
            return not try_lock(stream)
    except OSError:
        return False


def holder(folder: Path, name: str) -> dict[str, str]:
    """Return the holder of the lock (run, owner, pid, since), or {} if it is free."""
    path = folder / f"{name}.lock"
    if not is_held(path):
        return {}
    with suppress(OSError, ValueError):
        return {str(k): str(v) for k, v in json.loads(path.read_text()).items()}
    return {"run": "?", "owner": "?"}


def waiting(folder: Path, name: str) -> list[str]:
    """Return the waiting runs, in order of arrival."""
    tickets = sorted((folder / f"{name}.line").glob("*.ticket"))
    return [ticket.stem.split("_", 1)[1] for ticket in tickets if is_held(ticket)]


@contextmanager
def held(
    folder: Path, name: str, who: dict[str, str], wait: Callable[[dict[str, str]], None], slots: int = 1
) -> Iterator[None]:
    """Hold the lock `name` while the body runs; at most `slots` processes hold it at a time, in order of arrival.

    `who` describes this process ("run" and "owner"). While waiting, `wait` is called with the current holder; it may
    raise to leave the queue.
    """
    line = folder / f"{name}.line"
    line.mkdir(parents=True, exist_ok=True)
    mine = line / f"{time.time_ns():020d}_{who['run']}.ticket"
    fresh = mine.with_suffix(".new")
    with ExitStack() as stack:
        ticket = stack.enter_context(open(fresh, "w"))
        names = [name, *(f"{name}-{slot}" for slot in range(1, slots))]
        streams = [stack.enter_context(open(folder / f"{each}.lock", "a+")) for each in names]
        fcntl.flock(ticket, fcntl.LOCK_EX)
        fresh.rename(mine)
        try:
            while not (_is_first(line, mine) and (stream := next(filter(try_lock, streams), None))):
                wait(holder(folder, name))
                time.sleep(POLL_S)
        finally:
            mine.unlink(missing_ok=True)
        stream.truncate(0)
        stream.write(json.dumps(who | {"pid": str(os.getpid())}))
        stream.flush()
        yield


def _is_first(line: Path, mine: Path) -> bool:
    """Return True if no living process is ahead of `mine`, and remove the tickets of dead ones."""
    for ticket in sorted(line.glob("*.ticket")):
        if ticket == mine:
            return True
        if is_held(ticket):
            return False
        ticket.unlink(missing_ok=True)
    return True
