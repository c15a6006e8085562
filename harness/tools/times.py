"""Printing of the times that a run measured on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from harness.host.journal import one_line
from harness.judge.measure import NAME, Measured


def measured(folder: Path) -> Iterator[str]:
    """Yield the lines of each case: every kernel's times. Yield nothing if no times were fetched."""
    try:
        found = msgspec.json.decode((folder / NAME).read_bytes(), type=list[Measured])
    except (OSError, msgspec.MsgspecError):
        return
    for case, group in groupby(found, key=lambda each: each.case):
        yield one_line(case)
        for each in group:
            yield f"  {one_line(each.what):38} {each.times or one_line(each.error)}  {each.rate}".rstrip()
