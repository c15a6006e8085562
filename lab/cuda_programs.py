"""Predict the CUDA C++ microbenchmarks of lab/hopper.cu, compared with an H200's times: `python -m lab.cuda_programs`.

It needs nvcc, and no GPU. The launches are in the order of the rows of lab/data/h200/burst.csv, mixed.csv and
turns.csv.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from emulator.clock.chips import chip
from lab import nvcc
from lab.microbenchmarks import Row, rows

SOURCE = Path(__file__).with_name("hopper.cu")
OPTIONS = ("-gencode", "arch=compute_90a,code=compute_90a", "-O3", "-std=c++17", "-lineinfo")
ROUNDS = {"turns": 120 - 20, "mixed": 64 - 32}
"""The rounds by which the two launches of a row differ."""


def main() -> int:
    """Print each row with its measured time and its prediction, and the mean error of each file."""
    parser = argparse.ArgumentParser(prog="python -m lab.cuda_programs", description=__doc__)
    parser.parse_args()
    compiler = nvcc.compiler()
    if compiler is None:
        parser.error(nvcc.MISSING)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "hopper"
        subprocess.run([compiler, *OPTIONS, "-o", program, SOURCE], check=True)
        for name in ("burst", "mixed", "turns"):
            errors = []
            cycles = [each["cycles"] for each in nvcc.predicted(program, "h200", name, "emulated")]
            for row, predicted in predictions(name, cycles):
                measured = float([*row.values()][-1])
                errors.append(predicted / measured - 1)
                print(name, *row.values(), f"{predicted:.0f} {errors[-1]:+.1%}")
            print(f"{name}: {len(errors)} points, mean error {fmean(map(abs, errors)):.1%}")
    return 0


def predictions(name: str, cycles: list[float]) -> Iterator[tuple[Row, float]]:
    """Yield each row of a file with its prediction: a CTA's cycles, a slot's nanoseconds, or a round's cycles."""
    h200 = chip("h200")
    for i, row in enumerate(rows(name)):
        if name == "burst":
            yield row, cycles[i] - h200.cta_launch
            continue
        each = (cycles[2 * i + 1] - cycles[2 * i]) / ROUNDS[name]
        yield row, each / h200.max_clock_ghz if name == "mixed" else each


if __name__ == "__main__":
    sys.exit(main())
