"""Signs of life of a supervisor: an append-only journal, and a heartbeat that is rewritten in place.

On a full disk, writing them loses text but never fails.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

BEAT_BYTES = 1024
BEAT_EVERY_S = 1.0
#: A supervisor whose heartbeat is older than this is considered dead.
STALE_S = 30.0


def now() -> str:
    """Return the time in UTC, to the millisecond, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def one_line(text: str, most: int = 300) -> str:
    """Return `text` as one line without control characters, cut to `most` characters."""
    return printable(text[: 4 * most]).replace("\n", " ").rstrip()[:most]


def printable(text: str) -> str:
    """Return `text` without control characters and marks of direction, which could show a terminal something else."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


class Journal:
    """Appends events to the file `path`: one JSON object per line, each line in one write."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def say(self, event: str, **fields: object) -> None:
        """Append an event. A full disk drops it."""
        line = json.dumps({"t": now(), "event": event, **fields}) + "\n"
        with suppress(OSError):
            os.write(self._handle, line.encode())


class Heartbeat:
    """One block of a file, rewritten in place so that it needs no disk space. Its age is that of the file."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._last = -BEAT_EVERY_S

    def beat(self, phase: str, seconds: float, last: str = "") -> None:
        """Write the phase, its seconds so far and its last line, at most once in BEAT_EVERY_S."""
        if time.monotonic() - self._last < BEAT_EVERY_S:
            return
        self._last = time.monotonic()
        text = json.dumps({"phase": phase, "seconds": round(seconds, 1), "last": one_line(last, 120)})
        with suppress(OSError):
            os.pwrite(self._handle, text.encode()[:BEAT_BYTES].ljust(BEAT_BYTES), 0)


def read_beat(path: Path) -> tuple[dict[str, Any], float] | None:
    """Return the last heartbeat and its age in seconds by this machine's clock, or None if there is none."""
    try:
        age_s = time.time() - path.stat().st_mtime
        return json.loads(path.read_bytes()[:BEAT_BYTES]), age_s
    except (OSError, ValueError):
        return None


def read_events(path: Path, offset: int = 0, most: int = 1 << 20) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the complete events after byte `offset`, each with the offset of its end; read at most `most` bytes."""
    try:
        with open(path, "rb") as stream:
            stream.seek(offset)
            data = stream.read(most)
    except OSError:
        return
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        offset += len(line)
        with suppress(ValueError):
            yield json.loads(line), offset


def last_line(path: Path, most: int = 4096) -> str:
    """Return the last non-blank line of a log, without control characters."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, path.stat().st_size - most))
            lines = stream.read(most).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((one_line(line) for line in reversed(lines) if line.strip()), "")
