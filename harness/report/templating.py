"""The templates of pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.host.journal import printable

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """Return the templates. They escape all text from records and commits, and show no marks of direction in it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader, missing = FileSystemLoader(TEMPLATES), StrictUndefined
    made = Environment(loader=loader, autoescape=True, undefined=missing, trim_blocks=True, finalize=_shown)
    made.globals.update(style=(TEMPLATES / "style.css").read_text(), site=False)
    return made


def _shown(value: object) -> str:
    return type(value)(printable(value)) if isinstance(value, str) else printable(str(value))
