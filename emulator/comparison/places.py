"""Source lines by the text that names them in predictions, such as "near kernel.py:3 in f"."""

from __future__ import annotations

import linecache
import re
from typing import Final

PLACE: Final = re.compile(r"^(?:near )?(?P<file>.+):(?P<line>\d+)(?: in (?P<function>.*))?$")


def source_text(where: str) -> str:
    """Return the text of a place's line without its indentation, "" if it is not known."""
    found = PLACE.match(where)
    return linecache.getline(found["file"], int(found["line"])).strip() if found else ""
