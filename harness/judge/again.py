"""The phase that launches the accepted kernel where a candidate exceeded a bound of the error model.

`python -m harness.judge.again D1.1 --device emulator --out FOLDER --case "hd=64 n=128" --seeds 7` replays the recording
of one case in FOLDER with the inputs of each seed. It exits with PIN's code if the accepted kernel exceeds a bound of
the model too, for one seed or for all added up: then the bound is wrong, not the change. It exits with 0 if the
accepted kernel keeps the bounds.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.host.verdict import Verdict
from harness.judge import arguments, reference_only
from harness.report.record import RECORDINGS
from remote.device import DEVICES
from stages.catalog import Milestone
from stages.tolerances import added_up

if TYPE_CHECKING:
    from stages.case import Case
    from stages.check import Figure


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.again", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--device", choices=sorted(DEVICES), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--beside", nargs="*", default=[], metavar="MILESTONE", help=arguments.BESIDE)
    parser.add_argument("--case", required=True, help="name of a case of the milestone")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    args = parser.parse_args()
    device, milestone = DEVICES[args.device](), args.milestone
    from harness.judge.recordings import Replayed
    from harness.judge.replay_on import launcher
    from stages.calls import callers
    from stages.verify import figures_of, raise_first_error

    case = _named(milestone, args.case, args.beside)
    callers.append(Replayed(args.out / RECORDINGS, launcher(device)))
    found = {}
    for seed in args.seeds:
        trials, found[seed] = figures_of(case, seed, device)
        raise_first_error(trials, f"{milestone.id} {case} seed={seed}")
    outside = beyond(found)
    print(f"the accepted kernel, {milestone.id} {case}: {', '.join(outside) or 'within all bounds'}", flush=True)
    return Verdict.PIN.exit_code if outside else 0


def beyond(found: dict[int, tuple[Figure, ...]]) -> list[str]:
    """Return a phrase for each figure of a case outside its bound, by seed, and for each sum of z_factor over seeds."""
    from stages.check import failing

    outside = [f"{figure} at seed={seed}" for seed, figures in found.items() for figure in failing(figures)]
    factors = [figure for figures in found.values() for figure in figures if figure.metric == "z_factor"]
    for tensor in dict.fromkeys(figure.tensor for figure in factors):
        total = sum(figure.value for figure in factors if figure.tensor == tensor)
        if not abs(total) <= added_up() * math.sqrt(len(found)):
            outside.append(f"{tensor}.z_factor of {len(found)} seeds adds up to {total:.3g}")
    return outside


def _named(milestone: Milestone, name: str, beside: Sequence[str]) -> Case:
    """Return the case of that name in a record of the milestone. Raises SystemExit."""
    cases: list[Case] = [*milestone.load().CASES, *milestone.beside(beside)]
    for case in cases:
        if milestone.name_of(case) == name:
            return case
    raise SystemExit(f"{milestone.id} has no case {name!r}")


if __name__ == "__main__":
    reference_only.install()
    sys.exit(main())
