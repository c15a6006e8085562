"""Phases: commands in sessions of their own, killed with all descendants at their time limit. Linux only."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

POLL_S = 0.05
#: A killed process that is still there after this many seconds counts as stuck in the kernel or driver.
VANISH_S = 10.0
MAX_FILE_BYTES = 256 << 20
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
MARK = "FMHA_LOCK"
#: BLAS threads fight over few cores: a 128x128x16 product takes 15 us on one thread and 2 ms on two.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_libc = ctypes.CDLL(None, use_errno=True)


class Stop(Enum):
    """The reasons to stop a phase from outside."""

    TIME_LIMIT = "passed its time limit"
    COMPILE_LIMIT = "passed the time limit of a compile"
    CANCEL = "cancelled"
    SHUTDOWN = "the supervisor was told to stop"


@dataclass(frozen=True)
class Ended:
    """The end of a phase: exit `code` (negative: killed by that signal) and the reason for which it was stopped.

    `stuck` is set if one of its processes could not be killed.
    """

    code: int
    seconds: float
    stop: Stop | None = None
    stuck: bool = False


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that none escapes by starting its own session."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def be_private() -> None:
    """Close this process to others of the same user: they can neither trace it nor read its memory or environment."""
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def run(
    argv: list[str],
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    grace_s: float,
    tick: Callable[[float], Stop | None],
) -> Ended:
    """Run `argv` until it ends, or until `tick`, called with the seconds so far, returns a reason to stop it.

    Output goes to `log`. To stop it, SIGTERM is sent, and SIGKILL after `grace_s` seconds. In any case, processes that
    it left running are killed.
    """
    started = time.monotonic()
    with open(log, "ab") as output:
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_bind_to_parent,
            )
        except OSError as error:
            output.write(f"{argv[0]}: {error.strerror}\n".encode())
            return Ended(127, 0.0)
    stop = None
    while process.poll() is None and stop is None:
        stop = tick(time.monotonic() - started)
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
    if stop is not None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    stuck = not _kill_all(process)
    code = process.poll()
    return Ended(-signal.SIGKILL if code is None else code, time.monotonic() - started, stop, stuck)


def kill_marked(mark: str) -> list[int]:
    """Kill the processes of this user that carry the mark of an earlier holder of the lock. Return their ids."""
    wanted = f"{MARK}={mark}".encode()
    killed = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
                killed.append(int(folder.name))
    return killed


def _bind_to_parent() -> None:
    """Set limits in the child: it dies with the supervisor, dumps no core, and cannot write huge files."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_all(process: subprocess.Popen[bytes]) -> bool:
    """Kill every descendant until none is left. Return False if some are still there after VANISH_S."""
    deadline = time.monotonic() + VANISH_S
    while time.monotonic() < deadline:
        process.poll()
        left = descendants(os.getpid())
        if not left:
            return True
        _signal(process, signal.SIGKILL)
        for pid in left - {process.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    return False


def descendants(root: int) -> set[int]:
    """Return the ids of all processes below `root`, including zombies."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            parents[int(folder.name)] = int(fields[1])
    found: set[int] = set()
    grown = {root}
    while grown:
        grown = {pid for pid, parent in parents.items() if parent in grown} - found
        found |= grown
    return found
