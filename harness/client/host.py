"""A target as the gate sees it: prepare, push, start, follow, rule, fetch. What comes back is read with distrust."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.client import results
from harness.client.facts import HOST_PROGRAMS, Facts, bounded, lines
from harness.host.job import Job, Workplace
from harness.host.journal import one_line
from harness.host.repository import ACCEPTED, Repository
from harness.host.ruling import MAX_BYTES, Kept, Ruling, RulingError, decode
from remote.errors import Refused, Untrusted
from remote.link import Link, Stream, Target, git_service, run

BOOTSTRAP = HOST_PROGRAMS / "bootstrap.py"
#: A push or fetch may take this long on a slow line.
SYNC_S = 1800.0
#: A run says something every second; after this long a silent link counts as broken.
SILENCE_S = 12.0


class Host(Facts):
    """The work folder of `target`, reached through an open link."""

    def __init__(self, target: Target, link: Link) -> None:
        super().__init__(target, link)
        answer = self._bootstrap("prepare", workdir=target.workdir)
        self.workdir = str(answer.get("workdir"))
        self.free_bytes = int(answer.get("free_bytes") or 0)
        self.place = Workplace(Path(self.workdir))
        self.python = target.python or posixpath.join(self.workdir, "env/bin/python")

    def _bootstrap(self, verb: str, **request: str) -> dict[str, Any]:
        return self.send(BOOTSTRAP, {"verb": verb, **request})

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

    def start(self, job: Job) -> None:
        """Start the supervisor of a job whose commit is there. Repeating it starts nothing twice."""
        self._bootstrap("start", workdir=self.workdir, job=job.encode(), python=self.python)

    def follow(self, run_id: str, offset: int = 0) -> Iterator[dict[str, Any]]:
        """What `attendant.follow` says, line by line. Raises LinkLost where it goes silent."""
        stream = self._attend("follow", run_id, str(offset))
        try:
            for line in lines(stream, SILENCE_S):
                with suppress(ValueError, RecursionError):
                    said = json.loads(line)
                    if isinstance(said, dict):
                        yield said
            if stream.exit_code() != 0:
                raise Refused(f"{self.target.name}: {one_line(stream.errors()) or 'the run is not there'}")
        finally:
            stream.close()

    def ruling(self, run_id: str, commit: str) -> Ruling | None:
        """The verdict file of a run; None where there is none, or none that is bound to the run and commit."""
        stream = self._attend("ruling", run_id)
        try:
            data = b"".join(bounded(stream, MAX_BYTES, SILENCE_S))
            return decode(data, run_id, commit) if stream.exit_code() == 0 else None
        except RulingError as error:
            raise Untrusted(f"{self.target.name}: {one_line(str(error))}") from error
        finally:
            stream.close()

    def cancel(self, run_id: str, who: str) -> None:
        """Ask the supervisor to end the run. Raises Refused where the run is not there."""
        reply = run(self.link, self._argv("cancel", run_id, who), cwd=self._engine(run_id))
        if reply.code != 0:
            raise Refused(f"{self.target.name}: run {run_id} is not there: {one_line(reply.errors)}")

    def fetch(self, run_id: str, files: dict[str, Kept], into: Path) -> None:
        """Bring the results that a verdict file names into the folder `into`. Raises Untrusted or LinkLost."""
        stream = self._attend("fetch", run_id)
        try:
            results.bring_in(stream, files, into)
        finally:
            stream.close()

    def _attend(self, verb: str, run_id: str, *rest: str) -> Stream:
        stream = self.link.open(self._argv(verb, run_id, *rest), self._engine(run_id))
        stream.end_input()
        return stream

    def _argv(self, verb: str, run_id: str, *rest: str) -> list[str]:
        return [self.python, "-sEB", "-m", "harness.host.log_follower", verb, str(self.place.run(run_id).path), *rest]

    def _engine(self, run_id: str) -> str:
        return str(self.place.run(run_id).engine)
