"""Compare the kernel's results on this machine's GPU with the emulated chip's, bit by bit, and with float64.

`CUTE_DSL_ARCH=sm_90a python -m lab.kernel_bits D1.4 --out FOLDER` launches every case of a milestone on both,
from the same recordings: the same PTX, parameters and inputs. The emulator rounds as the tensor core does
(numerics="tc"). A line for each tensor goes to FOLDER/bits.csv. The exit code is 1 if a result on the GPU lies outside
its pins.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import emulator
from harness.judge import arguments
from harness.report.record import RECORDINGS

if TYPE_CHECKING:
    from harness.judge.recordings import Replayed
    from stages.case import Case

NAME = "bits.csv"
SEED = 1
TENSORS = {"O": "o", "U": "u", "lse": "lse", "m": "m"}


@dataclass(frozen=True)
class Row:
    """A tensor of a case. different: elements whose bits differ between GPU and emulator.

    worst: their largest difference. ulp: the same in units of the last place of the larger one. outside: the metrics of
    the GPU's result that lie outside their pins, or the error of the launch.
    """

    milestone: str
    case: str
    tensor: str
    elements: int
    different: int
    worst: float
    ulp: float
    outside: str


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m lab.kernel_bits", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone, help="D1.4, for example; `make milestones` lists them")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder for bits.csv")
    args = parser.parse_args()
    from harness.judge.replay_on import Gpu

    on_gpu, on_cpu = sides(args.milestone, args.out, Gpu())
    failed = False
    with (args.out / NAME).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        for case in args.milestone.load().CASES:
            for row in rows(case, on_gpu, on_cpu, "cuda"):
                failed |= bool(row.outside)
                writer.writerow(astuple(row))
                print(*astuple(row), sep="  ", flush=True)
            file.flush()
    return int(failed)


def sides(milestone: Any, out: Path, launcher: Any) -> tuple[Replayed, Replayed]:
    """Record the milestone's cases, and return their replays by `launcher` and on the emulated chip."""
    from remote.device import Emulated

    device = Emulated()  # before the kernel, so that its PTX is kept
    from emulator.recordings import Emulated as OnEmulator
    from harness.judge.compile import compile_cases
    from harness.judge.kept import kept_kernels
    from harness.judge.provenance import toolchain, working_tree
    from harness.judge.record_calls import record_cases
    from harness.judge.record_writer import RecordWriter
    from harness.judge.recordings import Replayed
    from harness.report.record import Record, now

    out.mkdir(parents=True, exist_ok=True)
    opened = Record(out.name, milestone.id, "bits", now(), working_tree(), toolchain())
    compile_cases(milestone.load().CASES, RecordWriter(out, opened, SEED), kept_kernels(device))
    record_cases(milestone, dict(enumerate(milestone.launched())), out)
    return Replayed(out / RECORDINGS, launcher), Replayed(out / RECORDINGS, OnEmulator())


def rows(case: Case, on_gpu: Replayed, on_cpu: Replayed, torch_device: str) -> Iterator[Row]:
    """Launch a case on both sides and yield a row for each tensor."""
    from stages import launch
    from stages.calls import callers
    from stages.check import compare, failing
    from stages.error_model import ErrorModel, tensor_core
    from stages.expected import outputs_of, reference
    from stages.inputs import draw

    inputs = draw(case, SEED)

    def launched(side: Replayed, where: str) -> Any:
        callers.append(side)
        try:
            return launch.launch(case, inputs, where)
        finally:
            callers.pop()

    with emulator.emulate("eager", numerics="tc"):
        wanted = launched(on_cpu, "cpu")
    try:
        got = launched(on_gpu, torch_device)
        if torch_device == "cuda":
            torch.cuda.synchronize()
        model = ErrorModel(case, inputs, tensor_core(torch_device == "cuda"))
        outside = failing(compare(case, outputs_of(case, got), reference(case, inputs), model))
    except Exception as error:
        yield Row(case.milestone, case.name, "", 0, 0, 0.0, 0.0, f"{type(error).__name__}: {error}"[:200])
        return
    for name in case.tensors:
        one, other = (getattr(each, TENSORS[name]).cpu() for each in (got, wanted))
        said = ", ".join(f"{figure.metric} {figure.value:.3g}" for figure in outside if figure.tensor == name)
        yield Row(case.milestone, case.name, name, *difference(one, other), said)


def difference(one: torch.Tensor, other: torch.Tensor) -> tuple[int, int, float, float]:
    """Return the number of elements, of elements with other bits, their largest difference, and that in ulp."""
    whole = torch.int16 if one.dtype == torch.bfloat16 else torch.int32
    different = one.contiguous().view(whole) != other.contiguous().view(whole)
    x, y = (each[different].double().numpy() for each in (one, other))
    if not x.size:
        return one.numel(), 0, 0.0, 0.0
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf)
    bits = 8 if one.dtype == torch.bfloat16 else 24
    unit = np.exp2(np.floor(np.log2(np.maximum(np.maximum(np.abs(x), np.abs(y)), 2.0**-126))) - bits + 1)
    return one.numel(), x.size, float(distance.max()), float((distance / unit).max())


if __name__ == "__main__":
    sys.exit(main())
