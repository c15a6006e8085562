"""What the instructions of a skeleton do in modelled time: each a handler that leaves operations for the timeline."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any, Final

import numpy as np

from ..chip import LANES
from ..errors import BarrierError
from ..isa import registry
from ..isa.lane_values import active_lanes, lane_rows, of_lane, per_lane, same
from ..isa.ld_st import REGISTER_BYTES, MemoryOp, extended, if_not_of_each_lane
from ..isa.registry import BLOCK, Action, Handler, Lowering, if_sources_are, never, nobody, operands_only
from ..isa.tcgen05_ld_st import REGISTERS_A_REPEAT
from ..machine.descriptors import KINDS, SCALE_BYTES, InstructionDescriptor, Kind
from ..machine.shared import OFFSET_MASK, RANK_SHIFT
from ..machine.tensormap import MAP_BYTES, TensorMap, decode
from ..ptx.syntax import Address, Imm, Instr, Operand, Reg, TensorAddress, Vector
from .barriers import TimedMBarrier
from .chips import Chip
from .warps import SUB_PARTITIONS, Copies, Sm, Tensor, TimedWarp

STRETCH: Final = "clock.stretch"
ENTRIES: Final[dict[str, Handler]] = {}
KEPT: Final[dict[str, Callable[[Instr], Instr]]] = {}
"""An instruction with the operands that its handler here takes, destinations first."""
HALF_ROWS: Final = 64
TMA_ROWS: Final = 4
"""Of a tile::gather4."""


def find(instr: Instr) -> Handler | Lowering:
    """The entry of a skeleton's instruction."""
    return ENTRIES.get(instr.opcode) or registry.find(instr)


def timed(
    *opcodes: str,
    keep: Callable[[Sequence[Operand]], Sequence[Operand]] = lambda operands: (),
    dst: int = 0,
    blocking: bool = False,
    uniform: Any = never,
) -> Callable[[Callable[[Instr], Action]], Callable[[Instr], Action]]:
    """Register the handler of `opcodes`. keep: the operands that it takes, of those that the instruction has."""

    def kept(instr: Instr) -> Instr:
        return replace(instr, operands=tuple(keep(instr.operands)))

    def register(make: Callable[[Instr], Action]) -> Callable[[Instr], Action]:
        for opcode in opcodes:
            ENTRIES[opcode] = Handler(dst, uniform, operands_only, nobody, make, blocking)
            KEPT[opcode] = kept
        return make

    return register


def first(count: int) -> Callable[[Sequence[Operand]], Sequence[Operand]]:
    """The first so many operands."""
    return lambda operands: operands[:count]


def everything(operands: Sequence[Operand]) -> Sequence[Operand]:
    return operands


@timed(STRETCH, keep=everything)
def _stretch(ins: Instr) -> Action:
    def begin(warp: TimedWarp, now: float, number: int) -> float:
        warp.timeline.begin(warp, number)
        return now

    return lambda warp, mask, number: warp.ops.append((begin, number))


# ---- mbarriers ----


def _mbarrier(warp: TimedWarp, address: int, ins: Instr) -> TimedMBarrier:
    cta, offset = warp.cta.cluster.ctas[address >> RANK_SHIFT & 0xFF], address & OFFSET_MASK
    found = cta.mbarriers.get(offset)
    if found is None and warp.timeline.walks:
        found = cta.mbarriers[offset] = TimedMBarrier("", 1)
    if found is None:
        raise BarrierError(f"no mbarrier at {address:#x}", ins, warp)
    return found


def _groups(address: Any, mask: Any) -> Sequence[tuple[int, Sequence[int]]]:
    at, lanes = same(address, mask), active_lanes(mask)
    if at is not None:
        return [(at, lanes)]
    found: dict[int, list[int]] = {}
    for lane in lanes:
        found.setdefault(int(address[lane]), []).append(lane)
    return list(found.items())


@timed("mbarrier.init", keep=first(2))
def _init(ins: Instr) -> Action:
    """At once: a barrier of the whole CTA follows."""

    def run(warp: TimedWarp, mask: Any, address: Any, count: Any) -> None:
        cta, names = warp.cta, warp.cta.launch.names
        for lane in active_lanes(mask) if isinstance(address, np.ndarray) else (0,):
            offset = of_lane(address, lane) & OFFSET_MASK
            known = names.get(offset - cta.launch.kernel.dynamic_shared_offset)
            name = known or f"mbarrier #{len(cta.mbarriers)} at {offset:#x}"
            cta.mbarriers[offset] = TimedMBarrier(name, of_lane(count, lane))

    return run


