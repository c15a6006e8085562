"""`python -m lab.emulator`: measure the emulator on bf16 attention problems, against goals.

Times are CPU seconds, the minimum of several repetitions, with one BLAS thread. A yardstick is measured first, because
a busy machine can be half as fast.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import functools
import math
import multiprocessing
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch

import emulator  # before the kernel, so that its PTX is kept
import kernel
from emulator.program import Program
from emulator.ptx.parser import parse


@dataclass(frozen=True)
class Problem:
    """Attention of `rows` query rows to `keys` keys. The scale is 1 / sqrt(head_dim)."""

    rows: int
    keys: int
    head_dim: int

    def __str__(self) -> str:
        return f"hd={self.head_dim}, {self.rows} rows, {self.keys:,} keys"

    @property
    def scale(self) -> float:
        """The factor of the logits."""
        return float(self.head_dim**-0.5)

    @property
    def gflop(self) -> float:
        """GFLOP of both matrix products."""
        return 4e-9 * self.rows * self.keys * self.head_dim

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q [rows, hd], k and v [keys, hd] in bf16, drawn with a fixed seed."""
        random = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(n, self.head_dim, generator=random).bfloat16() for n in (self.rows, self.keys, self.keys)
        )
        return q, k, v

    def worst_error(self, o: torch.Tensor) -> float:
        """Return the largest absolute difference of an output [rows, hd] from float64 attention."""
        q, k, v = (t.double() for t in self.inputs())
        wanted = (q @ k.T * self.scale).softmax(-1) @ v
        return float((o.double() - wanted).abs().max())


REPETITIONS: Final = 5
SHORT_REPETITIONS: Final = 15
"""Repetitions of measurements that have a goal and take less than a second."""
YARDSTICK: Final = 1024
"""Rows and columns of the square float32 matrices of the yardstick."""
ADDITIONS: Final = 1_000_000
SHORT: Final = Problem(256, 1024, 128)
GOALS_S: Final = {Problem(128, 4096, 128): 0.07, Problem(128, 4096, 512): 0.27}
"""The goal for the CPU seconds of a launch with every check on: 4 GFLOP/s."""
DECODE: Final = Problem(128, 4096, 512)
DECODE_GOAL_S: Final = 1.0
"""The goal for the CPU seconds of one call that splits the keys by default."""
PROCESSES: Final = 2
SPLIT_PROBLEM: Final = Problem(128, 1024, 512)
QUERY_COPIES: Final = 8  # copies of the 128 query rows; each is two CTAs of the kernel
START_GOAL_S: Final = 1.5
STARTS: Final = 3
START: Final = """
import pickle, sys
import torch
import emulator, kernel
from kernel import compiled
from kernel.fmha import Fmha

class Kept:
    def find(self, config):
        saved = emulator.SavedFunction(*pickle.load(open(sys.argv[1], "rb")))
        return compiled.CompiledFmha(config, saved.restored(Fmha.launch), saved.ptx, b"", (), 0.0)

compiled.keepers.append(Kept())
with emulator.emulate():
    q, k = torch.ones(1, 1, 128, 128).bfloat16(), torch.ones(1, 128, 128).bfloat16()
    kernel.fmha(q, k, k, partials=False)
"""
"""A program that launches a kernel that was compiled before. Its argument is the file of the saved kernel."""
FIRST_TEST: Final = "examples/own_repository"
FIRST_TEST_GOAL_S: Final = 4.0
GRID_BARRIER_CTAS: Final = 148
GRID_BARRIER_GOAL_S: Final = 20.0
GRID_BARRIER: Final = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry meet(.param .u64 count)
.reqntid 32, 1, 1
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [count];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra MET;
    mov.u32 %r1, %nctaid.x;
    atom.add.acq_rel.gpu.global.u32 %r2, [%rd0], 1;
POLL:
    atom.add.acquire.gpu.global.u32 %r2, [%rd0], 0;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra POLL;
