"""A target as the gate sees it: prepare, push, start, follow, rule, fetch. What comes back is read with distrust."""

from __future__ import annotations

import hashlib
import json
import posixpath
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from harness.job import Job, Workplace
from harness.journal import one_line
from harness.repository import ACCEPTED, Repository
from harness.ruling import MAX_BYTES, Kept, Ruling, RulingError, decode
from remote.errors import LinkLost, Refused, Untrusted
from remote.link import CHUNK, Link, Stream, Target, git_service, run

BOOTSTRAP = Path(__file__).parent / "bootstrap.py"
PROBE = Path(__file__).parent / "probe.py"
PROVISION = Path(__file__).parent / "provision.py"
#: How long a question, and the download of a large package, may go without a word.
ASK_S, DOWNLOAD_S = 150.0, 3600.0
MAX_LINE_BYTES = 1 << 16
#: Put before every page that comes from a target: it may draw itself, but reach nothing and nobody.
CONTAINED = (
    b"<!doctype html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; img-src data:; "
    b"style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">\n"
)
#: A push or fetch may take this long on a slow line.
SYNC_S = 1800.0
MAX_FILES = 2000
MAX_FETCH_BYTES = 256 << 20
#: A run says something every second; after this long a silent link counts as broken.
SILENCE_S = 12.0


class Facts:
    """Questions to a target, each a program sent over the link as text; nothing need be there but Python."""

    def __init__(self, target: Target, link: Link) -> None:
        self.target = target
        self.link = link

    def ask(self, verb: str, **request: object) -> dict[str, Any]:
        """The answer of `harness.probe`. Raises Refused or LinkLost."""
        return self.send(PROBE, {"verb": verb, **request})

    def send(
        self,
        program: Path,
        request: dict[str, Any],
        hear: Callable[[str], None] = lambda _: None,
        silence_s: float = ASK_S,
    ) -> dict[str, Any]:
        """Run a program of ours there; `hear` gets its lines but for the last, which is the answer.

        Raises Refused with its reason, LinkLost, or Untrusted.
        """
        python = self.target.python or "python3"
        stream = self.link.open([python, "-I", "-"])
        lines = [b""]
        try:
            stream.send(f"{program.read_text()}\nmain({json.dumps(request)!r})\n".encode())
            stream.end_input()
            for line in _lines(stream, silence_s):
                hear(one_line(lines[-1].decode(errors="replace")))
                lines = [line]
            code = stream.exit_code()
            answer = json.loads(lines[-1])
        except (ValueError, RecursionError):
            answer = {"refused": f"{python} there: {one_line(stream.errors()[-300:]) or f'exit {code}'}"}
        finally:
            stream.close()
        if not isinstance(answer, dict) or "refused" in answer:
            why = answer.get("refused") if isinstance(answer, dict) else answer
            raise Refused(f"{self.target.name}: {one_line(str(why))}")
        return answer


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
            for line in _lines(stream, SILENCE_S):
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
            data = b"".join(_bounded(stream, MAX_BYTES, SILENCE_S))
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
        """Bring the results that a verdict file names into the folder `into`; each is checked by size and hash.

        Raises Untrusted for a file that is not as named, a path that leads elsewhere, or too much of it.
        """
        if len(files) > MAX_FILES or sum(kept.bytes for kept in files.values()) > MAX_FETCH_BYTES:
            raise Untrusted(f"{len(files)} result files, {sum(k.bytes for k in files.values())} bytes: too much")
        for path in files:
            check_path(path)
        stream = self._attend("fetch", run_id)
        missing = dict(files)
        try:
            source = cast(IO[bytes], _Reader(stream, MAX_FETCH_BYTES + 4096 * len(files) + (1 << 20)))
            with tarfile.open(fileobj=source, mode="r|") as archive:
                for member in archive:
                    kept = missing.pop(member.name, None)
                    content = archive.extractfile(member) if member.isreg() else None
                    if kept is None or content is None or member.size != kept.bytes:
                        raise Untrusted(f"result {one_line(member.name, 80)!r} is not as the verdict file names it")
                    _keep(content.read(kept.bytes), kept, into, member.name)
        except tarfile.TarError as error:
            stream.exit_code()
            raise Untrusted(f"the results cannot be read: {one_line(str(error))}") from error
        finally:
            stream.close()
        if missing:
            raise Untrusted(f"result {one_line(next(iter(missing)), 80)!r} did not come")

    def _attend(self, verb: str, run_id: str, *rest: str) -> Stream:
        stream = self.link.open(self._argv(verb, run_id, *rest), self._engine(run_id))
        stream.end_input()
        return stream

    def _argv(self, verb: str, run_id: str, *rest: str) -> list[str]:
        return [self.python, "-sEB", "-m", "harness.attendant", verb, str(self.place.run(run_id).path), *rest]

    def _engine(self, run_id: str) -> str:
        return str(self.place.run(run_id).engine)


def check_path(path: str) -> str:
    """The path itself, where it stays below its folder and hides nothing. Raises Untrusted."""
    parts = path.split("/")
    if len(path) > 240 or not path.isprintable() or "\\" in path or {"", ".", ".."} & set(parts) or parts[0] == ".git":
        raise Untrusted(f"result path {one_line(path, 80)!r} is not taken")
    return path


def _keep(data: bytes, kept: Kept, into: Path, name: str) -> None:
    if hashlib.sha256(data).hexdigest() != kept.sha256:
        raise Untrusted(f"result {name!r} was altered after the verdict")
    target = into / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.resolve().is_relative_to(into.resolve()):
        raise Untrusted(f"result {name!r} leads out of {into}")
    target.write_bytes(CONTAINED + data if name.endswith(".html") else data)


def _bounded(stream: Stream, most: int, silence_s: float) -> Iterator[bytes]:
    """The output of a stream, chunk by chunk. Raises LinkLost after silence, Untrusted after `most` bytes."""
    seen = 0
    while True:
        try:
            chunk = stream.read(silence_s)
        except TimeoutError as error:
            raise LinkLost(f"nothing was heard for {silence_s:g} s") from error
        if not chunk:
            return
        seen += len(chunk)
        if seen > most:
            raise Untrusted(f"more than {most} bytes came")
        yield chunk


def _lines(stream: Stream, silence_s: float) -> Iterator[bytes]:
    """The lines of a stream that may go on for hours, each at most MAX_LINE_BYTES long."""
    rest = b""
    started = time.monotonic()
    seen = 0
    for chunk in _bounded(stream, 1 << 40, silence_s):
        seen += len(chunk)
        if seen > (1 << 20) + MAX_LINE_BYTES * (time.monotonic() - started):
            raise Untrusted("the run says more than anybody could read")
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE_BYTES:
            raise Untrusted(f"a line of more than {MAX_LINE_BYTES} bytes came")


class _Reader:
    """A stream as the file that tarfile reads from."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._chunks = _bounded(stream, most, SILENCE_S)
        self._rest = b""

    def read(self, size: int = CHUNK) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
