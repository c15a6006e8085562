"""`python -m harness.tools.choices [SHAPE]...`: is the configuration that the rule chooses the fastest by the clock?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from unittest.mock import patch

import typer
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


def main(
    shapes: Annotated[
        list[str] | None, typer.Argument(help="names, as file names are matched; else ten that differ")
    ] = None,
) -> None:
    """Predict, for shapes of stages/shapes.py, the configuration that is chosen, and those that come next by the rule.

    The exit code is 1 where another is more than 3% faster.
    """
    device = Emulated()  # before the kernel, so that its PTX is kept
    use(KeptKernels(KEPT, device))
    from stages.shapes import find

    console, missed = Console(width=160), 0
    try:
        found = [shape for pattern in shapes or SAMPLE for shape in find(pattern)]
    except ValueError as why:
        raise typer.BadParameter(str(why)) from why
    for shape in found:
        (chosen, best), *others = cycles(device, shape.call)
        missed += any(each < best * (1 - SLACK) for _, each in others)
        beside = ", ".join(f"{name} {each:,.0f}" for name, each in others)
        console.print(f"{shape.name}: {chosen} {best:,.0f} cycles; {beside}", highlight=False, soft_wrap=True)
    raise typer.Exit(missed > 0)


def cycles(device: Emulated, call: Callable[[], object]) -> Iterator[tuple[str, float]]:
    """Name and predicted cycles of the configuration that a call is given by the rule, then of the next ones."""
    from kernel import config

    rule, times = config.estimate, {}

    def noted(each: config.FmhaConfig, heads: int, size: config.Size) -> float:
        times[each] = rule(each, heads, size)
        return times[each]

    with patch.object(config, "estimate", noted):
        yield _named(predicted(device, call))
    for other in sorted(times, key=times.__getitem__)[1 : 1 + NEXT]:
        with patch.object(config, "estimate", lambda each, heads, size, other=other: each != other):
            yield _named(predicted(device, call))


def _named(found: list[Any]) -> tuple[str, float]:
    return found[0].kernel.removeprefix("fmha_hd512_smem_causal_shared_kv_"), sum(each.cycles for each in found)


if __name__ == "__main__":
    typer.run(main)
