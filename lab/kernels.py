"""Whole kernels that others measured, and their predictions: `python -m lab.kernels`.

It prints one line per set of lab/data/kernels.csv, and the kernels that this project measured on an H200.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations, groupby
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from emulator.bridge.sharedobject import shared_object
from emulator.clock.chips import RANGES, chip
from emulator.clock.uncertainty import range_of
from lab import fa4, nvcc

DATA: Final = Path(__file__).parent / "data"
FIGURES: Final = DATA / "kernels.csv"
LIGER: Final = DATA / "liger.csv"
ORDINARY: Final = Path(__file__).parent / "ordinary.cu"
SMALL: Final = "Small kernels: H200"
LADDER: Final = DATA / "b200" / "thunderkittens.csv"
H200: Final = Path(__file__).parents[1] / "results" / "sample" / "silicon-h200" / "times.csv"
DIFFERENT: Final = 1.1
"""Pairs of points have an order if one takes this much longer."""
FEWEST: Final = 4
"""Points that a range is derived from at least."""
CHIPS: Final = 0.08
"""The standard deviation of the logarithm of the rate of five B200s (docs/explanation/clock-accuracy.md). The points
are of few chips, so that their own deviation has too little of it."""
STUDENT: Final = ((4, 2.35), (5, 2.13), (6, 2.02), (8, 1.90), (11, 1.81), (16, 1.75), (31, 1.70))
"""Student's t for 90% between both ends, by the number of points from which it holds."""
HEAD: Final = (
    ("fitted", 7),
    ("points", 7),
    ("mean", 7),
    ("worst", 7),
    ("in order", 12),
    ("in range", 10),
    ("others", 10),
)
LAUNCH: Final = Path(__file__).parent / "thunderkittens.cu"
DRIVER: Final = ("cuTensorMapEncodeTiled", "cuGetErrorString")
"""The functions of libcuda that the ladder links."""
FLOPS: Final = 2.0 * 4096**3
FITTED_LEVELS: Final = ("06", "07")
"""The steps of the ladder that `l2_box_cycles` of a B200 is fitted to."""
FLUSHED: Final = ("--l2", "dirty")
"""After a flush that writes, as that of Triton's do_bench."""
OPTIONS: Final = (
    *("-std=c++20", "-O3", "--use_fast_math", "--expt-extended-lambda", "--expt-relaxed-constexpr", "-DNDEBUG"),
    *(
        "-DKITTENS_BLACKWELL",
        "-gencode=arch=compute_100a,code=compute_100a",
        "-lcuda",
    ),
)


@dataclass(frozen=True)
class Point:
    """A measured launch. kind: what bounds it, as predicted.

    fitted: "yes" if a figure of the clock is fitted to it, "spills" if the build has spills, which PTX does not show.
    """

    name: str
    point: str
    kind: str
    fitted: str
    measured_us: float
    predicted_us: float

    @property
    def error(self) -> float:
        """The relative error of the prediction, below 0 if it is too fast."""
        return self.predicted_us / self.measured_us - 1

    @property
    def family(self) -> str:
        """The kernels that the set belongs to."""
        return self.name.split(":")[0]

    def inside(self, ranges: Mapping[str, tuple[int, float, float]]) -> bool:
        """Return True if the range of its kind, or else the widest one, holds the measured time."""
        widest = max(ranges.values(), key=lambda each: each[2] / each[1])
        _, low, high = ranges.get(range_of(self.kind, 0.0, 0.0).kind, widest)
        return low <= self.measured_us / self.predicted_us <= high


def rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with comments."""
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def known() -> list[Point]:
    """Return the points of lab/data/kernels.csv."""
    return [
        Point(
            row["name"], row["point"], row["kind"], row["fitted"], float(row["measured_us"]), float(row["predicted_us"])
        )
        for row in rows(FIGURES)
    ]


def on_h200() -> list[Point]:
    """Return this project's points, predicted at the rate that was measured with each."""
    return [
        Point(f"H200: {row['kind']}", row["shape"], "", "", float(row["median_us"]), float(row["predicted_us"]))
        for row in rows(H200)
    ]


def table(points: Iterable[Point]) -> Iterator[str]:
    """Yield a line for each set, under a head."""
    head = "".join(f"{name:>{width}}" for name, width in HEAD)
    yield f"{'whole kernels':<44}{head}"
    for name, *cells in figures(points):
        yield f"{name:<44}" + "".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, HEAD, strict=True))


