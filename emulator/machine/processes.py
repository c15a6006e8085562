"""The clusters of one launch spread over forked processes, to the same end as in one.

A process runs a run of neighbouring clusters in its own copy of memory and notes what they write to global memory; the
launching process, which runs the first clusters itself, applies those notes in the order of the grid. What another
process could not run to its end without findings, the launching process runs itself, from the first such cluster on:
so errors, findings and Ctrl-C are those of one process.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ..errors import Interrupted
from .statistics import Stats

if TYPE_CHECKING:
    from .globalmem import Written
    from .launch import Dim3, Launch


PR_SET_PDEATHSIG: Final = 1
"""Of prctl: the signal that this process gets when its parent ends."""


def can_fork() -> bool:
    """Whether a copy of this process could go on: on Linux, and with no other thread that might hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


def spread(launch: Launch, run_cluster: Callable[[Dim3], None], processes: int) -> None:
    """Run all clusters of a launch of an independent program in this process and up to `processes` - 1 forked ones."""
    first, *others = _shares(list(launch.clusters()), processes)
    helpers: list[Helper] = []
    gc.freeze()  # what is never looked at is never copied
    try:
        with _no_interrupt():  # every process that begins is among the helpers
            helpers.extend(Helper(launch, run_cluster, share) for share in others)
        for index in first:
            run_cluster(index)
            gc.collect()  # the next one gets its memory, and writes to no more of what the processes share
        for helper in helpers:
            for index in helper.finish():
                run_cluster(index)
    finally:
        gc.unfreeze()
        for helper in helpers:
            helper.end()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Ctrl-C waits until this is left; processes that begin here never hear of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _shares(clusters: Sequence[Dim3], count: int) -> list[Sequence[Dim3]]:
    """Neighbouring clusters together, the numbers of two shares at most one apart."""
    count = min(count, len(clusters))
    ends = [len(clusters) * i // count for i in range(count + 1)]
    return [clusters[a:b] for a, b in pairwise(ends)]


class Helper:
    """A forked process that runs some clusters, and what it found out."""

    def __init__(self, launch: Launch, run_cluster: Callable[[Dim3], None], share: Sequence[Dim3]) -> None:
        self._launch, self._share = launch, share
        self._notes = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self._pid = os.fork()
        if self._pid == 0:
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                self._work(run_cluster)
            finally:
                os._exit(0)

    def _work(self, run_cluster: Callable[[Dim3], None]) -> None:
        """In the forked process: a note for each cluster, up to one that raises or finds something."""
        launch = self._launch
        for index in self._share:
            launch.stats, launch.memory.written = Stats(), []
            try:
                run_cluster(index)
            except BaseException:
                return
            gc.collect()
            if launch.findings:
                return
            pickle.dump((launch.stats, launch.memory.written), self._notes, pickle.HIGHEST_PROTOCOL)
            self._notes.flush()

    def finish(self) -> Sequence[Dim3]:
        """Wait, apply what was noted, and answer the clusters that are left. Raises Interrupted on Ctrl-C."""
        try:
            os.waitpid(self._pid, 0)
        except KeyboardInterrupt:
            what = f"interrupted while another process runs clusters {self._share[0]} to {self._share[-1]}"
            raise Interrupted(f"{what}\n  kernel {self._launch.kernel.name}", ()) from None
        self._pid = 0
        done = 0
        for stats, written in self._noted():
            self._launch.stats.add(stats)
            self._launch.memory.apply(written)
            done += 1
        return self._share[done:]

    def _noted(self) -> Iterator[tuple[Stats, list[Written]]]:
        self._notes.seek(0)
        while True:
            try:
                yield pickle.load(self._notes)
            except (EOFError, pickle.UnpicklingError):  # the second: it was killed while it wrote
                return

    def end(self) -> None:
        """Leave nothing behind: no process, no file."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._notes.close()