@timed("mbarrier.arrive", "mbarrier.arrive_drop", keep=first(3), dst=1)
def _arrive(ins: Instr) -> Action:
    expects, drops = "expect_tx" in ins.modifiers, ins.opcode == "mbarrier.arrive_drop"

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, count: int, tx: int) -> float:
        barrier.expect(tx)
        barrier.expected -= count * drops
        later = now + warp.timeline.chip.arrive_latency
        warp.timeline.at(later, lambda time: warp.timeline.arrive(barrier, count, time))
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, operand: Any = 1) -> int:
        phase = 0
        for at, lanes in _groups(address, mask):
            barrier = _mbarrier(warp, at, ins)
            phase = barrier.phase
            total = sum(of_lane(operand, lane) for lane in lanes)
            warp.ops.append((perform, barrier, len(lanes) if expects else total, total if expects else 0))
        return phase

    return run


@timed("mbarrier.expect_tx", "mbarrier.complete_tx", keep=first(2))
def _tx(ins: Instr) -> Action:
    sign = 1 if ins.opcode == "mbarrier.expect_tx" else -1

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, tx: int) -> float:
        barrier.expect(sign * tx)
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, tx: Any) -> None:
        for at, lanes in _groups(address, mask):
            warp.ops.append((perform, _mbarrier(warp, at, ins), sum(of_lane(tx, lane) for lane in lanes)))

    return run


@timed("mbarrier.try_wait", "mbarrier.test_wait", keep=first(3), dst=1, blocking=True, uniform=if_sources_are)
def _wait(ins: Instr) -> Action:
    """try_wait suspends the warp until the phase is over; test_wait answers."""
    parity, waits = "parity" in ins.modifiers, ins.opcode == "mbarrier.try_wait"

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, wanted: int) -> float | None:
        now += warp.timeline.chip.try_wait_latency
        if barrier.is_over(wanted, parity):
            warp.granted = True
        elif waits:
            warp.since = now, ins, barrier.name
            barrier.waiters.append(warp)
            return None
        else:
            warp.granted = False
        return now

    def run(warp: TimedWarp, mask: Any, address: Any, phase: Any) -> Any:
        if warp.granted is not None:
            answer, warp.granted = warp.granted, None
            return answer
        for at, lanes in _groups(address, mask)[:1]:
            warp.ops.append((perform, _mbarrier(warp, at, ins), of_lane(phase, lanes[0]) & 0xFFFF_FFFF))
        return BLOCK

    return run


# ---- barriers of warps ----


@timed("bar.sync", "bar", "barrier.sync", "barrier.cta", keep=everything, blocking=True)
def _sync(ins: Instr) -> Action:
    def run(warp: TimedWarp, mask: Any, index: Any, threads: Any = None) -> Any:
        if warp.granted is not None:
            warp.granted = None
            return None
        warp.ops.append((_meet, ins, *_named(mask, index, threads)))
        return BLOCK

    return run


@timed("bar.red", "barrier.red", keep=everything, dst=1, blocking=True)
def _vote(ins: Instr) -> Action:
    """The votes are data: nobody votes."""

    def run(warp: TimedWarp, mask: Any, index: Any, *rest: Any) -> Any:
        if warp.granted is not None:
            warp.granted = None
            return 0
        warp.ops.append((_meet, ins, *_named(mask, index, rest[0] if len(rest) == 2 else None)))
        return BLOCK

    return run


@timed("bar.arrive", "barrier.arrive", keep=everything)
def _bar_arrive(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, index: int, threads: int | None) -> float:
        _come(warp, now, index, threads)
        return now + 1

    return lambda warp, mask, index, threads: warp.ops.append((perform, *_named(mask, index, threads)))


def _named(mask: Any, index: Any, threads: Any) -> tuple[int, int | None]:
    lane = active_lanes(mask)[0]
    return of_lane(index, lane), None if threads is None else of_lane(threads, lane)


