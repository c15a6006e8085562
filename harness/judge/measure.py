"""The phase that times a milestone's cases on a GPU, and other attention kernels that are installed there.

`python -m harness.judge.measure D1.4 --out FOLDER` rewrites FOLDER/measured.json after every measurement. Without a
milestone it times the problems of harness/judge/problems.py; with `--shape "serve-*-csa-*"` the shapes of
stages/shapes.py that match.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.host.files import write_atomically
from harness.host.journal import one_line
from harness.judge import arguments
from harness.judge.gpu_time import OURS, Times, measure

if TYPE_CHECKING:
    from stages.case import Case
    from stages.catalog import Milestone
    from stages.inputs import Inputs

NAME = "measured.json"
DEVICE = "cuda"
Work = tuple[str, float, Mapping[str, Callable[[], object]]]
"""A name, the flops of both products if known, and the calls of each kernel by name."""


class Measured(msgspec.Struct, frozen=True):
    """The times of a case or problem with the kernel `what`, or the error that prevented the measurement.

    flops: of both products; 0 if unknown.
    """

    case: str
    what: str
    times: Times | None
    error: str = ""
    flops: float = 0.0

    @property
    def rate(self) -> str:
        """Achieved TFLOP/s, or an empty string."""
        return f"{self.flops / self.times.median / 1e12:,.0f} TFLOP/s" if self.times and self.flops else ""


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.measure", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone, nargs="?")
    parser.add_argument("--shape", default="", metavar="GLOB", help="time the matching shapes instead")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    try:
        chosen = shapes(args.shape) if args.shape else works(args.milestone)
    except ValueError as why:
        parser.error(str(why))
    args.out.mkdir(parents=True, exist_ok=True)
    done: list[Measured] = []
    for name, flops, calls in chosen:
        for what, call in calls.items():
            for cold in (True, False):
                done.append(timed(name, what, call, cold, flops))
                write_atomically(args.out / NAME, msgspec.json.encode(done))
                print(f"{name}  {what}  {done[-1].times or done[-1].error}  {done[-1].rate}", flush=True)
    return 0


def in_words(folder: Path) -> Iterator[str]:
    """Yield the times that a run measured, as lines by case. Yield nothing if no times were fetched."""
    try:
        found = msgspec.json.decode((folder / NAME).read_bytes(), type=list[Measured])
    except (OSError, msgspec.MsgspecError):
        return
    for case, group in groupby(found, key=lambda each: each.case):
        yield one_line(case)
        for each in group:
            yield f"  {one_line(each.what):38} {each.times or one_line(each.error)}  {each.rate}".rstrip()


def shapes(pattern: str) -> Iterator[Work]:
    """Return the work of the shapes whose names match. Raises ValueError, which lists all names."""
    import torch

    from stages.shapes import find

    return ((each.name, each.flops, {OURS: each.prepared(torch.randn, DEVICE)}) for each in find(pattern))


def works(milestone: Milestone | None) -> Iterator[Work]:
    """Yield a milestone's cases, or all problems if it is None."""
    import torch

    from harness.judge.problems import problems
    from stages.inputs import draw
    from stages.launch import prepared

    for case in milestone.load().CASES if milestone else ():
        inputs = draw(case, 1)
        yield case.name, 0.0, {OURS: prepared(case, inputs, DEVICE), **peers(case, inputs)}
    for problem in () if milestone else problems(torch.randn, DEVICE):
        yield problem.name, problem.flops, {OURS: problem.ours, **problem.peers()}


def timed(name: str, what: str, call: Callable[[], object], cold: bool, flops: float = 0.0) -> Measured:
    """Time a call. Return the error of another kernel's call instead of raising it."""
    try:
        return Measured(name, what, measure(call, cold), flops=flops)
    except Exception as error:
        if what == OURS:
            raise
        return Measured(name, what, None, f"{type(error).__name__}: {error}"[:200])


def peers(case: Case, inputs: Inputs) -> dict[str, Callable[[], Any]]:
    """Return calls of other kernels that compute O of this case; {} unless it is plain attention to all keys.

    Each returns O in its own layout.
    """
    if case.lens is not None or case.causal or case.compressed is not None or case.sinks is not None:
        return {}
    from torch.nn import functional

    from harness.judge.problems import flash_attention

    attention: Any = functional.scaled_dot_product_attention
    q, k = inputs.q.to(DEVICE), inputs.k.to(DEVICE)
    v = k if inputs.v is None else inputs.v.to(DEVICE)
    by_head = [q.transpose(1, 2).contiguous(), *(each[:, None].contiguous() for each in (k, v))]
    found: dict[str, Callable[[], Any]] = {
        "torch's scaled_dot_product_attention": lambda: attention(*by_head, scale=case.scale, enable_gqa=True)
    }
    return found | flash_attention((q, k, v), softmax_scale=case.scale)


if __name__ == "__main__":
    sys.exit(main())
