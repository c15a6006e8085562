"""Findings of launches as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .bridge.device import EmulatedDevice
from .bridge.result import LaunchResult
from .errors import Fault, Level

GROUPS: Final = {
    Level.FAULT: "",
    Level.FORMAL: "formal: PTX forbids it, and no known hardware shows it",
    Level.PEDANTIC: "pedantic: a habit that PTX asks for",
}


def has_errors(device: EmulatedDevice) -> bool:
    """Return whether there is a finding of the level that the device was asked for."""
    asked = Level[device.level.upper()]
    return any(fault.level <= asked for launch in device.launches for fault in launch.findings)


def report_lines(launches: Sequence[LaunchResult]) -> Iterator[str]:
    """Yield the findings after which launches continued, one per cause, by level, and then suspicious counts."""
    causes: list[tuple[LaunchResult, Fault, int]] = []
    for launch in launches:
        for fault in launch.findings:
            known = next((i for i, (_, first, _) in enumerate(causes) if first.same_cause(fault)), None)
            if known is None:
                causes.append((launch, fault, fault.times))
            else:
                where, first, times = causes[known]
                causes[known] = where, first, times + fault.times
    for level, which in GROUPS.items():
        here = [cause for cause in causes if cause[1].level == level]
        if here and which:
            yield f"{which}\n"
        for launch, fault, times in here:
            yield f"found {titled(fault)}\n"
            yield f"  {times} times\n" if times > 1 else ""
            yield f"  in {launch.test}\n" if launch.test else ""
    yield from dict.fromkeys(mismatch_line(launch) for launch in launches)


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
