"""Distribution of a launch's clusters over forked processes, with the results of one process.

The first one or two clusters run alone, to show what the launch writes and how long a cluster takes. None runs alone if
the number of processes is given and an earlier launch of the program wrote only allocations that were known before it.
Each process runs neighbouring clusters in its own copy of memory, whose shadow shows their writes. The launching
process copies the written cells. If a process fails or has findings, or accessed what another wrote, nothing is copied
and the launching process runs all clusters. So errors, findings, races between clusters and Ctrl-C are the same as
in one process. If a launch writes memory that has no shadow, one process runs all its clusters.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ...errors import Interrupted
from ..launch.names import kernel_name
from ..launch.statistics import Stats
from ..memory.global_shadow import GlobalShadow, Touched, disjoint

if TYPE_CHECKING:
    import numpy as np

    from ..launch.launch import Dim3, Launch

Outcome = tuple[Stats, dict[int, Touched], "list[np.ndarray]"]
"""The counts of a process's clusters, the cells that they accessed, and the contents of those that they wrote."""

PR_SET_PDEATHSIG: Final = 1
"""The option of prctl that sets the signal sent to this process when its parent ends."""
PAYS_S: Final = 0.25
"""Seconds. Clusters that take less together are not worth other processes, which take 0.05 s to start (measured with
the attention kernel's process of 1 GB) and start with cold caches."""


def can_fork() -> bool:
    """Return whether this process can be forked: on Linux, and with no other thread that might hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


class Child:
    """A forked process, which has a copy of memory, that does some work and returns its result."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._answer = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        launching = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() == launching:  # it could have ended before the call of prctl
                    pickle.dump(work(), self._answer, pickle.HIGHEST_PROTOCOL)
                    self._answer.flush()
            finally:
                os._exit(0)

    def finish(self) -> Any:
        """Wait for the process. Return the result of its work, None if it failed."""
        os.waitpid(self._pid, 0)
        self._pid = 0
        self._answer.seek(0)
        try:
            return pickle.load(self._answer)
        except (EOFError, pickle.UnpicklingError):  # UnpicklingError: killed while it wrote
            return None

    def end(self) -> None:
        """Remove the process and its file."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._answer.close()


def in_child(work: Callable[[], object]) -> Any:
    """Return the result of a function in a forked process; None if it fails, or if no process can be forked."""
    if not can_fork():
        return None
    child = Child(work)
    try:
        return child.finish()
    finally:
        child.end()


def spread(launch: Launch, run_cluster: Callable[[Dim3], None], processes: int | None, foreseen: bool) -> bool:
    """Run all clusters of an independent program's launch in this process and up to `processes` - 1 forked ones.

    None: as many as pay off, by the time of a cluster and the load of this machine. foreseen: the result of the
    program's last launch. Return whether the launch wrote only allocations that were known before it began.
    """
    left = list(launch.clusters())
    known = set(launch.memory.tracked)
    alone = (not foreseen) + (processes is None)  # one to find the written allocations; one to be timed
    took_s = 0.0
    for index in left[:alone]:
        started = time.process_time()  # not slowed by other processes
        run_cluster(index)
        took_s = time.process_time() - started
    del left[:alone]
    if processes is None:
        processes = idle_cores() if took_s * len(left) > PAYS_S else 1
    if GlobalShadow.of(launch).untracked:
        processes = 1
    if processes > 1 and len(left) > 1 and not (launch.findings or launch.known):
        _distribute(launch, run_cluster, left, processes)
    else:
        for index in left:
            run_cluster(index)
    return launch.memory.tracked == known


def idle_cores() -> int:
    """Return the number of usable cores that were idle for the last minute, at least one."""
    others = max(os.getloadavg()[0] - 1, 0)
    return max(int(len(os.sched_getaffinity(0)) - others), 1)


def _distribute(launch: Launch, run_cluster: Callable[[Dim3], None], clusters: Sequence[Dim3], processes: int) -> None:
    """Run clusters in this process and forked ones, or all in this one if their results could depend on each other."""
    first, *others = _split(clusters, processes)
    shadow = GlobalShadow.of(launch)
    shadow.start_footprint()
    helpers: list[Helper] = []
    try:
        with _no_interrupt():  # until every forked process is in `helpers`
            helpers.extend(Helper(launch, run_cluster, share) for share in others)
        for index in first:
            run_cluster(index)
        found = [helper.finish() for helper in helpers]
        done = [each for each in found if each is not None]
        if len(done) == len(found) and disjoint([shadow.footprint(), *(footprint for _, footprint, _ in done)]):
            for stats, footprint, contents in done:
                launch.stats.add(stats)
                shadow.restore(footprint, contents)
        else:
            for index in clusters[len(first) :]:
                run_cluster(index)
    finally:
        for helper in helpers:
            helper.end()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block Ctrl-C inside. Processes forked inside never receive it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _split(clusters: Sequence[Dim3], count: int) -> list[Sequence[Dim3]]:
    """Split clusters into `count` runs of neighbours whose lengths differ by at most one."""
    count = min(count, len(clusters))
    ends = [len(clusters) * i // count for i in range(count + 1)]
    return [clusters[a:b] for a, b in pairwise(ends)]


class Helper(Child):
    """A forked process that runs some clusters."""

    def __init__(self, launch: Launch, run_cluster: Callable[[Dim3], None], share: Sequence[Dim3]) -> None:
        self._launch, self._share = launch, share
        super().__init__(lambda: self._work(run_cluster))

    def _work(self, run_cluster: Callable[[Dim3], None]) -> Outcome | None:
        """Run the clusters in the forked process. Return the outcome if all is known and nothing was found."""
        launch, shadow = self._launch, GlobalShadow.of(self._launch)
        launch.stats = Stats()
        for index in self._share:
            try:
                run_cluster(index)
            except BaseException:
                return None
            if launch.findings or launch.known:
                return None
        footprint = shadow.footprint()
        return None if footprint is None else (launch.stats, footprint, shadow.contents(footprint))

    def finish(self) -> Outcome | None:
        """Wait for the process. Return its outcome, None if it failed. Raises Interrupted on Ctrl-C."""
        try:
            outcome: Outcome | None = super().finish()
            return outcome
        except KeyboardInterrupt:
            what = f"interrupted while another process runs clusters {self._share[0]} to {self._share[-1]}"
            raise Interrupted(f"{what}\n  kernel {kernel_name(self._launch.kernel)}", ()) from None
