"""A test double: a target whose link breaks before or during chosen commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from remote.errors import LinkLost
from remote.link import Link, Stream
from remote.target import End, Run, Target


class FaultyStream:
    """A stream that breaks after its first bytes: the command was carried out, but its answer is lost."""

    def __init__(self, stream: Stream, link: FaultyLink) -> None:
        self._stream = stream
        self._link = link

    def send(self, data: bytes) -> None:
        self._stream.send(data)

    def end_input(self) -> None:
        self._stream.end_input()

    def read(self, timeout_s: float) -> bytes:
        self._stream.read(timeout_s)
        self._link.cut = True
        raise LinkLost("cut on purpose, in the midst of an answer")

    def exit_code(self) -> int:
        raise LinkLost("cut on purpose, in the midst of an answer")

    def errors(self) -> str:
        return ""

    def close(self) -> None:
        self._stream.close()


class FaultyLink:
    """A link that breaks at the commands that its target chooses, and stays broken."""

    def __init__(self, link: Link, target: Faulty) -> None:
        self._link = link
        self._target = target
        self.cut = False

    def open(self, argv: Sequence[str], cwd: str | None = None) -> Stream:
        self._target.count += 1
        before, midst = 2 * self._target.count - 1, 2 * self._target.count
        if self.cut or before in self._target.cut_at:
            self.cut = True
            raise LinkLost("cut on purpose, before a command")
        stream = self._link.open(argv, cwd)
        return FaultyStream(stream, self) if midst in self._target.cut_at else stream

    def close(self) -> None:
        self._link.close()


class Faulty:
    """Target of `kind = "faulty"`: another target, whose link breaks at the points in `cut_at`.

    Point 1 is before the first command, 2 during it, 3 before the second, and so on, counted over all links.
    """

    def __init__(self, target: Target, cut_at: Sequence[int], name: str = "faulty") -> None:
        self.target = target
        self.cut_at = cut_at
        self.name = name
        self.count = 0
        self.device, self.arch, self.workdir, self.python = target.device, target.arch, target.workdir, target.python
        self.base_python = target.base_python
        self.gpu, self.shared, self.sync, self.disk_mb = target.gpu, target.shared, target.sync, target.disk_mb
        self.host, self.provisionable, self.lock = target.host, target.provisionable, target.lock
        self.environment, self.node_prefix, self.at_once = target.environment, target.node_prefix, target.at_once
        self.why_not_from_here = target.why_not_from_here

    def connect(self) -> FaultyLink:
        return FaultyLink(self.target.connect(), self)

    def submit(self, link: Link, runs: Sequence[Run]) -> None:
        self.target.submit(link, runs)

    def ended(self, link: Link, runs: Sequence[Run]) -> dict[str, End]:
        return self.target.ended(link, runs)

    def status(self, link: Link, run: Run, offset: int) -> Iterator[dict[str, Any]]:
        return self.target.status(link, run, offset)

    def cancel(self, link: Link, run: Run, who: str) -> None:
        self.target.cancel(link, run, who)
