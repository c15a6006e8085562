"""TMA: boxes of tensors (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their prefetch)."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from ..errors import BarrierError, DescriptorError, EmulatorError, UnknownInstruction
from ..machine.agents.boxes import LOAD, STORE, TMA_ALIGNMENT, Route, issue_loads, load_access, load_boxes, store_boxes
from ..machine.agents.bulk import aligned, bulk_thread
from ..machine.formats.tensormap import MAP_BYTES, TensorMap, decode
from ..machine.launch.launch import Launch
from ..machine.synchronisation.mbarrier import MBarrier
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Instr
from .cp_async_bulk import BULK_GROUP, COMPLETE_TX, GLOBAL, MULTICAST, REDUCTIONS, targets
from .lane_values import active_lanes, of_lane
from .registry import CACHE_HINT, CTA_GROUP, SHARED, Action, Modifiers, Publishes, executes, never_communicates
from .tensormap import check_acquired, record_use

IM2COL: Final = "im2col"
DIMENSIONS: Final = frozenset({"1d", "2d", "3d", "4d", "5d"})
GRANULE_BYTES: Final = 16
ROWS: Final = 4
"""Rows of a tile::gather4 or tile::scatter4."""
REDUCED: Final = {
    "add": frozenset({2, 3, 4, 6, 7, 8, 10}),
    **dict.fromkeys(("min", "max"), frozenset({2, 3, 4, 5, 6, 10})),
    **dict.fromkeys(("inc", "dec"), frozenset({2})),
    **dict.fromkeys(("and", "or", "xor"), frozenset({2, 3, 4, 5})),
}
"""The tensor map element types of each reduction (PTX ISA 9.1, 9.7.9.25.5.3)."""
Ends = tuple["Warp", int, int, int, int | None, bool]
"""The endpoints of a load.

