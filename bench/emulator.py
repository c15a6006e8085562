"""`python -m bench.emulator`: what the emulator costs on one attention problem, and how that compares.

Best of a few repetitions, one BLAS thread. The peer is the Triton interpreter, if PyPI's `triton` is installed. It is
not in requirements.lock, since torch brings a version of its own where there is a GPU.

Where the time of a launch goes (eager, 67,522 warp-instructions, 0.055 s of CPU time with every handler's calls timed):
the tensor core's products and commits 29%, tcgen05.ld and st 14%, TMA loads 12%, mbarriers 8%, st.shared and ld.shared
8%, TMA stores 5%; all pure computation together 6% (2,183 calls of compiled code); the rest is the blocks' own Python.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

import emulator  # before the kernel, so that its PTX is kept
import kernel
from bench.attention import inputs, worst_error
from emulator.program import Program
from emulator.ptx.parser import parse

REPETITIONS: Final = 5
TIMES: Final = 8  # of 256 rows each: two CTAs of the kernel
PROCESSES: Final = 2
LOOPS: Final = 20_000_000
EAGER_GOAL_S: Final = 0.5
LAZY_GOAL_S: Final = 1.0
EAGER_GOAL_RATIO: Final = 8.0
LAZY_GOAL_RATIO: Final = 16.0
PROCESSES_GOAL_RATIO: Final = 0.59  # 1.7 times as fast
WORST_ERROR: Final = 0.01


@dataclass(frozen=True)
class Line:
    """One figure: what, how much, and the most it should be (None where nothing was promised)."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    def __str__(self) -> str:
        shown = f"{self.value:,.0f}" if self.unit == "" else f"{self.value:.3f} {self.unit}"
        goal = "" if self.goal is None else f"   goal {self.goal:g}   {'ok' if self.value <= self.goal else 'MISSED'}"
        return f"{self.what:<58}{shown:>14}{goal}"


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    for line in [*front_end(), *launches(), *processes()]:
        print(line)


def front_end() -> list[Line]:
    """What happens to the kernel's PTX before its first launch."""
    with emulator.emulate() as device:
        run_kernel()
        ptx = device.launches[-1].ptx
    module = parse(ptx)
    found = next(iter(module.kernels.values()))
    return [
        Line("instructions of the kernel", len(found.instrs), ""),
        Line("parse", best(lambda: parse(ptx)), "s"),
        Line("lower", best(lambda: Program(found)), "s"),
    ]


def launches() -> list[Line]:
    """Launches in each mode, and the peer."""
    eager, lazy = measured("eager"), measured("lazy")
    lines = [
        Line("warp-instructions of a launch", eager.instructions, ""),
        Line("launch, eager", eager.seconds, "s", EAGER_GOAL_S),
        Line("launch, lazy, all checks", lazy.seconds, "s", LAZY_GOAL_S),
        Line("a warp-instruction, eager", eager.seconds / eager.instructions * 1e6, "us"),
    ]
    try:
        from bench.triton_peer import attention
    except ImportError:
        print("the Triton interpreter is not measured: pip install triton")
        return lines
    q, k, v = inputs()
    check(attention(q, k, v), "the Triton interpreter")
    peer = best(lambda: attention(q, k, v))
    return [
        *lines,
        Line("the same in the Triton interpreter", peer, "s"),
        Line("eager against the Triton interpreter", eager.seconds / peer, "x", EAGER_GOAL_RATIO),
        Line("lazy against the Triton interpreter", lazy.seconds / peer, "x", LAZY_GOAL_RATIO),
    ]


def processes() -> list[Line]:
    """A few problems as one launch, in one process and shared by two. Exits if bits or counts differ."""
    alone, bits = _ctas(1)
    shared, others = _ctas(PROCESSES)
    if not torch.equal(bits, others) or alone.stats != shared.stats:
        raise SystemExit(f"{PROCESSES} processes do not compute what one does")
    return [
        Line(f"{alone.grid[0]} CTAs, lazy, one process", alone.seconds, "s"),
        Line(f"{alone.grid[0]} CTAs, lazy, {PROCESSES} processes", shared.seconds, "s"),
        Line(f"{PROCESSES} loops that share nothing, at once against in turn", at_once(), "x"),
        Line(f"{PROCESSES} processes against one", shared.seconds / alone.seconds, "x", PROCESSES_GOAL_RATIO),
    ]


def at_once() -> float:
    """Seconds that busy processes take at once, over what they take in turn: what this machine has to give now."""

    def loops() -> None:
        others = [context.Process(target=_loop) for _ in range(PROCESSES - 1)]
        for other in others:
            other.start()
        _loop()
        for other in others:
            other.join()

    context = multiprocessing.get_context("fork")
    return best(loops) / (PROCESSES * best(_loop))


def _loop() -> None:
    sum(range(LOOPS))


def _ctas(count: int) -> tuple[emulator.LaunchResult, torch.Tensor]:
    with emulator.emulate("lazy", processes=count) as device:
        for _ in range(REPETITIONS):
            o = run_kernel(TIMES)
    return fastest(device), o.view(torch.int16)


def measured(completion: Any) -> emulator.LaunchResult:
    """The fastest launch of a few in one completion mode."""
    with emulator.emulate(completion) as device:
        for _ in range(REPETITIONS):
            check(run_kernel(), f"the kernel, {completion}")
    return fastest(device)


def fastest(device: emulator.EmulatedDevice) -> emulator.LaunchResult:
    """The launch that took the least time."""
    return min(device.launches, key=lambda launch: launch.seconds)


def run_kernel(times: int = 1) -> torch.Tensor:
    """The repository's own kernel on the problem: 128 heads of two tokens are the 256 rows. [times * rows, hd]."""
    q, k, v = inputs()
    queries = q.repeat(times, 1)
    out = kernel.fmha(queries.view(1, -1, 128, queries.shape[-1]), k[None], v[None], partials=False)
    return out.o.reshape(len(queries), -1)


def check(o: torch.Tensor, who: str) -> None:
    """A wrong result is not worth measuring."""
    error = worst_error(o)
    if not error <= WORST_ERROR:
        raise SystemExit(f"{who} is off by {error}, allowed is {WORST_ERROR}")


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few repetitions."""
    found = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    main()
