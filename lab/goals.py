"""`python -m lab.goals [SHAPE] [--write]`: predict decode over paged caches on a B200, compared with its goals.

SHAPE is a glob over the names of shapes, by default serve-*. `--write` writes their rows to lab/data/goals.csv.
Nothing is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final
from unittest.mock import patch

import emulator  # noqa: F401  before the kernel, so that CuTeDSL keeps PTX
from emulator.clock.chips import chip
from harness.judge.kept import KeptKernels, use
from harness.judge.predict import predicted
from harness.paths import KEPT, ROOT
from harness.tools import tables
from kernel import plan
from kernel.sm100 import choice
from remote.device import Emulated
from stages.shapes import SERVED, ServedShape, Shape, find

FIGURES: Final = ROOT / "lab" / "data" / "goals.csv"
HEAD: Final = (
    *("shape", "us", "cycles", "bound by", "bound, us", "time / bound"),
    *("time / bf16", "time / flat bf16", "bf16, not swapped / time", "misses"),
)
START_US: Final = 4.9
"""Launch, CTA start, prologue and the first latency of HBM (docs/decisions/decode-bounds.md)."""
FEW: Final = 2
"""Sequences of the shapes that are compared with flat keys. Shapes with more have the other goals."""
SWAPPED: Final = 32
"""Most heads for which keys in bf16 have the operands swapped."""
MOST_OF_BOUND: Final = 1.25
MOST_OF_BF16: Final = 1.0
MOST_OF_FLAT: Final = 1.1
LEAST_BY_SWAPPING: Final = 1.4


@dataclass(frozen=True)
class Time:
    """A predicted time at the highest rate, at which the bounds are known.

    bound: the busiest part of the chip, or latency. bound_us: that part's time, and a start's.
    """

    us: float
    cycles: float
    bound: str
    bound_us: float


@cache
def device() -> Emulated:
    """Return the device, which takes kernels from files where they are kept."""
    emulated = Emulated()
    use(KeptKernels(KEPT, emulated))
    return emulated


@cache
def time(shape: Shape | ServedShape, swapped: bool = True) -> Time:
    """Predict a shape's launch. swapped: with operands swapped where the kernel chooses that."""
    chosen = choice.swapped_variants
    with patch.object(choice, "swapped_variants", chosen if swapped else lambda problem: []):
        plan.clear()  # of calls with the other choice
        (found,) = predicted(device(), shape.call, ghz=chip(device().chip).max_clock_ghz)
    plan.clear()
    busiest = max(found.busy.values()) * found.pace.cycles / (1e3 * found.ghz)
    return Time(1e6 * found.seconds, found.cycles, found.bound, busiest + START_US)


def ratios(shape: ServedShape, own: Time) -> tuple[float | None, float | None, float | None]:
    """Return a shape's time over that of paged bf16 and of flat bf16, and the unswapped bf16 time over its own.

    None if no goal is about it.
    """
    layer = shape.name.rpartition("-")[0]
    if shape.layouts[0] == "v32":
        return None, None, None
    if shape.batch == FEW:
        (flat,) = find(layer.replace("serve", "decode").replace(f"b{FEW}", f"b{FEW}-t1"))
        return None, own.cycles / time(flat).cycles, None
    (bf16,) = find(f"{layer}-bf16")
    assert isinstance(bf16, ServedShape)
    if shape is bf16:
        return None, None, None
    swapped = time(bf16, swapped=False).cycles / own.cycles if shape.heads <= SWAPPED else None
    return own.cycles / time(bf16).cycles, None, swapped


def misses(
    shape: ServedShape, own: Time, of_bf16: float | None, of_flat: float | None, by: float | None
) -> Iterator[str]:
    """Yield the goals that a shape misses, as the table rounds them."""
    if shape.batch > FEW and round(own.us / own.bound_us, 2) > MOST_OF_BOUND:
        yield "bound"
    if of_bf16 is not None and round(of_bf16, 2) > MOST_OF_BF16:
        yield "bf16"
    if of_flat is not None and round(of_flat, 2) > MOST_OF_FLAT:
        yield "flat bf16"
    if by is not None and round(by, 2) < LEAST_BY_SWAPPING:
        yield "swapped"


def figures(shape: ServedShape) -> tuple[str, ...]:
    """Return the row of a shape."""
    own = time(shape)
    found = ratios(shape, own)
    shown = ("" if ratio is None else f"{ratio:.2f}" for ratio in (own.us / own.bound_us, *found))
    times = f"{own.us:,.1f}", f"{own.cycles:,.0f}", own.bound, f"{own.bound_us:,.1f}"
    return shape.name, *times, *shown, ", ".join(misses(shape, own, *found))


def write(found: tuple[str, ...]) -> None:
    """Write the row of a shape to lab/data/goals.csv, in the order of stages/shapes.py."""
    rows = {row[0]: row for row in tables.read(FIGURES)} | {found[0]: found}
    tables.write(FIGURES, HEAD, [rows[shape.name] for shape in SERVED if shape.name in rows])


def main() -> int:
    """Print a row for each shape and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.goals", description=__doc__)
    parser.add_argument("shape", nargs="*", default=["serve-*"], help="names of shapes, or globs of them")
    parser.add_argument("--write", action="store_true", help="write each row to lab/data/goals.csv")
    options = parser.parse_args()
    try:
        chosen = {shape for name in options.shape for shape in find(name)}
    except ValueError as why:
        print(why, file=sys.stderr)
        return 2
    print(f"predicted on the {device().chip.upper()}; nothing was measured\n", ", ".join(HEAD), sep="")
    for shape in (each for each in SERVED if each in chosen):
        row = figures(shape)
        print(", ".join(row), flush=True)
        if options.write:
            write(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
