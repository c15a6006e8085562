"""The work folder of a target: prepare it, push commits, start and follow runs, fetch verdicts and results.

Nothing that a target sends is trusted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from harness import host as programs
from harness.client import results, vouched
from harness.host.job import Job, Workplace
from harness.host.repository import ACCEPTED, GitError, Repository
from harness.host.ruling import MAX_BYTES, Ruling, RulingError, decode
from remote import link as links
from remote.errors import Refused, Untrusted
from remote.link import Link, Stream, bounded, git_service
from remote.program import send
from remote.target import End, Run, Target

#: Programs that are sent to a target as text, because they import nothing of this project.
_FOLDER = Path(programs.__file__).parent
BOOTSTRAP, PROBE, PROVISION = (_FOLDER / name for name in ("bootstrap.py", "probe.py", "provision.py"))
#: Time limit of a push or fetch, for slow connections.
SYNC_S = 1800.0
#: When to push again if another push held a ref, and git's words for that.
PUSH_AGAIN_S = (0.2, 0.5, 1.0)
REF_IN_USE = ("failed to update ref", "cannot lock ref", "atomic transaction failed")


@contextmanager
def reach(target: Target) -> Iterator[Host]:
    """Open a link to a target, and yield its work folder. Raises RemoteError."""
    with closing(target.connect()) as link:
        yield Host(target, link)


class Host:
    """The work folder of `target`, accessed through an open link."""

    def __init__(self, target: Target, link: Link) -> None:
        self.target = target
        self.link = link
        self._answer = self._bootstrap("prepare", workdir=target.workdir, python=target.python)
        self.workdir = str(self._answer.get("workdir"))
        self.place = Workplace(Path(self.workdir))
        self.python = str(self._answer.get("python"))

    def _bootstrap(self, verb: str, **request: object) -> dict[str, Any]:
        return send(self.target, self.link, BOOTSTRAP, verb, request)

    def check_needs(self) -> None:
        """Check, before anything slow, that a run could start. Raises Refused with the fix."""
        free_mb, needed_mb = int(self._answer.get("free_bytes") or 0) >> 20, self.target.disk_mb
        if free_mb < needed_mb:
            raise Refused(
                f"{self.target.name}: {free_mb} MiB free in {self.workdir}, {needed_mb} needed: make clean-runs, or "
                f"lower disk_mb of the target"
            )
        if not self._answer.get("runs_python"):
            fix = "set python in remote/targets.toml"
            if self.target.provisionable:
                fix = f"make provision TARGET={self.target.name}, or {fix}"
            raise Refused(f"{self.target.name}: no interpreter {self.python} there: {fix}")

    def push(self, repository: Repository, *refspecs: str, lease: str | None = None) -> None:
        """Push all refs or none, provided that `accepted` there is at `lease` ("": absent; None: anywhere).

        Raises GitError.
        """
        leases = [] if lease is None else [f"--force-with-lease={ACCEPTED}:{lease}"]
        command = ("push", "--quiet", "--no-verify", "--atomic", *leases)
        self._exchange(repository, "receive-pack", command, refspecs)

    def _exchange(self, repository: Repository, service: str, command: Sequence[str], refspecs: Sequence[str]) -> None:
        """Run git push or git fetch with the repository there, or with the git remote that both sides reach."""
        if self.target.sync != "push":
            repository.git(*command, self.target.sync, *refspecs, timeout_s=SYNC_S)
            return
        with git_service(self.link, service, str(self.place.repository)) as (url, fds):
            repository.git(*command, url, *refspecs, timeout_s=SYNC_S, pass_fds=fds)

    def bring(self, repository: Repository, commit: str, ref: str) -> None:
        """Push the candidate, and `accepted` if this clone is the only one that uses the target."""
        specs = [f"{commit}:{ref}"]
        if not self.target.shared and repository.resolve(ACCEPTED):
            specs.append(f"+{ACCEPTED}:{ACCEPTED}")
        for wait_s in (*PUSH_AGAIN_S, None):
            try:
                self.push(repository, *specs)
                break
            except GitError as error:  # another run of this clone may be pushing the same `accepted`
                if wait_s is None or not any(words in str(error) for words in REF_IN_USE):
                    raise
                time.sleep(wait_s)
        if self.target.sync != "push":
            url = repository.git("remote", "get-url", self.target.sync)
            self._bootstrap("fetch", workdir=self.workdir, url=url, ref=ref)

    def accepted(self, repository: Repository) -> str | None:
        """Fetch the shared `accepted` and its notes into this repository. Return it; None if there is none yet."""
        ref = f"refs/fmha/{self.target.name}/accepted"
        specs = (f"+{ACCEPTED}*:{ref}*", vouched.fetched_notes(self.target.name))
        self._exchange(repository, "upload-pack", (*vouched.QUIETLY, "--prune"), specs)
        return repository.resolve(ref)

    def start(self, *jobs: Job) -> None:
        """Start the supervisors of jobs, whose commit was pushed before. Repeating it starts nothing twice."""
        self._bootstrap("lay_out", workdir=self.workdir, jobs=[job.encode() for job in jobs])
        self.target.submit(self.link, [self._run(job.run) for job in jobs])

    def has(self, runs: Sequence[str]) -> bool:
        """Return True if the folders of all runs are there. Raises LinkLost."""
        return links.run(self.link, ["ls", "-d", *(str(self.place.run(run).engine) for run in runs)]).code == 0

    def survey(self, runs: Sequence[str]) -> list[dict[str, Any]]:
        """Return the state of each run, from `log_follower.survey`. Raises LinkLost or Untrusted."""
        first, *rest = (self.place.run(run) for run in runs)
        argv = [*self._argv("survey", runs[0]), *(str(each.path) for each in rest)]
        reply = links.run(self.link, argv, cwd=str(first.engine))
        try:
            stands = json.loads(reply.out)
            if [type(each) for each in stands] == [dict] * len(runs):
                return list(stands)
        except (ValueError, TypeError, RecursionError):
            pass
        raise Untrusted(f"{self.target.name}: the state of {len(runs)} runs cannot be read: {reply.errors[-200:]}")

    def ended(self, runs: Sequence[str]) -> dict[str, End]:
        """Return the runs that a scheduler has ended."""
        return self.target.ended(self.link, [self._run(run) for run in runs])

    def follow(self, run_id: str, offset: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the progress of a run, from `log_follower.follow`. Raises LinkLost or Refused."""
        return self.target.status(self.link, self._run(run_id), offset)

    def ruling(self, run_id: str, commit: str) -> Ruling | None:
        """Return the verdict of a run, or None if there is none. Raises Untrusted if it is not of this run."""
        with closing(self._ask("ruling", run_id)) as stream:
            data = b"".join(bounded(stream, MAX_BYTES, links.SILENCE_S))
            if stream.exit_code() != 0:
                return None
        try:
            return decode(data, run_id, commit)
        except RulingError as error:
            raise Untrusted(f"{self.target.name}: {error}") from error

    def forget(self, runs: Sequence[str]) -> None:
        """Remove the folders and candidates of runs that have ended."""
        self._bootstrap("forget", workdir=self.workdir, runs=list(runs))

    def clear_away(self, runs: Sequence[str]) -> None:
        """Remove the checkouts of runs whose supervisor died."""
        for run_id in runs:
            links.run(self.link, self._argv("clear", run_id), cwd=self._run(run_id).cwd)

    def cancel(self, run_id: str, who: str) -> None:
        """Ask a run to end, on behalf of `who`. Raises Refused if it is not there."""
        self.target.cancel(self.link, self._run(run_id), who)

    def fetch(self, ruling: Ruling, into: Path, say: Callable[[str], object] = print) -> None:
        """Fetch the results that a verdict file lists into the folder `into`. Raises Untrusted or LinkLost.

        A rejection is valid without its results: nothing that a candidate leaves may take it back.
        """
        try:
            with closing(self._ask("fetch", ruling.subject.run)) as stream:
                results.bring_in(stream, ruling.files, into)
        except Untrusted as error:
            if not ruling.verdict.rejects:
                raise
            say(f"not all results were fetched: {error}")

    def _ask(self, verb: str, run_id: str) -> Stream:
        run = self._run(run_id)
        stream = self.link.open(self._argv(verb, run_id), run.cwd)
        stream.end_input()
        return stream

    def _run(self, run_id: str) -> Run:
        folder = self.place.run(run_id)
        return Run(
            run_id,
            str(folder.path),
            cwd=str(folder.engine),
            supervise=[*self._engine, "harness.host.supervisor", str(folder.path)],
            log=str(folder.log),
            begun=str(folder.journal),
            follow=self._argv("follow", run_id),
            cancel=self._argv("cancel", run_id),
        )

    def _argv(self, verb: str, run_id: str) -> list[str]:
        return [*self._engine, "harness.host.log_follower", verb, str(self.place.run(run_id).path)]

    @property
    def _engine(self) -> tuple[str, ...]:
        """Command that runs a module of a run's own engine, without the account's Python settings."""
        return self.python, "-sE", "-m"
