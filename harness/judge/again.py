"""The phase that launches the accepted kernel where a candidate exceeded a bound of the error model.

`python -m harness.judge.again D1.1 --device emulator --out FOLDER --case "hd=64 n=128" --seed 7` replays the recording
of one case in FOLDER with the inputs of one seed. It exits with PIN's code if the accepted kernel exceeds a bound of
the model too: then the bound is wrong, not the change. It exits with 0 if the kernel holds.
"""

from __future__ import annotations

import argparse
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
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    device, milestone = DEVICES[args.device](), args.milestone
    from harness.judge.recorded import Replayed
    from harness.judge.replay_on import launcher
    from stages.calls import callers
    from stages.check import failing
    from stages.verify import figures_of, raise_first_error

    case = _named(milestone, args.case)
    callers.append(Replayed(args.out / RECORDINGS, launcher(device)))
    trials, figures = figures_of(case, args.seed, device)
    raise_first_error(trials, f"{milestone.id} {case} seed={args.seed}")
    outside = failing(figures)
    said = ", ".join(map(str, outside)) or "within all bounds"
    print(f"the accepted kernel, {milestone.id} {case} seed={args.seed}: {said}", flush=True)
    return Verdict.PIN.exit_code if outside else 0


def _named(milestone: Milestone, name: str) -> Case:
    """Return the case of that name. Raises SystemExit."""
    for case in milestone.load().CASES:
        if case.name == name:
            return case
    raise SystemExit(f"{milestone.id} has no case {name!r}")


if __name__ == "__main__":
    reference_only.install()
    sys.exit(main())
