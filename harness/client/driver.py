"""The steps from the working tree to an accepted commit: candidate, local compile, run, verdict, acceptance.

Each step is stored before it is taken and may be repeated, so a run can be resumed at any point.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from harness.client import acceptance, candidate, parts, sharing, vouched
from harness.client.acceptance import StaleBase
from harness.client.candidate import Candidate, CandidateError, user_name
from harness.client.host import Host, reach
from harness.client.plan import Plan, Planner, TimeLimits
from harness.client.run_store import Entry, RunStore
from harness.client.watch import Died, Gone, Progress, watch
from harness.host import protected
from harness.host.job import KERNELS, Job
from harness.host.protected import Unpin
from harness.host.repository import ACCEPTED, GitError, Repository
from harness.host.ruling import Ruling
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from harness.report.record import new_run_id, now
from remote import targets
from remote.errors import LinkLost, Refused, RemoteError, Unreachable, Untrusted
from remote.target import Target
from stages.catalog import CATALOG, GATE

RETRY_AFTER_S = (0.5, 2.0, 5.0)
MAX_NEW_BASES = 3
CANCEL_WITHIN_S = 3.0
DEFAULT_LIMITS = TimeLimits()
NOTHING_UNPINNED = Unpin()
FIRST = (
    "first run of this clone: nothing is accepted yet, so the stages and the harness of this tree judge it. Later runs "
    "compare with the accepted commit. (Digest {pins}, if you want to compare it with a tree that you trust.)"
)

NOT_THERE = "it was not started there, or clean-runs removed it"


class NothingToDo(ValueError):
    """The command has nothing to do. The message says why, and what to do first."""


@dataclass
class Driver:
    """Drives the runs of one clone, which are kept in `store`, and reports to `progress`."""

    repository: Repository
    store: RunStore
    progress: Progress
    limits: TimeLimits = DEFAULT_LIMITS

    def judge(
        self,
        milestones: Sequence[str],
        target: Target,
        unpin: Unpin = NOTHING_UNPINNED,
        again: bool = False,
        no_cache: bool = False,
    ) -> Entry:
        """Judge the working tree on `milestones`, after the hd=64 gate. Return the run, closed or left.

        `again` judges an accepted commit once more; `no_cache` ignores the cache of compiled kernels. Raises
        CandidateError, ProtectedError, NothingToDo or GitError if the working tree cannot be judged, and RemoteError if
        the target cannot be reached or does not meet a requirement.
        """
        if target.shared and self.repository.git("rev-parse", "--is-shallow-repository") == "true":
            raise CandidateError("a shallow clone cannot share its history: fetch the rest (git fetch --unshallow)")
        if fetched := vouched.fetch_accepted(self.repository):
            self.progress.say(fetched)
        run = new_run_id(milestones[0] if len(milestones) == 1 else "stages")
        title = f"Candidate of {user_name()} for {', '.join(milestones)}"
        with self._candidate(run, title, unpin.paths) as made:
            entry = Entry(self._subject(run, made, milestones, target, unpin), made, now(), no_cache=no_cache)
            base = self._check(entry)
            if not again:
                self._refuse_repetition(entry)
            if not base:
                self.progress.say(FIRST.format(pins=entry.subject.pins[:16]))
            for known in vouched.revoked_below(self.repository, base) if base else ():
                self.progress.say(f"accepted contains {known['commit'][:12]} of run {known['run']}, {known['reason']}")
            self.store.save(entry)
        with self._closing_on_error(entry):
            if target.device == "cuda":
                with self._reached(target) as host:
                    host.check_needs()
                if not self._compile_here(entry, target.arch):
                    return entry
            return self._on_newer_bases(entry, target)

    def sweep(self, milestone: str, missing: Callable[[str], Sequence[int]], target: Target) -> Entry | None:
        """Measure the working tree on `milestone` for the seeds that `missing` returns for its tree.

        A sweep accepts nothing, so pinned files are taken from the working tree as they are, tracked or not. Returns
        None if no seed is missing. Raises CandidateError or GitError, and RemoteError if the target cannot be reached.
        """
        run = new_run_id(f"sweep.{milestone}")
        with self._candidate(run, f"Sweep of {user_name()} over {milestone}", candidate.PACKAGES) as made:
            seeds = list(missing(made.tree))
            if not seeds:
                candidate.drop(self.repository, made)
                return None
            entry = Entry(self._subject(run, made, [milestone], target), made, now(), seeds=seeds)
            self.store.save(entry)
        with self._closing_on_error(entry):
            self._drive(entry, target)
        return entry

    def time(self, milestones: Sequence[str], target: Target) -> Entry:
        """Time the working tree on the GPU of `target`, without accepting anything.

        milestones: the one whose cases are timed; without one, all problems of harness/judge/problems.py are. Raises
        CandidateError or GitError, and RemoteError if the target cannot be reached.
        """
        what = milestones[0] if milestones else "problems"
        run = new_run_id(f"perf.{what}")
        with self._candidate(run, f"Times of {user_name()} for {what}", candidate.PACKAGES) as made:
            entry = Entry(self._subject(run, made, milestones, target), made, now(), times=True)
            self.store.save(entry)
        with self._closing_on_error(entry):
            self._drive(entry, target)
        return entry

    def resume(self, run: str, target: Target) -> Entry:
        """Continue a run where it was left: fetch its verdict, accept or reject."""
        entry = self.store.find(run)
        return entry if entry.closed else self._on_newer_bases(entry, target)

    def cancel(self, run: str, target: Target) -> None:
        """Ask the supervisor of a run to end it. Raises NothingToDo if it has ended or is not there, or RemoteError."""
        entry = self.store.find(run)
        if entry.closed:
            raise NothingToDo(f"run {run} has ended already: {entry.verdict}")
        with self._reached(target) as host:
            if not host.has(entry.runs):
                raise NothingToDo(f"{target.name} has no run {run}: {NOT_THERE}")
            if all(state.get("ended") for state in host.survey(entry.runs)):
                raise NothingToDo(f"run {run} has ended already; for its verdict: make resume RUN={run}")
            for each in entry.runs:
                host.cancel(each, user_name())

    @contextmanager
    def _candidate(self, run: str, title: str, also: Sequence[str]) -> Iterator[Candidate]:
        """Make the candidate of a run, and name what it leaves out; drop it if the body raises."""
        made = candidate.make(self.repository, run, title, also)
        try:
            yield made
        except BaseException:
            candidate.drop(self.repository, made)
            raise
        if made.left_out:
            more = f" and {len(made.left_out) - 5} more" if len(made.left_out) > 5 else ""
            self.progress.say(f"not in the run, because it is not committed: {', '.join(made.left_out[:5])}{more}")

    def _subject(
        self, run: str, made: Candidate, milestones: Sequence[str], target: Target, unpin: Unpin = NOTHING_UNPINNED
    ) -> Subject:
        return Subject(
            run=run,
            commit=made.commit,
            milestones=list(milestones),
            target=target.name,
            user=user_name(),
            pins=self._pins(made),
            unpinned=list(unpin.paths),
            because=unpin.because,
            rejected=vouched.rejections(self.repository, made.tree),
        )

    def _pins(self, made: Candidate) -> str:
        return protected.PROTECTION.digest(self.repository.tree(made.tree))

    def _check(self, entry: Entry) -> str:
        """Return the base of the candidate ("": nothing was accepted yet). Raises ProtectedError or CandidateError."""
        base, made = entry.shared_base or vouched.accepted(self.repository), entry.candidate
        if base and not self.repository.is_ancestor(base, made.commit):
            raise CandidateError(f"your branch does not contain the accepted commit {base[:12]}: git merge accepted")
        unpin = Unpin(tuple(entry.subject.unpinned), entry.subject.because)
        protected.check(self.repository, base or made.parent, made.commit, unpin)
        return base or ""

    def _refuse_repetition(self, entry: Entry) -> None:
        about = entry.subject
        if self.repository.resolve(ACCEPTED) != about.commit:
            return
        for known in vouched.notes(self.repository, about.commit):
            same = known["verdict"] == Verdict.ACCEPT.name and known["target"] == about.target
            if same and set(about.milestones) <= set(known["milestone"].split("+")):
                raise NothingToDo(
                    f"nothing to commit: the working tree is accepted ({about.commit[:12]}), {about.milestone} held "
                    f"on {about.target} in run {known['run']}. Change the kernel first, or judge it again with AGAIN=1 "
                    f"or make ratchet"
                )

    def _compile_here(self, entry: Entry, arch: str) -> bool:
        """Compile on this machine before a GPU is used. Return False if that failed, which closes the run."""
        if importlib.util.find_spec("cutlass") is None:
            self.progress.say("not compiled locally first: nvidia-cutlass-dsl is not installed on this machine")
            return True
        here = targets.here(self.store.results.resolve() / ".here", arch)
        with self._reached(here) as host:
            job = self._job(entry, host, self._planner(entry, host).compiling(), "compile")
            host.bring(self.repository, entry.subject.commit, entry.candidate.ref)
            host.start(job)
            watch(entry, host, self.progress, lambda _: None, 0)
            ruling = host.ruling(entry.run, entry.subject.commit)
            if ruling is None:
                raise Refused("the local compile ended without a verdict")
            if ruling.verdict.rejects:
                self._conclude(entry, host, ruling, job)
                return False
            if ruling.verdict is not Verdict.ACCEPT:
                raise Refused(f"the local compile: {ruling.reason}")
        return True

    def _on_newer_bases(self, entry: Entry, target: Target) -> Entry:
        """Drive a run to its end; if `accepted` moved meanwhile, merge and test again."""
        for _ in range(MAX_NEW_BASES):
            self._drive(entry, target)
            if entry.verdict != Verdict.STALE.name or not entry.lacks:
                break
            base = entry.lacks
            self.progress.say(f"accepted moved to {base[:12]}: testing your change merged with it")
            run = new_run_id(entry.run.split("-")[2])
            made = candidate.on_new_base(self.repository, run, entry.candidate, base)
            merged = replace(entry.subject, run=run, commit=made.commit, base="", pins=self._pins(made))
            entry = Entry(merged, made, now())
            self.store.save(entry)
        return entry

    def _drive(self, entry: Entry, target: Target) -> None:
        """Take a run from its present state to its end. Reconnect a few times if the link breaks."""
        offset = 0

        def read_to(position: int) -> None:
            nonlocal offset
            offset = position

        for wait_s in (*RETRY_AFTER_S, None):
            try:
                with self._reached(target) as host:
                    self._send(entry, host)
                    if entry.parts:
                        return self._conclude_parts(entry, host)
                    watch(entry, host, self.progress, read_to, offset)
                    ruling = host.ruling(entry.run, entry.subject.commit)
                    if ruling is None:
                        raise Gone("its verdict file has disappeared")
                    return self._conclude(entry, host, ruling)
            except KeyboardInterrupt:
                if not self._asked_to_end(entry, target):
                    return None
            except StaleBase as error:
                return self._save_verdict(entry, Verdict.STALE, str(error), closed=True)
            except Died as error:
                with suppress(RemoteError), self._reached(target) as host:
                    host.clear_away(entry.runs)
                return self._save_verdict(entry, error.verdict, str(error), closed=True)
            except (Gone, Refused, GitError) as error:
                return self._save_verdict(entry, Verdict.INFRA, str(error))
            except Untrusted as error:
                return self._save_verdict(entry, Verdict.TAMPERED, str(error), closed=True)
            except (LinkLost, Unreachable) as error:
                if entry.job is None and isinstance(error, Unreachable):
                    raise
                self._save_verdict(entry, Verdict.UNKNOWN, str(error))
                if wait_s is None:
                    return None
                self.progress.say(f"{error}; trying again")
                time.sleep(wait_s)
        return None

    def _send(self, entry: Entry, host: Host) -> None:
        """Start the run on the target, unless it was started already."""
        if entry.sent:
            if not host.has(entry.runs):
                raise Gone(f"{host.target.name} has no run {entry.run}: {NOT_THERE}")
            return
        if entry.job is None:
            host.check_needs()
            if entry.judges:
                entry.shared_base = sharing.theirs(self.repository, host)
                entry.lacks = sharing.lacking(self.repository, entry.candidate.commit, entry.shared_base)
            if entry.lacks:
                raise StaleBase(f"accepted moved to {entry.lacks[:12]} before the run")
            planner, target = self._planner(entry, host), host.target
            if entry.seeds:
                entry.job = self._job(entry, host, planner.sweeping(entry.seeds, target.device), target.lock)
                entry.parts = parts.share_out_seeds(entry.job, planner, target, entry.seeds)
            elif entry.times:
                entry.job = self._job(entry, host, planner.measuring(), target.lock)
            else:
                entry.subject = replace(entry.subject, base=self._check(entry))
                entry.job = self._job(entry, host, planner.judging(target.name, target.device), target.lock)
                entry.parts = parts.share_out(entry.job, planner, target)
            self.store.save(entry)
        host.bring(self.repository, entry.subject.commit, entry.candidate.ref)
        host.start(*(entry.parts or [entry.job]))
        entry.sent = True
        self.store.save(entry)
        self.progress.say(f"run {entry.run} on {host.target.name}: commit {entry.subject.commit[:12]}")

    def _planner(self, entry: Entry, host: Host) -> Planner:
        """Return the planner of a run. Every run judges the gate first, so that needs no second time."""
        about = entry.subject
        if not entry.judges:
            return Planner(about.milestones, entry.run, host.python, self.limits)
        held = acceptance.accepted_milestones(self.repository)
        accepted = [each.id for each in CATALOG if each.built and each.id in held]
        judged = acceptance.judged_on(self.repository, about.commit, about.target).items()
        here = frozenset((*(name for name, (_, same) in judged if same), *about.milestones, GATE.id))
        listed = self.repository.git("show", f"{about.commit}:stages/cases.toml")
        cores = host.target.at_once
        return Planner(about.milestones, entry.run, host.python, self.limits, accepted, here, listed, cores)

    def _job(self, entry: Entry, host: Host, phases: Plan, lock: str) -> Job:
        return Job(
            entry.subject,
            phases.fingerprint,
            phases.steps,
            phases.canary,
            lock,
            host.target.environment | ({KERNELS: ""} if entry.no_cache else {}),
            disk_bytes=host.target.disk_mb << 20,
            hidden=[str(folder.resolve()) for folder in (self.repository.path, self.store.results)],
        )

    def _conclude(self, entry: Entry, host: Host, ruling: Ruling, job: Job | None = None) -> None:
        """Fetch the results, then accept or reject as the verdict file says."""
        asked = job or entry.job
        assert asked is not None
        if wrong := asked.subject.differences(ruling.subject):
            raise Untrusted(f"the verdict file differs from the job in: {wrong}")
        folder = self.store.folder(entry.run)
        if not entry.parts:
            host.fetch(ruling, folder, self.progress.say)
        folder.mkdir(parents=True, exist_ok=True)
        ruling.write(folder)
        if not entry.judges:
            return self._save_verdict(entry, ruling.verdict, ruling.reason, closed=True)
        if ruling.verdict is not Verdict.ACCEPT:
            acceptance.add_note(self.repository, ruling)
            if ruling.verdict is Verdict.STALE:
                self._see_what_it_lacks(entry, host)
            return self._save_verdict(entry, ruling.verdict, ruling.reason, closed=True)
        try:
            share = partial(sharing.share, self.repository, host, entry.candidate.commit, entry.shared_base)
            done = acceptance.accept(self.repository, entry.candidate, ruling, share)
        except StaleBase as error:
            self._see_what_it_lacks(entry, host)
            return self._save_verdict(entry, Verdict.STALE, str(error), closed=True)
        branch = entry.candidate.branch.removeprefix("refs/heads/")
        entry.stays = "" if done.branch_moved else f"{branch} stays behind accepted: {done.why_not}"
        also = f"; {branch} is there too" if done.branch_moved else ""
        self.progress.say(f"accepted is {entry.candidate.commit[:12]}{also}")
        judged = acceptance.judged_on(self.repository, entry.candidate.commit)
        if stale := [f"{name} since {commit[:12]}" for name, (commit, same) in sorted(judged.items()) if not same]:
            self.progress.say(f"not judged on this tree: {', '.join(stale)}; make ratchet judges them")
        return self._save_verdict(entry, Verdict.ACCEPT, ruling.reason, closed=True)

    def _conclude_parts(self, entry: Entry, host: Host) -> None:
        """Wait for all parts, then act on their combined verdict."""
        assert entry.job is not None
        rulings = parts.gather(entry.parts, host, self.store.folder(entry.run), self.progress)
        ruling = parts.together(entry.job, rulings)
        return self._conclude(entry, host, ruling)

    def _see_what_it_lacks(self, entry: Entry, host: Host) -> None:
        shared = sharing.theirs(self.repository, host)
        entry.lacks = sharing.lacking(self.repository, entry.candidate.commit, shared)

    def _save_verdict(self, entry: Entry, verdict: Verdict, reason: str, closed: bool = False) -> None:
        entry.verdict, entry.reason, entry.closed = verdict.name, reason, closed
        self.store.save(entry)

    @contextmanager
    def _closing_on_error(self, entry: Entry) -> Iterator[None]:
        """Record in the store why a run ended, if the body raises before the run was sent."""
        try:
            yield
        except BaseException as error:
            if not entry.sent and not entry.closed:
                ended = Verdict.CANCELLED if isinstance(error, KeyboardInterrupt) else Verdict.INFRA
                self._save_verdict(entry, ended, f"not started: {error}", closed=True)
            raise

    def _asked_to_end(self, entry: Entry, target: Target) -> bool:
        """Leave the run on Ctrl-C. Cancel it if a second Ctrl-C follows soon, and return True: its end is near."""
        if not entry.sent:
            self._save_verdict(entry, Verdict.UNKNOWN, "left before its start was confirmed")
            return False
        try:
            self._save_verdict(entry, Verdict.UNKNOWN, "left; it is still running")
            self.progress.say(
                f"left. The run goes on; for its verdict: make resume RUN={entry.run}. To end it: Ctrl-C again within "
                f"{CANCEL_WITHIN_S:g} s, or make cancel RUN={entry.run}"
            )
            time.sleep(CANCEL_WITHIN_S)
        except KeyboardInterrupt:
            with suppress(RemoteError):
                with suppress(NothingToDo):  # it has just ended
                    self.cancel(entry.run, target)
                    self.progress.say("asked it to end")
                self._save_verdict(entry, Verdict.UNKNOWN, "asked to end")
                return True
        return False

    @contextmanager
    def _reached(self, target: Target) -> Iterator[Host]:
        self.progress.doing(f"connecting to {target.name}")
        with reach(target) as host:
            yield host
