"""The status table of STAGE_NOTES.md, which is generated between two markers from the records of accepted runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.host.files import write_atomically
from harness.report.record import Record
from stages.catalog import CATALOG

BEGIN = "<!-- status: begin, written by `make notes` -->"
END = "<!-- status: end -->"
HEAD = ("milestone", "target", "commit", "cosine", "lse error", "predicted cycles", "seconds", "date")

Row = tuple[str, ...]


class NotesError(ValueError):
    """STAGE_NOTES.md lacks its markers."""


def update(path: Path, records: Iterable[Record]) -> bool:
    """Update the table in `path` from the `records` of accepted runs, oldest first. Return True if it changed.

    A row without a newer record does not change, because git has the rows of other people, but not their records.
    Raises NotesError.
    """
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise NotesError(f"{path}: the markers are missing; add the lines {BEGIN} and {END}, in that order")
    rows = _read(table) | {row[:2]: row for row in map(_row, records)}
    updated = f"{before}{BEGIN}\n{_render(rows)}{END}{after}"
    if updated == text:
        return False
    write_atomically(path, updated.encode())
    return True


def _row(record: Record) -> Row:
    return (
        record.milestone,
        record.target,
        str(record.tree),
        record.worst_shown("O", "cosine"),
        record.worst_shown("lse", "error"),
        record.cycles_shown,
        f"{record.seconds:.1f}",
        record.started[:10],
    )


def _read(table: str) -> dict[Row, Row]:
    """Return the rows of a table, by milestone and target."""
    rows = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in table.splitlines()]
    return {row[:2]: row for row in rows if len(row) == len(HEAD) and row[2] not in ("-", "---", HEAD[2])}


def _render(rows: dict[Row, Row]) -> str:
    lines = [HEAD, ("---",) * len(HEAD)]
    for milestone in CATALOG:
        of_milestone = sorted(row for key, row in rows.items() if key[0] == milestone.id)
        standing = "not run yet" if milestone.built else "not built yet"
        lines += of_milestone or [(milestone.id, standing, *"------")]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