def figures(points: Iterable[Point]) -> Iterator[tuple[str, ...]]:
    """Yield for each set: its points, mean and worst error, pairs in order, and points inside the range.

    others: points inside the ranges that follow from the other kernels alone.
    """
    points = list(points)
    everything = derived(points)
    sets: dict[tuple[str, str], list[Point]] = {}
    for each in points:
        sets.setdefault((each.name, each.fitted), []).append(each)
    for (name, fitted), some in sets.items():
        pairs = [
            (a.measured_us - b.measured_us) * (a.predicted_us - b.predicted_us) > 0
            for a, b in combinations(some, 2)
            if max(a.measured_us, b.measured_us) > DIFFERENT * min(a.measured_us, b.measured_us)
        ]
        worst = max((each.error for each in some), key=abs)
        held_out = derived([each for each in points if each.family != some[0].family])
        inside, others = (
            f"{sum(each.inside(known) for each in some)} of {len(some)}" if some[0].kind and known else ""
            for known in (everything, held_out)
        )
        mean, order = fmean(abs(each.error) for each in some), f"{sum(pairs)} of {len(pairs)}"
        yield name, fitted, str(len(some)), f"{mean:.0%}", f"{worst:+.0%}", order, inside, others


def derived(points: Sequence[Point]) -> dict[str, tuple[int, float, float]]:
    """Return (points, low, high) of each kind's range, from the points that were not fitted.

    The logarithms of measured over predicted times are assumed to be normally distributed; a further one lies in the
    range in 90% of the cases.
    """
    kinds: dict[str, list[float]] = {}
    for each in points:
        if each.fitted == "no":
            kinds.setdefault(range_of(each.kind, 0.0, 0.0).kind, []).append(log(each.measured_us / each.predicted_us))
    ranges = {}
    for kind, found in kinds.items():
        if (count := len(found)) < FEWEST:
            continue
        student = max((at, t) for at, t in STUDENT if at <= count)[1]
        middle, half = fmean(found), student * sqrt(stdev(found) ** 2 * (1 + 1 / count) + CHIPS**2)
        ranges[kind] = count, round(exp(middle - half), 2), round(exp(middle + half), 2)
    return ranges


def ranges(points: Sequence[Point]) -> str:
    """Return the text of ranges.toml."""
    text = "".join(line for line in RANGES.read_text().splitlines(keepends=True) if line.startswith("#"))
    for kind, (count, low, high) in derived(points).items():
        text += f'\n["{kind}"]\npoints = {count}\nlow = {low:.2f}\nhigh = {high:.2f}\n'
    return text


def thunderkittens(checkout: Path) -> Iterator[Point]:
    """Compile and predict the ladder. L2 is warm: two launches went before. Raises CalledProcessError."""
    compiler = nvcc.compiler()
    if compiler is None:
        raise FileNotFoundError(nvcc.MISSING)
    for row in rows(LADDER):
        with tempfile.TemporaryDirectory() as folder:
            program, source = Path(folder) / "gemm", Path(folder) / "gemm.cu"
            source.write_bytes((checkout / f"kernels/gemm/educational_b200/level_{row['level']}.cu").read_bytes())
            (Path(folder) / "launch.cu").write_bytes(LAUNCH.read_bytes())
            (Path(folder) / "libcuda.so").write_bytes(shared_object("libcuda.so.1", DRIVER))
            paths = f"-I{checkout / 'include'}", f"-L{folder}"
            subprocess.run([compiler, *paths, "-o", program, source, *OPTIONS], check=True)
            (last,) = nvcc.predicted(program, "b200", options=("--l2", "warm"))
        us = 1e-6 * FLOPS / float(row["tflops"])
        kind = last["range"]["kind"]
        fitted = "yes" if row["level"] in FITTED_LEVELS else "no"
        yield Point("ThunderKittens' ladder", f"level {row['level']}", kind, fitted, us, 1e6 * last["seconds"])


def ordinary() -> Iterator[Point]:
    """Compile and predict lab/ordinary.cu, whose kernels ran after a flush that writes. Half of them are fitted to."""
    compiler, points = nvcc.compiler(), [each for each in known() if each.name == SMALL]
    if compiler is None:
        raise FileNotFoundError(nvcc.MISSING)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ordinary"
        subprocess.run([compiler, "-O3", "-std=c++17", "-arch=sm_90a", "-o", program, ORDINARY], check=True)
        found = nvcc.predicted(program, "h200", "once", "", options=FLUSHED)
    for each, last in zip(points, found, strict=True):
        yield replace(each, kind=last["range"]["kind"], predicted_us=1e6 * last["seconds"])


