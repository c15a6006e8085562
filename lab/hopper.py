"""`python -m lab.hopper [CUTLASS]`: compare measured times of kernels and copies on an H200 with its clock.

The times are in results/sample/silicon-h200/times.csv, each with the SM frequency during the measurement. Predicted
cycles are converted to microseconds with that frequency, which depends on power and is not modelled. CUTLASS is a
checkout of NVIDIA/cutlass; its Hopper examples run unmodified under the clock. FlashAttention-4 is PyPI's
`flash-attn-4`. A missing program is reported and skipped.
"""

from __future__ import annotations

import argparse
import csv
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import combinations
from pathlib import Path
from typing import Final
from unittest import mock

from emulator.bridge.patches import ORIGINAL_ENVIRONMENT
from emulator.clock.chips import chip

ROOT: Final = Path(__file__).resolve().parents[1]
TIMES: Final = ROOT / "results" / "sample" / "silicon-h200" / "times.csv"
H200: Final = chip("h200")
EXAMPLES: Final = "examples/python/CuTeDSL/cute/hopper/kernel"
ELEMENTS: Final = {"f16": "Float16", "e4m3": "Float8E4M3FN"}
L2_BYTES: Final = 50 << 20
COPY_LAUNCH_US: Final = 5.9
"""Launch overhead of a copy, measured with copies of 1 KiB in the same run."""
LEAST_DIFFERENCE: Final = 0.04
"""Relative day-to-day variation of a kernel's median. The order of closer points is not compared."""
Row = dict[str, str]


def rows() -> list[Row]:
    """Read the measured points."""
    return list(csv.DictReader(TIMES.read_text().splitlines()))


def shape(row: Mapping[str, str]) -> dict[str, str]:
    """Parse a point's shape, such as `m=1024 tile=64x64 full`. A word without `=` is its own value."""
    return {word.partition("=")[0]: word.partition("=")[2] or word for word in row["shape"].split()}


def copy_us(row: Mapping[str, str]) -> float:
    """Predict a copy's microseconds: each byte is read and written once, in L2 if source and target fit there."""
    moved = 2 * int(shape(row)["bytes"])
    rate = H200.l2_bytes_per_us if moved <= L2_BYTES else H200.hbm_bytes_per_us
    return max(COPY_LAUNCH_US, H200.launch_us + moved / rate)


def arguments(row: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the path of the CUTLASS example of a point, and its arguments."""
    words, name = shape(row), row["kernel"].split()[0]
    if name == "fmha.py":
        size = ",".join(words[letter] for letter in "bshd")
        return f"attention/{name}", ["--q_shape", size, "--k_shape", size, "--skip_ref_check"]
    element = ELEMENTS[row["elements"]]
    given = ["--mnkl", ",".join(words[letter] for letter in "mnk") + ",1", "--tile_shape_mn", words["tile"]]
    given += ["--cluster_shape_mn", words["cluster"], "--a_dtype", element, "--b_dtype", element]
    return f"dense_gemm/{name}", [word.replace("x", ",") for word in given] + ["--skip_ref_check"]


def kernel_cycles(points: Sequence[Row], cutlass: Path | None) -> Iterator[tuple[Row, float | None]]:
    """Yield each kernel's predicted cycles, None if its program is missing."""
    import emulator
    from emulator.clock.conditions import Conditions
    from emulator.host.session import emulated_host
    from lab import fa4

    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "0")
    with emulated_host(), emulator.emulate(clock="h200", conditions=Conditions(ranges=False)) as device:
        for row in points:
            device.launches.clear()
            if row["kernel"].startswith("FlashAttention"):
                words = shape(row)
                if fa4.installed():
                    size = tuple(int(words[letter]) for letter in "bshd")
                    fa4.called([size] * 3, "causal" in words)
            elif cutlass is not None:
                script, given = arguments(row)
                path = cutlass / EXAMPLES / script
                roots = [str(path.parent), str(cutlass / "examples/python/CuTeDSL")]
                argv = mock.patch.object(sys, "argv", [str(path), *given])
                with argv, mock.patch.object(sys, "path", roots + sys.path), redirect_stdout(sys.stderr):
                    runpy.run_path(str(path), run_name="__main__")
            made = [launch.prediction for launch in device.launches if launch.prediction is not None]
            yield row, max(p.cycles for p in made) if made else None


