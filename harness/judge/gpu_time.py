"""Timing of launches on this machine's GPU with CUDA events, and the clock rates meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import msgspec

WARM_UP, ROUNDS = 5, 50
#: The GPU is kept busy for this long while the processor enqueues all launches, so that none waits for the processor.
HEAD_START_CYCLES = 100_000_000
QUERY = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw", "--format=csv,noheader,nounits"]


class Times(msgspec.Struct, frozen=True):
    """Seconds of `rounds` launches: median, 10th percentile (`low`) and 90th percentile (`high`).

    cold: L2 was flushed before each launch. sm_mhz, memory_mhz, watts: reported by the driver while they ran.
    """

    median: float
    low: float
    high: float
    rounds: int
    cold: bool
    sm_mhz: float
    memory_mhz: float
    watts: float

    def __str__(self) -> str:
        l2 = "cold" if self.cold else "warm"
        return (
            f"{self.median * 1e6:,.1f} us ({self.low * 1e6:,.1f} to {self.high * 1e6:,.1f}, {self.rounds} launches, "
            f"L2 {l2}, {self.sm_mhz:.0f} MHz)"
        )


def measure(launch: Callable[[], object], cold: bool, rounds: int = ROUNDS) -> Times:
    """Time launches on the current stream, each with its own pair of events. `cold` flushes L2 before each."""
    import torch

    cuda: Any = torch.cuda  # its events have no types
    scrap = torch.empty(2 * cuda.get_device_properties().L2_cache_size if cold else 0, dtype=torch.uint8, device="cuda")
    for _ in range(WARM_UP):
        launch()
    cuda.synchronize()
    pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(rounds)]
    cuda._sleep(HEAD_START_CYCLES)
    for begin, end in pairs:
        scrap.zero_()
        begin.record()
        launch()
        end.record()
    cuda.synchronize()
    seconds = sorted(begin.elapsed_time(end) / 1e3 for begin, end in pairs)
    tenth = rounds // 10
    return Times(seconds[rounds // 2], seconds[tenth], seconds[-1 - tenth], rounds, cold, *_clocks(launch))


def _clocks(launch: Callable[[], object]) -> tuple[float, float, float]:
    """Return MHz of the SMs and of memory, and watts, during launches; zeros if the driver does not report them."""
    import torch

    try:
        asked = subprocess.Popen(QUERY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return 0.0, 0.0, 0.0
    while asked.poll() is None:
        launch()
        torch.cuda.synchronize()
    assert asked.stdout is not None
    try:
        sm, memory, watts = (float(field) for field in asked.stdout.readline().split(","))
    except ValueError:
        return 0.0, 0.0, 0.0
    return sm, memory, watts
