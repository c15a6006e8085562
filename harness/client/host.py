"""The work folder of a target: prepare, push, start, follow, rule, fetch. What comes back is read with distrust."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import host as programs
from harness.client import results
from harness.host.job import Job, Workplace
from harness.host.repository import ACCEPTED, Repository
from harness.host.ruling import MAX_BYTES, Kept, Ruling, RulingError, decode
from remote import link as links
from remote.errors import Refused, Untrusted
from remote.link import Link, Stream, bounded, git_service
from remote.program import send
from remote.target import Run, Target

#: Programs that stand alone, sent to a target as text.
_FOLDER = Path(programs.__file__).parent
BOOTSTRAP, PROBE, PROVISION = (_FOLDER / name for name in ("bootstrap.py", "probe.py", "provision.py"))
#: A push or fetch may take this long on a slow line.
SYNC_S = 1800.0


class Host:
    """The work folder of `target`, reached through an open link."""

    def __init__(self, target: Target, link: Link) -> None:
        self.target = target
        self.link = link
        self._answer = self._bootstrap("prepare", workdir=target.workdir, python=target.python)
        self.workdir = str(self._answer.get("workdir"))
        self.place = Workplace(Path(self.workdir))
        self.python = str(self._answer.get("python"))

    def _bootstrap(self, verb: str, **request: object) -> dict[str, Any]:
        return send(self.target, self.link, BOOTSTRAP, {"verb": verb, **request})

    def check_needs(self) -> None:
        """Find out before anything slow whether a run could begin. Raises Refused, with the mend."""
        free_mb, needed_mb = int(self._answer.get("free_bytes") or 0) >> 20, self.target.disk_mb
        if free_mb < needed_mb:
            raise Refused(
                f"{self.target.name}: {free_mb} MiB free in {self.workdir}, {needed_mb} needed; make clean-runs, or "
                f"lower disk_mb of the target"
            )
        if not self._answer.get("runs_python"):
            mend = f"make provision TARGET={self.target.name}, or name one" if self.target.provisionable else "name one"
            raise Refused(f"{self.target.name}: no interpreter {self.python} there; {mend} in remote/targets.toml")

    def push(self, repository: Repository, *refspecs: str, lease: str | None = None) -> None:
        """Push into the repository there. `lease` is where `accepted` must be ("": absent). Raises GitError."""
        leases = [] if lease is None else [f"--force-with-lease={ACCEPTED}:{lease}"]
        if self.target.sync != "push":
            repository.git("push", "--quiet", "--no-verify", *leases, self.target.sync, *refspecs, timeout_s=SYNC_S)
            return
        with self._service("receive-pack") as (url, fds):
            repository.git("push", "--quiet", "--no-verify", *leases, url, *refspecs, timeout_s=SYNC_S, pass_fds=fds)

    def bring(self, repository: Repository, commit: str, ref: str) -> None:
        """Have the candidate there, and beside it the `accepted` that counts."""
        specs = [f"{commit}:{ref}"]
        if not self.target.shared and repository.resolve(ACCEPTED):
            specs.append(f"+{ACCEPTED}:{ACCEPTED}")
        self.push(repository, *specs)
        if self.target.sync != "push":
            url = repository.git("remote", "get-url", self.target.sync)
            self._bootstrap("fetch", workdir=self.workdir, url=url, ref=ref)

    def accepted(self, repository: Repository) -> str | None:
        """The `accepted` that other people see, fetched into this repository; None where there is none yet."""
        ref = f"refs/fmha/{self.target.name}/accepted"
        options = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--prune", "--no-auto-maintenance")
        spec = f"+{ACCEPTED}*:{ref}*"
        if self.target.sync != "push":
            repository.git(*options, self.target.sync, spec, timeout_s=SYNC_S)
        else:
            with self._service("upload-pack") as (url, fds):
                repository.git(*options, url, spec, timeout_s=SYNC_S, pass_fds=fds)
        return repository.resolve(ref)

    @contextmanager
    def _service(self, service: str) -> Iterator[tuple[str, list[int]]]:
        with git_service(self.link, service, str(self.place.repository)) as reached:
            yield reached

    def start(self, *jobs: Job) -> None:
        """Have jobs supervised whose commit is there. Repeating it starts nothing twice."""
        self._bootstrap("lay_out", workdir=self.workdir, jobs=[job.encode() for job in jobs])
        self.target.submit(self.link, [self._run(job.run) for job in jobs])

    def survey(self, runs: Sequence[str]) -> list[dict[str, Any]]:
        """How runs stand: what `log_follower.survey` says of each. Raises LinkLost or Untrusted."""
        first, *rest = (self.place.run(run) for run in runs)
        argv = [*self._argv("survey", runs[0]), *(str(each.path) for each in rest)]
        reply = links.run(self.link, argv, cwd=str(first.engine))
        try:
            stands = json.loads(reply.out)
            if [type(each) for each in stands] == [dict] * len(runs):
                return list(stands)
        except (ValueError, TypeError, RecursionError):
            pass
        raise Untrusted(f"{self.target.name}: {len(runs)} runs cannot be surveyed: {reply.errors[-200:]}")

    def over(self, runs: Sequence[str]) -> dict[str, str]:
        """Which runs a scheduler has ended, and how."""
        return self.target.over(self.link, [self._run(run) for run in runs])

    def follow(self, run_id: str, offset: int = 0) -> Iterator[dict[str, Any]]:
        """How a run goes: what `log_follower.follow` says, object by object. Raises LinkLost or Refused."""
        return self.target.status(self.link, self._run(run_id), offset)

    def ruling(self, run_id: str, commit: str) -> Ruling | None:
        """The verdict file of a run; None where there is none, or none that is bound to the run and commit."""
        stream = self._ask("ruling", run_id)
        try:
            data = b"".join(bounded(stream, MAX_BYTES, links.SILENCE_S))
            return decode(data, run_id, commit) if stream.exit_code() == 0 else None
        except RulingError as error:
            raise Untrusted(f"{self.target.name}: {error}") from error
        finally:
            stream.close()

    def forget(self, runs: Sequence[str]) -> None:
        """Remove the folders and candidates of runs, but for those that have not ended."""
        self._bootstrap("forget", workdir=self.workdir, runs=list(runs))

    def clear_away(self, runs: Sequence[str]) -> None:
        """Remove the checkouts that dead runs left."""
        for run_id in runs:
            links.run(self.link, self._argv("clear", run_id), cwd=self._run(run_id).cwd)

    def cancel(self, run_id: str, who: str) -> None:
        """Ask for the end of the run. Raises Refused where it is not there."""
        self.target.cancel(self.link, self._run(run_id), who)

    def fetch(self, run_id: str, files: dict[str, Kept], into: Path) -> None:
        """Bring the results that a verdict file names into the folder `into`. Raises Untrusted or LinkLost."""
        stream = self._ask("fetch", run_id)
        try:
            results.bring_in(stream, files, into)
        finally:
            stream.close()

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
        """Runs a module of a run's own engine, apart from what the account there has set up."""
        return self.python, "-sE", "-m"
