"""Copies in modelled time."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from math import prod
from typing import Any, Final

import numpy as np

from ...chip import RANK_SHIFT
from ...errors import UnknownInstruction
from ...isa.lane_values import active_lanes, of_lane, per_lane
from ...isa.registry import BLOCK, Action
from ...machine.formats.tensormap import MAP_BYTES, TensorMap, decode
from ...machine.launch.statistics import COPIED_IN, SLEPT, STORED
from ...machine.memory.shared import OFFSET_MASK
from ...ptx.syntax import Instr, Operand, TensorAddress, Vector
from ..accesses import HASHED_BYTES
from ..barriers import TimedMBarrier
from ..trace import COPIES
from ..uncertainty import GATHERS, NARROW, STORES
from ..warps import Copies, Sm, Tensor, TimedWarp
from .mbarriers import groups, mbarrier
from .registry import everything, first, idle, timed

MULTICAST: Final = "multicast::cluster"
TMA_ROWS: Final = 4
"""Rows of a tile::gather4 or tile::scatter4."""
LINE_BYTES: Final = 128
NARROW_BYTES: Final = 32
"""Rows of a box of fewer bytes were never measured."""
NO_MAP: Final = (
    "the tensor map of this copy is empty. If the kernel writes the map itself (tensormap.replace), the clock cannot "
    "predict it, because it computes nothing that a kernel stores. Predict a kernel whose maps the host makes"
)
PAST_ROWS: Final = 1 << 31
"""Row numbers from here on are negative as 32-bit integers; such rows are not read."""


def _tensor(warp: TimedWarp, ins: Instr, address: int) -> Tensor:
    """Return the tensor of the tensor map at an address."""
    known: dict[int, Tensor] = warp.timeline.tensors
    if address not in known:
        raw = ctypes.string_at(address, MAP_BYTES)
        if not any(raw):
            raise UnknownInstruction(ins, NO_MAP)
        tensor = decode(raw)
        pixels = 1 if tensor.columns is None else tensor.columns.pixels
        row = tensor.box[0] * tensor.width
        lines = lines_of(row) * prod(tensor.box[1:]) * pixels
        size = tensor.box_bytes * pixels
        known[address] = Tensor(
            tensor.address, tensor_bytes(tensor), size, lines, row, _spread(tensor, row), tensor.box
        )
    return known[address]


def _tma_operands(instr: Instr) -> Sequence[Operand]:
    """Return the operands that matter for time; im2col offsets do not.

    Of a load: destination, map, mbarrier, CTA mask, and the column and rows of a gather. Of a store: map and source.
    """
    operands = instr.operands
    match operands[:2]:
        case (TensorAddress(at), source):
            return at, source
        case (target, TensorAddress(at, coordinates)):
            read = coordinates.items if len(coordinates.items) == 1 + TMA_ROWS else ()
            count = 1 + (MULTICAST in instr.modifiers)
            return target, at, *[operand for operand in operands[2:5] if not isinstance(operand, Vector)][:count], *read
    raise ValueError(f"a copy of {', '.join(map(str, operands))}")


def _box(instr: Instr) -> Sequence[Operand]:
    """Return the coordinates of a load of a box; a gather's are operands already."""
    match instr.operands[1]:
        case TensorAddress(_, coordinates) if len(coordinates.items) <= TMA_ROWS:
            return coordinates.items
    return ()


