"""A comparison as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .differences import Change, Comparison, LaunchChange, Value

SHOWN: Final = 10
"""The most lines, opcodes and machine instructions that are listed."""
SMALLEST: Final = 0.5
"""Differences of a number below this, in cycles or instructions, are not listed."""
LONGEST: Final = 56
ALWAYS: Final = frozenset({"cycles", "time", "bound by"})


def text(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison."""
    yield f"predicted on {'an' if comparison.chip[0] == 'H' else 'a'} {comparison.chip}; nothing was measured"
    yield f"base: {comparison.base}"
    yield f"head: {comparison.head}"
    yield comparison.machine_code
    if len(comparison.launches) > 1 or comparison.only_base or comparison.only_head:
        each = [Change(f"{at} {launch.name}", *launch.cycles, "cycles") for at, launch in numbered(comparison)]
        yield from ("", *_table([*comparison.total, *each], "all launches, and the cycles of each"))
    for kernels, where in ((comparison.only_base, "base"), (comparison.only_head, "head")):
        if kernels:
            yield f"only in {where}: {', '.join(kernels)}"
    for number, launch in numbered(comparison):
        yield ""
        yield from _launch(number, launch)


def numbered(comparison: Comparison) -> Iterator[tuple[int, LaunchChange]]:
    """Yield the launches of both versions with their numbers, from 1."""
    return iter(enumerate(comparison.launches, 1))


def _launch(number: int, launch: LaunchChange) -> Iterator[str]:
    yield f"launch {number}: {launch.name}{' (the same PTX)' if launch.same_ptx else ''}"
    changed = [each for each in launch.figures if visible(each) or each.name in ALWAYS]
    yield from _table(changed)
    same = [each.name for each in launch.figures if each.base is not None and each not in changed]
    if same:
        yield f"  unchanged: {', '.join(same)}"
    yield from _table(launch.resources, "machine code")
    for role in launch.roles:
        if moved := notable(role.waits):
            yield from _table(moved, f"{role.name}, cycles per warp", [_where(each) for each in moved])
    if len(launch.roles) > 1:
        yield from _table(notable(launch.barriers), "waits by mbarrier or reason, cycles summed over roles")
    lines = notable(launch.lines)[:SHOWN]
    yield from _table(lines, "source lines, cycles per warp", [_where(each) for each in lines])
    yield from _table(notable(launch.opcodes)[:SHOWN], "instructions of a CTA's warps, by PTX opcode")
    yield from _table(notable(launch.sass)[:SHOWN], "machine instructions of the kernel, by opcode")


def notable(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that are large enough to be listed."""
    return [each for each in changes if abs(each.delta or 0.0) >= SMALLEST]


def _where(change: Change) -> str:
    """Return the source line of a change, of both versions where they differ."""
    base, head = change.where
    return head if base == head or not base else base if not head else f"{base} -> {head}"


def _table(changes: Sequence[Change], title: str = "", places: Sequence[str] = ()) -> Iterator[str]:
    if not changes:
        return
    width = max(len(title), *(len(each.name[:LONGEST]) for each in changes))
    yield f"  {title:<{width}}  {'base':>12} {'head':>12}  change"
    for at, each in enumerate(changes):
        row = f"  {each.name[:LONGEST]:<{width}}  {shown(each.base, each.unit):>12} {shown(each.head, each.unit):>12}"
        yield f"{row}  {difference(each):<17}{places[at] if places else ''}".rstrip()


def visible(change: Change) -> bool:
    """Return True if the displayed values of a change differ."""
    return shown(change.base, change.unit) != shown(change.head, change.unit)


def shown(value: Value, unit: str) -> str:
    """Return a value with its unit, "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if unit == "%":
        return f"{value:.0%}"
    whole = unit == "cycles" or abs(value) >= 100 or float(value).is_integer()
    number = f"{value:,.0f}" if whole else f"{value:,.2f}"
    return f"{number} {unit}" if unit and unit != "cycles" else number


def difference(change: Change) -> str:
    """Return the difference as text: points of a share, else the difference and its percentage of the base."""
    delta = change.delta
    if delta is None:
        return "differs" if change.differs else ""
    if not visible(change):
        return "="
    if change.unit == "%":
        return f"{100 * delta:+.0f} points"
    if not change.base or change.head is None:
        return "new" if change.head else "gone"
    sign = "+" if delta > 0 else "-"
    return f"{sign}{shown(abs(delta), change.unit)}, {delta / float(change.base):+.1%}"
