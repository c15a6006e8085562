"""Differences of two predictions: figures, roles, mbarriers, source lines, instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

from ...clock.profile import warp_names
from ...machine_code import Resources
from .places import PLACE

Json = Mapping[str, Any]
Value = float | str | None


@dataclass(frozen=True)
class Change:
    """A figure of both versions; None where a version does not have it.

    unit: "", "%" (a share of 1), "cycles", "us" and the like. where: its source lines.
    """

    name: str
    base: Value
    head: Value
    unit: str = ""
    where: tuple[str, str] = ("", "")

    @property
    def delta(self) -> float | None:
        """The head's value less the base's; None of texts. A missing number counts as 0."""
        if isinstance(self.base, str) or isinstance(self.head, str):
            return None
        return (self.head or 0.0) - (self.base or 0.0)

    @property
    def differs(self) -> bool:
        """True if the versions differ."""
        return self.base != self.head


def change(
    name: str, sides: tuple[Any, Any], value: Callable[[Any], Value], unit: str = "", where: tuple[str, str] = ("", "")
) -> Change:
    """Return the change of a value that both sides have."""
    return Change(name, value(sides[0]), value(sides[1]), unit, where)


@dataclass(frozen=True)
class RoleChange:
    """The cycles of a role's warps, per warp: running, and waiting by mbarrier or other reason.

    base, head: the names of its warps, "" if a version has no such role.
    """

    base: str
    head: str
    waits: tuple[Change, ...]

    @property
    def name(self) -> str:
        """The warps of both versions."""
        return self.base if self.base == self.head else f"{self.base or 'none'} -> {self.head or 'none'}"


@dataclass(frozen=True)
class LaunchChange:
    """A launch of both versions.

    figures: of the whole launch. resources: of the machine code, empty without ptxas. barriers: cycles that all warps
    of a CTA wait for each mbarrier. lines: cycles per warp, all states. opcodes: instructions that a CTA's warps issue.
    sass: machine instructions of the kernel. timelines: rows of the first CTA by version, each (name, spans by kind).
    """

    base: str
    head: str
    same_ptx: bool
    figures: tuple[Change, ...]
    resources: tuple[Change, ...]
    roles: tuple[RoleChange, ...]
    barriers: tuple[Change, ...]
    lines: tuple[Change, ...]
    opcodes: tuple[Change, ...]
    sass: tuple[Change, ...]
    timelines: tuple[Sequence[Any], Sequence[Any]] = field(repr=False, default=((), ()))

    @property
    def name(self) -> str:
        """The kernels' names."""
        return self.base if self.base == self.head else f"{self.base} -> {self.head}"

    @property
    def cycles(self) -> tuple[float, float]:
        """The predicted cycles of base and head."""
        figure = next(each for each in self.figures if each.name == "cycles")
        assert isinstance(figure.base, float) and isinstance(figure.head, float)
        return figure.base, figure.head


@dataclass(frozen=True)
class Comparison:
    """Two versions of a program.

    base, head: their labels, with the commit. total: cycles and time of all launches. only_base, only_head: kernels of
    launches without a counterpart. machine_code: the version of ptxas, or why there are no figures of machine code.
    """

    base: str
    head: str
    chip: str
    total: tuple[Change, ...]
    launches: tuple[LaunchChange, ...]
    only_base: tuple[str, ...]
    only_head: tuple[str, ...]
    machine_code: str

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON's types, without timelines. docs/reference/options.md lists the keys."""
        found = asdict(self)
        for launch in found["launches"]:
            del launch["timelines"]
        return {"format": 1, **found}


def pairs(base: Sequence[str], head: Sequence[str]) -> list[tuple[int, int]]:
    """Return the launches that belong together, by number: in order if there are equally many, else by kernel."""
    if len(base) == len(head):
        return [(at, at) for at in range(len(base))]
    blocks = SequenceMatcher(None, base, head, autojunk=False).get_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def launch_change(base: Json, head: Json, needed: tuple[Resources | None, Resources | None]) -> LaunchChange:
    """Compare two launches. base, head: `figures` of both. needed: their machine code."""
    b, h = base["prediction"], head["prediction"]
    roles = tuple(role_changes(b["roles"], h["roles"]))
    return LaunchChange(
        base["kernel"],
        head["kernel"],
        base["ptx"] == head["ptx"],
        tuple(_figures(b, h)),
        tuple(_resources(*needed)),
        roles,
        tuple(_sorted(_summed(roles))),
        tuple(line_changes(_costs(base), _costs(head))),
        tuple(_counted(b["issued"], h["issued"])),
        tuple(_counted(_opcodes(needed[0]), _opcodes(needed[1]))),
        (base["timeline"], head["timeline"]),
    )