@timed("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", keep=_tma_operands, hints=_box)
def _tma(ins: Instr) -> Action:
    gathers = bool({"tile::gather4", "tile::scatter4"} & set(ins.modifiers))
    boxes = TMA_ROWS if gathers else 1
    multicast, paired = MULTICAST in ins.modifiers, "cta_group::2" in ins.modifiers
    box = slice(int(multicast), None if not gathers and len(ins.operands) > 3 + multicast else 0)

    def load(warp: TimedWarp, mask: Any, target: Any, at: Any, barrier: Any, *rest: Any) -> None:
        for lane in active_lanes(mask):
            tensor = _tensor(warp, ins, of_lane(at, lane))
            chosen = of_lane(rest[0], lane) if multicast else None
            destinations = _destinations(warp, ins, of_lane(target, lane), of_lane(barrier, lane), chosen, paired)
            place = (of_lane(each, lane) // size for each, size in zip(rest[box], tensor.box, strict=False))
            rows = _gathered(*rest[-1 - TMA_ROWS :], lane=lane) if gathers else ()
            how = GATHERS if gathers else NARROW if tensor.row_bytes < NARROW_BYTES else ""
            size = tensor.box_bytes * boxes
            warp.timeline.issues_copy(warp, tensor, size, rows, place, how)
            warp.ops.append((_fetch, ins, destinations, size, tensor, tensor.box_lines * boxes))

    def store(warp: TimedWarp, mask: Any, at: Any, source: Any) -> None:
        """Issue one copy for lanes that store the same bytes."""
        for (place, _), lane in {(of_lane(at, n), of_lane(source, n)): n for n in active_lanes(mask)}.items():
            tensor = _tensor(warp, ins, place)
            warp.timeline.issues_store(tensor.box_bytes * boxes, STORES)
            warp.ops.append((_store_by_engine, lane, tensor.box_bytes * boxes, tensor.box_lines * boxes))

    return store if "bulk_group" in ins.modifiers else load


def _gathered(column: Any, *rows: Any, lane: int) -> Iterator[tuple[int, int]]:
    """Yield (column, row) of each row of a gather that is read."""
    at = of_lane(column, lane)
    yield from ((at, row) for each in rows if 0 <= (row := of_lane(each, lane)) < PAST_ROWS)


def tensor_bytes(tensor: TensorMap) -> int:
    """Return the bytes of a map's tensor without repetition: a dimension of stride 0 repeats the same bytes."""
    sizes = (dim for dim, stride in zip(tensor.dims, tensor.strides, strict=True) if stride)
    return prod(sizes) * tensor.width


def _spread(tensor: TensorMap, row: int) -> float:
    """Return the probability that a box has lines in both halves of L2, which alternate at random by HASHED_BYTES."""
    pieces = max(row / HASHED_BYTES, 1.0)
    for size, stride in zip(tensor.box[1:], tensor.strides[1:], strict=True):
        pieces *= min(size, max(size * stride / HASHED_BYTES, 1.0))
    return float(1 - 2 ** (1 - pieces))


def lines_of(size: int) -> int:
    """Return the lines of 128 bytes in which the copy engine processes contiguous bytes."""
    return -(-size // LINE_BYTES)


Destinations = list[tuple[Sm, TimedMBarrier]]


def _destinations(
    warp: TimedWarp, ins: Instr, target: int, barrier: int, ranks: int | None, paired: bool
) -> Destinations:
    """Return the destination SM of each copy and the mbarrier that it completes on."""
    ctas, signalled = warp.cta.cluster.ctas, barrier >> RANK_SHIFT & 0xFF
    if ranks is None:
        copies = [(target >> RANK_SHIFT & 0xFF, signalled)]
    else:
        copies = [(r, r & ~1 | signalled & 1 if paired else r) for r in range(16) if ranks >> r & 1]
    offset = barrier & OFFSET_MASK
    return [(ctas[to].sm, mbarrier(warp, offset | rank << RANK_SHIFT, ins)) for to, rank in copies]


def _allocation(warp: TimedWarp, address: int, box_bytes: int = 0) -> Tensor | None:
    """Return the whole allocation that contains an address as a tensor, for copies without a tensor map."""
    found = warp.cta.launch.memory.known(address, address + 1)
    return None if found is None else Tensor(found.address, found.size, box_bytes, 0)


def _engine(warp: TimedWarp, now: float, lines: int) -> float:
    """Return the time at which the SM's copy engine has sent a copy's last line. It processes copies in order."""
    sm, chip = warp.sm, warp.timeline.chip
    cycles = max(chip.tma_box_cycles, lines * chip.tma_line_cycles)
    sm.tma = max(sm.tma, now) + cycles
    sm.use("TMA", cycles)
    return float(sm.tma + chip.tma_issue)


def _fetch(
    warp: TimedWarp, now: float, ins: Instr, destinations: Destinations, size: int, tensor: Tensor | None, lines: int
) -> float:
    """Load through the copy engine. A multicast load is fetched once."""
    timeline = warp.timeline
    chip, sent, count = timeline.chip, _engine(warp, now, lines), len(destinations)
    first, route = now + chip.tma_issue, timeline.engine
    warp.sm.use(COPIED_IN, size * count)
    done = max(timeline.load(sm, first, size, route, tensor, sent, count) for sm, _ in destinations)
    by = warp.cta.rank, COPIES
    for _, barrier in destinations:
        timeline.at(done, partial(timeline.complete, barrier, size, by=by))
    if timeline.trace is not None:
        timeline.trace.copied(warp, ins, now, done, size)
    return float(now + timeline.chip.tma_thread)


def _copy_to_peer(warp: TimedWarp, now: float, ins: Instr, to: Sm, barrier: TimedMBarrier, size: int) -> float:
    """Copy to another CTA's shared memory. The sending and the receiving SM each process one copy at a time."""
    timeline, sm = warp.timeline, warp.sm
    chip = timeline.chip
    sm.use(COPIED_IN, size)
    sm.sent = max(sm.sent, _engine(warp, now, lines_of(size))) + size / chip.peer_copy_bytes_per_cycle
    to.received = max(to.received + size / chip.peer_received_bytes_per_cycle, sm.sent)
    done = to.received + chip.peer_copy_latency
    for each in (sm, to):
        each.occupy_port(size / chip.smem_bytes_per_cycle)
    timeline.at(done, partial(timeline.complete, barrier, size, by=(warp.cta.rank, COPIES)))
    if timeline.trace is not None:
        timeline.trace.copied(warp, ins, now, done, size)
    return float(now + timeline.chip.tma_thread)


def _store_by_engine(warp: TimedWarp, now: float, lane: int, size: int, lines: int) -> float:
    """Store through the copy engine, in the lane's open bulk group."""
    timeline = warp.timeline
    warp.sm.use(STORED, size)
    warp.copies.setdefault(lane, Copies()).add(*timeline.store(warp.sm, _engine(warp, now, lines), size))
    return float(now + timeline.chip.tma_thread)


def _copy_values(warp: TimedWarp, target: int, source: int, size: int) -> None:
    """Copy the values at issue, since they may decide branches."""
    offset, memory = target & OFFSET_MASK, warp.cta.launch.memory
    if memory.known(source, source + size) is not None:
        warp.cta.smem[offset : offset + size] = np.frombuffer(ctypes.string_at(source, size), np.uint8)


def _copy_lanes(warp: TimedWarp, ins: Instr, targets: np.ndarray, sources: np.ndarray, size: int) -> None:
    """Copy the values of all lanes of a cp.async at issue. targets, sources: addresses, multiples of `size`."""
    memory, width = warp.cta.launch.memory, min(size, 8)
    if memory.known(int(sources.min()), int(sources.max()) + size) is None:
        for target, source in zip(targets.tolist(), sources.tolist(), strict=True):
            _copy_values(warp, target, source, size)
        return
    values = memory.load(sources, width, size // width, ins, warp, "cp.async")
    places = (targets.astype(np.intp) & OFFSET_MASK)[:, None] // width + np.arange(size // width)
    warp.cta.smem.view(values.dtype)[places] = values


@timed("cp.async.bulk", "cp.reduce.async.bulk", keep=everything)
def _bulk(ins: Instr) -> Action:
    multicast, far = "multicast::cluster" in ins.modifiers, "global" in ins.modifiers

    def load(warp: TimedWarp, mask: Any, target: Any, source: Any, size: Any, barrier: Any, *rest: Any) -> None:
        for lane in active_lanes(mask):
            chosen = of_lane(rest[0], lane) if multicast else None
            destinations = _destinations(warp, ins, of_lane(target, lane), of_lane(barrier, lane), chosen, False)
            count = of_lane(size, lane)
            if far:
                _copy_values(warp, of_lane(target, lane), of_lane(source, lane), count)
                tensor = _allocation(warp, of_lane(source, lane))
                warp.timeline.issues_copy(warp, tensor, count)
                warp.ops.append((_fetch, ins, destinations, count, tensor, lines_of(count)))
            else:
                warp.ops.append((_copy_to_peer, ins, *destinations[0], count))

    def store(warp: TimedWarp, mask: Any, target: Any, source: Any, size: Any, *rest: Any) -> None:
        for lane in active_lanes(mask):
            count = of_lane(size, lane)
            warp.timeline.issues_store(count, STORES)
            warp.ops.append((_store_by_engine, lane, count, lines_of(count)))

    return store if "bulk_group" in ins.modifiers else load


@timed("cp.async.bulk.prefetch", keep=everything)
def _prefetch(ins: Instr) -> Action:
    """Prefetch to L2, in order: later loads of these bytes hit L2."""

    def perform(warp: TimedWarp, now: float, address: int, size: int) -> float:
        _engine(warp, now, 1)
        warp.timeline.prefetch(warp.sm, now, address, size)
        return float(now + warp.timeline.chip.tma_thread)

    def run(warp: TimedWarp, mask: Any, address: Any, size: Any) -> None:
        for lane in active_lanes(mask):
            warp.ops.append((perform, of_lane(address, lane), of_lane(size, lane)))

    return run


@timed("cp.async.bulk.commit_group")
def _bulk_commit(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, lanes: list[int]) -> float:
        for lane in lanes:
            if lane in warp.copies:
                warp.copies[lane].commit()
        return now

    return lambda warp, mask: warp.ops.append((perform, active_lanes(mask)))


@timed("cp.async.bulk.wait_group", keep=everything, delays=True)
def _bulk_wait(ins: Instr) -> Action:
    read = "read" in ins.modifiers

    def perform(warp: TimedWarp, now: float, lanes: list[int], allowed: int) -> float:
        done = max((warp.copies[lane].over(allowed, read) for lane in lanes if lane in warp.copies), default=0.0)
        return idle(warp, now, done, ins, "bulk stores")

    return lambda warp, mask, allowed: warp.ops.append((perform, active_lanes(mask), of_lane(allowed, 0)))


WHOLE_WARP: Final = "cp.async"


@timed("cp.async", keep=first(3))
def _copy(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, size: int, tensor: Tensor | None) -> float:
        timeline, sm, chip = warp.timeline, warp.sm, warp.timeline.chip
        cycles: float = max(1.0, size / chip.smem_bytes_per_cycle)
        sm.lsu = max(sm.lsu, now) + cycles
        sm.use(COPIED_IN, size)
        sent = max(now, warp.sending)
        warp.sending = sent + size / chip.copy_bytes_per_cycle
        done = timeline.load(sm, sent, size, timeline.copies, tensor)
        warp.copies.setdefault(WHOLE_WARP, Copies()).add(done, done)
        return now + cycles

    def run(warp: TimedWarp, mask: Any, target: Any, source: Any, size: int) -> None:
        lanes = list(active_lanes(mask))
        sources = per_lane(source, np.uint64)[lanes]
        _copy_lanes(warp, ins, per_lane(target, np.uint32)[lanes], sources, size)
        tensor = _allocation(warp, int(sources[0]), size)
        warp.timeline.issues_copy(warp, tensor, size * len(lanes), zip(repeat(0), sources.tolist(), strict=False))
        warp.ops.append((perform, size * len(lanes), tensor))

    return run


@timed("cp.async.commit_group")
def _copy_commit(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float) -> float:
        warp.copies.setdefault(WHOLE_WARP, Copies()).commit()
        return now

    return lambda warp, mask: warp.ops.append((perform,))


@timed("cp.async.wait_group", "cp.async.wait_all", keep=everything, blocking=True)
def _copy_wait(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, allowed: int | None) -> float:
        copies = warp.copies.setdefault(WHOLE_WARP, Copies())
        if allowed is None:
            copies.commit()
        warp.wait_result = True
        return idle(warp, now, copies.over(allowed or 0, False), ins, "cp.async")

    def run(warp: TimedWarp, mask: Any, allowed: Any = None) -> Any:
        if warp.wait_result is not None:
            warp.wait_result = None
            return None
        warp.ops.append((perform, None if allowed is None else int(allowed)))
        return BLOCK

    return run


@timed("cp.async.mbarrier.arrive", keep=everything)
def _copy_arrive(ins: Instr) -> Action:
    counts = "noinc" not in ins.modifiers

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, count: int) -> float:
        copies, timeline = warp.copies.setdefault(WHOLE_WARP, Copies()), warp.timeline
        barrier.pending += count * counts
        done = max(now, copies.open[0], *(group[0] for group in copies.groups))
        timeline.at(done, partial(timeline.arrive, barrier, count))
        return float(now + timeline.chip.copy_arrive_cycles)

    def run(warp: TimedWarp, mask: Any, address: Any) -> None:
        for at, lanes in groups(address, mask):
            warp.ops.append((perform, mbarrier(warp, at, ins), len(lanes)))

    return run


@timed("st.async", "red.async", keep=lambda instr: (instr.operands[0], instr.operands[2]))
def _store_async(ins: Instr) -> Action:
    count = next((int(m[1:]) for m in ins.modifiers if m in ("v2", "v4")), 1)
    width = 8 if any(m.endswith("64") for m in ins.modifiers) else 4

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, size: int) -> float:
        timeline = warp.timeline
        timeline.at(now + timeline.chip.peer_arrive_latency, partial(timeline.complete, barrier, size))
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, barrier: Any) -> None:
        for at, lanes in groups(barrier, mask):
            warp.ops.append((perform, mbarrier(warp, at, ins), count * width * len(lanes)))

    return run


