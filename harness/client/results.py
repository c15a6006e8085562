"""Fetching of results from a target: each file must match the verdict file and stay in its folder."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import IO, cast

from harness.host.evidence import KINDS, OF_CLIENTS
from harness.host.files import is_plain
from harness.host.journal import one_line
from harness.host.ruling import ResultFile
from remote.errors import Untrusted
from remote.link import CHUNK, Stream, bounded

MAX_FILES = 2000
MAX_BYTES = 256 << 20
SILENCE_S = 60.0


def bring_in(stream: Stream, files: dict[str, ResultFile], into: Path) -> None:
    """Write the files of a tar stream into the folder `into`, after checking size and hash of each.

    A file of another kind than a run leaves becomes a text file, with .txt added to its name: a browser must not run
    it.

    Raises Untrusted if a file differs from the verdict file, a path leads out of the folder, or the total is too large.
    Raises LinkLost if the link broke.
    """
    if len(files) > MAX_FILES or sum(kept.bytes for kept in files.values()) > MAX_BYTES:
        size = sum(kept.bytes for kept in files.values())
        raise Untrusted(f"{len(files)} result files, {size} bytes: too much (at most {MAX_FILES} and {MAX_BYTES})")
    for path in files:
        check_path(path)
    missing = dict(files)
    try:
        source = cast(IO[bytes], _Reader(stream, MAX_BYTES + 4096 * len(files) + (1 << 20)))
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for member in archive:
                kept = missing.pop(member.name, None)
                content = archive.extractfile(member) if member.isreg() else None
                if kept is None or content is None or member.size != kept.bytes:
                    raise Untrusted(f"result {one_line(member.name, 80)!r} differs from the verdict file")
                _keep(content.read(kept.bytes), kept, into, member.name)
    except tarfile.TarError as error:
        stream.exit_code()
        raise Untrusted(f"the results cannot be read: {one_line(str(error))}") from error
    if missing:
        raise Untrusted(f"result {one_line(next(iter(missing)), 80)!r} is missing")


def check_path(path: str) -> str:
    """Return `path` if it is plain, and not a file that the client writes itself. Raises Untrusted if not."""
    if not is_plain(path) or path.rsplit("/", 1)[-1] in OF_CLIENTS:
        raise Untrusted(f"result path {one_line(path, 80)!r} is not allowed")
    return path


def _keep(data: bytes, kept: ResultFile, into: Path, name: str) -> None:
    if hashlib.sha256(data).hexdigest() != kept.sha256:
        raise Untrusted(f"result {name!r} was altered after the verdict")
    target = into / (name if Path(name).suffix in KINDS else f"{name}.txt")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.resolve().is_relative_to(into.resolve()):
        raise Untrusted(f"result {name!r} leads out of {into}")
    target.write_bytes(data)


class _Reader:
    """Adapter that lets tarfile read from a stream."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._chunks = bounded(stream, most, SILENCE_S)
        self._rest = b""

    def read(self, size: int = CHUNK) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