MET:
    bar.sync 0;
    ret;
}
"""
"""All CTAs arrive at a counter and poll it by atomics until the last one has arrived."""
LOOPS: Final = 20_000_000
PROCESSES_GOAL_RATIO: Final = 0.55
WORST_ERROR: Final = 0.01


@dataclass(frozen=True)
class Line:
    """One measured value. goal: its upper limit, None if it has none."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    def __str__(self) -> str:
        shown = f"{self.value:,.4g}" if self.unit == "" else f"{self.value:.3f} {self.unit}"
        goal = "" if self.goal is None else f"   goal {self.goal:g}   {'ok' if self.value <= self.goal else 'MISSED'}"
        return f"{self.what:<58}{shown:>14}{goal}"


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    for lines in (yardstick, front_end, start, first_test, launches, decode, processes, grid_barrier):
        for line in lines():
            print(line, flush=True)


def yardstick() -> list[Line]:
    """Measure the current speed of this machine."""
    a = torch.ones(YARDSTICK, YARDSTICK)
    return [
        Line("one BLAS thread, GFLOP/s", 2e-9 * YARDSTICK**3 / best(lambda: a @ a, SHORT_REPETITIONS), ""),
        Line(f"{ADDITIONS:,} additions in Python", best(_add, SHORT_REPETITIONS), "s"),
    ]


def _add() -> None:
    total = 0
    for number in range(ADDITIONS):
        total += number


def front_end() -> list[Line]:
    """Measure parsing and lowering of the kernel's PTX, which precede its first launch."""
    with emulator.emulate() as device:
        run_kernel(SHORT)
        ptx = device.launches[-1].ptx
    module = parse(ptx)
    found = next(iter(module.kernels.values()))
    return [
        Line("instructions of the kernel", len(found.instrs), ""),
        Line("parse", best(lambda: parse(ptx)), "s"),
        Line("lower", best(lambda: Program(found)), "s"),
    ]


def start() -> Iterator[Line]:
    """Measure the time from process start to the end of the first launch of a saved kernel, and its imports."""
    config = kernel.configuration(kernel.Problem(head_dim=128, heads=128, keys=128, partials=False, splits=1))
    saved = emulator.save(kernel.compile(config).function)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pickle.dumps((saved.name, saved.ptx, saved.host)))
        file.flush()
        for what, program, goal in (
            ("from python to a first launch, compiled before", START, START_GOAL_S),
            ("  of that, import torch", "import torch", None),
            ("  of that, import torch and CuTeDSL", "import torch, cutlass", None),
        ):
            command = [sys.executable, "-c", program, file.name]
            yield Line(what, best(lambda: subprocess.run(command, check=True), STARTS), "s", goal)  # noqa: B023


def first_test() -> list[Line]:
    """Measure pytest with one test that takes the fixture `emulated_device`, from process start to end."""
    plugins = ["-p", "emulator.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, FIRST_TEST]
    seconds = best(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), STARTS)
    return [Line("a first test with the fixture", seconds, "s", FIRST_TEST_GOAL_S)]


def launches() -> Iterator[Line]:
    """Measure launches of the larger problems in each completion mode."""
    for problem, goal in GOALS_S.items():
        for completion in ("lazy", "eager"):
            seconds, instructions = measured(problem, completion)
            yield Line(f"{problem}, {completion}", seconds, "s", goal)
            yield Line("  GFLOP/s", problem.gflop / seconds, "")
        yield Line("  a warp-instruction", seconds / instructions * 1e6, "us")


def decode() -> list[Line]:
    """Measure a decode step as users call it: the keys are split over clusters of CTAs."""
    inputs = DECODE.inputs()
    with emulator.emulate() as device:
        check(DECODE, attention(DECODE, *inputs, splits="auto"), "the kernel with split keys")
        seconds = best(functools.partial(attention, DECODE, *inputs, splits="auto"), REPETITIONS)
    return [Line(f"{DECODE}, a launch of {math.prod(device.launches[-1].grid)} CTAs", seconds, "s", DECODE_GOAL_S)]


