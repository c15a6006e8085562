"""Compare the configuration that the rule chooses with the next best by predicted cycles.

`python -m lab.choices [SHAPE]...` exits with 1 if another configuration is predicted more than 3% faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from rich.console import Console

from harness.judge.kept import KeptKernels, use
from harness.judge.predict import predicted
from harness.paths import KEPT
from remote.device import Emulated

SAMPLE = (
    *("decode-128h-b2-t1-csa", "decode-64h-b2-t1-csa", "decode-16h-b2-t3-hca", "decode-64h-b2-t1-hca"),
    *("decode-128h-b64-t1-csa", "decode-64h-b64-t1-csa", "decode-64h-b74-t3-hca", "decode-16h-b64-t1-hca"),
    *("decode-8h-b148-t1-csa", "decode-32h-b128-t2-hca"),
)
NEXT = 3
SLACK = 0.03


def main() -> int:
    """Print, for each shape, the predicted cycles of the chosen configuration and of the next ones by the rule."""
    parser = argparse.ArgumentParser(prog="python -m lab.choices", description=__doc__)
    text = "patterns of names in stages/shapes.py, such as decode-64h-* (default: ten that differ)"
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=text)
    shapes = parser.parse_args().shapes
    device = Emulated()  # before the kernel, so that its PTX is kept
    use(KeptKernels(KEPT, device))
    from stages.shapes import find

    console, missed = Console(width=160), 0
    try:
        found = [shape for pattern in shapes or SAMPLE for shape in find(pattern)]
    except ValueError as why:
        parser.error(str(why))
    for shape in found:
        (chosen, best), *others = cycles(device, shape.call)
        missed += any(each < best * (1 - SLACK) for _, each in others)
        others_shown = ", ".join(f"{name} {each:,.0f}" for name, each in others)
        console.print(f"{shape.name}: {chosen} {best:,.0f} cycles; {others_shown}", highlight=False, soft_wrap=True)
    return int(missed > 0)


def cycles(device: Emulated, call: Callable[[], object]) -> Iterator[tuple[str, float]]:
    """Yield name and predicted cycles of the configuration that the rule chooses for a call, then of the next ones."""
    from kernel import FmhaConfig, Problem, plan
    from kernel.sm100 import choice

    rule, times = choice.estimate, {}

    def recording(each: FmhaConfig, problem: Problem) -> float:
        times[each] = rule(each, problem)
        return times[each]

    plan.clear()
    with patch.object(choice, "estimate", recording):
        yield _named(predicted(device, call))
    for other in sorted(times, key=times.__getitem__)[1 : 1 + NEXT]:
        with patch.object(choice, "estimate", lambda each, problem, other=other: each != other):
            plan.clear()
            yield _named(predicted(device, call))


def _named(found: list[Any]) -> tuple[str, float]:
    return found[0].kernel.removeprefix("fmha_hd512_smem_causal_shared_kv_"), sum(each.cycles for each in found)


if __name__ == "__main__":
    sys.exit(main())