@timed("clusterlaunchcontrol.try_cancel", keep=first(2))
def _try_cancel(ins: Instr) -> Action:
    """Request a cluster; the grid is queried when the request arrives, and answer and bytes arrive together."""
    everyone = "multicast::cluster::all" in ins.modifiers

    def perform(warp: TimedWarp, now: float, offset: int, barrier_address: int) -> float:
        timeline = warp.timeline

        def answer(time: float) -> None:
            taken = timeline.cancel_launch()
            words = np.array([taken is not None, *(taken or (0, 0, 0))], np.uint32).view(np.uint8)
            for cta in warp.cta.cluster.ctas if everyone else (warp.cta,):
                cta.smem[offset : offset + words.size] = words
                barrier = mbarrier(warp, barrier_address & OFFSET_MASK | cta.rank << RANK_SHIFT, ins)
                timeline.complete(barrier, words.size, time)

        timeline.at(now + timeline.chip.global_latency, answer)
        return now + 1

    def run(warp: TimedWarp, mask: Any, target: Any, barrier: Any) -> None:
        for lane in active_lanes(mask):
            warp.ops.append((perform, of_lane(target, lane) & OFFSET_MASK, of_lane(barrier, lane)))

    return run


@timed("nanosleep", keep=everything, delays=True)
def _sleep(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, nanoseconds: int) -> float:
        ghz: float = warp.timeline.chip.max_clock_ghz
        warp.sm.use(SLEPT, nanoseconds)
        return now + nanoseconds * ghz

    return lambda warp, mask, time: warp.ops.append((perform, of_lane(time, 0)))
