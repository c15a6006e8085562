"""The tensor core and tensor memory in modelled time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from ...chip import RANK_SHIFT, TMEM_LANES
from ...isa.lane_values import active_lanes, of_lane, same
from ...isa.registry import Action
from ...machine.formats.descriptors import KINDS, SCALE_BYTES, InstructionDescriptor
from ...machine.formats.descriptors import Kind as MmaKind
from ...machine.memory.shared import OFFSET_MASK
from ...ptx.kinds import Kind
from ...ptx.syntax import Address, Imm, Instr
from ..barriers import TimedMBarrier
from ..chips import Chip
from ..segment import LONG_SCOREBOARD, SUB_PARTITIONS, transferred
from ..trace import TENSOR_CORE
from ..warps import TimedWarp
from .mbarriers import mbarrier
from .registry import AWAIT_LOAD, everything, first, idle, timed

HALF_ROWS: Final = 64
DISCARD: Final = "discard"
REUSES: Final = ("use", "lastuse")
"""The uses of a collector buffer. With the latter two it holds the operand already."""


@dataclass(frozen=True)
class MmaTimes:
    """The times of one tcgen05.mma in cycles per participating SM, and its flops in total.

    compute: of the tensor core; fetch: of the shared memory port, for the operands; stall: of the tensor core if the
    MMA before it loaded the same collector buffer.
    """

    compute: float
    fetch: float
    stall: float
    latency: float
    flops: float


@lru_cache(maxsize=1024)
def mma_times(chip: Chip, kind: MmaKind, ctas: int, a_in_tmem: bool, scaled: bool, kept: str, bits: int) -> MmaTimes:
    """Return the times of a tcgen05.mma. kept: what its collector buffer does with the operand."""
    idesc = InstructionDescriptor.decode(bits, kind)
    rows = idesc.m // ctas
    half = ctas == 2 and rows == HALF_ROWS
    compute = idesc.n / chip.mma_columns_per_cycle / (2 if half else 1)
    a = 0.0 if a_in_tmem or kept in REUSES else rows * kind.k_bytes / chip.smem_bytes_per_cycle
    b = idesc.n // ctas * kind.k_bytes / chip.smem_bytes_per_cycle
    pair = chip.mma_pair_smem if ctas == 2 and not half and not a_in_tmem else 0.0
    latency = chip.mma_latency if ctas == 1 else chip.mma_pair_latency
    latency += chip.mma_pair_half_latency * half + chip.mma_scaled_latency * scaled
    least = chip.mma_pair_least if half else 0.0
    flops = 2.0 * idesc.m * idesc.n * kind.k
    return MmaTimes(max(compute, least), a + b + pair, 0.0, latency + a + compute, flops)


@lru_cache(maxsize=1024)
def ws_times(chip: Chip, kind: MmaKind, a_in_tmem: bool, kept: str, bits: int) -> MmaTimes:
    """Return the times of a tcgen05.mma.ws: B lies in a collector buffer, and fewer rows take fewer cycles."""
    idesc = InstructionDescriptor.decode(bits, kind)
    parts = 1 if idesc.m == TMEM_LANES else 2 if idesc.m == HALF_ROWS or kept == DISCARD else 4
    compute = idesc.n / chip.mma_columns_per_cycle / parts
    a = 0.0 if a_in_tmem else idesc.m * kind.k_bytes / chip.smem_bytes_per_cycle
    b = 0.0 if kept in REUSES else idesc.n * kind.k_bytes / chip.smem_bytes_per_cycle
    stall = 0.0 if kept != DISCARD else chip.mma_ws_stall if parts == 1 else chip.mma_ws_narrow_stall
    return MmaTimes(compute, a + b, stall, chip.mma_latency + a + compute, 2.0 * idesc.m * idesc.n * kind.k)


@timed("tcgen05.mma", keep=lambda instr: (instr.operands[3], Imm(isinstance(instr.operands[1], Address))))
def _mma(ins: Instr) -> Action:
    kind = next(KINDS[m] for m in ins.modifiers if m in KINDS)
    ctas, scaled = 2 if "cta_group::2" in ins.modifiers else 1, "block_scale" in ins.modifiers
    collector = next((m for m in ins.modifiers if m.startswith("collector::")), f"collector::b0::{DISCARD}")
    buffer, kept = collector.rsplit("::", 1)
    ws = "ws" in ins.modifiers

    def perform(warp: TimedWarp, now: float, bits: int, a_in_tmem: int) -> float:
        timeline, chip = warp.timeline, warp.timeline.chip
        if ws:
            times = ws_times(chip, kind, bool(a_in_tmem), kept, bits)
        else:
            times = mma_times(chip, kind, ctas, bool(a_in_tmem), scaled, kept, bits)
        stall = times.stall if times.stall and warp.sm.collector == buffer else 0.0
        warp.sm.collector = buffer
        start = _queue(warp, max(now, warp.copied), ctas, times.compute, times.fetch, stall)
        warp.sm.use("flops", times.flops)
        warp.sm.use("products", times.flops / (2 * TMEM_LANES * kind.k * chip.mma_columns_per_cycle))
        warp.tensor_done = start + times.latency - chip.wake_latency - chip.try_wait_latency
        if timeline.trace is not None:
            timeline.trace.tensor(warp, ins, start, start + max(times.compute + stall, times.fetch))
        return now + 1

    def run(warp: TimedWarp, mask: Any, idesc: Any, a_in_tmem: int) -> None:
        for lane in active_lanes(mask):
            bits = of_lane(idesc, lane)
            warp.ops.append((perform, bits & ~SCALE_BYTES if scaled else bits, a_in_tmem))

    return run


def _queue(warp: TimedWarp, now: float, ctas: int, compute: float, fetch: float, stall: float = 0.0) -> float:
    """Enqueue work on the tensor core of an SM or of a CTA pair's SMs; return its start time.

    The operands of an MMA are fetched from the time at which the MMA two before it started. Other users of the shared
    memory port take the time between two fetches. They delay a fetch if that was not enough for them.
    """
    sms, chip = [warp.sm], warp.timeline.chip
    if ctas == 2:
        first = warp.cta.rank & ~1
        sms = [cta.sm for cta in warp.cta.cluster.ctas[first : first + 2]]
    start = now
    for sm in sms:
        ready = max(sm.fetched, sm.started[0], now)
        backlog = max(sm.port_backlog - (ready - sm.fetched), 0.0)
        delay = max(backlog - chip.smem_backlog_cycles, 0.0)
        sm.port_backlog = backlog - delay
        sm.fetched = ready + delay
        start = max(start, sm.tensor, sm.fetched)
    for sm in sms:
        sm.fetched += fetch
        sm.tensor = start + compute + stall
        sm.started.append(start)
        sm.use("tensor core", compute)
        sm.use("shared memory", fetch)
    return start


@timed("tcgen05.cp", "tcgen05.shift")
def _tensor_copy(ins: Instr) -> Action:
    """Enqueue on the tensor core. One warp's copies do not reach the rate of two warps'."""
    ctas = 2 if "cta_group::2" in ins.modifiers else 1
    rows, bits = next((m[:-1].split("x") for m in ins.modifiers if m[0].isdigit() and m.endswith("b")), ("128", "256"))
    size = int(rows) * int(bits) // 8
    repeats = any(m.startswith("warpx") for m in ins.modifiers)

    def perform(warp: TimedWarp, now: float) -> float:
        chip = warp.timeline.chip
        whole = size / chip.tensor_copy_bytes_per_cycle
        own = whole if repeats else size / chip.tensor_copy_warp_bytes_per_cycle
        start = _queue(warp, now, ctas, whole, whole)
        warp.copied = warp.tensor_done = max(start, warp.copied) + own
        return now + 1

    return lambda warp, mask: warp.ops.extend([(perform,)] * len(active_lanes(mask)))


@timed("tcgen05.commit", keep=everything)
def _commit(ins: Instr) -> Action:
    multicast = "multicast::cluster" in ins.modifiers

    def perform(warp: TimedWarp, now: float, barriers: list[TimedMBarrier]) -> float:
        timeline = warp.timeline
        done = max(now + timeline.chip.mma_group_overhead, warp.tensor_done)
        by = warp.cta.rank, TENSOR_CORE
        for barrier in barriers:
            timeline.at(done, partial(timeline.arrive, barrier, 1, by=by))
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, targets: Any = 0) -> None:
        for lane in active_lanes(mask):
            at = of_lane(address, lane)
            named = [rank for rank in range(16) if of_lane(targets, lane) >> rank & 1]
            ranks = named if multicast else [at >> RANK_SHIFT & 0xFF]
            barriers = [mbarrier(warp, at & OFFSET_MASK | rank << RANK_SHIFT, ins) for rank in ranks]
            warp.ops.append((perform, barriers))

    return run


@timed("tcgen05.alloc", keep=first(2))
def _alloc(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, address: Any, columns: Any) -> None:
        cta, offset = warp.cta, (same(address, mask) or 0) & OFFSET_MASK
        cta.smem.view("u4")[offset // 4] = cta.tmem_columns
        cta.tmem_columns += same(columns, mask) or 0

    return run


@timed("tcgen05.ld", "tcgen05.st")
def _transfer(ins: Instr) -> Action:
    size, loads = transferred(ins), ins.kind is Kind.TENSOR_LOAD

    def perform(warp: TimedWarp, now: float) -> float:
        chip, port = warp.timeline.chip, warp.index % SUB_PARTITIONS
        cycles = size / chip.tmem_bytes_per_cycle
        taken = max(now, warp.sm.tmem[port]) + cycles
        warp.sm.tmem[port] = taken
        warp.sm.use("tensor memory", cycles)
        if loads:
            warp.loads_done[ins.line] = taken + chip.tmem_latency, ins, "tensor memory"
        else:
            warp.stores_done = taken + chip.tmem_store_latency
        return now + 1

    def run(warp: TimedWarp, mask: Any) -> None:
        if loads:
            warp.loading.add(ins.line)
        warp.ops.append((perform,))

    return run


@timed(AWAIT_LOAD, keep=everything)
def _loaded(ins: Instr) -> Action:
    """Wait for a load at the first use of its value."""

    def perform(warp: TimedWarp, now: float, line: int) -> float:
        done, load, what = warp.loads_done[line]
        return idle(warp, now, done, load, what)

    def perform_carried(warp: TimedWarp, now: float, line: int) -> float:
        return idle(warp, now, warp.carried.get(line, now), ins, LONG_SCOREBOARD)

    def run(warp: TimedWarp, mask: Any, line: int, *carried: int) -> None:
        if carried:
            warp.ops.append((perform_carried, *carried))
        elif line in warp.loading:
            warp.loading.remove(line)
            warp.ops.append((perform, line))

    return run


@timed("tcgen05.wait::st")
def _stored(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float) -> float:
        return idle(warp, now, warp.stores_done, ins, "tensor memory")

    return lambda warp, mask: warp.ops.append((perform,))
