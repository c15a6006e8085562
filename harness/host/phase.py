"""Phases: commands in sessions of their own, killed with all descendants at their time limit. Linux only."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
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
#: Places of fields in /proc/PID/stat behind the command's name. Four times follow one another there.
PARENT, USER_TIME, RESIDENT = 1, 11, 21
#: What a phase may use, and how long it may be idle. A phase that waits for a GPU polls.
MOST_PROCESSES = 512
MOST_SHARE = 0.9
MOST_BYTES = MOST_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
IDLE_S = 60.0
#: BLAS threads fight over few cores: a 128x128x16 product takes 15 us on one thread and 2 ms on two.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
KEPT_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "USER",
    "LOGNAME",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
)

_libc = ctypes.CDLL(None, use_errno=True)


class Stop(Enum):
    """The reasons to stop a phase from outside."""

    TIME_LIMIT = "passed its time limit"
    COMPILE_LIMIT = "passed the time limit of a compile"
    CANCEL = "cancelled"
    SHUTDOWN = "the supervisor was told to stop"
    IDLE = "used no CPU time for a minute"
    PROCESSES = "had more than 512 processes"
    MEMORY = f"used more than {MOST_SHARE:.0%} of the machine's memory"


@dataclass(frozen=True)
class Ended:
    """The end of a phase: exit `code` (negative: killed by that signal) and the reason for which it was stopped.

    `stuck` is set if one of its processes could not be killed. `starved`: Linux may have killed it for others' memory.
    """

    code: int
    seconds: float
    stop: Stop | None = None
    stuck: bool = False
    starved: bool = True


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that none escapes by starting its own session."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def be_private() -> None:
    """Close this process to others of the same user: they can neither trace it nor read its memory or environment."""
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


@dataclass(frozen=True)
class Started:
    """A phase that was started; `process` is None if its command could not be."""

    process: subprocess.Popen[bytes] | None

    def tell(self, text: str) -> None:
        """Write `text` to the input of the phase, and close it. A phase that has ended does not read it."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError), self.process.stdin as stream:
                stream.write(text.encode())


def start(argv: list[str], cwd: Path, env: Mapping[str, str], log: Path) -> Started:
    """Start `argv`. Its output goes to `log`; its input is open until `Started.tell`."""
    with open(log, "ab") as output:
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_bind_to_parent,
            )
        except OSError as error:
            output.write(f"{argv[0]}: {error.strerror}\n".encode())
            return Started(None)
    return Started(process)


def follow(
    started: Started, grace_s: float, tick: Callable[[float], Stop | None], waiting: Sequence[Started] = ()
) -> Ended:
    """Wait until a phase ends, or until `tick`, called with the seconds so far, returns a reason to stop it.

    To stop it, SIGTERM is sent, and SIGKILL after `grace_s` seconds. In any case, processes that it left running are
    killed, but for those of `waiting`.
    """
    process, began, kills, before = started.process, time.monotonic(), _kills_for_memory(), _largest_bytes()
    if process is None:
        return Ended(127, 0.0)
    spared = frozenset(each.process.pid for each in waiting if each.process is not None)
    stop = None
    while process.poll() is None and stop is None:
        stop = tick(time.monotonic() - began)
        _wait(process, POLL_S)
    if stop is not None:
        _signal(signal.SIGTERM, spared)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    stuck = not _kill_all(process, spared)
    code = process.poll()
    own_fault = _largest_bytes() > max(before, MOST_BYTES / 2)
    starved = (kills is None or _kills_for_memory() != kills) and not own_fault
    return Ended(-signal.SIGKILL if code is None else code, time.monotonic() - began, stop, stuck, starved)