def _opcodes(needed: Resources | None) -> Mapping[str, float]:
    return {} if needed is None else needed.instructions


def totals(base: Sequence[Json], head: Sequence[Json]) -> tuple[Change, ...]:
    """Return the cycles and the time of all launches."""
    sides = base, head
    return (
        change("cycles", sides, lambda side: sum(each["prediction"]["cycles"] for each in side), "cycles"),
        change("time", sides, lambda side: sum(each["prediction"]["seconds"] for each in side) * 1e6, "us"),
    )


def _figures(base: Json, head: Json) -> Iterator[Change]:
    sides = base, head

    def both(name: str, key: str, unit: str = "") -> Change:
        return change(name, sides, lambda side: side[key], unit)

    yield both("cycles", "cycles", "cycles")
    yield change("time", sides, lambda side: 1e6 * side["seconds"], "us")
    yield change("time at the highest rate", sides, lambda side: 1e6 * side["fastest"]["seconds"], "us")
    yield both("tensor core rate", "tflops", "TFLOP/s")
    yield both("bound by", "bound")
    for part in base["busy"]:
        yield Change(f"busy: {part}", base["busy"][part], head["busy"][part], "%")
    yield both("clusters", "clusters")
    yield both("clusters at a time", "slots")
    yield both("waves", "waves")
    yield both("CTAs per SM", "resident")
    yield both("limited by", "limit")
    yield both("registers of a thread", "registers")
    yield change("FLOP per byte of HBM", sides, lambda side: (side["roofline"] or {}).get("intensity"))
    yield change("roofline", sides, _allowed, "TFLOP/s")
    yield change("share of the roofline", sides, _share, "%")
    yield both("warp instructions", "instructions")
    for name, key, unit in (
        ("bank conflicts per CTA", "conflicts", "cycles"),
        ("unused sector bytes per CTA", "wasted", "bytes"),
    ):
        sums = [float(sum(line[key] for line in side["lines"])) for side in sides]
        yield Change(name, sums[0], sums[1], unit)


def _allowed(side: Json) -> float | None:
    """Return the TFLOP/s that the roofline allows, None without one."""
    roof = side["roofline"]
    return None if roof is None else min(roof["tensor"], roof["hbm"])


def _share(side: Json) -> float | None:
    allowed = _allowed(side)
    return None if allowed is None else side["tflops"] / allowed


RESOURCES: Final = {
    "registers": ("registers", ""),
    "stack_bytes": ("stack", "bytes"),
    "spill_store_bytes": ("spilled", "bytes"),
    "spill_load_bytes": ("reloaded", "bytes"),
    "barriers": ("named barriers", ""),
    "shared_bytes": ("static shared memory", "bytes"),
    "instruction_count": ("SASS instructions", ""),
}
"""Name and unit of each field of `Resources` that is compared."""


def _resources(base: Resources | None, head: Resources | None) -> Iterator[Change]:
    if base is not None and head is not None:
        for attribute, (name, unit) in RESOURCES.items():
            values = getattr(base, attribute), getattr(head, attribute)
            if values != (None, None):  # machine instructions without nvdisasm
                yield Change(name, *values, unit)


def role_changes(base: Sequence[Json], head: Sequence[Json]) -> Iterator[RoleChange]:
    """Yield the roles of both versions, those of one version last.

    Roles of the same warps belong together, then those that share most warps. base, head: objects with `warps`,
    `running` (cycles) and `waits`, each with `what`, `cycles`, and `source` or `line`.
    """
    left = list(head)
    for role in sorted(base, key=lambda each: min(each["warps"])):
        shared = [
            (len({*role["warps"]} & {*other["warps"]}), -len(other["warps"]), at) for at, other in enumerate(left)
        ]
        most = max(shared, default=(0, 0, 0))
        yield _role(role, left.pop(most[2]) if most[0] else None)
    yield from (_role(None, role) for role in left)


