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


def folded(summary: str, inside: str) -> str:
    """Return HTML that shows `inside`, HTML too, below a line of text when that is opened."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"
