"""wgmma in modelled time: each warp's 16 rows go to the tensor core of its sub-partition."""

from __future__ import annotations

from typing import Final

from ...isa.registry import Action
from ...isa.wgmma import K_BYTES, ROWS, ROWS_A_WARP
from ...ptx.syntax import Imm, Instr, Vector
from ..segment import SUB_PARTITIONS
from ..warps import IN_FLIGHT, Copies, TimedWarp
from .registry import everything, idle, timed

PRODUCTS: Final = "wgmma"


@timed("wgmma.mma_async", keep=lambda instr: (Imm(0), Imm(isinstance(instr.operands[1], Vector))))
def _multiply(ins: Instr) -> Action:
    """Issue a wgmma. All four warps read B, and A if it is in shared memory, once per warp group.

    Operands: two zeros for D and its earlier value, and whether A is in registers.
    """
    shape = next(m for m in ins.modifiers if m.startswith("m64n"))
    n, k = (int(word) for word in shape.removeprefix("m64n").split("k"))
    flops = 2.0 * ROWS_A_WARP * n * k

    def perform(warp: TimedWarp, now: float, a_in_registers: int) -> float:
        timeline, sm, port = warp.timeline, warp.sm, warp.index % SUB_PARTITIONS
        chip = timeline.chip
        compute = n / chip.mma_columns_per_cycle
        bytes_read = (n + (0 if a_in_registers else ROWS)) * K_BYTES
        interval = max(compute, bytes_read / chip.smem_bytes_per_cycle, chip.mma_least)
        delay = sm.delays[port]
        if len(warp.in_flight) == IN_FLIGHT and warp.in_flight[0] + delay > now:
            now = warp.in_flight[0] + delay
        start = max(now, sm.products[port])
        sm.products[port] = start + interval
        sm.use("tensor core", compute / SUB_PARTITIONS)
        sm.use("flops", flops)
        sm.use("products", compute / SUB_PARTITIONS)
        latency = compute + (chip.mma_registers_latency if a_in_registers else chip.mma_latency)
        done = start + latency - delay
        warp.in_flight.append(done)
        warp.copies.setdefault(PRODUCTS, Copies()).add(done, done)
        if timeline.trace is not None and port == 0:
            timeline.trace.tensor(warp, ins, start, start + interval)
        return float(now + n * chip.mma_issue)

    return lambda warp, mask, _d, _before, a_in_registers: warp.ops.append((perform, a_in_registers))


@timed("wgmma.fence")
def _fence(ins: Instr) -> Action:
    """Do nothing: the four warps' rendezvous is not modelled, and earlier instructions are in earlier segments."""
    return lambda warp, mask: None


@timed("wgmma.commit_group")
def _commit(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float) -> float:
        warp.copies.setdefault(PRODUCTS, Copies()).commit()
        return now

    return lambda warp, mask: warp.ops.append((perform,))


@timed("wgmma.wait_group", keep=everything, delays=True)
def _wait(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, allowed: int) -> float:
        return until(warp, now, warp.copies.setdefault(PRODUCTS, Copies()).over(allowed, False))

    def until(warp: TimedWarp, now: float, undelayed: float) -> float:
        """Wait again if other warps delayed the products during the wait."""
        done = undelayed + warp.sm.delays[warp.index % SUB_PARTITIONS]
        if done > now:
            warp.ops.appendleft((until, undelayed))
        return idle(warp, now, done, ins, "wgmma")

    return lambda warp, mask, allowed: warp.ops.append((perform, int(allowed)))