def predicted(points: Sequence[Row], cutlass: Path | None) -> Iterator[tuple[Row, float | None]]:
    """Yield each point's predicted microseconds, None if its program is missing."""
    yield from ((row, copy_us(row)) for row in points if row["kind"] == "copy")
    for row, cycles in kernel_cycles([row for row in points if row["kind"] != "copy"], cutlass):
        yield row, None if cycles is None else cycles / (1e3 * float(row["ghz"])) + H200.launch_us


def summary(points: Sequence[Row]) -> str:
    """Summarise the errors of the predictions, and how many pairs of one kind are in the measured order.

    Pairs whose measured times differ by less than the day-to-day variation are left out.
    """
    known = [
        (row["kind"], float(row["median_us"]), float(row["predicted_us"])) for row in points if row["predicted_us"]
    ]
    errors = [guess / time - 1 for _, time, guess in known]
    pairs = [
        (a, b)
        for a, b in combinations(known, 2)
        if a[0] == b[0] and abs(a[1] - b[1]) > LEAST_DIFFERENCE * min(a[1], b[1])
    ]
    kept = sum((a[1] < b[1]) == (a[2] < b[2]) for a, b in pairs)
    mean, worst = sum(map(abs, errors)) / len(errors), max(errors, key=abs)
    return (
        f"{len(known)} points: mean error {mean:.1%}, worst {worst:+.1%}; "
        f"{kept} of {len(pairs)} pairs of one kind that are {LEAST_DIFFERENCE:.0%} apart are in the measured order"
    )


def table(points: Sequence[Row]) -> Iterator[str]:
    """Yield a Markdown table of measured and predicted times, and the summary."""
    yield "| kernel | shape | GHz | measured, us | predicted, us | error |"
    yield "|---|---|---|---|---|---|"
    for row in points:
        name = row["kernel"] if row["kind"] != "gemm" else f"{row['kernel']}, {row['elements']}"
        us, guess = float(row["median_us"]), row["predicted_us"]
        error = f"{float(guess) / us - 1:+.0%}" if guess else "not predicted"
        yield f"| {name} | {row['shape']} | {row['ghz']} | {us:,.1f} | {float(guess or 0):,.1f} | {error} |"
    yield ""
    yield summary(points)


def main() -> int:
    """Predict the points whose programs are present, write the predictions into the file, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.hopper", description=__doc__)
    parser.add_argument("cutlass", type=Path, nargs="?", help="a checkout of NVIDIA/cutlass")
    cutlass = parser.parse_args().cutlass
    if cutlass is not None and not (cutlass / EXAMPLES).is_dir():
        parser.error(f"{cutlass} has no {EXAMPLES}: name a checkout of NVIDIA/cutlass")
    points = rows()
    for row, us in predicted(points, cutlass):
        if us is None:
            print(f"left out: {row['kernel']} {row['shape']}", file=sys.stderr)
        else:
            row["predicted_us"] = f"{us:.2f}"
    with TIMES.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(points[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(points)
    print("\n".join(table(points)))
    return 0


if __name__ == "__main__":
    if os.environ.get("EMULATOR_DEVICE") != "h200":  # read when the emulator is imported
        os.execve(
            sys.executable,
            [sys.executable, "-m", "lab.hopper", *sys.argv[1:]],
            ORIGINAL_ENVIRONMENT | {"EMULATOR_DEVICE": "h200"},
        )
    sys.exit(main())
