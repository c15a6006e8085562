"""Known findings: those of an earlier report, and those that a comment at one of their lines names.

A known finding is recorded and listed, but is no error: a launch goes on after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .errors import Fault
from .findings import Finding, findings_in
from .machine.launch.source import source_line

COMMENT: Final = re.compile(r"(?:#|//|/\*)\s*ptx-emulator: known (\w+)")
"""The comment at a line of a finding, with the finding's class."""
Identity = tuple[Any, ...]


class Baseline:
    """The findings of a report by `run --report` or pytest's `--emulator-report`; without a file none.

    Raises ValueError for a file that is no such report.
    """

    def __init__(self, file: str | None) -> None:
        self.file = file
        self._findings: list[dict[str, Any]] = []
        if file is not None:
            try:
                self._findings = findings_in(json.loads(Path(file).read_text()))
            except (OSError, ValueError, AttributeError, TypeError) as error:
                raise ValueError(f"baseline {file!r} is no report in JSON of `run --report`: {error}") from error
        self._known = {_identity(finding) for finding in self._findings}
        self._answers: dict[tuple[Any, ...], bool] = {}

    def knows(self, fault: Fault) -> bool:
        """Return whether a fault is known. Faults of one cause are looked up once."""
        key = type(fault), fault.line, fault.places
        if key not in self._answers:
            commented = any(type(fault).__name__ in COMMENT.findall(_text(place)) for place in fault.places)
            identity = _identity(Finding(fault, "", ended=False).as_json()) if self._known else ()
            self._answers[key] = commented or any(_is_same(known, identity) for known in self._known)
        return self._answers[key]

    def stale(self, reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a line for each entry that no report has. Yield none after an unfinished launch.

        reports: of all processes, or of all tests that ran; entries of other tests are not stale.
        """
        found = [finding for report in reports for finding in report["findings"]]
        if any(finding["ended_launch"] for finding in found):
            return
        met, tests = {_identity(finding) for finding in found}, {report.get("test", "") for report in reports}
        for entry in self._findings:
            if not any(_is_same(_identity(entry), each) for each in met) and entry["test"] in ("", *tests):
                place = entry.get("source") or {"file": entry["kernel"], "line": entry["ptx_line"]}
                where = f"{place['file']}:{place['line']}"
                yield f"{self.file}: {entry['class']} at {where} was not found: remove it from the baseline\n"


def _identity(finding: Mapping[str, Any]) -> Identity:
    """Return the parts of a JSON finding that other lines do not change: its class, and its places without numbers."""
    places = [_place(finding), *sorted(map(_place, finding.get("other_places", ())))]
    return finding["class"], *places


def _is_same(known: Identity, found: Identity) -> bool:
    """Return whether a finding is a known one. Some of its other places become known only as its launch goes on."""
    return known[:2] == found[:2] and set(found[2:]) <= set(known[2:])


def _place(part: Mapping[str, Any]) -> Identity:
    source = part.get("source")
    if source is None:
        return "", "", re.sub(r"\d+", "#", str(part.get("instruction") or part.get("message")))
    return source["file"], source["function"], source.get("text", "")


def _text(place: str) -> str:
    """Return the text of a line of a source file, as `Fault.places` names it."""
    file, _, line = place.removeprefix("near ").rpartition(":")
    return source_line(file, int(line)) if line.isdecimal() and file else ""