def _come(warp: TimedWarp, now: float, index: int, threads: int | None) -> bool:
    """One warp comes to a named barrier; whether it was the last."""
    cta, timeline = warp.cta, warp.timeline
    needed = threads if threads is not None else cta.running * LANES
    gone = cta.barriers[index].arrive(LANES, needed)
    if gone is None:
        return False
    chip: Chip = timeline.chip
    timeline.wake(gone, now, chip.barrier_latency + chip.barrier_warp_cycles * needed / LANES)
    return True


def _meet(warp: TimedWarp, now: float, ins: Instr, index: int, threads: int | None) -> float | None:
    if _come(warp, now, index, threads):
        warp.granted = True
        return now + float(warp.timeline.chip.barrier_latency)
    barrier = warp.cta.barriers[index]
    barrier.waiters.append(warp)
    warp.since = now, ins, barrier.name
    return None


@timed("barrier.cluster", blocking=True)
def _cluster(ins: Instr) -> Action:
    def arrive(warp: TimedWarp, now: float) -> float:
        cluster, timeline = warp.cta.cluster, warp.timeline
        gone = cluster.barrier.arrive(1, cluster.running)
        if gone is not None:
            timeline.wake(gone, now, timeline.chip.cluster_barrier_latency)
        return now + 1

    def wait(warp: TimedWarp, now: float, generation: int) -> float | None:
        barrier = warp.cta.cluster.barrier
        if barrier.generation > generation:
            warp.granted = True
            return now
        barrier.waiters.append(warp)
        warp.since = now, ins, barrier.name
        return None

    def run(warp: TimedWarp, mask: Any) -> Any:
        if "arrive" in ins.modifiers:
            warp.ops.append((arrive,))
            warp.cluster_generation = warp.cta.cluster.barrier.generation
            return None
        if warp.granted is not None:
            warp.granted = None
            return None
        warp.ops.append((wait, warp.cluster_generation))
        return BLOCK

    return run


# ---- the tensor core ----


@lru_cache(maxsize=1024)
def mma_times(chip: Chip, kind: Kind, ctas: int, a_in_tmem: bool, scaled: bool, bits: int) -> tuple[float, ...]:
    """(interval, latency, cycles of computing, flops) of one tcgen05.mma, on each SM that takes part but the flops."""
    idesc = InstructionDescriptor.decode(bits, kind)
    rows = idesc.m // ctas
    half = ctas == 2 and rows == HALF_ROWS
    compute = idesc.n / chip.mma_columns_per_cycle / (2 if half else 1)
    a = 0.0 if a_in_tmem else rows * kind.k_bytes / chip.smem_bytes_per_cycle
    b = idesc.n // ctas * kind.k_bytes / chip.smem_bytes_per_cycle
    pair = chip.mma_pair_smem if ctas == 2 and not half and not a_in_tmem else 0.0
    latency = chip.mma_latency if ctas == 1 else chip.mma_pair_latency
    latency += chip.mma_pair_half_latency * half + chip.mma_scaled_latency * scaled
    least = chip.mma_pair_least if half else 0.0
    return max(compute, a + b + pair, least), latency + a + compute, compute, 2.0 * idesc.m * idesc.n * kind.k


@timed("tcgen05.mma", keep=lambda operands: (operands[3], Imm(isinstance(operands[1], Address))))
def _mma(ins: Instr) -> Action:
    kind = next(KINDS[m] for m in ins.modifiers if m in KINDS)
    ctas, scaled = 2 if "cta_group::2" in ins.modifiers else 1, "block_scale" in ins.modifiers

    def perform(warp: TimedWarp, now: float, bits: int, a_in_tmem: int) -> float:
        timeline, chip = warp.timeline, warp.timeline.chip
        interval, latency, compute, flops = mma_times(chip, kind, ctas, bool(a_in_tmem), scaled, bits)
        start = _queue(warp, now, ctas, interval, compute)
        warp.sm.use("flops", flops)
        warp.tensor_done = start + latency - chip.wake_latency - chip.try_wait_latency
        if timeline.recorder is not None:
            timeline.recorder.tensor(warp, ins, start, start + interval)
        return now + 1

    def run(warp: TimedWarp, mask: Any, idesc: Any, a_in_tmem: int) -> None:
        for lane in active_lanes(mask):
            bits = of_lane(idesc, lane)
            warp.ops.append((perform, bits & ~SCALE_BYTES if scaled else bits, a_in_tmem))

    return run


