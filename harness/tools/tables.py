"""Tables of figures: CSV files with a comment above their head."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.host.files import write_atomically


def read(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of a table, without its head."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [tuple(row) for row in csv.reader(lines[1:])]


def write(path: Path, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table's head and rows. The comment of a table that exists stays."""
    old = path.read_text() if path.exists() else ""
    comment = "".join(line for line in old.splitlines(keepends=True) if line.startswith("#"))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    write_atomically(path, f"{comment}{text.getvalue()}".encode())