def processes() -> list[Line]:
    """Measure a larger launch in one process and split between two. Exit if bits or counts differ."""
    alone, bits = _ctas(1)
    shared, others = _ctas(PROCESSES)
    if not torch.equal(bits, others) or alone.stats != shared.stats:
        raise SystemExit(f"{PROCESSES} processes and one process compute different results")
    return [
        Line(f"{alone.grid[0]} CTAs of hd={SPLIT_PROBLEM.head_dim}, lazy, one process", alone.seconds, "s"),
        Line(f"{alone.grid[0]} CTAs of hd={SPLIT_PROBLEM.head_dim}, lazy, {PROCESSES} processes", shared.seconds, "s"),
        Line(f"{PROCESSES} independent loops, concurrent against sequential", concurrency_ratio(), "x"),
        Line(f"{PROCESSES} processes against one", shared.seconds / alone.seconds, "x", PROCESSES_GOAL_RATIO),
    ]


def grid_barrier() -> list[Line]:
    """Measure a barrier of a whole grid."""
    count = torch.zeros(1, dtype=torch.int32)
    seconds = spent(lambda: emulator.launch(GRID_BARRIER, "meet", [count], grid=GRID_BARRIER_CTAS, block=32))
    return [Line(f"a grid barrier of {GRID_BARRIER_CTAS} CTAs that poll by atomics", seconds, "s", GRID_BARRIER_GOAL_S)]


def concurrency_ratio() -> float:
    """Return the ratio of the time of concurrent independent loops to the time of the same loops in sequence."""

    def loops() -> None:
        others = [context.Process(target=_loop) for _ in range(PROCESSES - 1)]
        for other in others:
            other.start()
        _loop()
        for other in others:
            other.join()

    context = multiprocessing.get_context("fork")
    return best(loops, clock=time.perf_counter) / (PROCESSES * best(_loop, clock=time.perf_counter))


def _loop() -> None:
    sum(range(LOOPS))


def _ctas(count: int) -> tuple[emulator.LaunchResult, torch.Tensor]:
    with emulator.emulate("lazy", processes=count) as device:
        for _ in range(REPETITIONS):
            o = run_kernel(SPLIT_PROBLEM, QUERY_COPIES)
    return fastest(device), o.view(torch.int16)


def measured(problem: Problem, completion: Any) -> tuple[float, int]:
    """Return the CPU seconds of the fastest of several launches in one completion mode, and its warp-instructions."""
    inputs = problem.inputs()
    with emulator.emulate(completion) as device:
        check(problem, run_kernel(problem), f"the kernel, {completion}")
        seconds = best(functools.partial(attention, problem, *inputs), SHORT_REPETITIONS)
    return seconds, device.launches[-1].stats.instructions


def fastest(device: emulator.EmulatedDevice) -> emulator.LaunchResult:
    """Return the fastest launch."""
    return min(device.launches, key=lambda launch: launch.seconds)


def run_kernel(problem: Problem, times: int = 1) -> torch.Tensor:
    """Run this project's kernel on `times` copies of the queries, 128 rows per token. Returns [times * rows, hd]."""
    q, k, v = problem.inputs()
    return attention(problem, q.repeat(times, 1), k, v)


def attention(
    problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, splits: int | Literal["auto"] = 1
) -> torch.Tensor:
    """Run this project's kernel on all queries and return [queries, hd]."""
    out = kernel.fmha(q.view(1, -1, 128, problem.head_dim), k[None], v[None], partials=False, splits=splits)
    return out.o.reshape(len(q), -1)


def check(problem: Problem, o: torch.Tensor, who: str) -> None:
    """Exit if a result is wrong, before it is measured."""
    error = problem.worst_error(o)
    if not error <= WORST_ERROR:
        raise SystemExit(f"{who} has an error of {error} on {problem}; allowed is {WORST_ERROR}")


def cpu() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def best(work: Callable[[], object], times: int = REPETITIONS, clock: Callable[[], float] = cpu) -> float:
    """Return the seconds of the fastest of several repetitions."""
    return min(spent(work, clock) for _ in range(times))


def spent(work: Callable[[], object], clock: Callable[[], float] = cpu) -> float:
    """Return the seconds that `work` takes once."""
    start = clock()
    work()
    return clock() - start


if __name__ == "__main__":
    main()
