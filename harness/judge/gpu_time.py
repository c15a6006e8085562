"""Timing of launches on this machine's GPU with CUDA events, and the clock rates meanwhile."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import torch

OURS = "this kernel"
"""The name of this repository's kernel in tables with other kernels."""
WARM_UP, ROUNDS = 5, 50
#: The GPU is kept busy for this long while the processor enqueues all launches, so that none waits for the processor;
#: longer if that was not enough.
HEAD_STARTS_CYCLES = (100_000_000, 400_000_000, 1_600_000_000)
QUERY = ["nvidia-smi", "--query-gpu=clocks.mem,power.draw", "--format=csv,noheader,nounits"]
#: One thread of each CTA writes its SM's cycle counter and the GPU's timer in nanoseconds, 16 bytes per SM.
NOW = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry now(.param .u64 out)
{
    .reg .pred %other;
    .reg .b32 %thread, %sm;
    .reg .b64 %at, %offset, %cycles, %ns;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %other, %thread, 0;
    @%other ret;
    ld.param.u64 %at, [out];
    cvta.to.global.u64 %at, %at;
    mov.u32 %sm, %smid;
    mul.wide.u32 %offset, %sm, 16;
    add.s64 %at, %at, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %ns, %globaltimer;
    st.global.v2.u64 [%at], {%cycles, %ns};
    ret;
}
"""
NOW_THREADS = 1024  # of a CTA: no more than two fit on an SM


class Times(msgspec.Struct, frozen=True):
    """Seconds of `rounds` launches: median, 10th percentile (`low`) and 90th percentile (`high`).

    cold: L2 was filled with other data before each launch. sm_mhz: cycles of the SMs per microsecond from before the
    first launch to after the last. memory_mhz, watts: reported by the driver while further launches ran.
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
    """Time launches on the current stream, each with its own pair of events.

    `cold` fills L2 with other data before each, by reads: data that a flush wrote would be written back during the
    launch.
    """
    import torch

    cuda: Any = torch.cuda  # its events have no types
    size = 2 * cuda.get_device_properties().L2_cache_size if cold else 0
    other = torch.zeros(size, dtype=torch.uint8, device="cuda").view(torch.int64)
    for _ in range(WARM_UP):
        other.sum()
        launch()
    cuda.synchronize()
    for head_start in HEAD_STARTS_CYCLES:
        pairs, clock, ahead = _enqueue(launch, other, rounds, head_start)
        cuda.synchronize()
        if ahead:
            break
    seconds = sorted(begin.elapsed_time(end) / 1e3 for begin, end in pairs)
    tenth = rounds // 10
    memory_mhz, watts = _reported(launch)
    low, high = seconds[tenth], seconds[-1 - tenth]
    return Times(seconds[rounds // 2], low, high, rounds, cold, clock.mhz(), memory_mhz, watts)


def _enqueue(
    launch: Callable[[], object], other: torch.Tensor, rounds: int, head_start_cycles: int
) -> tuple[list[tuple[Any, Any]], _SmClock, bool]:
    """Enqueue launches, each after a read of `other`.

    Return the events around each, the clock, and whether all were enqueued before the GPU began the first.
    """
    import torch

    cuda: Any = torch.cuda  # its events have no types
    pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(rounds)]
    clock, begun = _SmClock(), cuda.Event()
    cuda._sleep(head_start_cycles)
    begun.record()
    clock.read()
    for begin, end in pairs:
        other.sum()
        begin.record()
        launch()
        end.record()
    ahead = not begun.query()
    clock.read()
    return pairs, clock, ahead


class _SmClock:
    """The rate of the SMs' clock between two reads on the current stream."""

    def __init__(self) -> None:
        import torch
        from cuda.bindings import driver

        from harness.judge.replay_on import checked  # not at the top: the client imports Times

        self._driver, self._checked = driver, checked
        self._sms = torch.cuda.get_device_properties().multi_processor_count
        self._reads: list[torch.Tensor] = []
        self._module = self._checked(driver.cuModuleLoadData(NOW))
        self._kernel = self._checked(driver.cuModuleGetFunction(self._module, b"now"))

    def read(self) -> None:
        """Enqueue a read of every SM's cycle counter."""
        import torch

        found = torch.zeros(self._sms, 2, dtype=torch.int64, device="cuda")
        grid, block, stream = (self._sms, 1, 1), (NOW_THREADS, 1, 1), torch.cuda.current_stream().cuda_stream
        given = (found.data_ptr(),), (ctypes.c_uint64,)
        self._checked(self._driver.cuLaunchKernel(self._kernel, *grid, *block, 0, stream, given, 0))
        self._reads.append(found)

    def mhz(self) -> float:
        """Return the median over the SMs that both reads have."""
        before, after = (read.cpu() for read in self._reads)
        both = (before[:, 1] > 0) & (after[:, 1] > 0)
        cycles, ns = (after - before)[both].double().unbind(1)
        self._checked(self._driver.cuModuleUnload(self._module))
        return float(1e3 * (cycles / ns).median())


def _reported(launch: Callable[[], object]) -> tuple[float, float]:
    """Return MHz of memory, and watts, during launches; zeros if the driver does not report them."""
    import torch

    try:
        asked = subprocess.Popen(QUERY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return 0.0, 0.0
    while asked.poll() is None:
        launch()
        torch.cuda.synchronize()
    assert asked.stdout is not None
    try:
        memory, watts = (float(field) for field in asked.stdout.readline().split(","))
    except ValueError:
        return 0.0, 0.0
    return memory, watts
