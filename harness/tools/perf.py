"""`python -m harness.tools.perf [MILESTONE] [--shape NAME]`: what launches would take on a B200, by the clock.

The cases of a milestone, or the problems of stages/shapes.py. Nothing is measured here; docs/clock.md says how wrong
the clock is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from remote.device import Emulated

CLOCK = "b200"
Work = tuple[str, float | None, Callable[[], object]]
"""A name, flops of what is visible if known, and what launches."""


def main() -> int:
    """Print a table. Answers the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.tools.perf", description=__doc__)
    parser.add_argument("milestone", nargs="?", default="")
    parser.add_argument("--shape", default="")
    options = parser.parse_args()
    device = Emulated()  # before the kernel, so that its PTX is kept
    try:
        works = list(_cases(options.milestone) if options.milestone else _shapes(options.shape))
    except ValueError as why:
        print(why, file=sys.stderr)
        return 2
    table = Table(
        box=box.SIMPLE_HEAD, title=f"predicted on a {CLOCK.upper()}; nothing was measured", title_justify="left"
    )
    for heading in ("", "us", "cycles", "TFLOP/s", "waves", "bound by", "busy"):
        table.add_column(heading, justify="left" if heading in ("", "bound by") else "right")
    for name, flops, launch in works:
        found = predicted(device, launch)
        seconds = sum(p.seconds for p in found)
        longest = max(found, key=lambda p: p.seconds)
        rate = (sum(p.flops for p in found) if flops is None else flops) / seconds / 1e12
        table.add_row(
            name,
            f"{seconds * 1e6:,.1f}",
            f"{sum(p.cycles for p in found):,.0f}",
            f"{rate:,.0f}",
            f"{longest.waves:.2f}",
            longest.bound,
            f"{max(longest.busy.values()):.0%}",
        )
    Console(width=120).print(table)
    return 0


def predicted(device: Emulated, launch: Callable[[], object]) -> list[Any]:
    """The prediction of each launch that something makes."""
    with device.timing(CLOCK) as emulated:
        launch()
    done: Any = emulated
    return [launched.prediction for launched in done.launches]


def _cases(milestone: str) -> Iterator[Work]:
    from stages.case import draw, launch
    from stages.catalog import runnable

    for case in runnable(milestone).load().CASES:
        yield str(case), None, partial(launch, case, draw(case, 1), "cpu")


def _shapes(name: str) -> Iterator[Work]:
    from stages.shapes import SHAPES, find

    for shape in (find(name),) if name else SHAPES:
        yield shape.name, shape.flops, shape.call


if __name__ == "__main__":
    sys.exit(main())