def _role(base: Json | None, head: Json | None) -> RoleChange:
    before, after = _waits(base), _waits(head)
    changes = []
    for what in dict.fromkeys([*before, *after]):
        (cycles, at), (cycles_after, to) = before.get(what, (None, "")), after.get(what, (None, ""))
        changes.append(Change(what, cycles, cycles_after, "cycles", (at, to)))
    running = change("running", (base, head), lambda role: role["running"] if role else None, "cycles")
    shown = ["" if role is None else warp_names(role["warps"]) for role in (base, head)]
    return RoleChange(shown[0], shown[1], (running, *_sorted(changes)))


def _waits(role: Json | None) -> dict[str, tuple[float, str]]:
    """Return by reason the cycles of a role's waits, and where the longest is."""
    found: dict[str, tuple[float, str]] = {}
    for wait in sorted(role["waits"] if role else (), key=lambda each: -each["cycles"]):
        where = wait["source"] or f"PTX line {wait['line']}"
        cycles, known = found.get(wait["what"], (0.0, where))
        found[wait["what"]] = cycles + wait["cycles"], known
    return found


def _summed(roles: Sequence[RoleChange]) -> Iterator[Change]:
    """Yield the cycles of each mbarrier, summed over roles: per warp, once for each role."""
    waits = [wait for role in roles for wait in role.waits if wait.name != "running"]
    for name in dict.fromkeys(wait.name for wait in waits):
        same = [wait for wait in waits if wait.name == name]
        yield Change(name, _sum(each.base for each in same), _sum(each.head for each in same), "cycles")


def _sum(values: Iterable[Value]) -> float | None:
    known = [value for value in values if isinstance(value, float)]
    return sum(known) if known else None


def _costs(side: Json) -> dict[str, tuple[str, float]]:
    """Return by place the source text and the cycles per warp of a launch's source lines."""
    roles = side["prediction"]["roles"]
    whole = roles[0]["cycles"] if roles else 0.0
    return {
        line["where"]: (
            side["texts"].get(line["where"], ""),
            whole * sum(line[k] for k in ("issued", "stalled", "waited")),
        )
        for line in side["prediction"]["lines"]
    }


def line_changes(base: Mapping[str, tuple[str, float]], head: Mapping[str, tuple[str, float]]) -> list[Change]:
    """Return the cycles of source lines, those that changed most first.

    base, head: (text, cycles) by place, such as "file.py:3 in f". Lines of the same text in functions of the same name
    belong together, in their order, whatever their numbers and files are.
    """
    sides = [_by_text(side) for side in (base, head)]
    found = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        (at, before), (to, after) = (side.get(key, ("", None)) for side in sides)
        text = key[1] or to or at
        found.append(Change(text, before, after, "cycles", (at, to)))
    return _sorted(found)


def _by_text(side: Mapping[str, tuple[str, float]]) -> dict[tuple[str, str, int, bool], tuple[str, float]]:
    found: dict[tuple[str, str, int, bool], tuple[str, float]] = {}
    seen: Counter[tuple[str, str, bool]] = Counter()
    places = [(PLACE.match(where), where) for where in side]
    for match, where in sorted(places, key=lambda each: int(each[0]["line"]) if each[0] else 0):
        text, cycles = side[where]
        key = (match["function"] or "" if match else "", text or where, where.startswith("near "))
        found[key[0], key[1], seen[key], key[2]] = where, cycles
        seen[key] += 1
    return found


def _counted(base: Mapping[str, float], head: Mapping[str, float]) -> list[Change]:
    names = dict.fromkeys([*base, *head])
    return _sorted(Change(name, float(base.get(name, 0)), float(head.get(name, 0))) for name in names)


def _sorted(changes: Iterable[Change]) -> list[Change]:
    """Return changes, the largest first."""
    return sorted(changes, key=lambda each: -abs(each.delta or 0.0))