def _wait(process: subprocess.Popen[bytes], most_s: float) -> None:
    """Wait until a process ends, at most `most_s` seconds. `Popen.wait` with a time limit is late by up to 50 ms."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:  # Linux before 5.3
        with suppress(subprocess.TimeoutExpired):
            process.wait(most_s)
        return
    try:
        select.select([handle], [], [], most_s)
    finally:
        os.close(handle)


def end(started: Started) -> None:
    """Kill a phase that nobody follows."""
    if started.process is not None:
        with started.process as process:
            process.kill()
            _kill_all(process, frozenset())


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


def _signal(number: int, spared: frozenset[int]) -> None:
    for pid in descendants(os.getpid(), spared):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_all(process: subprocess.Popen[bytes], spared: frozenset[int]) -> bool:
    """Kill every descendant but those below `spared`. Return False if some are still there after VANISH_S."""
    deadline = time.monotonic() + VANISH_S
    while time.monotonic() < deadline:
        process.poll()
        left = descendants(os.getpid(), spared)
        if not left:
            return True
        _signal(signal.SIGKILL, spared)
        for pid in left - {process.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    return False


def cpu_seconds(started: Started) -> dict[int, float]:
    """Return the CPU time of each process of a phase by its id, without that of its children."""
    return {pid: used[0] for pid, used in _used(started).items()}


def _used(started: Started) -> dict[int, tuple[float, int]]:
    """Return the CPU time and resident bytes of each process of a phase by its id."""
    if started.process is None:
        return {}
    used = {}
    for pid in {started.process.pid, *descendants(started.process.pid)}:
        with suppress(OSError, ValueError):
            fields = _status(pid)
            seconds = sum(map(int, fields[USER_TIME : USER_TIME + 2])) / os.sysconf("SC_CLK_TCK")
            used[pid] = seconds, int(fields[RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
    return used


class UsageWatch:
    """Watches what a phase uses, at most once a second: processes, memory, and CPU time."""

    def __init__(self, started: Started) -> None:
        self._started = started
        self._looked = self._busy_at = 0.0
        self._shared_before = _shared_bytes()
        self._cpu: dict[int, float] = {}

    def look(self, seconds: float) -> Stop | None:
        """Return a reason to stop the phase `seconds` after its start."""
        if seconds < self._looked + 1.0:
            return None
        self._looked, used = seconds, _used(self._started)
        cpu = {pid: each[0] for pid, each in used.items()}
        if cpu != self._cpu:
            self._cpu, self._busy_at = cpu, seconds
        if len(used) > MOST_PROCESSES:
            return Stop.PROCESSES
        if sum(each[1] for each in used.values()) + _shared_bytes() - self._shared_before > MOST_BYTES:
            return Stop.MEMORY
        return Stop.IDLE if seconds > self._busy_at + IDLE_S else None


def _shared_bytes() -> int:
    """Return the bytes of memory in files without a disk, of all processes: no resident size has them."""
    return (_said_of_system("meminfo", "Shmem:") or 0) << 10


def _largest_bytes() -> int:
    """Return the most memory that any one process has had, of all phases whose processes have ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10


def _kills_for_memory() -> int | None:
    """Return how many processes of this machine Linux has killed for their memory; None if it does not say."""
    return _said_of_system("vmstat", "oom_kill")


def _said_of_system(file: str, name: str) -> int | None:
    with suppress(OSError):
        found = re.search(rf"^{name} +(\d+)", Path("/proc", file).read_text(), re.MULTILINE)
        return int(found[1]) if found else None
    return None


def _status(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat that follow the command's name. Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def kept_environment() -> dict[str, str]:
    """Return what a phase has of this process's environment, with one BLAS thread.

    Figures depend on the rest: OPENBLAS_CORETYPE, for one, changes last bits.
    """
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | ONE_THREAD


def descendants(root: int, spared: frozenset[int] = frozenset()) -> set[int]:
    """Return the ids of all processes below `root`, including zombies, without `spared` and those below them."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parents[int(folder.name)] = int(_status(int(folder.name))[PARENT])
    found: set[int] = set()
    grown = {root}
    while grown:
        grown = {pid for pid, parent in parents.items() if parent in grown} - found - spared
        found |= grown
    return found
