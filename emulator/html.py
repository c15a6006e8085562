"""HTML of results, for notebooks: no scripts, no style of its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def preformatted(text: object) -> str:
    """Return text as HTML that keeps its lines."""
    return f"<pre>{escape(str(text))}</pre>"


def table(rows: Sequence[tuple[str, object]]) -> str:
    """Return names with their values as a table."""
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def collapsible(summary: str, inside: str) -> str:
    """Return HTML that shows only the line `summary` until the reader opens it, then also the HTML `inside`."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"
