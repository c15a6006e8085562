"""Memory in modelled time: loads and stores that decide branches, and the L2 and HBM traffic of stores."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...chip import LANES, RANK_SHIFT, SHARED_BASE
from ...errors import OutOfBounds
from ...isa.atomics import Atomic, conflict_free_groups, operand_bits, results_of
from ...isa.lane_values import active_lanes, lane_rows, per_lane
from ...isa.ld_st import REGISTER_BYTES, MemoryOp, extended, if_not_local, parameter_load
from ...isa.registry import BLOCK, Action
from ...machine.launch.statistics import LOADED, STORED
from ...machine.memory.shared import OFFSET_MASK
from ...ptx.syntax import Instr, Reg, Vector
from ..chips import Chip
from ..uncertainty import BY_WARPS
from ..warps import TimedWarp
from .registry import everything, first, idle, is_global_store, timed, waits_at_first_use

BYTES_OF_B128: Final = 16
PARTIAL: Final = 2.3
"""The factor of L2's time for a partly stored sector. An H200's L2 takes 163 sectors a ns if they are whole, 70 if
one word of each is stored (lab/ordinary.cu)."""
READ_AND_WRITTEN: Final = 2
"""The transfers of a sector of HBM that is never stored whole: L2 reads it to complete it, and writes it."""


def _places(op: MemoryOp, warp: TimedWarp, mask: Any, address: Any) -> tuple[np.ndarray, np.ndarray]:
    lanes = np.array(active_lanes(mask))
    return lanes, per_lane(address, np.uint64)[lanes].astype(np.uint64)


def _memory(op: MemoryOp, warp: TimedWarp, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a CTA's shared memory as elements, the warps that stored them, and indices as int[lanes, elements].

    The numbers of the warps are uint16[elements, bytes].
    """
    cta = warp.cta.cluster.ctas[int(addresses[0]) >> RANK_SHIFT & 0xFF]
    index = (addresses.astype(np.int64) & OFFSET_MASK)[:, None] // op.width + np.arange(op.count)
    return cta.smem.view(f"u{op.width}"), cta.stored_by.reshape(-1, op.width), index


@timed("ld", keep=first(2), dst=1, blocking=True, uniform=if_not_local)
def _ld(ins: Instr) -> Action:
    op = MemoryOp(ins)
    target = ins.operands[0]
    registers = target.items if isinstance(target, Vector) else (target,)
    widths = [REGISTER_BYTES[r.type] if isinstance(r, Reg) else op.width for r in registers]
    if op.space == "param":
        return parameter_load(op, widths)
    what, later = f"ld.{op.space}", waits_at_first_use(ins)

    def arrival(warp: TimedWarp, now: float) -> float:
        chip: Chip = warp.timeline.chip
        return now + (chip.shared_latency if op.space == "shared" else chip.l2_latency)

    def ask(warp: TimedWarp, now: float) -> float:
        warp.loads_done[ins.line] = arrival(warp, now), ins, what
        return now + 1

    def wait(warp: TimedWarp, now: float) -> float:
        warp.wait_result = True
        return idle(warp, now, arrival(warp, now), ins, what)

    def run(warp: TimedWarp, mask: Any, address: Any) -> Any:
        if later:
            if (ask,) in warp.ops:  # a warp runs ahead of the timeline by at most one loop iteration
                return BLOCK
            warp.loading.add(ins.line)
            warp.ops.append((ask,))
        elif warp.wait_result is None:
            warp.ops.append((wait,))
            return BLOCK
        warp.wait_result = None
        lanes, addresses = _places(op, warp, mask, address)
        if op.space == "shared":
            view, stored_by, index = _memory(op, warp, addresses)
            values = view[index]
            warp.timeline.loads_shared(warp, ins.line, stored_by[index])
        elif op.space == "global":
            warp.sm.use(LOADED, op.bytes * (addresses.size if isinstance(address, np.ndarray) else 1))
            values = _loaded(op, ins, warp, addresses)
        else:
            values = np.zeros((len(lanes), op.count), f"u{op.width}")
        full = np.zeros((LANES, op.count), values.dtype)
        full[lanes] = values
        if widths == [BYTES_OF_B128]:
            return np.ascontiguousarray(full.T)
        columns = [extended(op, np.ascontiguousarray(full[:, i]), w) for i, w in enumerate(widths)]
        return columns[0] if len(columns) == 1 else tuple(columns)

    return run


def _loaded(op: MemoryOp, ins: Instr, warp: TimedWarp, addresses: np.ndarray) -> np.ndarray:
    """Return the values of a load of global memory: 0 outside all memory, as the clock does not check accesses."""
    try:
        return warp.cta.launch.memory.load(addresses, op.width, op.count, ins, warp, op.what)
    except OutOfBounds:
        return np.zeros((addresses.size, op.count), f"u{op.width}")