def _queue(warp: TimedWarp, now: float, ctas: int, interval: float, compute: float) -> float:
    """Put work in the queue of an SM's tensor core, or of a pair's; when it starts."""
    sms = [warp.sm]
    if ctas == 2:
        first = warp.cta.rank & ~1
        sms = [cta.sm for cta in warp.cta.cluster.ctas[first : first + 2]]
    start = max(now, *(sm.tensor for sm in sms))
    for sm in sms:
        sm.tensor = start + interval
        sm.use("tensor core", compute)
    return start


@timed("tcgen05.cp", "tcgen05.shift")
def _tensor_copy(ins: Instr) -> Action:
    """In the queue of the tensor core: so many bytes as it writes to tensor memory, at the rate of shared memory."""
    ctas = 2 if "cta_group::2" in ins.modifiers else 1
    rows, bits = next((m[:-1].split("x") for m in ins.modifiers if m[0].isdigit() and m.endswith("b")), ("128", "256"))
    size = int(rows) * int(bits) // 8

    def perform(warp: TimedWarp, now: float) -> float:
        cycles = size / warp.timeline.chip.smem_bytes_per_cycle
        warp.tensor_done = _queue(warp, now, ctas, cycles, 0.0) + cycles
        return now + 1

    return lambda warp, mask: warp.ops.extend([(perform,)] * len(active_lanes(mask)))


@timed("tcgen05.commit", keep=everything)
def _commit(ins: Instr) -> Action:
    multicast = "multicast::cluster" in ins.modifiers

    def perform(warp: TimedWarp, now: float, barriers: list[TimedMBarrier]) -> float:
        timeline = warp.timeline
        done = max(now + timeline.chip.mma_group_overhead, warp.tensor_done)
        for barrier in barriers:
            timeline.at(done, partial(timeline.arrive, barrier, 1))
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, targets: Any = 0) -> None:
        for lane in active_lanes(mask):
            at = of_lane(address, lane)
            named = [rank for rank in range(16) if of_lane(targets, lane) >> rank & 1]
            ranks = named if multicast else [at >> RANK_SHIFT & 0xFF]
            barriers = [_mbarrier(warp, at & OFFSET_MASK | rank << RANK_SHIFT, ins) for rank in ranks]
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
    shape = next(m for m in ins.modifiers if m in REGISTERS_A_REPEAT)
    count = next(int(m[1:]) for m in ins.modifiers if m[0] == "x" and m[1:].isdecimal())
    size, loads = 4 * LANES * REGISTERS_A_REPEAT[shape] * count, ins.opcode == "tcgen05.ld"

    def perform(warp: TimedWarp, now: float) -> float:
        chip, port = warp.timeline.chip, warp.index % SUB_PARTITIONS
        taken = max(now, warp.sm.tmem[port]) + size / chip.tmem_bytes_per_cycle
        warp.sm.tmem[port] = taken
        warp.sm.use("tensor memory", size / chip.tmem_bytes_per_cycle)
        if loads:
            warp.loads_done = taken + chip.tmem_latency
        else:
            warp.stores_done = taken + chip.tmem_latency
        return now + 1

    return lambda warp, mask: warp.ops.append((perform,))


@timed("tcgen05.wait::ld", "tcgen05.wait::st")
def _tensor_wait(ins: Instr) -> Action:
    loads = ins.opcode.endswith("ld")

    def perform(warp: TimedWarp, now: float) -> float:
        done = warp.loads_done if loads else warp.stores_done
        return _idle(warp, now, done, ins, "tensor memory")

    return lambda warp, mask: warp.ops.append((perform,))


def _idle(warp: TimedWarp, now: float, done: float, ins: Instr, what: str) -> float:
    """Wait until a time that is known."""
    if done <= now:
        return now
    warp.waited(ins, what, done - now)
    if warp.timeline.recorder is not None:
        warp.timeline.recorder.waited(warp, ins, what, now, done)
    return done


# ---- copies ----


def _tensor(warp: TimedWarp, address: int) -> Tensor:
    """What the tensor map at an address describes."""
    known: dict[int, Tensor] = warp.timeline.tensors
    if address not in known:
        tensor = decode(ctypes.string_at(address, MAP_BYTES))
        known[address] = Tensor(tensor.address, tensor_bytes(tensor), tensor.box_bytes)
    return known[address]


