"""Random interleavings of kill, cut and retry at every step, on real repositories and real supervisors.

Whatever happens: no accepted commit is lost, none is accepted without a verdict file bound to it, no lock outlives
its supervisor, and the user's branch, index and files change only by a fast-forward to what was accepted.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from harness.client.candidate import CandidateError
from harness.client.driver import Driver, NothingToDo
from harness.client.run_store import RunStore
from harness.host import lock
from harness.host.job import Workplace
from harness.host.journal import read_events
from harness.host.repository import ACCEPTED, GitError, Repository
from harness.host.ruling import RulingError, decode
from harness.host.verdict import Verdict
from remote.errors import RemoteError
from remote.faulty import Faulty
from remote.local import Local
from tests.conftest import Project
from tests.tiers import shortened

PATIENCE_S = 600.0


class Killed(BaseException):
    """Raised when the client is killed at a step."""


class Fuse:
    """Kills the client at a step: step 2n is before the n-th git command, 2n + 1 right after it."""

    def __init__(self):
        self.at = None

    @contextmanager
    def step(self):
        if self.at is not None:
            self.at -= 2
            if self.at == -2:
                raise Killed
        yield
        if self.at == -1:
            raise Killed


@dataclass(frozen=True)
class Fragile(Repository):
    """The client's repository, whose commands may kill the client."""

    fuse: Fuse = field(default_factory=Fuse)

    def _run(self, *arguments):
        with self.fuse.step():
            return super()._run(*arguments)

    @contextmanager
    def prepared_move(self, *arguments):
        with self.fuse.step(), super().prepared_move(*arguments), self.fuse.step():
            yield


class Quiet:
    def say(self, text):
        pass

    doing = say


class Interleavings(RuleBasedStateMachine):
    """State machine of a user who edits, runs, loses links, is killed and resumes, and of machines that die."""

    new_project: Callable[[Path], Project]
    runs = Bundle("runs")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fmha-interleave-"))
        self.project = self.new_project(self.folder / "clone")
        self.place = Workplace(self.folder / "host")
        self.target = Local("sim", str(self.place.root), disk_mb=8)
        self.fuse = Fuse()
        repository = Fragile(self.project.path, fuse=self.fuse)
        self.driver = Driver(repository, RunStore(self.project.path / "results"), Quiet())
        self.honest = Repository(self.project.path)
        self.files = self.project.state()["files"]
        self.tip = self.project.git("rev-parse", "HEAD")
        self.was_accepted = []
        self.edits = 0

    @rule(good=st.booleans(), slow=st.booleans())
    def edit(self, good, slow):
        self.edits += 1
        self.project.kernel(cosine=1.0 if good else 0.5, sleep=1.0 if slow else 0.0, edit=self.edits)
        self.files = self.project.state()["files"]

    @rule(
        target=runs,
        cuts=st.lists(st.integers(1, 14), max_size=2),
        kill=st.none() | st.integers(0, 90),
    )
    def stage(self, cuts, kill):
        self.suffer(cuts, kill, lambda target: self.driver.judge(["D1.1"], target))
        newest = next(self.driver.store.newest_first(), None)
        return newest.run if newest else None

    @rule(run=runs, cuts=st.lists(st.integers(1, 14), max_size=2), kill=st.none() | st.integers(0, 60))
    def resume(self, run, cuts, kill):
        if run is not None:
            self.suffer(cuts, kill, lambda target: self.driver.resume(run, target))

    @rule(run=runs)
    def kill_supervisor(self, run):
        if run is not None and lock.is_held(self.place.run(run).alive):
            started = next(read_events(self.place.run(run).journal), None)
            if started:
                os.kill(started[0]["pid"], signal.SIGKILL)

    @rule()
    def let_time_pass(self):
        time.sleep(0.3)

    def suffer(self, cuts, kill, act):
        self.fuse.at = kill
        try:
            with mock.patch("harness.client.driver.RETRY_AFTER_S", ()):
                act(Faulty(self.target, cuts))
        except (Killed, RemoteError, GitError, CandidateError, NothingToDo):
            pass
        finally:
            self.fuse.at = None

    def nothing_is_accepted_without_its_verdict_and_nothing_is_lost(self):
        tip = self.honest.resolve(ACCEPTED)
        ever = self.honest.git("reflog", "show", "--format=%H", ACCEPTED).split() if tip else []
        for commit in reversed(ever):
            if commit not in self.was_accepted:
                assert self.ruled(commit) is Verdict.ACCEPT
                self.was_accepted.append(commit)
        for earlier in self.was_accepted:
            assert tip is not None and self.honest.is_ancestor(earlier, tip)

    @invariant()
    def branch_index_and_files_are_the_users(self):
        self.nothing_is_accepted_without_its_verdict_and_nothing_is_lost()
        state = self.project.state()
        assert state["files"] == self.files
        assert state["branch"] == "refs/heads/work"
        if state["tip"] != self.tip:
            assert state["tip"] in self.was_accepted and self.honest.is_ancestor(self.tip, state["tip"])
            self.tip = state["tip"]
        index = self.honest.git("write-tree")
        allowed = [self.tip, *self.was_accepted[-1:]]
        assert index in [self.honest.git("rev-parse", f"{commit}^{{tree}}") for commit in allowed]

    @invariant()
    def no_lock_outlives_its_supervisor(self):
        deadline = time.monotonic() + 600
        while lock.is_held(self.place.locks / "gpu0.lock") and not self.alive():
            assert time.monotonic() < deadline, "a lock is held, and no supervisor lives"
            time.sleep(0.05)

    def alive(self):
        return [run for run in (self.place.root / "runs").glob("*") if lock.is_held(run / "alive")]

    def ruled(self, commit):
        """Return ACCEPT if a verdict file accepts the commit, otherwise None."""
        for folder in (self.place.root / "runs").glob("*"):
            with suppress(OSError, RulingError):
                ruling = decode((folder / "verdict.json").read_bytes(), folder.name, commit)
                if ruling.verdict is Verdict.ACCEPT:
                    return ruling.verdict
        return None

    def teardown(self):
        """Check that every run can be resumed to its end, and that a good change is still accepted."""
        try:
            self.settle_everything()
        finally:
            for run in self.alive():
                for event, _ in read_events(run / "journal.jsonl"):
                    if event["event"] == "start":
                        os.kill(event["pid"], signal.SIGKILL)
            shutil.rmtree(self.folder, ignore_errors=True)

    def settle_everything(self):
        for entry in list(self.driver.store.newest_first()):
            with suppress(CandidateError):
                ended = self.driver.resume(entry.run, self.target)
                assert ended.closed or ended.verdict == "INFRA", (ended.verdict, ended.reason)
        self.branch_index_and_files_are_the_users()
        self.edit(True, False)
        with suppress(CandidateError):
            entry = self.driver.judge(["D1.1"], self.target)
            assert entry.verdict == "ACCEPT", entry.reason
            assert self.honest.resolve(ACCEPTED) == entry.candidate.commit
        deadline = time.monotonic() + PATIENCE_S
        while self.alive():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not lock.is_held(self.place.locks / "gpu0.lock")


@pytest.mark.parametrize("examples", shortened(0, [2, 12], in_ci=1))
def test_interleavings(new_project, examples):
    Interleavings.new_project = staticmethod(new_project)
    run_state_machine_as_test(
        Interleavings,
        settings=settings(
            max_examples=examples,
            stateful_step_count=8,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
