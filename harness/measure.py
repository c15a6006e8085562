"""The figures that pins are set from: the worst of every metric over many seeds, on the emulated device.

`python -m harness.measure D1.1 400` takes the milestone's pinned seeds and 400 more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.device import Emulated
from harness.verdict import EXIT_BAD_INPUT
from stages.catalog import NotBuilt, UnknownMilestone, runnable

if TYPE_CHECKING:
    from stages.case import Case
    from stages.check import Figure
    from stages.device import Device

FIRST_SEED = 1000


def main() -> int:
    """Print the worst value of every figure beside its pin."""
    parser = argparse.ArgumentParser(prog="python -m harness.measure", description=__doc__)
    parser.add_argument("milestone")
    parser.add_argument("seeds", type=int)
    args = parser.parse_args()
    try:
        milestone = runnable(args.milestone)
    except (UnknownMilestone, NotBuilt) as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    device = Emulated()

    module = milestone.load()
    seeds = [*module.SEEDS, *range(FIRST_SEED, FIRST_SEED + args.seeds)]
    for case in module.CASES:
        print(case)
        for figure in worst_figures(case, seeds, device):
            print(f"  {figure.tensor:4}{figure.metric:10} {figure.value:.8g}, pinned {figure.bound} {figure.pin:.7g}")
    return 0


def worst_figures(case: Case, seeds: Sequence[int], device: Device) -> Iterable[Figure]:
    """Of every figure of `case`, the one furthest from right."""
    from stages.case import draw, launch, outputs_of, reference
    from stages.check import compare

    worst: dict[tuple[str, str], Figure] = {}
    for seed in seeds:
        inputs = draw(case, seed)
        with device.running(device.modes[0], seed):
            got = outputs_of(launch(inputs, device.torch_device))
        for figure in compare(case, got, reference(inputs)):
            sign = -1 if figure.bound == "at least" else 1
            key = (figure.tensor, figure.metric)
            worst[key] = max(worst.get(key, figure), figure, key=lambda each: sign * each.value)
    return worst.values()


if __name__ == "__main__":
    sys.exit(main())
