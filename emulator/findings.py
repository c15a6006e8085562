"""Findings of a device: their causes, the verdict on all launches, and both as text and as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any, Final, Literal

from .bridge.device import LaunchingDevice
from .bridge.result import WORDS, LaunchResult, Word, worst
from .errors import Deadlock, Fault, LaunchError, Level, Stopped, same_cause
from .machine.launch.names import demangled
from .machine.launch.source import SourcePlace, source_line

FORMAT: Final = 1
"""The version of the JSON."""
MEANINGS: Final = {
    "fault": "some legal timing gives a wrong result, a crash or a hang",
    "formal": "PTX forbids it, and no known hardware shows it",
    "pedantic": "PTX asks for it, and NVIDIA's own programs omit it",
    "incomplete": "the launch did not run to its end",
    "known": "it is in the baseline, or a comment at its line names it",
}
GROUPS: Final = {
    Level.FAULT: "",
    Level.FORMAL: f"formal: {MEANINGS['formal']}",
    Level.PEDANTIC: "pedantic: a habit that PTX asks for",
}
WIDTH: Final = 120
_PLACE: Final = re.compile(
    r"PTX line (?P<ptx>\d+): (?P<text>[^\n]*)"
    r"(?:\n(?:near )?(?P<file>[^\n]*?):(?P<line>\d+)(?: in (?P<function>[^\n:,]*))?[,:])?"
)
"""The text of `errors.place`."""


@dataclass(frozen=True)
class Finding:
    """One cause of findings.

    ended: it ended its launch. times: how often it was found. test: under pytest, the first test that found it. known:
    it is in a baseline, or a comment at its line names it.
    """

    error: BaseException
    kernel: str
    ended: bool
    times: int = 1
    test: str = ""
    known: bool = False

    @property
    def level(self) -> Word | Literal["pedantic", "known"]:
        """The level of a fault, "fault" for a deadlock or a rejected launch, else "incomplete"."""
        if self.known:
            return "known"
        if isinstance(self.error, Fault):
            return "pedantic" if self.error.level is Level.PEDANTIC else WORDS[self.error.level]
        return "fault" if isinstance(self.error, Deadlock | LaunchError) else "incomplete"

    @property
    def word(self) -> Word:
        """The verdict if nothing else was found."""
        return "clean" if self.level == "known" else "formal" if self.level == "pedantic" else self.level

    def as_json(self) -> dict[str, Any]:
        """Return the finding as values that JSON can represent. docs/reference/options.md lists the keys."""
        error = self.error
        found: dict[str, Any] = {
            "class": type(error).__name__,
            "level": self.level,
            "message": error.what if isinstance(error, Fault | Stopped) else str(error),
            "kernel": self.kernel,
            "ended_launch": self.ended,
            "times": self.times,
            "test": self.test,
            "ptx_line": getattr(error, "line", None),
            "report": "\n".join([titled(error), *_notes(error)]),
        }
        if isinstance(error, Fault):
            found |= {
                "rule": None if error.rule is None else error.rule.title,
                "instruction": error.instr.text.strip(),
                "source": _source(error.warp.cta.launch.source_place(error.instr)),
                "by": str(error.warp),
                "cta": list(error.ctaid),
                "missing": error.missing,
                "details": [list(line) for line in error.lines],
                "other_places": list(_other_places(error)),
            }
        if isinstance(error, Stopped):
            found["warps"] = list(error.table)
        if isinstance(error, Stopped) and error.at is not None:
            instr, warp = error.at
            source = _source(warp.cta.launch.source_place(instr))
            found |= {"ptx_line": instr.line, "instruction": instr.text.strip(), "source": source, "by": str(warp)}
        return found


@dataclass(frozen=True)
class Verdict:
    """The result of all launches of a device.

    launches: how many were started. errors: True if a finding has the requested level, or a launch did not run to its
    end.
    """

    word: Word
    errors: bool
    launches: int
    findings: tuple[Finding, ...]
    options: dict[str, Any]

    @classmethod
    def of(cls, device: LaunchingDevice) -> Verdict:
        """Return the verdict on the launches that a device has run until now."""
        found = tuple(causes(device))
        asked = Level[device.level.upper()]
        errors = any(not isinstance(f.error, Fault) or f.ended or f.error.level <= asked for f in found if not f.known)
        launches = len(device.launches) + sum(failure.times for failure in device.failures if failure.kernel)
        options = {name: getattr(device, name) for name in ("completion", "seed", "level", "numerics", "diagnostics")}
        return cls(worst(f.word for f in found), errors, launches, found, options)

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as values that JSON can represent. docs/reference/options.md lists the keys."""
        return {
            "format": FORMAT,
            "verdict": self.word,
            "errors": self.errors,
            "launches": self.launches,
            "options": self.options,
            "findings": [finding.as_json() for finding in self.findings],
        }


def kernel_name(finding: Mapping[str, Any]) -> str:
    """Return the source's name of a JSON finding's kernel: CuTeDSL and C++ add the parameters' types to it."""
    function, name = (finding.get("source") or {}).get("function"), str(finding["kernel"])
    return function if function and name.startswith(f"kernel_cutlass_{function}_") else demangled(name)


