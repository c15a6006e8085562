"""Detached runs, which outlive the link that started them. Local and SSH targets share this code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from remote import link as links
from remote.errors import Refused
from remote.link import Link, Stream
from remote.program import send
from remote.target import End, Run

STARTER = Path(__file__).parent / "starter.py"


class Detached:
    """A target without a scheduler: supervisors are plain processes, and a lock protects the GPU."""

    name: str
    python: str
    base_python: str
    arch: str
    gpu: int

    @property
    def lock(self) -> str:
        return f"gpu{self.gpu}"

    @property
    def node_prefix(self) -> list[str]:
        return []

    @property
    def environment(self) -> dict[str, str]:
        visible = {"CUDA_VISIBLE_DEVICES": str(self.gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {"CUTE_DSL_ARCH": self.arch, **visible}

    @property
    def at_once(self) -> int:
        return 1

    def submit(self, link: Link, runs: Sequence[Run]) -> None:
        started = [{"argv": run.supervise, "cwd": run.cwd, "log": run.log, "begun": run.begun} for run in runs]
        send(self, link, STARTER, "start_all", {"programs": started})

    def ended(self, link: Link, runs: Sequence[Run]) -> dict[str, End]:
        return {}

    def status(self, link: Link, run: Run, offset: int) -> Iterator[dict[str, Any]]:
        with closing(link.open([*run.follow, str(offset)], run.cwd)) as stream:
            stream.end_input()
            yield from json_lines(stream, self.name)

    def cancel(self, link: Link, run: Run, who: str) -> None:
        reply = links.run(link, [*run.cancel, who], cwd=run.cwd)
        if reply.code != 0:
            raise Refused(f"{self.name}: there is no run {run.name}: {reply.errors}")


def json_lines(stream: Stream, name: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that a follower on target `name` prints, one per line. Raises Refused or LinkLost."""
    for line in links.lines(stream, links.SILENCE_S):
        with suppress(ValueError, RecursionError):
            said = json.loads(line)
            if isinstance(said, dict):
                yield said
    if stream.exit_code() != 0:
        raise Refused(f"{name}: {stream.errors().strip() or 'there is no such run'}")