@timed("st", keep=lambda instr: () if is_global_store(instr) else instr.operands[:2])
def _st(ins: Instr) -> Action:
    op = MemoryOp(ins)

    def leave(warp: TimedWarp, now: float, size: float, sent: float, moved: float, cycles: float) -> float:
        """Store; the warp continues when the SM has sent its earlier stores.

        size: bytes. sent: those of the sectors that they are in, which go to L2. moved: by HBM. cycles: of the LSU.
        """
        sm, earlier = warp.sm, warp.sm.out
        sm.lsu = max(sm.lsu, now) + cycles
        sm.use(STORED, size)
        warp.timeline.store(sm, sm.lsu, sent, moved)
        warp.stored_until = sm.out + warp.timeline.chip.global_latency
        return idle(warp, now + 1, earlier, ins, "earlier stores")

    if is_global_store(ins):

        def store(warp: TimedWarp, mask: Any, at: int, sectors: int, lines: int, apart: int, *stored: Any) -> None:
            active = len(active_lanes(mask))
            if stored:  # it may be a tensor map
                address, value = stored
                lanes, addresses = _places(op, warp, mask, address)
                values = lane_rows(value, op.count, np.dtype(f"u{op.width}"))[lanes]
                warp.cta.launch.memory.store(addresses, values, ins, warp, op.what)
            size, partial, share = op.bytes * active, sectors > LANES * op.bytes, active / LANES
            warp.timeline.issues_store(size, BY_WARPS, at, apart * share if partial else 0.0)
            sent = sectors * (PARTIAL if partial else 1.0) * share
            left = warp.timeline.incomplete.get(at, 0.0) if partial else 0.0
            moved = (1 - left) * size + left * READ_AND_WRITTEN * apart * share
            warp.ops.append((leave, size, sent, moved, max(1.0, lines * share) if active else 0.0))

        return store

    def run(warp: TimedWarp, mask: Any, address: Any, value: Any) -> None:
        lanes, addresses = _places(op, warp, mask, address)
        if op.space == "shared":
            view, stored_by, index = _memory(op, warp, addresses)
            view[index] = lane_rows(value, op.count, np.dtype(f"u{op.width}"))[lanes]
            stored_by[index] = warp.number

    return run


@timed("atom", keep=everything, dst=1, blocking=True)
def _atom(ins: Instr) -> Action:
    """Update memory for an atomic on whose result something depends. The warp waits for it at once."""
    op = Atomic(ins)

    def wait(warp: TimedWarp, now: float, in_shared: bool) -> float:
        chip: Chip = warp.timeline.chip
        warp.wait_result = True
        return idle(warp, now, now + (chip.shared_latency if in_shared else chip.l2_latency), ins, op.what)

    def run(warp: TimedWarp, mask: Any, address: Any, *values: Any) -> Any:
        _, addresses = _places(op, warp, mask, address)
        in_shared = op.space == "shared" or int(addresses[0]) >> 32 == SHARED_BASE >> 32
        if warp.wait_result is None:
            warp.ops.append((wait, in_shared))
            return BLOCK
        warp.wait_result = None
        operands = [operand_bits(op, value, mask) for value in values[: 2 if op.operation == "cas" else 1]]
        old = np.zeros((addresses.size, op.count), f"u{op.width}")
        for rows in conflict_free_groups(addresses):
            update = _update_shared if in_shared else _update_global
            old[rows] = update(op, warp, addresses[rows], [operand[rows] for operand in operands])
        return results_of(op, ins, old, mask)

    return run


def _update_shared(op: Atomic, warp: TimedWarp, addresses: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Update elements of shared memory; return the old ones as unsigned[n, count]."""
    view, stored_by, index = _memory(op, warp, addresses)
    old: np.ndarray = view[index]
    warp.timeline.loads_shared(warp, op.ins.line, stored_by[index])
    view[index], stored_by[index] = op.new_bits(old, operands), warp.number
    return old


def _update_global(op: Atomic, warp: TimedWarp, addresses: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Update a cluster's copies of elements of global memory; return the old ones as unsigned[n, count].

    One cluster represents all: each time that it adds, all others add too. It reads the counter with one addition of
    each earlier cluster, so that with n clusters a counter of tiles gives it every n-th tile.
    """
    cluster = warp.cta.cluster
    (x, y, z), (cx, cy, cz) = cluster.index, cluster.launch.grid_of_clusters
    before, clusters = x + cx * (y + cy * z), cx * cy * cz
    found = np.empty((addresses.size, op.count), f"u{op.width}")
    for i, address in enumerate(addresses.tolist()):
        own = [operand[i : i + 1] for operand in operands]
        old, adds = cluster.updated.get(address), op.operation == "add"
        if old is None:
            old = cluster.launch.memory.load(addresses[i : i + 1], op.width, op.count, op.ins, warp, op.what)
            old = old + own[0] * old.dtype.type(before) if adds else old
        found[i] = old
        cluster.updated[address] = old + own[0] * old.dtype.type(clusters) if adds else op.new_bits(old, own)
    return found
