"""What launches found, as text for people."""

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


def has_asked_findings(device: EmulatedDevice) -> bool:
    """Whether something was found that the level asks for."""
    asked = Level[device.level.upper()]
    return any(fault.level <= asked for launch in device.launches for fault in launch.findings)


def report_lines(launches: Sequence[LaunchResult]) -> Iterator[str]:
    """What launches went on after, each cause once, by level; then what they did that is no fault but seldom meant."""
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
    """What a launch did that is no fault but seldom meant, a line; empty if nothing."""
    stats = launch.stats
    if not stats.swizzle_mismatches:
        return ""
    return (
        f"counted {stats.swizzle_mismatches} pieces of shared memory read by another swizzle than their writer's, "
        f"in {launch.kernel}: {stats.first_swizzle_mismatch}\n"
    )


def titled(error: BaseException) -> str:
    """A report behind the name of its kind."""
    return f"{type(error).__name__}: {error}"
