"""cp.async.bulk, cp.async.bulk.tensor and cp.reduce.async.bulk.tensor: TMA and bulk copies, and their groups."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from emulator.errors import DescriptorError, OutOfBounds, UnknownInstruction
from emulator.isa.barriers import mbarrier_at
from emulator.isa.modifiers import CACHE_HINT, CTA_GROUP, SHARED, active, of_lane, pick
from emulator.isa.registry import BLOCK, Run, executes
from emulator.isa.tensor import reachable
from emulator.isa.tensor_map import check_acquired
from emulator.machine.bulk import aligned, bulk_thread, fill, load_box, store_box
from emulator.machine.clocks import Access
from emulator.machine.globalmem import host_bytes
from emulator.machine.shared import OFFSET_MASK, RANK_SHIFT
from emulator.machine.tensormap import MAP_BYTES, TensorMap, decode
from emulator.machine.warp import Wait
from emulator.ptx.syntax import Instr

if TYPE_CHECKING:
    from emulator.machine.cta import Cta
    from emulator.machine.mbarrier import MBarrier
    from emulator.machine.warp import Warp

DIMENSIONS: Final = frozenset({"1d", "2d", "3d", "4d", "5d"})
GLOBAL: Final = frozenset({"global"})
COMPLETE_TX: Final = frozenset({"mbarrier::complete_tx::bytes"})
MULTICAST: Final = frozenset({"multicast::cluster"})
BULK_GROUP: Final = frozenset({"bulk_group"})
REDUCTIONS: Final = frozenset({"add", "min", "max", "inc", "dec", "and", "or", "xor"})
BULK_ALIGNMENT: Final = 16
GATHERED: Final = 4


def tensor_map(ins: Instr, warp: Warp, address: int) -> TensorMap:
    """The tensor map at a host address. Raises DescriptorError, or MissingProxyFence for one changed by the kernel."""
    launch = warp.cta.launch
    as_parameter = 0 <= address - launch.params_address <= len(launch.param_bytes) - MAP_BYTES
    if as_parameter and (known := launch.registry.get(("tensor map", address))) is not None:
        return known
    if not as_parameter:
        launch.memory.readable(address, address + MAP_BYTES, ins, warp, f"the tensor map of {ins.opcode}")
        check_acquired(ins, warp, address)
    try:
        decoded = decode(ctypes.string_at(address, MAP_BYTES))
    except ValueError as why:
        raise DescriptorError(f"{ins.opcode}: {why}", ins, warp) from None
    if as_parameter:
        launch.registry["tensor map", address] = decoded
    return decoded


def _coordinates(tensor: TensorMap, raw: Any, lane: int, ins: Instr, warp: Warp) -> tuple[int, ...]:
    values = _values(raw, lane)
    if len(values) != len(tensor.dims):
        raise DescriptorError(
            f"{ins.opcode} with {len(values)} coordinates for a tensor map of {len(tensor.dims)} dimensions", ins, warp
        )
    return _counted(tensor, values, ins, warp)


def _counted(tensor: TensorMap, values: tuple[int, ...], ins: Instr, warp: Warp) -> tuple[int, ...]:
    try:
        return tensor.counted(values)
    except ValueError as why:
        raise DescriptorError(f"{ins.opcode}: {why}", ins, warp) from None


def _gathered(tensor: TensorMap, raw: Any, lane: int, ins: Instr, warp: Warp) -> list[tuple[int, int]]:
    """Coordinates of the four rows of a gather, (column, row) each."""
    values = _values(raw, lane)
    if len(values) != 1 + GATHERED or len(tensor.dims) != 2 or tensor.box[1] != 1:
        raise DescriptorError(
            f"{ins.opcode} gathering {GATHERED} rows takes a column, {GATHERED} rows and a tensor map of 2 dimensions "
            f"with a box of 1 row; here are {len(values)} coordinates and a box of {tensor.box}",
            ins,
            warp,
        )
    column = _counted(tensor, values[:1], ins, warp)[0]
    return [(column, row) for row in values[1:]]


def _values(raw: Any, lane: int) -> tuple[int, ...]:
    return tuple(_signed(of_lane(c, lane)) for c in raw)


def _signed(value: int) -> int:
    return (value & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000


@executes("cp.async.bulk.tensor")
def _tensor_copy(ins: Instr) -> Run:
    return _tensor_store(ins) if "bulk_group" in ins.modifiers else _tensor_load(ins)


def _tensor_load(ins: Instr) -> Run:
    _, _, _, form, _, multicast, group, _ = pick(
        ins, DIMENSIONS, SHARED, GLOBAL, {"tile", "tile::gather4"}, COMPLETE_TX, MULTICAST, CTA_GROUP, CACHE_HINT
    )
    paired = group == "cta_group::2"

    def run(warp: Warp, mask: Any, target: Any, at: Any, box: Any, barrier: Any, *rest: Any) -> None:
        for lane in active(mask):
            tensor = tensor_map(ins, warp, of_lane(at, lane))
            boxes: list[tuple[int, ...]]
            if form == "tile::gather4":
                boxes = [*_gathered(tensor, box, lane, ins, warp)]
            else:
                boxes = [_coordinates(tensor, box, lane, ins, warp)]
            ranks = of_lane(rest[0], lane) if multicast else None
            for cta, offset, told in _targets(ins, warp, of_lane(target, lane), of_lane(barrier, lane), ranks, paired):
                for i, coordinates in enumerate(boxes):
                    load_box(ins, warp, tensor, coordinates, cta, offset + i * tensor.shared_bytes, told)

    return run


def _targets(
    ins: Instr, warp: Warp, target: int, barrier: int, ranks: int | None, paired: bool
) -> list[tuple[Cta, int, MBarrier]]:
    """(CTA, offset, mbarrier) of each copy: one, or one for each bit of `ranks` at the same offsets."""
    ctas = warp.cta.cluster.ctas
    if ranks is None:
        told = mbarrier_at(warp, barrier, ins)
        reachable(told, ins, warp)
        return [(_cta(ins, warp, target >> RANK_SHIFT & 0xFF), target & OFFSET_MASK, told)]
    found = []
    for rank in (r for r in range(16) if ranks >> r & 1):
        cta = _cta(ins, warp, rank)
        signalled = rank & ~1 | barrier >> RANK_SHIFT & 1 if paired else rank
        told = mbarrier_at(warp, barrier & OFFSET_MASK | signalled << RANK_SHIFT, ins)
        reachable(told, ins, warp)
        found.append((cta, target & OFFSET_MASK, told))
    assert ctas
    return found


def _cta(ins: Instr, warp: Warp, rank: int) -> Cta:
    ctas = warp.cta.cluster.ctas
    if rank >= len(ctas):
        raise OutOfBounds(f"{ins.opcode} to CTA rank {rank} of a cluster of {len(ctas)}", ins, warp)
    return ctas[rank]


def _tensor_store(ins: Instr) -> Run:
    pick(ins, DIMENSIONS, GLOBAL, SHARED, {"tile"}, BULK_GROUP, CACHE_HINT)
    return _storing(ins, None)


@executes("cp.reduce.async.bulk.tensor")
def _tensor_reduce(ins: Instr) -> Run:
    _, _, _, reduction, _, _, _ = pick(ins, DIMENSIONS, GLOBAL, SHARED, REDUCTIONS, {"tile"}, BULK_GROUP, CACHE_HINT)
    return _storing(ins, reduction)


def _storing(ins: Instr, reduction: str | None) -> Run:
    """Lanes that store the same box write the same bytes: it is moved once. Reductions count for each lane."""

    def run(warp: Warp, mask: Any, at: Any, box: Any, source: Any, _policy: Any = None) -> None:
        done: set[tuple[Any, ...]] = set()
        for lane in active(mask):
            tensor = tensor_map(ins, warp, of_lane(at, lane))
            coordinates = _coordinates(tensor, box, lane, ins, warp)
            offset = of_lane(source, lane) & OFFSET_MASK
            if reduction is not None or (tensor, coordinates, offset) not in done:
                done.add((tensor, coordinates, offset))
                store_box(ins, warp, lane, tensor, coordinates, offset, reduction)

    return run


@executes("cp.async.bulk")
def _bulk(ins: Instr) -> Run:
    if "bulk_group" in ins.modifiers:
        pick(ins, GLOBAL, SHARED, BULK_GROUP, CACHE_HINT)
        return _bulk_out(ins)
    target = ins.modifiers[0]
    if "global" in ins.modifiers:
        pick(ins, SHARED, GLOBAL, COMPLETE_TX, MULTICAST, CACHE_HINT)
        return _bulk_in(ins)
    if target != "shared::cluster" or "shared::cta" not in ins.modifiers:
        raise UnknownInstruction(ins, "this direction")
    pick(ins, {"shared::cluster"}, {"shared::cta"}, COMPLETE_TX)
    return _bulk_across(ins)


def _bulk_in(ins: Instr) -> Run:
    multicast = "multicast::cluster" in ins.modifiers

    def run(warp: Warp, mask: Any, target: Any, source: Any, size: Any, barrier: Any, *rest: Any) -> None:
        memory = warp.cta.launch.memory
        for lane in active(mask):
            address, count = of_lane(source, lane), of_lane(size, lane)
            aligned(address | count | of_lane(target, lane), BULK_ALIGNMENT, "a bulk copy", ins, warp)
            memory.readable(address, address + count, ins, warp, "a bulk copy")
            ranks = of_lane(rest[0], lane) if multicast else None
            for cta, offset, told in _targets(ins, warp, of_lane(target, lane), of_lane(barrier, lane), ranks, False):

                def move(cta: Cta = cta, offset: int = offset, address: int = address, count: int = count) -> None:
                    cta.smem.bytes[offset : offset + count] = np.frombuffer(ctypes.string_at(address, count), np.uint8)

                fill(ins, warp, cta, offset, count, told, "a bulk copy", move)

    return run


def _bulk_out(ins: Instr) -> Run:
    def run(warp: Warp, mask: Any, target: Any, source: Any, size: Any, _policy: Any = None) -> None:
        memory, smem = warp.cta.launch.memory, warp.cta.smem
        for lane in active(mask):
            address, count, offset = of_lane(target, lane), of_lane(size, lane), of_lane(source, lane) & OFFSET_MASK
            aligned(address | count | offset, BULK_ALIGNMENT, "a bulk store", ins, warp)
            memory.writable(address, address + count, ins, warp, "a bulk store")
            smem.check_span(offset, count, ins, warp, "a bulk store")
            warp.cta.launch.stats.copied_out_bytes += count
            copies = bulk_thread(warp, lane)
            smem.shadow.read(smem.span(offset, count), copies.access(ins, "a bulk store"), warp.clock)

            def move(address: int = address, count: int = count, offset: int = offset) -> None:
                there = host_bytes(address, count)
                there[:] = smem.bytes[offset : offset + count]
                memory.wrote(there)

            copies.issue(ins, move)

    return run


def _bulk_across(ins: Instr) -> Run:
    def run(warp: Warp, mask: Any, target: Any, source: Any, size: Any, barrier: Any) -> None:
        smem = warp.cta.smem
        for lane in active(mask):
            count, offset = of_lane(size, lane), of_lane(source, lane) & OFFSET_MASK
            aligned(count | offset | of_lane(target, lane), BULK_ALIGNMENT, "a bulk copy", ins, warp)
            ((cta, there, told),) = _targets(ins, warp, of_lane(target, lane), of_lane(barrier, lane), None, False)
            smem.check_span(offset, count, ins, warp, "a bulk copy")
            reading = Access(told.component, told.phase + 1, False, ins, warp, "a bulk copy", via=told)
            smem.shadow.read(smem.span(offset, count), reading, warp.clock)

            def move(cta: Cta = cta, there: int = there, offset: int = offset, count: int = count) -> None:
                cta.smem.bytes[there : there + count] = smem.bytes[offset : offset + count]

            fill(ins, warp, cta, there, count, told, "a bulk copy", move)

    return run


@executes("cp.async.bulk.prefetch", "cp.async.bulk.prefetch.tensor")
def _prefetch(ins: Instr) -> Run:
    pick(ins, DIMENSIONS, {"L2"}, GLOBAL, {"tile"}, CACHE_HINT)
    return lambda warp, mask, *_operands: None


@executes("cp.async.bulk.commit_group")
def _commit(ins: Instr) -> Run:
    pick(ins)

    def run(warp: Warp, mask: Any) -> None:
        for lane in active(mask):
            if lane in warp.bulk:
                warp.bulk[lane].commit()

    return run


@executes("cp.async.bulk.wait_group", blocking=True)
def _wait(ins: Instr) -> Run:
    pick(ins, {"read"})

    def run(warp: Warp, mask: Any, allowed: Any) -> Any:
        threads = [warp.bulk[lane] for lane in active(mask) if lane in warp.bulk]
        count = of_lane(allowed, 0)
        waited_for = [group for t in threads for group in t.unfinished(count)]
        if waited_for:
            for group in waited_for:
                group.waiters.append(warp)
            warp.waiting = Wait(ins, tuple(waited_for), lambda: f"{len(waited_for)} bulk groups")
            return BLOCK
        for t in threads:
            t.waited(count)
        return None

    return run
