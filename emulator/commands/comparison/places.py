"""Source lines by the text that names them in predictions, such as "near kernel.py:3 in f"."""

from __future__ import annotations

import re
from typing import Final

from ...machine.launch.source import source_line

PLACE: Final = re.compile(r"^(?:near )?(?P<file>.+):(?P<line>\d+)(?: in (?P<function>.*))?$")


def source_text(where: str) -> str:
    """Return the text of a place's line without its indentation, "" if it is not known."""
    found = PLACE.match(where)
    return source_line(found["file"], int(found["line"])) if found else ""
