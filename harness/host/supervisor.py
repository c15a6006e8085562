"""The supervisor of one run. It is detached from its client, enforces every deadline, and writes the verdict.

`remote.target.Target.submit` starts it as `python -m harness.host.supervisor RUN_FOLDER`. If a scheduler runs it (its
job's lock is ""), the scheduler may stop it by SIGTERM and start it again. A stopped supervisor leaves no verdict, and
only the newest attempt counts.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from harness.host import checkout, evidence, lock, phase, protected, record_requirements, ruling, walls
from harness.host.checkout import Checkout
from harness.host.evidence import Interrupted, Ruled
from harness.host.files import FULL, digest, remove, write_atomically
from harness.host.job import COMPILED, KERNELS, Job, RunFolder, Step, Workplace
from harness.host.journal import Heartbeat, Journal, last_line, now, one_line
from harness.host.kernel_cache import KernelCache
from harness.host.phase import Stop
from harness.host.protected import PROTECTION, ProtectedError
from harness.host.record_requirements import Requirements, RequirementsError
from harness.host.repository import ACCEPTED, GitError, Repository
from harness.host.ruling import RULING_NAME, Ruling
from harness.host.verdict import Verdict

#: Disk space reserved for the verdict file, and released to write it.
BALLAST_BYTES = 1 << 20
#: A scheduler signals phase and supervisor together; after this time the supervisor has its signal too.
TOLD_WITHIN_S = 0.5
#: The folder beside a record in which the accepted kernel is recorded and launched again.
AGAIN = "accepted"
#: Building walls takes 20 ms.
WALLS_S = 20.0
#: Exit code of a supervisor that left no verdict: 128 + SIGTERM.
INTERRUPTED = 143
#: Variables of the phase that repeats a recording. Its home and temporary folder differ too, and so does its argv.
OTHER_SURROUNDINGS = {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LANG": "C.UTF-8", "USER": "b", "LOGNAME": "b"}


class Supervisor:
    """The run in `folder`: takes the lock, checks out the commit, runs the phases, writes the verdict."""

    def __init__(self, folder: RunFolder, attempt: str = "") -> None:
        self.folder = folder
        self.attempt = attempt
        self.job: Job = folder.job()
        self.place: Workplace = folder.workplace
        self.repository = Repository(self.place.repository, plain=True)
        self.again = folder.journal.exists()
        self.journal = Journal(folder.journal)
        self.heartbeat = Heartbeat(folder.heartbeat)
        self.subject = self.job.subject
        self.ruling = Ruling(self.subject, Verdict.INFRA, "", "start", now(), "")
        self.judging: Checkout | None = None
        #: The command that builds walls around a phase; [] if this host allows none.
        self.builder: list[str] = []
        #: Records that were believed, by path, with their SHA-256: a later phase must leave them alone.
        self.believed: dict[Path, str] = {}
        #: Phases that wait for their turn, by name.
        self.ahead: dict[str, phase.Started] = {}
        self.cache: KernelCache | None = None
        self.stopping: Stop | None = None
        self.interrupted = False
        #: The name under which a sick device is marked as broken.
        self.device = self.job.lock or os.environ.get("SLURMD_NODENAME", os.uname().nodename)

    def supervise(self) -> Ruling:
        """Run to the verdict and write it. Leave nothing but the results behind."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._shut_down)
        phase.adopt_orphans()
        started = {"pid": os.getpid(), "commit": self.subject.commit, "host": os.uname().nodename, "again": self.again}
        self.journal.say("start", **started)
        try:
            self._prepare()
            self._await(self.job.after)
            with self._held():
                tree = self._rule_under_lock()
                self._write()
                for each in (tree, self.judging):
                    if each is not None:
                        each.remove()
        except (Ruled, OSError) as error:
            self._rule(error)
            self._write()
        return self.ruling

    def _held(self) -> AbstractContextManager[None]:
        if not self.job.lock:
            return nullcontext()
        who = {"run": self.job.run, "owner": self.subject.user, "since": now()}
        return lock.held(self.place.locks, self.job.lock, who, self._wait_in_line, self.job.slots)

    def _await(self, run: str) -> None:
        """Wait until `run`, on the same commit, ends with ACCEPT ("": return at once). Raises Ruled if it does not.

        Of several runs that wait for it, each begins to wait for the lock two polls after its predecessor.
        """
        while run:
            alive = lock.is_held(self.place.run(run).alive)
            verdict = self.place.run(run).path / RULING_NAME
            with suppress(OSError):
                found = ruling.decode(verdict.read_bytes(), run, self.subject.commit)
                if found.verdict is not Verdict.ACCEPT:
                    raise Ruled(found.verdict, found.reason)
                if time.time() >= verdict.stat().st_mtime + 2 * lock.POLL_S * self.job.turn:
                    return
                alive = True
            if not alive:
                raise Ruled(Verdict.INFRA, f"run {run}, which must come first, died without a verdict")
            self.heartbeat.beat("line", 0.0, f"waiting for run {run}")
            self._heed(self._stop_asked())
            time.sleep(lock.POLL_S)

    def _prepare(self) -> None:
        """Create the folders, reserve disk space for the verdict, and check that the disk has enough."""
        for folder in (self.folder.logs, self.folder.home, self.place.locks):
            folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder.path).free
        if free < self.job.disk_bytes:
            raise Ruled(
                Verdict.INFRA, f"{free >> 20} MiB free in {self.place.root}, {self.job.disk_bytes >> 20} needed"
            )
        with open(self._ballast, "wb") as stream:
            stream.write(b"\0" * BALLAST_BYTES)
            stream.flush()
            os.fsync(stream.fileno())

    def _wait_in_line(self, holder: dict[str, str]) -> None:
        if self.ruling.phase != "line":
            self.ruling = replace(self.ruling, phase="line")
            self.journal.say("waiting", **holder)
        self.heartbeat.beat("line", 0.0, f"waiting for {holder.get('owner', '?')}: run {holder.get('run', '?')}")
        self._heed(self._stop_asked())

    def _rule_under_lock(self) -> Checkout | None:
        """Set the ruling while the lock is held, whatever happens. Return the checkout, which the caller removes."""
        self.journal.say("locked", lock=self.device)
        tree: Checkout | None = None
        try:
            phase.kill_marked(self._mark)
            self._refuse_broken_or_stale()
            tree = checkout.planned(self.repository, self.subject.commit, self.folder.tree)
            self._lay_out(tree)
            self.cache = KernelCache(self.place, self.subject, tree.entries)
            self.cache.prepare()
            self._run_phases(tree)
            self._rule(Ruled(Verdict.ACCEPT, ""))
            self.journal.say("kept", kernels=self.cache.take(evidence.compiled(self.folder.out, self._steps)))
        except (Ruled, GitError, OSError) as error:
            self._rule(error)
        return tree

    def _refuse_broken_or_stale(self) -> None:
        broken = self.place.broken(self.device)
        if broken.exists():
            raise Ruled(
                Verdict.INFRA,
                f"{self.device} is marked broken ({one_line(broken.read_text())}): check the machine, then remove the "
                f"mark with doctor --clear-broken",
            )
        judges = any(step.milestone for step in self.job.steps)  # a sweep may measure a commit behind `accepted`
        accepted = self.repository.resolve(ACCEPTED) if judges else None
        if accepted and not self.repository.is_ancestor(accepted, self.subject.commit):
            raise Ruled(Verdict.STALE, f"accepted moved to {accepted[:12]} while this run waited")

    def _examine(self, tree: Checkout) -> None:
        """Check that the commit has the protected paths and the base that the job names. Raises Ruled if not."""
        if PROTECTION.digest(tree.entries) != self.subject.pins:
            raise Ruled(Verdict.TAMPERED, "the pinned paths of the commit differ from those of the job")
        if self.subject.base and not self.repository.is_ancestor(self.subject.base, self.subject.commit):
            raise Ruled(Verdict.TAMPERED, "the commit does not descend from its base")

    def _judging_tree(self, tree: Checkout) -> Checkout:
        """Return a checkout of the accepted commit, whose code judges; `tree` if the change is to what judges.

        Raises Ruled if that code differs from the accepted one, and the change is not meant to.
        """
        base = self.subject.base
        changed = [e.path for e in self.repository.changed(base, tree.commit)] if base else []
        try:
            rules = protected.rules(self.repository, base)
        except ProtectedError as error:
            raise Ruled(Verdict.TAMPERED, str(error)) from error
        judging = [path for path in changed if rules.judges(path)]
        if base and not self.subject.unpinned and any(map(rules.covers, changed)):
            raise Ruled(Verdict.TAMPERED, "protected paths differ from those of the accepted commit")
        if not base or judging:
            why = f"unpinned {', '.join(judging[:4])}" if base else "nothing was accepted before"
            self.ruling = replace(self.ruling, judge=tree.commit, walls=[f"the candidate's own code judges: {why}"])
            return tree
        self.ruling = replace(self.ruling, judge=base, walls=[f"the code of the accepted {base[:12]} judges"])
        return checkout.planned(self.repository, base, self.folder.accepted_tree)

    def _lay_out(self, tree: Checkout) -> None:
        """Make both checkouts, and find out meanwhile what they hold, and about walls. Raises Ruled or GitError."""
        with ThreadPoolExecutor() as pool:
            made = [pool.submit(tree.make)]
            self._examine(tree)
            self.judging = self._judging_tree(tree)
            if self.judging is not tree:
                made.append(pool.submit(self.judging.make))
            self._build_walls()
        for each in made:
            each.result()

    def _still_the_commit(self, tree: Checkout) -> None:
        for checked_out in dict.fromkeys((tree, self.judging or tree)):
            different = next(checked_out.differences(), None)
            if different:
                raise Ruled(Verdict.TAMPERED, f"checkout: {one_line(different)}")

    def _run_phases(self, tree: Checkout) -> None:
        before = self._fingerprint(tree, "before")
        self.ruling = replace(self.ruling, before=before)
        try:
            for number, step in enumerate(self._steps, 1):
                self._still_the_commit(tree)
                self._start_ahead(tree, self._steps[number:])
                self._take(tree, step)
        finally:
            for started in self.ahead.values():
                phase.end(started)
        after = self._fingerprint(tree, "after")
        self.ruling = replace(self.ruling, after=after)
        changed = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
        if changed:
            raise Ruled(Verdict.TAMPERED, f"the host changed during the run: {', '.join(changed)}")
        for path, believed in self.believed.items():
            if digest(path) != believed:
                raise Ruled(Verdict.TAMPERED, f"a later phase changed {path.relative_to(self.folder.out)}")
        for path in evidence.planted(self.folder.out, self._steps):
            name = one_line(str(path.relative_to(self.folder.out)))
            raise Ruled(Verdict.TAMPERED, f"a phase left {name}, which is no record of this run's phases")
        self._still_the_commit(tree)

    @property
    def _steps(self) -> list[Step]:
        return [*([self.job.canary] if self.job.canary else []), *self.job.steps]

    def _start_ahead(self, tree: Checkout, steps: list[Step]) -> None:
        """Start the repeating and the judging phase, concurrently with a recording phase.

        The latter imports its modules and waits for its seed. Only behind walls, which keep the candidate's processes
        from seeing the others.
        """
        for step in takewhile(lambda each: each.again or each.milestone, steps if self.builder else []):
            if step.name not in self.ahead:
                self.ahead[step.name] = self._start(tree, step)

    def _take(self, tree: Checkout, step: Step) -> None:
        """Run one step. Raises Ruled unless the run continues after it."""
        fresh = secrets.randbelow(10**9) if step.milestone else None
        pinned = self._requirements(tree, step) if step.milestone else None
        ended = self._run(tree, step, fresh)
        ruled = evidence.verdict_of(self.folder, self.job, step, ended, pinned, fresh)
        if ended.stop in (Stop.TIME_LIMIT, Stop.IDLE) or ended.stuck:
            self._examine_device(tree, ended.stuck)
        if ruled:
            raise self._excused(tree, step, pinned) or ruled
        if step.milestone:
            path = self.folder.out / step.record / evidence.RECORD_NAME
            self.believed[path] = digest(path)

    def _excused(self, tree: Checkout, step: Step, pinned: Requirements | None) -> Ruled | None:
        """Return the verdict PIN if the accepted kernel exceeds the bounds of the error model that a candidate exceeds.

        It is recorded anew and launched on the same case and seeds. None if it holds, or if no accepted kernel judges.
        """
        if pinned is None or self.judging is None or self.judging is tree:
            return None
        beyond = evidence.beyond_model(evidence.read_record(self.folder.out / step.record), pinned)
        recording = next((each for each in self._steps if each.record == step.record and not each.milestone), None)
        if beyond is None or recording is None:
            return None
        seeds = [str(seed) for seed in beyond.seeds]
        self.journal.say("again", case=beyond.case, seeds=", ".join(seeds), figures=beyond.figures)
        folder = f"{step.record}/{AGAIN}".removeprefix("./")
        remove(self.folder.out / folder)
        out = f"{_after(step.argv, '--out')}/{AGAIN}"
        first = replace(recording, name="record accepted", record=folder, argv=_with(recording.argv, "--out", out))
        argv = [*step.argv[:2], "harness.judge.again", step.milestone, "--device", _after(step.argv, "--device")]
        argv += ["--out", out, "--case", beyond.case, "--seeds", *seeds, "--beside", *step.beside]
        second = replace(step, name="judge accepted", record=folder, milestone="", argv=argv)
        for each in (first, second):
            self._still_the_commit(tree)
            ruled = evidence.verdict_of(self.folder, self.job, each, self._run(self.judging, each))
            if ruled is not None:
                return ruled if ruled.verdict is Verdict.PIN else None
        return None

    def _fingerprint(self, tree: Checkout, when: str) -> dict[str, str]:
        self._still_the_commit(tree)
        step = replace(self.job.fingerprint, name=f"fingerprint {when}")
        ruled = evidence.verdict_of(self.folder, self.job, step, self._run(tree, step))
        if ruled:
            raise ruled
        return evidence.fingerprint(self.folder.log_of(step))

    def _requirements(self, tree: Checkout, step: Step) -> Requirements:
        """Return the judging tree's requirements of the milestone that a step judges."""
        try:
            return record_requirements.read(
                (self.judging or tree).folder / "stages", step.milestone, "cuda" in step.modes, step.beside
            )
        except RequirementsError as error:
            raise Ruled(Verdict.TAMPERED, str(error)) from error

    def _start(self, tree: Checkout, step: Step) -> phase.Started:
        """Start one phase in the checkout.

        A phase that judges runs there as well, for its sources are shown in reports; but its code is that of the
        judging tree.
        """
        argv, environment = step.argv, self._environment(step)
        if step.milestone and self.judging is not None:
            argv = [argv[0], "-P", *argv[1:], "--wait", "--commit", self.subject.commit]
            environment |= {"PYTHONPATH": str(self.judging.folder)}
        return phase.start(self._walled(step, argv), tree.folder, environment, self.folder.log_of(step))

    def _run(self, tree: Checkout, step: Step, fresh: int | None = None) -> phase.Ended:
        """Run one phase to its end. A phase that judges gets the fresh seed."""
        self.ruling = replace(self.ruling, phase=step.name)
        self.journal.say("phase", name=step.name, budget_s=step.budget_s)
        log = self.folder.log_of(step)
        started = self.ahead.pop(step.name, None) or self._start(tree, step)
        record = self.folder.out / step.record if step.record else None
        using = phase.UsageWatch(started)
        growing = evidence.RecordWatch(record, step.compile_s, partial(phase.cpu_seconds, started))

        def tick(seconds: float) -> Stop | None:
            self.heartbeat.beat(step.name, seconds, last_line(log))
            for news in growing.look():
                self.journal.say("news", text=news)
            if seconds > step.budget_s:
                return Stop.TIME_LIMIT
            return Stop.COMPILE_LIMIT if growing.overdue else self._stop_asked() or using.look(seconds)

        started.tell("" if fresh is None else f"{fresh}\n")
        ended = phase.follow(started, self.job.grace_s, tick, tuple(self.ahead.values()))
        if ended.code and ended.stop is None and not self.job.lock:
            time.sleep(TOLD_WITHIN_S)
            ended = replace(ended, stop=self._stop_asked())
        for news in growing.look_again():
            self.journal.say("news", text=news)
        seconds = self.ruling.seconds | {step.name: round(ended.seconds, 3)}
        self.ruling = replace(self.ruling, seconds=seconds)
        self.journal.say("ended", name=step.name, seconds=seconds[step.name], code=ended.code)
        return ended

    def _examine_device(self, tree: Checkout, stuck: bool) -> None:
        """Run the canary again after a hang, and mark the device broken if the canary fails."""
        sick = "a process of the run cannot be killed" if stuck else ""
        if self.job.canary and not stuck:
            self._still_the_commit(tree)
            step = replace(self.job.canary, name="canary after the hang")
            ruled = evidence.verdict_of(self.folder, self.job, step, self._run(tree, step))
            sick = ruled.reason if ruled else ""
        if sick:
            text = f"since {now()}, by run {self.job.run} of {self.subject.user}: {sick}"
            self.place.broken(self.device).write_text(text + "\n")
            self.journal.say("broken", why=sick)

    def _home(self, step: Step) -> Path:
        """Return a phase's own HOME and TMPDIR: what one phase leaves there must not reach the next."""
        return self.folder.home / step.name.replace(" ", "-")

    def _environment(self, step: Step) -> dict[str, str]:
        """Return a phase's environment: nothing of the user's Python, caches or git, and a mark that identifies it."""
        return {
            **phase.kept_environment(),
            "HOME": str(self._home(step)),
            "TMPDIR": str(self._home(step)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **self._caches(step),
            **self.job.env,
            **(OTHER_SURROUNDINGS if step.again else {}),
            phase.MARK: self._mark,
        }

    def _walled(self, step: Step, argv: list[str]) -> list[str]:
        """Return the command that runs a phase behind walls, if there are any.

        It may write to its results only, and not to the logs among them, which this process writes. It does not see
        other runs, nor the client's clone if that is on this host: recordings of another commit's kernel may lie there.
        """
        writable = [self._home(step), *([] if step.again else [self.folder.out / step.record])]
        for folder in writable:
            folder.mkdir(parents=True, exist_ok=True)
        if self.cache is not None and not step.milestone and not step.again:
            writable.append(self.cache.written_to)
        # Two processes that record must not see each other's results: one could copy them.
        beside = [] if step.milestone else [self.folder.home, *([self.folder.out] if step.again else [])]
        hidden = [*beside, *self.job.hidden, self.folder.path.parent, self.place.kernels, self.place.compiled]
        shown = [self.folder.path, self.place.repository, *writable, Path(argv[0]).parent.parent]
        if self.cache is not None:
            shown.append(self.cache.read_from)
        if step.again:
            argv = ["/bin/sh", "-c", '"$@"; exit $?', "sh", *argv]  # a process between them gives it another id
        folders = map(str, [*writable, "--but", self.folder.logs, "--hide", *hidden, "--show", *shown])
        return [*self.builder, *folders, "--", *argv] if self.builder else argv

    def _build_walls(self) -> None:
        """Find out whether this host allows walls, and record that for the verdict."""
        builder = [sys.executable, "-IS", walls.__file__]
        tried = subprocess.run([*builder, "--try"], capture_output=True, text=True, timeout=WALLS_S, check=False)
        on_gpu = self.job.canary is not None
        self.builder = [*builder, *[walls.GPU_SOCKETS] * on_gpu] if tried.returncode == 0 else []
        up = "phases see no other process, no network and no keys, and write to their results only"
        up += "; they can reach servers through UNIX sockets, which CUDA needs" * on_gpu
        said = up if self.builder else f"no walls around the phases: {one_line(tried.stderr) or tried.returncode}"
        self.ruling = replace(self.ruling, walls=[*self.ruling.walls, said])

    def _caches(self, step: Step) -> dict[str, str]:
        """Return where compiled kernels lie. Those of accepted runs are shared: they were judged."""
        if self.cache is None:
            return {KERNELS: ""}
        written_to = self._home(step) / "compiled" if step.again else self.cache.written_to
        return {KERNELS: str(self.cache.read_from), COMPILED: str(written_to)}

    def _stop_asked(self) -> Stop | None:
        if self.folder.cancel.exists():
            return Stop.CANCEL
        return self.stopping

    def _heed(self, stop: Stop | None) -> None:
        ruled = evidence.stopped(self.folder, stop)
        if ruled:
            raise ruled

    def _shut_down(self, _signal: int, _frame: object) -> None:
        self.stopping = Stop.SHUTDOWN

    def _rule(self, error: Ruled | GitError | OSError) -> None:
        """Set the verdict and its reason. Errors of git, and of the machine, are INFRA."""
        if isinstance(error, OSError) and error.errno in FULL:
            running = next((step for step in self._steps if step.name == self.ruling.phase), self.job.fingerprint)
            error = evidence.full_disk(self.folder, self.job, running)
        self.interrupted = isinstance(error, Interrupted)
        verdict, reason = (error.verdict, error.reason) if isinstance(error, Ruled) else (Verdict.INFRA, str(error))
        if isinstance(error, OSError):
            reason = f"{error.strerror}: {error.filename or 'no file named'}"
        self.ruling = replace(self.ruling, verdict=verdict, reason=one_line(reason))

    def _write(self) -> None:
        """Write the verdict file, unless this attempt was interrupted or is not the newest."""
        self._ballast.unlink(missing_ok=True)
        remove(self.folder.home)
        if self.attempt and (self.interrupted or self.folder.attempt.read_text() != self.attempt):
            self.journal.say("left", reason=self.ruling.reason)
            return
        self.journal.say("end", verdict=self.ruling.verdict.name, reason=self.ruling.reason)
        self.ruling = replace(self.ruling, ended=now())
        with suppress(OSError):
            self.ruling = replace(self.ruling, files=evidence.manifest(self.folder.out, self._steps))
        try:
            self.ruling.write(self.folder.path)
        except OSError as error:
            if error.errno not in FULL:
                raise
            remove(self.folder.out.parent)
            if not self.ruling.verdict.rejects:
                self._rule(Ruled(Verdict.INFRA, "the disk is full: the results were deleted to write this verdict"))
            self.ruling = replace(self.ruling, files={})
            self.ruling.write(self.folder.path)

    @property
    def _ballast(self) -> Path:
        return self.folder.path / "ballast"

    @property
    def _mark(self) -> str:
        alone = self.job.lock and self.job.slots == 1
        return str(self.place.locks / self.job.lock if alone else self.folder.path)


def _after(argv: list[str], option: str) -> str:
    """Return the argument that follows an option."""
    return argv[argv.index(option) + 1]


def _with(argv: list[str], option: str, value: str) -> list[str]:
    """Return a command with another argument after an option."""
    at = argv.index(option) + 1
    return [*argv[:at], value, *argv[at + 1 :]]


def main(path: str) -> int:
    """Supervise the run in folder `path`, unless it already has a verdict or a supervisor. Return the exit code."""
    phase.be_private()
    folder = RunFolder(Path(path))
    if not folder.job().lock:
        return _attempt(folder)
    with open(folder.alive, "w") as life:
        deadline = time.monotonic() + 1.0
        while not lock.try_lock(life):
            if time.monotonic() > deadline:
                return 0
            time.sleep(0.05)
        if (folder.path / RULING_NAME).exists():
            return 0
        return Supervisor(folder).supervise().verdict.exit_code


def _attempt(folder: RunFolder) -> int:
    """Supervise a run that a scheduler started, from the beginning. Remove what an earlier attempt left."""
    if (folder.path / RULING_NAME).exists():
        return 0
    attempt = secrets.token_hex(8)
    write_atomically(folder.attempt, attempt.encode())
    for left in (folder.tree, folder.accepted_tree, folder.out, folder.home):
        remove(left)
    supervisor = Supervisor(folder, attempt)
    verdict = supervisor.supervise().verdict
    return INTERRUPTED if supervisor.interrupted else verdict.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
