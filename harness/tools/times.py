"""What a run measured on a GPU, in lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from harness.host.journal import one_line
from harness.judge.measure import NAME, Measured


def measured(folder: Path) -> Iterator[str]:
    """Case by case, each kernel's times; nothing where none came back."""
    try:
        found = msgspec.json.decode((folder / NAME).read_bytes(), type=list[Measured])
    except (OSError, msgspec.MsgspecError):
        return
    for case, group in groupby(found, key=lambda each: each.case):
        yield one_line(case)
        for each in group:
            yield f"  {one_line(each.what):38} {each.times or one_line(each.error)}"
