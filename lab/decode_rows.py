"""Decode on a Hopper GPU by this checkout's kernel, by another checkout's, and by FlashMLA, alternately in one process.

`python -m lab.decode_rows [BEFORE] [--flashmla LIBRARY] [--shape GLOB]... [--write FILE]`: BEFORE is a checkout of
another commit, LIBRARY is compiled by `python -m lab.flashmla_gpu --build`. It prints microseconds of each shape, L2
cold, then each goal with the ratio that was reached. `--write` writes the times as CSV.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Final

from harness.tools import tables
from lab import flashmla_gpu

BEFORE, NOW, FLASHMLA = "before", "now", "FlashMLA"
HEAD: Final = ("problem", f"{BEFORE} us", f"{NOW} us", f"{FLASHMLA} us")
TURNS: Final = 3
ROWS: Final = (
    "prefill-128h-csa",
    "prefill-64h-csa",
    "serve-128h-*",
    "serve-64h-*",
    "serve-*-b64-csa-*",
    "serve-*-b256-csa-*",
    "dense-*",
)
Times = dict[str, dict[str, float]]
"""Microseconds by shape and by kernel."""


@dataclass(frozen=True)
class Goal:
    """The least ratio of another time to this kernel's, of the shapes whose names match.

    other: another kernel, or another layout: then the shape is compared with this kernel's shape of that layout.
    """

    shapes: str
    other: str
    ratio: float

    def reached(self, times: Times) -> Iterator[tuple[str, float]]:
        """Yield the name and the ratio of each shape for which both times are known."""
        for name, row in times.items():
            if fnmatchcase(name, self.shapes):
                twin = times.get(f"{name.rpartition('-')[0]}-{self.other}", {})
                other = row.get(self.other, twin.get(NOW))
                if other is not None:
                    yield name, other / row[NOW]


GOALS: Final = (
    Goal("prefill-*", FLASHMLA, 1.05),
    Goal("serve-128h-*-v4", FLASHMLA, 1.10),
    Goal("serve-128h-*-v32", FLASHMLA, 1.05),
    Goal("dense-*", FLASHMLA, 1.0),
    Goal("serve-64h-*-v4", BEFORE, 1.0),
    *(Goal(f"serve-128h-b{batch}-*-v4", "bf16", 1.0) for batch in (64, 256)),
    *(Goal(f"serve-{heads}h-b{batch}-*-v4", "bf16", 1 / 0.9) for heads in (64, 32, 16, 8) for batch in (64, 256)),
    Goal("serve-*-v41", "v4", 1.0),
)


@contextmanager
def importing(checkout: Path) -> Iterator[None]:
    """Import the kernel and the shapes of another checkout in the body. Functions made there keep their own modules."""
    own = _taken_out()
    sys.path.insert(0, str(checkout))
    try:
        yield
    finally:
        sys.path.remove(str(checkout))
        _taken_out()
        sys.modules.update(own)


def _taken_out() -> dict[str, ModuleType]:
    """Return the imported modules of the kernel and of the shapes, and forget them."""
    names = [name for name in sys.modules if name.partition(".")[0] in ("kernel", "stages")]
    return {name: sys.modules.pop(name) for name in names}


def call(name: str) -> Callable[[], object] | None:
    """Return a shape's call, compiled, by the kernel that is imported at the time. It does not allocate its inputs.

    None if the checkout does not know the shape.
    """
    import torch

    from stages.shapes import find

    try:
        (shape,) = find(name)
    except ValueError:
        return None
    launch = shape.prepared(torch.randn, "cuda")
    launch()
    return launch


def calls(name: str, before: Path | None, library: Path | None) -> dict[str, Callable[[], object]]:
    """Return the calls of each kernel that computes a shape."""
    found = {}
    if before is not None:
        with importing(before):
            found[BEFORE] = call(name)
    found[NOW] = call(name)
    if library is not None:
        for _, _, launch in flashmla_gpu.works(flashmla_gpu.Library(library), name):
            found[FLASHMLA] = launch
    return {kernel: launch for kernel, launch in found.items() if launch is not None}


def in_turn(launches: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the microseconds of each kernel: the median over its rounds of each round's median."""
    from harness.judge.gpu_time import measure

    medians: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(TURNS):
        for name, launch in launches.items():
            medians[name].append(1e6 * measure(launch, cold=True).median)
    return {name: statistics.median(each) for name, each in medians.items()}


def names(patterns: Iterable[str]) -> list[str]:
    """Return the names of the shapes that match a pattern, each once."""
    from stages.shapes import find

    return list(dict.fromkeys(shape.name for pattern in patterns for shape in find(pattern)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line that the module's docstring describes. Return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m lab.decode_rows", description=__doc__)
    parser.add_argument("before", type=Path, nargs="?", metavar="BEFORE")
    parser.add_argument("--flashmla", type=Path, metavar="LIBRARY")
    parser.add_argument("--shape", action="append", metavar="GLOB")
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    if args.before is not None and not (args.before / "stages" / "shapes.py").is_file():
        parser.error(f"{args.before} is no checkout of this repository: make one by git worktree add")
    times: Times = {}
    for name in names(args.shape or ROWS):
        times[name] = in_turn(calls(name, args.before, args.flashmla))
        print(name, *(f"{kernel} {us:.2f} us" for kernel, us in times[name].items()), sep="  ", flush=True)
        if args.write:  # after every row, because the process may be stopped
            columns = BEFORE, NOW, FLASHMLA
            rows = [(row, *(f"{of[each]:.2f}" if each in of else "" for each in columns)) for row, of in times.items()]
            tables.write(args.write, HEAD, rows)
    missed = 0
    for goal in GOALS:
        for name, ratio in goal.reached(times):
            missed += ratio < goal.ratio
            verdict = "reached" if ratio >= goal.ratio else "missed"
            print(f"{name}: {goal.other} / {NOW} = {ratio:.3f}, at least {goal.ratio:.2f}: {verdict}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