def _tma_operands(operands: Sequence[Operand]) -> Sequence[Operand]:
    """(destination, map, mbarrier, mask) of a load, (map, source) of a store."""
    match operands[:2]:
        case (TensorAddress(at), source):
            return at, source
        case (target, TensorAddress(at)):
            return target, at, *operands[2:4]
    raise ValueError(f"a copy of {', '.join(map(str, operands))}")


@timed("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", keep=_tma_operands)
def _tma(ins: Instr) -> Action:
    boxes = TMA_ROWS if {"tile::gather4", "tile::scatter4"} & set(ins.modifiers) else 1
    multicast, paired = "multicast::cluster" in ins.modifiers, "cta_group::2" in ins.modifiers

    def load(warp: TimedWarp, mask: Any, target: Any, at: Any, barrier: Any, ranks: Any = 0) -> None:
        for lane in active_lanes(mask):
            tensor = _tensor(warp, of_lane(at, lane))
            chosen = of_lane(ranks, lane) if multicast else None
            told = _told(warp, ins, of_lane(target, lane), of_lane(barrier, lane), chosen, paired)
            _load(warp, ins, told, tensor.box_bytes * boxes, tensor)

    def store(warp: TimedWarp, mask: Any, at: Any, source: Any) -> None:
        """Lanes that store the same bytes are one copy."""
        for (place, _), lane in {(of_lane(at, n), of_lane(source, n)): n for n in active_lanes(mask)}.items():
            warp.ops.append((_send, lane, _tensor(warp, place).box_bytes * boxes))

    return store if "bulk_group" in ins.modifiers else load


def tensor_bytes(tensor: TensorMap) -> int:
    """Bytes of the tensor of a map, each once: a dimension without stride repeats what is there."""
    sizes = (dim for dim, stride in zip(tensor.dims, tensor.strides, strict=True) if stride)
    return prod(sizes) * tensor.width


Told = list[tuple[Sm, TimedMBarrier]]


def _told(warp: TimedWarp, ins: Instr, target: int, barrier: int, ranks: int | None, paired: bool) -> Told:
    """The SM that each copy goes to, and the mbarrier that it is told to."""
    ctas, signalled = warp.cta.cluster.ctas, barrier >> RANK_SHIFT & 0xFF
    if ranks is None:
        copies = [(target >> RANK_SHIFT & 0xFF, signalled)]
    else:
        copies = [(r, r & ~1 | signalled & 1 if paired else r) for r in range(16) if ranks >> r & 1]
    offset = barrier & OFFSET_MASK
    return [(ctas[to].sm, _mbarrier(warp, offset | told << RANK_SHIFT, ins)) for to, told in copies]


def _load(warp: TimedWarp, ins: Instr, told: Told, size: int, tensor: Tensor | None) -> None:
    warp.loaded += size
    if tensor is not None:
        warp.timeline.loaded[tensor] = warp.timeline.loaded.get(tensor, 0) + size
    warp.ops.append((_fetch, ins, told, size, tensor))


def _engine(warp: TimedWarp, now: float) -> float:
    """When the SM's copy engine has taken a copy."""
    sm, chip = warp.sm, warp.timeline.chip
    sm.tma = max(sm.tma, now) + chip.tma_issue
    sm.use("TMA", chip.tma_issue)
    return float(sm.tma)


def _fetch(warp: TimedWarp, now: float, ins: Instr, told: Told, size: int, tensor: Tensor | None) -> float:
    """A load by the copy engine. One that goes to several SMs is fetched once."""
    timeline = warp.timeline
    taken = _engine(warp, now)
    from_hbm = timeline.from_hbm(tensor) / len(told)
    done = max(timeline.load(sm, taken, size, timeline.chip.tma_latency, from_hbm) for sm, _ in told)
    for _, barrier in told:
        timeline.at(done, partial(timeline.complete, barrier, size))
    if timeline.recorder is not None:
        timeline.recorder.copied(warp, ins, now, done, size)
    return now + 1


def _send(warp: TimedWarp, now: float, lane: int, size: int) -> float:
    """A store by the copy engine, in the lane's open group."""
    sm, timeline = warp.sm, warp.timeline
    taken = _engine(warp, now)
    done = timeline.store(sm, taken, size)
    warp.copies.setdefault(lane, Copies()).add(done, taken + size / timeline.chip.smem_bytes_per_cycle)
    return now + 1


