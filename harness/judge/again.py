"""The phase that launches the accepted kernel where a candidate exceeded a bound of the error model.

`python -m harness.judge.again D1.1 --device emulator --out FOLDER --case "hd=64 n=128" --seeds 7` replays the recording
of one case in FOLDER with the inputs of each seed. It exits with PIN's code if the accepted kernel exceeds a bound of
the model too, for one seed or for all added up: then the bound is wrong, not the change. It exits with 0 if the kernel
holds.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.host.verdict import Verdict
from harness.judge import arguments, reference_only
from harness.report.record import RECORDINGS
from remote.device import DEVICES
from stages.catalog import Milestone

if TYPE_CHECKING:
    from stages.case import Case


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.again", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--device", choices=sorted(DEVICES), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--case", required=True, help="name of a case of the milestone")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    args = parser.parse_args()
    device, milestone = DEVICES[args.device](), args.milestone
    from harness.judge.recorded import Replayed
    from harness.judge.replay_on import launcher
    from stages.calls import callers
    from stages.check import failing
    from stages.tolerances import added_up
    from stages.verify import figures_of, raise_first_error

    case = _named(milestone, args.case)
    callers.append(Replayed(args.out / RECORDINGS, launcher(device)))
    outside, factors = [], dict.fromkeys(case.tensors, 0.0)
    for seed in args.seeds:
        trials, figures = figures_of(case, seed, device)
        raise_first_error(trials, f"{milestone.id} {case} seed={seed}")
        outside += [f"{figure} at seed={seed}" for figure in failing(figures)]
        for figure in figures:
            factors[figure.tensor] += figure.value if figure.metric == "z_factor" else 0.0
    for tensor, total in factors.items():
        if not abs(total) <= added_up() * math.sqrt(len(args.seeds)):
            outside.append(f"{tensor}.z_factor of {len(args.seeds)} seeds adds up to {total:.3g}")
    print(f"the accepted kernel, {milestone.id} {case}: {', '.join(outside) or 'within all bounds'}", flush=True)
    return Verdict.PIN.exit_code if outside else 0


def _named(milestone: Milestone, name: str) -> Case:
    """Return the case of that name. Raises SystemExit."""
    cases: tuple[Case, ...] = milestone.load().CASES
    for case in cases:
        if case.name == name:
            return case
    raise SystemExit(f"{milestone.id} has no case {name!r}")


if __name__ == "__main__":
    reference_only.install()
    sys.exit(main())
