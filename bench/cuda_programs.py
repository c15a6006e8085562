"""Predict the CUDA C++ microbenchmarks of bench/hopper.cu beside an H200's cycles: `python -m bench.cuda_programs`.

It needs nvcc, and no GPU. The launches are in the order of the rows of bench/data/h200/burst.csv and turns.csv.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from bench import nvcc
from bench.microbenchmarks import Row, rows
from emulator.clock.chips import chip

SOURCE = Path(__file__).with_name("hopper.cu")
OPTIONS = ("-gencode", "arch=compute_90a,code=compute_90a", "-O3", "-std=c++17", "-lineinfo")
FEW, MANY = 20, 120
"""The rounds of the two launches of a row of turns.csv."""


def main() -> int:
    """Print each row with its measured and predicted cycles, and the mean error of each file."""
    parser = argparse.ArgumentParser(prog="python -m bench.cuda_programs", description=__doc__)
    parser.parse_args()
    compiler = nvcc.compiler()
    if compiler is None:
        parser.error(nvcc.MISSING)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "hopper"
        subprocess.run([compiler, *OPTIONS, "-o", program, SOURCE], check=True)
        for name in ("burst", "turns"):
            errors = []
            cycles = [each["cycles"] for each in nvcc.predicted(program, "h200", name, "emulated")]
            for row, predicted in predictions(name, cycles):
                measured = float(row["cycles"])
                errors.append(predicted / measured - 1)
                print(name, *row.values(), f"{predicted:.0f} {errors[-1]:+.1%}")
            print(f"{name}: {len(errors)} points, mean error {fmean(map(abs, errors)):.1%}")
    return 0


def predictions(name: str, cycles: list[float]) -> Iterator[tuple[Row, float]]:
    """Yield each row of a file with its prediction: of a CTA's cycles, or of a round's."""
    for i, row in enumerate(rows(name)):
        if name == "burst":
            yield row, cycles[i] - chip("h200").cta_launch
        else:
            yield row, (cycles[2 * i + 1] - cycles[2 * i]) / (MANY - FEW)


if __name__ == "__main__":
    sys.exit(main())
