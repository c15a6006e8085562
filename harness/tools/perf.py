"""Predicted times of launches on a B200: `python -m harness.tools.perf [MILESTONE] [--shape NAME]`.

It predicts the cases of a milestone, or the problems of stages/shapes.py. Nothing is measured; the page
docs/explanation/clock-accuracy.md says how accurate the clock is. `--pin` pins the predicted cycles of the cases
of each milestone, or of MILESTONE alone. `--write FILE` writes the figures as CSV too.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from emulator.progress import doing, show
from harness.host.files import write_atomically
from harness.judge.kept import KeptKernels, use
from harness.judge.predict import launching, predicted
from harness.paths import KEPT
from harness.tools import tables
from remote.device import Emulated
from stages.catalog import CATALOG, Milestone, runnable
from stages.tolerances import cycles_file
from stages.verify import launched_clusters

if TYPE_CHECKING:
    from stages.case import Case

HEAD = ("shape", "us", "from", "to", "cycles", "TFLOP/s", "bound by", "busy")
#: The seeds that a pin covers: they decide the order of sequences and which keys are listed.
SEEDS = range(1, 9)
#: The relative difference of predictions below which two seeds are alike.
SAME = 1e-3
Work = tuple[str, float | None, Callable[[], object]]
"""A name, the flops over visible keys if known, and a function that launches."""


def main() -> int:
    """Print a table of predictions, or write pins. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.tools.perf", description=__doc__)
    parser.add_argument("milestone", nargs="?", default="", help="predict the cases of a milestone, D1.4 for example")
    parser.add_argument(
        "--shape", default="", help="predict the shapes of stages/shapes.py that match, as in 'decode-64h-*'"
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        help="write the cycles of MILESTONE, or of all, to stages/cycles.toml",
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures to FILE as CSV too")
    options = parser.parse_args()
    show()
    device = Emulated()  # before the kernel, so that its PTX is kept
    use(KeptKernels(KEPT, device))
    try:
        if options.pin:
            for line in pin(device, [runnable(options.milestone)] if options.milestone else CATALOG):
                print(line, flush=True)
            return 0
        works = list(_cases(options.milestone) if options.milestone else _shapes(options.shape))
    except ValueError as why:
        print(why, file=sys.stderr)
        return 2
    table = Table(
        box=box.SIMPLE_HEAD, title=f"predicted on the {device.chip.upper()}; nothing was measured", title_justify="left"
    )
    for heading in ("", "us", "from", "to", "cycles", "TFLOP/s", "waves", "bound by", "busy", "kernel"):
        table.add_column(heading, justify="left" if heading in ("", "bound by", "kernel") else "right")
    rows = []
    for name, flops, launches in works:
        with doing(name):
            found = predicted(device, launches, ranges=True)
        seconds = sum(p.seconds for p in found)
        longest = max(found, key=lambda p: p.seconds)
        rate = (sum(p.flops for p in found) if flops is None else flops) / seconds / 1e12
        low, high = (sum(p.seconds_range[i] for p in found) for i in range(2))
        us, cycles = [f"{s * 1e6:,.1f}" for s in (seconds, low, high)], f"{sum(p.cycles for p in found):,.0f}"
        bound, busy = longest.bound, f"{max(longest.busy.values()):.0%}"
        rows.append((name, *us, cycles, f"{rate:,.0f}", bound, busy))
        table.add_row(*rows[-1][:6], f"{longest.waves:.2f}", bound, busy, longest.kernel.removeprefix("fmha_"))
    Console(width=160).print(table)
    if options.write:
        tables.write(options.write, HEAD, rows)
    return 0


def pin(device: Emulated, milestones: Sequence[Milestone]) -> Iterator[str]:
    """Pin the predicted cycles of the cases of `milestones`; yield a line for each pin that changes.

    The pins of other milestones stay as they are.
    """
    file = cycles_file(device.chip)
    held = tomllib.loads(file.read_text())
    found = dict(held)
    for milestone in milestones:
        cases, old = milestone.load().CASES, held.get(milestone.id, [])
        found[milestone.id] = [round(_most_cycles(device, case)) for case in cases]
        for case, before, now in zip_longest(cases, old[: len(cases)], found[milestone.id], fillvalue="none"):
            if before != now:
                yield f"{milestone.id}  {before} -> {now}  {case}"
    comment = "".join(line for line in file.read_text().splitlines(keepends=True) if line.startswith("#"))
    pins = "".join(f'"{each.id}" = {found[each.id]}\n' for each in CATALOG if each.id in found)
    write_atomically(file, f"{comment}\n{pins}".encode())


def _most_cycles(device: Emulated, case: Case) -> float:
    """Return the most cycles of a case over SEEDS, or over two if these agree: then seeds make no difference."""
    found: list[float] = []
    for seed in SEEDS:
        launches = launching(case, seed)
        with device.running("eager", seed) as emulated:
            launches()
        ran: Any = emulated
        predictions = predicted(device, launches, clusters=launched_clusters(ran.launches))
        found.append(sum(each.cycles for each in predictions))
        if len(found) == 2 and abs(found[1] / found[0] - 1) < SAME:
            break
    return max(found)


def _cases(milestone: str) -> Iterator[Work]:
    for case in runnable(milestone).load().CASES:
        yield str(case), None, launching(case)


def _shapes(name: str) -> Iterator[Work]:
    from stages.shapes import SHAPES, find

    for shape in find(name) if name else SHAPES:
        yield shape.name, shape.flops, shape.call


if __name__ == "__main__":
    sys.exit(main())
