"""Predictions compared with the times that a GPU took: `EMULATOR_DEVICE=h100 python -m lab.prediction_errors FOLDER`.

FOLDER has the measured.json that `make perf TARGET=...` fetches. Every problem that this repository's kernel was timed
on is predicted for the emulated chip, at the clock rate of its measurement and with L2 as it was there. Inputs are
random, as they were there: a cluster of each launch is executed to see how comparisons of data decide. `--write` writes
FOLDER/predicted.csv.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import correlation, fmean

import msgspec
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from harness.judge.gpu_time import OURS, Times
from harness.judge.kept import KeptKernels, use
from harness.judge.measure import NAME, Measured
from harness.judge.predict import predicted
from harness.paths import KEPT
from harness.tools import tables
from remote.device import Emulated

FIGURES = "predicted.csv"
HEAD = ("problem", "measured us", "MHz", "predicted us", "error", "bound by")


@dataclass(frozen=True)
class Comparison:
    """A problem's measured and predicted seconds, the clock rate in MHz of both, and what bounds the prediction."""

    problem: str
    measured: float
    predicted: float
    mhz: float
    bound: str

    @property
    def error(self) -> float:
        """The relative error of the prediction; below 0 if it is too fast."""
        return self.predicted / self.measured - 1

    def row(self) -> tuple[str, ...]:
        """Return the row of a table, as HEAD names its columns."""
        times = f"{1e6 * self.measured:.2f}", f"{self.mhz:.0f}", f"{1e6 * self.predicted:.2f}"
        return self.problem, *times, f"{self.error:+.1%}", self.bound


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m lab.prediction_errors", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="predict the problems that match, as in '*hca'")
    parser.add_argument("--write", action="store_true", help=f"write FOLDER/{FIGURES}")
    options = parser.parse_args()
    try:
        times = cold_times(options.folder, options.only)
    except (OSError, msgspec.MsgspecError, ValueError) as why:
        print(why, file=sys.stderr)
        return 2
    device = Emulated()  # before the kernel, so that its PTX is kept
    use(KeptKernels(KEPT, device))
    found = []
    for each in predictions(device, times):
        print(f"{each.problem}  {each.error:+.1%}", file=sys.stderr, flush=True)
        found.append(each)
    report(device, found)
    if options.write:
        tables.write(options.folder / FIGURES, HEAD, [each.row() for each in found])
    return 0


def cold_times(folder: Path, pattern: str) -> dict[str, Times]:
    """Return the times of this repository's kernel with L2 cold, by problem. Raises ValueError if none match."""
    run = msgspec.json.decode((folder / NAME).read_bytes(), type=list[Measured])
    ours = {each.case: each.times for each in run if each.what == OURS and each.times and each.times.cold}
    found = {name: times for name, times in ours.items() if fnmatchcase(name, pattern)}
    if not found:
        raise ValueError(f"no problem of {folder / NAME} matches {pattern!r}; it has {', '.join(ours) or 'none'}")
    return found


def predictions(device: Emulated, times: dict[str, Times]) -> Iterator[Comparison]:
    """Yield the problems that were timed, each with its prediction."""
    from harness.judge.problems import problems  # imports CuTeDSL, which must happen after the device is created

    for problem in problems(torch.randn, "cpu", times.__contains__):
        measured = times[problem.name]
        launches = predicted(device, problem.ours, ghz=measured.sm_mhz / 1000, branches="executed")
        longest = max(launches, key=lambda each: each.seconds)
        seconds = sum(each.seconds for each in launches)
        yield Comparison(problem.name, measured.median, seconds, measured.sm_mhz, longest.bound)


def report(device: Emulated, found: Sequence[Comparison]) -> None:
    """Print a table of the problems, the mean error and the rank correlation."""
    table = Table(box=box.SIMPLE_HEAD, title=f"measured, and predicted for the {device.name}", title_justify="left")
    for heading in HEAD:
        table.add_column(heading, justify="left" if heading in (HEAD[0], HEAD[-1]) else "right")
    for each in found:
        table.add_row(*each.row())
    Console(width=120).print(table)
    mean = fmean(abs(each.error) for each in found)
    print(f"{len(found)} problems, mean error {mean:.1%}", end="")
    if len(found) > 1:
        ranks = [[sorted(times).index(each) for each in times] for times in _columns(found)]
        print(f", rank correlation {correlation(*ranks):.3f}", end="")
    print()


def _columns(found: Sequence[Comparison]) -> tuple[list[float], list[float]]:
    return [each.measured for each in found], [each.predicted for each in found]


if __name__ == "__main__":
    sys.exit(main())