def findings_in(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All findings of a report in JSON: its own, and those of child processes and of tests."""
    parts = (report, *report.get("children", ()), *report.get("tests", ()))
    return [finding for part in parts for finding in part.get("findings", ())]


def causes(device: LaunchingDevice) -> Iterator[Finding]:
    """Yield the errors that ended launches, then the findings after which launches went on, one per cause."""
    ended = [Finding(f.error, f.kernel, ended=True, times=f.times, test=f.test) for f in device.failures]
    if device.error is not None and all(f.error is not device.error for f in ended):
        ended.append(Finding(device.error, "", ended=True))
    yield from ended
    yield from _merged([*_continued(device.failures), *_continued(device.launches)])
    yield from _known(device)


def report_lines(device: LaunchingDevice, explain: bool = False) -> Iterator[str]:
    """Yield the errors that ended launches with their notes, and then `finding_lines`."""
    for finding in (f for f in causes(device) if f.ended):
        yield "\n".join([titled(finding.error), *_notes(finding.error), ""])
        yield from _counts(finding)
        yield from _explanation(finding) if explain else ()
    yield from finding_lines(device, explain)


def finding_lines(device: LaunchingDevice, explain: bool = False) -> Iterator[str]:
    """Yield the findings after which launches went on, by level, and then suspicious counts.

    explain: also yield why each finding has its level.
    """
    found = _merged(_continued(device.launches))
    for level, which in GROUPS.items():
        here = [f for f in found if isinstance(f.error, Fault) and f.error.level == level]
        if here and which:
            yield f"{which}\n"
        for finding in here:
            yield f"found {titled(finding.error)}\n"
            yield from _counts(finding)
            yield from _explanation(finding) if explain else ()
    for known in _known(device):
        error = known.error
        assert isinstance(error, Fault)
        yield f"known: {type(error).__name__} at {error.places[0]}, {known.times} times\n"
    yield from dict.fromkeys(mismatch_line(launch) for launch in device.launches)


def mismatch_line(launch: LaunchResult) -> str:
    """Return a line about swizzle mismatches, which are rarely intended but no fault; empty if there are none."""
    stats = launch.stats
    if not stats.swizzle_mismatches:
        return ""
    return (
        f"counted {stats.swizzle_mismatches} pieces of shared memory read by another swizzle than their writer's, "
        f"in {launch.kernel}: {stats.first_swizzle_mismatch}\n"
    )


def titled(error: BaseException) -> str:
    """Return a report preceded by its type."""
    return f"{type(error).__name__}: {error}"


def _continued(results: Sequence[Any]) -> list[Finding]:
    """Return the findings of launches that went on after them."""
    return [
        Finding(fault, result.kernel, ended=False, times=fault.times, test=result.test)
        for result in results
        for fault in result.findings
    ]


def _known(device: LaunchingDevice) -> list[Finding]:
    """Return the known findings of launches that ran to their end."""
    return _merged(
        [
            Finding(fault, each.kernel, ended=False, times=fault.times, test=each.test, known=True)
            for each in device.launches
            for fault in each.known
        ]
    )


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    merged: list[Finding] = []
    for finding in findings:
        known = next((i for i, first in enumerate(merged) if same_cause(first.error, finding.error)), None)
        if known is None:
            merged.append(finding)
        else:
            merged[known] = replace(merged[known], times=merged[known].times + finding.times)
    return merged


def _notes(error: BaseException) -> Sequence[str]:
    notes: Sequence[str] = getattr(error, "__notes__", ())
    return notes


def _counts(finding: Finding) -> Iterator[str]:
    if finding.times > 1:
        yield f"  {finding.times} times\n"
    if finding.test and not finding.ended:
        yield f"  in {finding.test}\n"


def _explanation(finding: Finding) -> Iterator[str]:
    """Yield why a finding has its level, and the evidence for that."""
    error, texts = finding.error, [f"level {finding.level}: {MEANINGS[finding.level]}"]
    if isinstance(error, Fault) and error.rule is not None:
        reason = error.rule.reason
        texts += [f"rule {error.rule.title}: {reason.check}", f"because: {reason.because}"]
        texts += [f"evidence: {', '.join(reason.evidence)}"]
    for text in texts:
        yield fill(text, WIDTH, initial_indent="  | ", subsequent_indent="  |   ", break_long_words=False) + "\n"


def _source(place: object) -> dict[str, Any] | None:
    if not isinstance(place, SourcePlace):
        return None
    shown = os.path.relpath(place.file)
    file = place.file if shown.startswith("..") else shown
    return {"file": file, "line": place.line, "function": place.function, "text": place.text}


def _other_places(fault: Fault) -> Iterator[dict[str, Any]]:
    """Yield the places of the other accesses that a report names."""
    for label, text in fault.lines:
        found = _PLACE.match(text) if label.endswith("at") else None
        if found is None:
            continue
        place, ptx_line = None, int(found["ptx"])
        if found["file"]:
            file, line = found["file"], int(found["line"])
            place = {"file": file, "line": line, "function": found["function"] or "", "text": source_line(file, line)}
        yield {"label": label, "ptx_line": ptx_line, "instruction": found["text"], "source": place}
