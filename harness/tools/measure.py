"""The pins that follow from the figures of many seeds on the emulated device: the worst of each, with headroom.

`python -m harness.tools.measure D1.2 40` takes the milestone's fixed seeds and 40 more, and prints what belongs into
stages/tolerances.toml for those of its cases whose name holds the words that follow.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.judge import arguments
from remote.device import Emulated

if TYPE_CHECKING:
    from stages.case import Case
    from stages.device import Device
    from stages.metrics import Metric

FIRST_SEED = 1000
HEADROOM = 2.0
ROUNDING = 1e-12  # of the metrics themselves, which are computed in float64
M_BELOW = 8 * math.log(2) + 2e-6  # the kernel moves its maximum once a row has outgrown it by 2^8

Figures = dict[tuple[str, str], float]


def main() -> None:
    """Print the pins."""
    parser = argparse.ArgumentParser(prog="python -m harness.tools.measure", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("seeds", type=int)
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    device = Emulated()

    module = args.milestone.load()
    seeds = [*module.SEEDS, *range(FIRST_SEED, FIRST_SEED + args.seeds)]
    for case in module.CASES:
        if all(word in case.name.split() for word in args.words):
            print("\n".join(lines(case, worst_figures(case, seeds, device))), flush=True)


def worst_figures(case: Case, seeds: Sequence[int], device: Device) -> Figures:
    """Of every figure of `case`, by tensor and metric, the one furthest from right."""
    from stages.case import draw, launch, outputs_of, reference
    from stages.check import measured
    from stages.metrics import METRICS

    worst: Figures = {}
    for seed in seeds:
        inputs = draw(case, seed)
        with device.running(device.modes[0], seed):
            got = outputs_of(case, launch(case, inputs, device.torch_device))
        for tensor, values in measured(case.tensors, got, reference(case, inputs)).items():
            for metric in METRICS[tensor]:
                key, value = (tensor, metric.name), values[metric.name]
                further = min if metric.bound == "at least" else max
                worst[key] = further(worst.get(key, value), value)
    return worst


def lines(case: Case, worst: Figures) -> Iterator[str]:
    """The case's table of pins, a line a tensor."""
    from stages.metrics import METRICS
    from stages.tolerances import floor

    yield f'["{case.milestone}"."{case.name}"]'
    for tensor in case.tensors:
        bounds = floor(case.floor).get(tensor, {})
        pins = [
            f"{metric.name} = {pin(metric, worst[tensor, metric.name], bounds.get(metric.name))}"
            for metric in METRICS[tensor]
        ]
        yield f"{tensor} = {{ {', '.join(pins)} }}"
    yield ""


def pin(metric: Metric, worst: float, floor: float | None) -> str:
    """Twice the error, rounded down to two digits, but within the floor."""
    if metric.name == "masks":
        return "0"
    if metric.name == "below":
        return f"{M_BELOW:.6f}" if worst > 1e-5 else rounded_down(HEADROOM * worst + ROUNDING)
    if metric.bound == "at most":
        text = rounded_down(HEADROOM * worst + ROUNDING)
        return text if floor is None or float(text) <= floor else shown(repr(floor))
    text = repr(round(1 - float(rounded_down(HEADROOM * (1 - worst) + ROUNDING)), 14))
    return text if floor is None or float(text) >= floor else f"{floor}"


def rounded_down(x: float) -> str:
    """Two significant digits, towards zero."""
    digits = math.floor(math.log10(x)) - 1
    return shown(f"{math.floor(x / 10.0**digits) * 10.0**digits:.1e}")


def shown(number: str) -> str:
    """As people write it."""
    return number.replace("e-0", "e-").replace("e+00", "")


if __name__ == "__main__":
    main()
