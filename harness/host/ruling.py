"""The verdict file of a run. It is written once, atomically, and counts only if it names the run and the commit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.host import subject as subjects
from harness.host.files import write_atomically
from harness.host.subject import Subject
from harness.host.verdict import Verdict

SCHEMA = 2
RULING_NAME = "verdict.json"
MAX_BYTES = 1 << 20


class RulingError(ValueError):
    """A verdict file that is damaged or belongs to another run or commit. It is ignored."""


@dataclass(frozen=True)
class ResultFile:
    """A result file: size in bytes and SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Ruling:
    """The verdict on a subject, and its evidence.

    `phase` is the phase in which the run ended, `before` and `after` are the fingerprints of the host, and `files` the
    results by path. `judge` is the commit whose code judged, and `walls` say what kept the candidate from it.
    """

    subject: Subject
    verdict: Verdict
    reason: str
    phase: str
    started: str
    ended: str
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    files: dict[str, ResultFile] = field(default_factory=dict)
    judge: str = ""
    walls: list[str] = field(default_factory=list)
    schema: int = SCHEMA

    def encode(self) -> bytes:
        """Return the bytes of the verdict file."""
        return json.dumps(asdict(self) | {"verdict": self.verdict.name}, indent=1).encode() + b"\n"

    def write(self, folder: Path) -> None:
        """Write `folder/verdict.json` atomically. Raises OSError."""
        write_atomically(folder / RULING_NAME, self.encode())


def decode(data: bytes, run: str, commit: str) -> Ruling:
    """Parse a verdict file. Raises RulingError unless it is valid and names `run` and `commit`."""
    if len(data) > MAX_BYTES:
        raise RulingError(f"verdict file of {len(data)} bytes, at most {MAX_BYTES} are read")
    try:
        fields = json.loads(data)
        schema = fields.pop("schema")
        if schema != SCHEMA:
            raise RulingError(f"verdict file of schema {schema!r}, this version reads {SCHEMA}")
        ruling = _typed(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, RulingError):
            raise
        raise RulingError(f"damaged verdict file: {type(error).__name__}: {error}") from error
    about = ruling.subject
    if (about.run, about.commit) != (run, commit):
        raise RulingError(
            f"verdict file of run {about.run[:64]!r}, commit {about.commit[:40]!r}; expected {run!r}, {commit!r}"
        )
    return ruling


def _typed(fields: dict[str, Any]) -> Ruling:
    """Return a Ruling, after checking the type of each field. Raises ValueError, KeyError or TypeError."""
    fields["subject"] = subjects.decode(fields["subject"])
    fields["walls"] = [str(wall) for wall in fields.get("walls", [])]
    fields.setdefault("judge", "")
    for name in ("reason", "phase", "started", "ended", "judge"):
        if not isinstance(fields[name], str):
            raise TypeError(f"{name} is not a text")
    for name in ("before", "after"):
        fields[name] = {str(k): str(v) for k, v in fields[name].items()}
    fields["seconds"] = {str(k): float(v) for k, v in fields["seconds"].items()}
    fields["files"] = {str(p): ResultFile(int(k["bytes"]), str(k["sha256"])) for p, k in fields["files"].items()}
    if any(kept.bytes < 0 for kept in fields["files"].values()):
        raise ValueError("a file has a negative size")
    fields["verdict"] = Verdict[fields["verdict"]]
    return Ruling(**fields)