def _bring(warp: TimedWarp, target: int, source: int, size: int) -> None:
    """What is copied is there when it is loaded, for it may decide where warps go."""
    offset, memory = target & OFFSET_MASK, warp.cta.launch.memory
    if memory.known(source, source + size) is not None:
        warp.cta.smem[offset : offset + size] = np.frombuffer(ctypes.string_at(source, size), np.uint8)


@timed("cp.async.bulk", "cp.reduce.async.bulk", keep=everything)
def _bulk(ins: Instr) -> Action:
    multicast = "multicast::cluster" in ins.modifiers

    def load(warp: TimedWarp, mask: Any, target: Any, source: Any, size: Any, barrier: Any, *rest: Any) -> None:
        for lane in active_lanes(mask):
            chosen = of_lane(rest[0], lane) if multicast else None
            told = _told(warp, ins, of_lane(target, lane), of_lane(barrier, lane), chosen, False)
            count = of_lane(size, lane)
            if "global" in ins.modifiers:
                _bring(warp, of_lane(target, lane), of_lane(source, lane), count)
            _load(warp, ins, told, count, None)

    def store(warp: TimedWarp, mask: Any, target: Any, source: Any, size: Any, *rest: Any) -> None:
        for lane in active_lanes(mask):
            warp.ops.append((_send, lane, of_lane(size, lane)))

    return store if "bulk_group" in ins.modifiers else load


@timed("cp.async.bulk.commit_group")
def _bulk_commit(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, lanes: list[int]) -> float:
        for lane in lanes:
            if lane in warp.copies:
                warp.copies[lane].commit()
        return now

    return lambda warp, mask: warp.ops.append((perform, active_lanes(mask)))


@timed("cp.async.bulk.wait_group", keep=everything)
def _bulk_wait(ins: Instr) -> Action:
    read = "read" in ins.modifiers

    def perform(warp: TimedWarp, now: float, lanes: list[int], allowed: int) -> float:
        done = max((warp.copies[lane].over(allowed, read) for lane in lanes if lane in warp.copies), default=0.0)
        return _idle(warp, now, done, ins, "bulk stores")

    return lambda warp, mask, allowed: warp.ops.append((perform, active_lanes(mask), of_lane(allowed, 0)))


WHOLE_WARP: Final = "cp.async"


@timed("cp.async", keep=first(3))
def _copy(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, size: int) -> float:
        timeline, sm = warp.timeline, warp.sm
        cycles: float = max(1.0, size / timeline.chip.smem_bytes_per_cycle)
        sm.lsu = max(sm.lsu, now) + cycles
        done = timeline.load(sm, now, size, timeline.chip.copy_latency, 1.0)
        warp.copies.setdefault(WHOLE_WARP, Copies()).add(done, done)
        return now + cycles

    def run(warp: TimedWarp, mask: Any, target: Any, source: Any, size: int) -> None:
        lanes = active_lanes(mask)
        for lane in lanes:
            _bring(warp, of_lane(target, lane), of_lane(source, lane), size)
        warp.loaded += size * len(lanes)
        warp.ops.append((perform, size * len(lanes)))

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
        warp.granted = True
        return _idle(warp, now, copies.over(allowed or 0, False), ins, "cp.async")

    def run(warp: TimedWarp, mask: Any, allowed: Any = None) -> Any:
        if warp.granted is not None:
            warp.granted = None
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
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any) -> None:
        for at, lanes in _groups(address, mask):
            warp.ops.append((perform, _mbarrier(warp, at, ins), len(lanes)))

    return run


@timed("st.async", "red.async", keep=lambda operands: (operands[0], operands[2]))
def _store_async(ins: Instr) -> Action:
    count = next((int(m[1:]) for m in ins.modifiers if m in ("v2", "v4")), 1)
    width = 8 if any(m.endswith("64") for m in ins.modifiers) else 4

    def perform(warp: TimedWarp, now: float, barrier: TimedMBarrier, size: int) -> float:
        timeline = warp.timeline
        timeline.at(now + timeline.chip.cluster_barrier_latency, partial(timeline.complete, barrier, size))
        return now + 1

    def run(warp: TimedWarp, mask: Any, address: Any, barrier: Any) -> None:
        for at, lanes in _groups(barrier, mask):
            warp.ops.append((perform, _mbarrier(warp, at, ins), count * width * len(lanes)))

    return run


