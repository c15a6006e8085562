"""Predict both versions of a program and compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ...errors import AssemblerError
from ...machine_code import Resources, assembler, resources
from .differences import Comparison, launch_change, pairs, totals
from .measured import finished, start
from .sides import BASE, HEAD, ComparisonError, Side, sides

Json = dict[str, Any]
SHORT: Final = 10
"""Digits of a commit that are shown."""


def compare(base: str, head: str, rest: Sequence[str], conditions: Json) -> Comparison:
    """Predict the launches of two versions and return what differs.

    base, head: each a script or a commit. rest: SCRIPT, if neither names one, and its arguments. conditions: `chip`,
    `l2`, `data`, `ghz` and `code`. Raises ComparisonError.
    """
    with TemporaryDirectory(prefix="emulator-compare-") as name:
        folder = Path(name).resolve()
        first, second, arguments = sides(base, head, rest, folder)
        started = []
        for side, where in ((first, BASE), (second, HEAD)):
            out = folder / f"{where}.json"
            started.append((side, start(side, arguments, conditions, out), out))
        try:
            measured = [finished(*each) for each in started]
        finally:
            for _, process, _ in started:
                process.kill()
                process.wait()
    return _compared((first, second), (measured[0], measured[1]))


def _compared(versions: tuple[Side, Side], measured: tuple[list[Json], list[Json]]) -> Comparison:
    labels = [_label(side, any(each.commit for each in versions)) for side in versions]
    kernels = [[launch["kernel"] for launch in side] for side in measured]
    for label, names in zip(labels, kernels, strict=True):
        if not names:
            raise ComparisonError(f"{label} launched nothing on the emulated device, so there is nothing to compare")
    matched = pairs(*kernels)
    if not matched:
        shown = "\n".join(f"{label}: {', '.join(names)}" for label, names in zip(labels, kernels, strict=True))
        raise ComparisonError(f"no launch of one version matches one of the other:\n{shown}")
    said, needed = _machine_code([launch for side in measured for launch in side])
    base, head = measured
    return Comparison(
        labels[0],
        labels[1],
        base[0]["prediction"]["chip"],
        totals(base, head),
        tuple(launch_change(base[b], head[h], (needed(base[b]), needed(head[h]))) for b, h in matched),
        tuple(name for at, name in enumerate(kernels[0]) if at not in {b for b, _ in matched}),
        tuple(name for at, name in enumerate(kernels[1]) if at not in {h for _, h in matched}),
        said,
    )


def _label(side: Side, with_commit: bool) -> str:
    if side.commit:
        return f"{side.label} ({side.commit[:SHORT]})"
    return f"{side.label} (working tree)" if with_commit else side.label


def _machine_code(launches: Sequence[Json]) -> tuple[str, Callable[[Json], Resources | None]]:
    """Return a line about the machine code, and a function from a launch to its resources or None."""
    try:
        _, version = assembler()
        modules = {(launch["ptx"], launch["target"]) for launch in launches}
        found = {key: resources(*key) for key in modules}
    except AssemblerError as why:
        return f"no figures of machine code: {why}", lambda launch: None
    counted = any(each.instructions for module in found.values() for each in module.values())
    missing = "" if counted else "; machine instructions are not counted, as nvdisasm is not installed"
    return f"ptxas {version}{missing}", lambda launch: found[launch["ptx"], launch["target"]].get(launch["kernel"])