def liger(version: str) -> Iterator[Point]:
    """Predict the kernels of an installed release of Liger-Kernel or quack, all sizes of a kernel in one run."""
    measured = [row for row in rows(LIGER) if row["version"] == version]
    for (chip_name, kernel), some in groupby(measured, key=lambda row: (row["chip"], row["kernel"])):
        sizes = {row["size"]: float(row["measured_us"]) for row in some}
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "liger.py"
            script.write_bytes((Path(__file__).parent / "liger.py").read_bytes())
            found = nvcc.predicted(script, chip_name, kernel, *sizes, options=FLUSHED)
        for (size, us), last in zip(sizes.items(), found, strict=True):
            library, _, operation = kernel.rpartition(" ")
            name = f"{library or 'Liger-Kernel'}: {chip_name.upper()}, {operation}"
            yield Point(name, size, last["range"]["kind"], "no", us, 1e6 * last["seconds"])


def flash_attention() -> Iterator[Point]:
    """Predict FlashAttention-4's forward kernel. Its build of head dim 128 without a mask spills registers."""
    sets = (
        ("fa4_elsewhere", "tflops", "FlashAttention-4: other B200s"),
        ("fa4_registers", "tflops", "FlashAttention-4: without spills"),
        ("fa4_forward", "tflops", "FlashAttention-4"),
        ("fa4_forward", "other_build", "FlashAttention-4: another build"),
    )
    for file, measured, name in sets:
        for i, row in enumerate(rows(DATA / "b200" / f"{file}.csv")):
            call, flops = fa4.attending(row)
            (found,) = fa4.predictions(call)
            us = 1e-3 * found.pace.cycles / min(found.ghz, float(row["max_ghz"])) + chip("b200").launch_us
            point = f"hd={row['head_dim']} n={row['seqlen']}{' causal' * int(row['causal'])}"
            fitted = "yes" if file == "fa4_forward" and i % fa4.FITTED == 0 and int(row["seqlen"]) >= 2048 else "no"
            if name == "FlashAttention-4" and row["head_dim"] == "128" and row["causal"] == "0":
                fitted = "spills"
            yield Point(name, point, found.bound, fitted, 1e-6 * flops / float(row[measured]), us)


def write(new: Sequence[Point]) -> None:
    """Replace the sets of `new` in lab/data/kernels.csv, and write ranges.toml."""
    names = {each.name for each in new}
    points = [*(each for each in known() if each.name not in names), *new]
    comment = "".join(line for line in FIGURES.read_text().splitlines(keepends=True) if line.startswith("#"))
    with FIGURES.open("w", newline="") as file:
        file.write(comment)
        writer = csv.DictWriter(file, [field.name for field in fields(Point)], lineterminator="\n")
        writer.writeheader()
        for each in points:
            shown = asdict(each) | {f"{t}_us": f"{getattr(each, f'{t}_us'):.1f}" for t in ("measured", "predicted")}
            writer.writerow(shown)
    RANGES.write_text(ranges(points))


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m lab.kernels", description=__doc__)
    parser.add_argument(
        "--thunderkittens", type=Path, metavar="CHECKOUT", help="predict the ladder of GEMMs again; it needs nvcc"
    )
    parser.add_argument(
        "--flash-attention", action="store_true", help="predict it again; it needs flash-attn-4, triton"
    )
    parser.add_argument("--ordinary", action="store_true", help="predict lab/ordinary.cu again; it needs nvcc")
    parser.add_argument(
        "--write", action="store_true", help="write lab/data/kernels.csv and emulator/clock/ranges.toml"
    )
    parser.add_argument(
        "--liger",
        metavar="VERSION",
        help="predict its kernels again; it needs that liger-kernel, and triton. quack-0.6.5: those of quack-kernels",
    )
    given = parser.parse_args()
    new = [] if given.thunderkittens is None else list(thunderkittens(given.thunderkittens.resolve()))
    new += ordinary() if given.ordinary else ()
    new += flash_attention() if given.flash_attention else ()
    new += [] if given.liger is None else list(liger(given.liger))
    names = {each.name for each in new}
    print(*table([*(each for each in known() if each.name not in names), *new, *on_h200()]), sep="\n")
    if given.write:
        write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