@timed("clusterlaunchcontrol.try_cancel", keep=first(2))
def _try_cancel(ins: Instr) -> Action:
    """The answer is there with its bytes: what is asked of the grid is asked when it arrives."""
    everyone = "multicast::cluster::all" in ins.modifiers

    def perform(warp: TimedWarp, now: float, offset: int, told: int) -> float:
        timeline = warp.timeline

        def answer(time: float) -> None:
            taken = timeline.take_over()
            words = np.array([taken is not None, *(taken or (0, 0, 0))], np.uint32).view(np.uint8)
            for cta in warp.cta.cluster.ctas if everyone else (warp.cta,):
                cta.smem[offset : offset + words.size] = words
                barrier = _mbarrier(warp, told & OFFSET_MASK | cta.rank << RANK_SHIFT, ins)
                timeline.complete(barrier, words.size, time)

        timeline.at(now + timeline.chip.global_latency, answer)
        return now + 1

    def run(warp: TimedWarp, mask: Any, target: Any, barrier: Any) -> None:
        for lane in active_lanes(mask):
            warp.ops.append((perform, of_lane(target, lane) & OFFSET_MASK, of_lane(barrier, lane)))

    return run


@timed("nanosleep", keep=everything)
def _sleep(ins: Instr) -> Action:
    def perform(warp: TimedWarp, now: float, nanoseconds: int) -> float:
        ghz: float = warp.timeline.chip.max_clock_ghz
        return now + nanoseconds * ghz

    return lambda warp, mask, time: warp.ops.append((perform, of_lane(time, 0)))


# ---- what decides where warps go, in memory ----


def _places(op: MemoryOp, warp: TimedWarp, mask: Any, address: Any) -> tuple[np.ndarray, np.ndarray]:
    lanes = np.array(active_lanes(mask))
    return lanes, per_lane(address, np.uint64)[lanes].astype(np.uint64)


def _memory(op: MemoryOp, warp: TimedWarp, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The CTA's shared memory as elements, and where in it: int[lanes, elements]."""
    rank = int(addresses[0]) >> RANK_SHIFT & 0xFF
    view = warp.cta.cluster.ctas[rank].smem.view(f"u{op.width}")
    return view, (addresses.astype(np.int64) & OFFSET_MASK)[:, None] // op.width + np.arange(op.count)


@timed("ld", keep=first(2), dst=1, blocking=True, uniform=if_not_of_each_lane)
def _ld(ins: Instr) -> Action:
    op = MemoryOp(ins)
    target = ins.operands[0]
    registers = target.items if isinstance(target, Vector) else (target,)
    widths = [REGISTER_BYTES[r.type] if isinstance(r, Reg) else op.width for r in registers]

    def perform(warp: TimedWarp, now: float) -> float:
        warp.granted = True
        chip = warp.timeline.chip
        latency = chip.shared_latency if op.space == "shared" else chip.l2_latency
        return _idle(warp, now, now + latency, ins, f"ld.{op.space}")

    def run(warp: TimedWarp, mask: Any, address: Any) -> Any:
        if warp.granted is None:
            warp.ops.append((perform,))
            return BLOCK
        warp.granted = None
        lanes, addresses = _places(op, warp, mask, address)
        if op.space == "shared":
            view, index = _memory(op, warp, addresses)
            values = view[index]
        elif op.space == "global":
            values = warp.cta.launch.memory.load(addresses, op.width, op.count, ins, warp, op.what)
        else:
            values = np.zeros((len(lanes), op.count), f"u{op.width}")
        full = np.zeros((LANES, op.count), values.dtype)
        full[lanes] = values
        columns = [extended(op, np.ascontiguousarray(full[:, i]), w) for i, w in enumerate(widths)]
        return columns[0] if len(columns) == 1 else tuple(columns)

    return run


@timed("st", keep=first(2))
def _st(ins: Instr) -> Action:
    op = MemoryOp(ins)

    def run(warp: TimedWarp, mask: Any, address: Any, value: Any) -> None:
        lanes, addresses = _places(op, warp, mask, address)
        if op.space == "shared":
            view, index = _memory(op, warp, addresses)
            view[index] = lane_rows(value, op.count, np.dtype(f"u{op.width}"))[lanes]

    return run
