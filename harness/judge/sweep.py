"""The phase of a sweep: it measures a milestone's cases for many seeds in every completion mode.

`python -m harness.judge.sweep D1.2 1 2 1000 --device emulator --out FOLDER` rewrites FOLDER/sweep.json after every
seed. It exits with 0 if all launches of a seed give the same bits, and all figures are within their pins.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import msgspec

from harness.host.files import write_atomically
from harness.host.verdict import Verdict
from harness.judge import arguments
from harness.judge.kept import kept_kernels, use
from remote.device import DEVICES
from stages.case import Case
from stages.check import failing
from stages.device import Device
from stages.verify import all_same_bits, figures_of, raise_first_error

NAME = "sweep.json"


class Measured(msgspec.Struct, frozen=True):
    """The figures of one case and seed, by "tensor metric" (None: NaN or infinite), and its error."""

    case: str
    seed: int
    figures: dict[str, float | None]
    error: str = ""


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.sweep", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--device", choices=sorted(DEVICES), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    device = DEVICES[args.device]()
    if (kept := kept_kernels(device)) is not None:
        use(kept)
    args.out.mkdir(parents=True, exist_ok=True)
    done: list[Measured] = []
    for count, seed in enumerate(args.seeds, 1):
        done += [measure(case, seed, device) for case in args.milestone.load().CASES]
        write_atomically(args.out / NAME, msgspec.json.encode(done))
        print(f"{count} seeds", flush=True)
    failed = [each for each in done if each.error]
    for each in failed[:1]:
        print(f"{len(failed)} of {len(done)} failed, first {each.case} seed={each.seed}: {each.error.splitlines()[0]}")
    return Verdict.REJECT_STAGE.exit_code if failed else 0


def measure(case: Case, seed: int, device: Device) -> Measured:
    """Launch a case in every completion mode, and compare the outputs with the reference."""
    figures: dict[str, float | None] = {}
    try:
        where = f"{case} seed={seed}"
        trials, found = figures_of(case, seed, device)
        raise_first_error(trials, where)
        figures |= {f"{each.tensor} {each.metric}": each.value if math.isfinite(each.value) else None for each in found}
        all_same_bits(trials, where)
        outside = ", ".join(map(str, failing(found)))
        return Measured(case.name, seed, figures, outside and f"outside its pins: {outside}")
    except Exception as error:
        return Measured(case.name, seed, figures, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main())
