"""One line about what this process does, on standard error while it does it, if that is a terminal.

A command shows it. No thread draws it, because a process with other threads cannot be forked: it is drawn when an
activity begins and ends, and whenever one says how far it is.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

OFTEN_S: Final = 0.2
"""Seconds between two drawings, at least."""
ERASE: Final = "\r\x1b[K"

_activities: list[tuple[str, float]] = []
_line: _Line | None = None


class _Line:
    """The line of a terminal. What the program prints erases it first."""

    def __init__(self, terminal: IO[str]) -> None:
        self.terminal, self.process, self.drawn, self.at = terminal, os.getpid(), "", 0.0

    def draw(self, text: str) -> None:
        if os.getpid() == self.process and text != self.drawn:
            shown = text[: shutil.get_terminal_size().columns - 1]
            self.terminal.write(ERASE + shown)
            self.terminal.flush()
            self.drawn, self.at = text, time.monotonic()


class _Printed:
    """A stream of the program."""

    def __init__(self, stream: IO[str], line: _Line) -> None:
        self._stream, self._line = stream, line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._line.draw("")
        return self._stream.write(text)


def show() -> None:
    """Show from now on what this process does, if standard error is a terminal that can erase a line."""
    global _line
    if _line is None and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _line = _Line(sys.stderr)
        sys.stdout, sys.stderr = _Printed(sys.stdout, _line), _Printed(sys.stderr, _line)


@contextmanager
def doing(text: str) -> Iterator[None]:
    """Show an activity while the context is open."""
    _activities.append((text, time.monotonic()))
    _draw()
    try:
        yield
    finally:
        _activities.pop()
        _draw()


def at(*part: object) -> None:
    """Show the part at which the innermost activity is, and the seconds that it has taken."""
    if _line is not None and _activities and time.monotonic() - _line.at > OFTEN_S:
        _draw(" ".join(map(str, part)), f"{time.monotonic() - _activities[-1][1]:.0f} s")


def _draw(*details: str) -> None:
    if _line is not None:
        _line.draw(", ".join(filter(None, [*(text for text, _ in _activities), *details])))
