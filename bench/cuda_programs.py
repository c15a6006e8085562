"""Predict the CUDA C++ microbenchmarks of bench/hopper.cu beside an H200's cycles: `python -m bench.cuda_programs`.

It needs nvcc, and no GPU. Each launch is predicted by `python -m emulator time`, in the order of the rows of
bench/data/h200/burst.csv and turns.csv.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from bench.microbenchmarks import Row, rows
from emulator.clock.chips import chip

SOURCE = Path(__file__).with_name("hopper.cu")
COMPILE = ("nvcc", "-gencode", "arch=compute_90a,code=compute_90a", "-O3", "-std=c++17", "-lineinfo")
FEW, MANY = 20, 120
"""The rounds of the two launches of a row of turns.csv."""


def main() -> int:
    """Print each row with its measured and predicted cycles, and the mean error of each file."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "hopper"
        subprocess.run([*COMPILE, "-o", program, SOURCE], check=True)
        for name in ("burst", "turns"):
            errors = []
            for row, predicted in predictions(name, launches(program, name)):
                measured = float(row["cycles"])
                errors.append(predicted / measured - 1)
                print(name, *row.values(), f"{predicted:.0f} {errors[-1]:+.1%}")
            print(f"{name}: {len(errors)} points, mean error {fmean(map(abs, errors)):.1%}")
    return 0


def launches(program: Path, name: str) -> Sequence[float]:
    """Return the predicted cycles of each launch of a group of the program."""
    to = program.with_suffix(f".{name}.json")
    command = [sys.executable, "-m", "emulator", "time", "--json", str(to), str(program), name, "emulated"]
    where = os.environ | {"EMULATOR_DEVICE": "h200"}
    subprocess.run(command, check=True, capture_output=True, env=where, cwd=SOURCE.parents[1])
    return [each["cycles"] for each in json.loads(to.read_text())]


def predictions(name: str, cycles: Sequence[float]) -> Iterator[tuple[Row, float]]:
    """Yield each row of a file with its prediction: of a CTA's cycles, or of a round's."""
    for i, row in enumerate(rows(name)):
        if name == "burst":
            yield row, cycles[i] - chip("h200").cta_launch
        else:
            yield row, (cycles[2 * i + 1] - cycles[2 * i]) / (MANY - FEW)


if __name__ == "__main__":
    sys.exit(main())