(issuing warp, addresses of tensor map, destination and mbarrier, multicast mask, whether the mbarrier may be the
peer's)
"""


def _known(launch: Launch, address: int) -> TensorMap | None:
    """Return the cached tensor map of a kernel parameter, which cannot change during a launch, or None."""
    found: TensorMap | None = launch.registry.get(("tensor map", address))
    return found


def tensor_map(ins: Instr, warp: Warp, address: int) -> TensorMap:
    """Return the tensor map at a host address.

    Raises DescriptorError, or MissingProxyFence if the kernel changed the map without the required fences.
    """
    launch = warp.cta.launch
    known = _known(launch, address)
    if known is not None:
        return known
    as_parameter = 0 <= address - launch.params_address <= len(launch.param_bytes) - MAP_BYTES
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
    if (tensor.columns is not None) != (IM2COL in ins.modifiers):
        what = "a tiled one" if tensor.columns is None else "one of im2col mode"
        raise DescriptorError(f"{ins.opcode}: its tensor map is {what}", ins, warp)
    return _counted(tensor, values, ins, warp)


def _counted(tensor: TensorMap, values: tuple[int, ...], ins: Instr, warp: Warp) -> tuple[int, ...]:
    try:
        return tensor.counted(values)
    except ValueError as why:
        raise DescriptorError(f"{ins.opcode}: {why}", ins, warp) from None


def _boxes(tensor: TensorMap, raw: Any, lane: int, ins: Instr, warp: Warp, rows: bool) -> list[tuple[int, ...]]:
    """Return the coordinates of the boxes: one box, or four of one column with a row number each."""
    if not rows:
        return [_aligned(tensor, _coordinates(tensor, raw, lane, ins, warp), ins, warp)]
    values = _values(raw, lane)
    if len(values) != 1 + ROWS or len(tensor.dims) != 2 or tensor.box[1] != 1:
        raise DescriptorError(
            f"{ins.opcode} of {ROWS} rows takes a column, {ROWS} rows and a tensor map of 2 dimensions "
            f"with a box of 1 row; here are {len(values)} coordinates and a box of {tensor.box}",
            ins,
            warp,
        )
    column = _counted(tensor, values[:1], ins, warp)[0]
    return [_aligned(tensor, (column, row), ins, warp) for row in values[1:]]


def _pixels(tensor: TensorMap, raw: Any, offsets: Any, lane: int, ins: Instr, warp: Warp) -> list[tuple[int, ...]]:
    """Return the coordinates of the pixels that a load in im2col mode reads."""
    start, moved = _coordinates(tensor, raw, lane, ins, warp), tuple(o & 0xFFFF for o in _values(offsets, lane))
    assert tensor.columns is not None
    if len(moved) != len(start) - 2:
        raise DescriptorError(f"{ins.opcode} with {len(moved)} offsets for {len(start)} coordinates", ins, warp)
    return tensor.columns.walk(_aligned(tensor, start, ins, warp), moved)


def _aligned(tensor: TensorMap, box: tuple[int, ...], ins: Instr, warp: Warp) -> tuple[int, ...]:
    """Return the coordinates of a box.

    Raises DescriptorError unless its start is 16-byte aligned, as an H200 requires.
    """
    if box[0] * tensor.width % GRANULE_BYTES:
        start = box[0] * tensor.width
        what = (
            f"{ins.opcode} of a box that starts {start} bytes into its rows; allowed are multiples of {GRANULE_BYTES}"
        )
        raise DescriptorError(what, ins, warp)
    return box


def _values(raw: Any, lane: int) -> tuple[int, ...]:
    """Return operands as signed 32-bit integers."""
    return tuple([(of_lane(c, lane) & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000 for c in raw])


@executes("cp.async.bulk.tensor", publishes=Publishes.WORK, communicates=never_communicates, flush=issue_loads)
def _tensor_copy(ins: Instr) -> Action:
    return _tensor_store(ins) if "bulk_group" in ins.modifiers else _tensor_load(ins)


def _tensor_load(ins: Instr) -> Action:
    _, _, _, mode, _, multicast, group, _ = Modifiers(ins).pick(
        DIMENSIONS, SHARED, GLOBAL, {"tile", "tile::gather4", IM2COL}, COMPLETE_TX, MULTICAST, CTA_GROUP, CACHE_HINT
    )
    paired = group == "cta_group::2"
    walks = int(mode == IM2COL)

    def run(warp: Warp, mask: Any, target: Any, at: Any, box: Any, barrier: Any, *rest: Any) -> None:
        routes = warp.cta.cluster.lookups
        try:
            for lane in active_lanes(mask):
                ranks = of_lane(rest[walks], lane) if multicast else None
                ends = warp, of_lane(at, lane), of_lane(target, lane), of_lane(barrier, lane), ranks, paired
                route = routes.get(ends)
                tensor = tensor_map(ins, warp, ends[1]) if route is None else route.tensor
                if walks:
                    boxes = _pixels(tensor, box, rest[0], lane, ins, warp)
                else:
                    boxes = _boxes(tensor, box, lane, ins, warp, mode == "tile::gather4")
                route = route or _route(ins, tensor, ends)
                if _known(warp.cta.launch, ends[1]) is None:
                    record_use(warp, ends[1], [load_access(ins, warp, each[2]) for each in route.targets])
                load_boxes(ins, warp, route, boxes)
        except EmulatorError:
            issue_loads(warp)  # report errors of earlier loads first
            raise

    return run


def _route(ins: Instr, tensor: TensorMap, ends: Ends) -> Route:
    """Return the checked route of a load.

    It is cached for later loads with the same endpoints until an mbarrier is invalidated. It is not cached if the
    tensor
    map may change, or after a finding, since repeated findings are counted.
    """
    warp, at, target, barrier, ranks, paired = ends
    route = Route(tensor, targets(ins, warp, target, barrier, ranks, paired))
    for cta, _, mbar in route.targets:
        _check_near(ins, warp, cta, mbar, paired)
    for _, offset, _ in route.targets:
        aligned(offset, TMA_ALIGNMENT, f"the destination of {LOAD}", ins, warp)
    launch = warp.cta.launch
    if not launch.findings and _known(launch, at) is not None:
        warp.cta.cluster.lookups[ends] = route
    return route


def _check_near(ins: Instr, warp: Warp, cta: Cta, mbar: MBarrier, paired: bool) -> None:
    """Report an mbarrier outside the destination CTA; with .cta_group::2 it may be the peer's."""
    if mbar.cta is cta or (paired and mbar.cta.rank == cta.rank ^ 1):
        return
    allowed = "that CTA or its peer" if paired else "that CTA, or .cta_group::2 for its peer"
    fault = BarrierError(
        f"{ins.opcode} to {cta} reports to {mbar} of {mbar.cta}", ins, warp, (("missing", f"an mbarrier of {allowed}"),)
    )
    warp.cta.launch.report(fault)


def _tensor_store(ins: Instr) -> Action:
    _, _, _, mode, _, _ = Modifiers(ins).pick(
        DIMENSIONS, GLOBAL, SHARED, {"tile", "tile::scatter4"}, BULK_GROUP, CACHE_HINT
    )
    return _storing(ins, None, mode == "tile::scatter4")


@executes("cp.reduce.async.bulk.tensor", publishes=Publishes.WORK)
def _tensor_reduce(ins: Instr) -> Action:
    _, _, _, reduction, _, _, _ = Modifiers(ins).pick(
        DIMENSIONS, GLOBAL, SHARED, REDUCTIONS, {"tile"}, BULK_GROUP, CACHE_HINT
    )
    if reduction is None:
        raise UnknownInstruction(ins, "no operation")
    return _storing(ins, reduction, False)


def _storing(ins: Instr, reduction: str | None, rows: bool) -> Action:
    """Return the action of a store or reduction.

    Lanes that store the same box are one store; a reduction counts for each lane.
    """

    def run(warp: Warp, mask: Any, at: Any, box: Any, source: Any, _policy: Any = None) -> None:
        done: set[tuple[Any, ...]] = set()
        lanes = active_lanes(mask)
        if reduction is None and not any(isinstance(given, np.ndarray) for given in (at, source, *box)):
            lanes = lanes[:1]  # the other lanes store the same box
        for lane in lanes:
            tensor = tensor_map(ins, warp, of_lane(at, lane))
            if reduction is not None and tensor.element not in REDUCED[reduction]:
                why = f"{ins.opcode}.{reduction} of element type {tensor.element}; it has {sorted(REDUCED[reduction])}"
                raise DescriptorError(why, ins, warp)
            boxes = _boxes(tensor, box, lane, ins, warp, rows)
            if not rows and min(boxes[0]) < 0:
                what = f"{ins.opcode} of a box at {boxes[0]}; only loads may start at negative coordinates"
                raise DescriptorError(what, ins, warp)
            offset = warp.cta.smem.local_offset(of_lane(source, lane), ins, warp, ins.opcode)
            if reduction is None and len(lanes) > 1:
                if (tensor, *boxes, offset) in done:
                    continue
                done.add((tensor, *boxes, offset))
            if _known(warp.cta.launch, of_lane(at, lane)) is None:
                record_use(warp, of_lane(at, lane), [bulk_thread(warp, lane).access(ins, STORE)])
            store_boxes(ins, warp, lane, tensor, boxes, offset, reduction)

    return run


@executes("cp.async.bulk.prefetch.tensor", communicates=never_communicates)
def _prefetch(ins: Instr) -> Action:
    Modifiers(ins).pick(DIMENSIONS, {"L2"}, GLOBAL, {"tile", "tile::gather4", IM2COL}, CACHE_HINT)
    return lambda warp, mask, *_operands: None
