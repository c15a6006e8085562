"""TMA: boxes of tensors, copied between global and shared memory.

A warp's consecutive loads are checked and issued together, before the warp does anything else. Usually they fill one
tile and are one access of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ...ptx.syntax import Instr
from ..formats.descriptors import Pattern
from ..formats.tensormap import Box, TensorMap, swizzled_chunks
from ..launch.globalmem import rows_of
from ..order.access import Access
from ..order.completion import AsyncOperation
from ..synchronisation.mbarrier import MBarrier, Party
from ..topology import Cta, Warp
from .bulk import aligned, bulk_thread

TMA_ALIGNMENT = 128
LOAD, STORE = "a TMA load", "a TMA store"


@dataclass(slots=True, eq=False)
class Load:
    """Boxes in flight to the shared memory of one CTA, `size` bytes from `offset`.

    counted: the bytes that the mbarrier counts.
    """

    me: Access
    party: Party
    cta: Cta
    offset: int
    size: int
    barrier: MBarrier
    counted: int
    tensor: TensorMap
    boxes: list[Box]

    def check(self) -> None:
        """Check and record the write of shared memory."""
        smem = self.cta.smem
        smem.shadow.write(smem.span(self.offset, self.size), self.me, self.me.warp.clock)

    def move(self) -> None:
        """Copy the bytes."""
        tensor = self.tensor
        boxes = [tensor.loaded(box) for box in self.boxes]
        values = boxes[0] if len(boxes) == 1 else np.concatenate(boxes)
        self.cta.smem.chunks[swizzled_chunks(self.offset, self.size, tensor.swizzle, values.shape)] = values


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Boxes in flight from the shared memory of one CTA, `size` bytes from `offset`, side by side."""

    cta: Cta
    offset: int
    size: int
    tensor: TensorMap
    boxes: list[Box]
    reduction: str | None


class LoadQueue:
    """A warp's consecutive TMA loads, neither checked nor issued yet.

    Deferring them is unobservable: nothing else happens in the cluster meanwhile, and only the last of them can end a
    phase, because its mbarrier waits for arrivals or expects the bytes of all.
    """

    def __init__(self) -> None:
        self._loads: list[Load] = []
        self._bytes: dict[MBarrier, int] = {}

    def takes(self, barrier: MBarrier, count: int) -> bool:
        """Return whether a load that completes `count` bytes of the mbarrier may join the queue."""
        return barrier.pending > 0 or barrier.tx - self._bytes.get(barrier, 0) >= count

    def add(self, load: Load) -> None:
        """Queue a load."""
        self._loads.append(load)
        self._bytes[load.barrier] = self._bytes.get(load.barrier, 0) + load.counted
        load.barrier.copies.append(load.party)

    def issue(self) -> None:
        """Check and issue the queue."""
        left, self._loads = self._loads, []
        self._bytes.clear()
        unproved = _not_in_order(left) if len(left) > 1 else left
        for load in unproved:
            load.check()
        if left and left[0].cta.cluster.agents.completion == "random":
            for load in left:
                _issue([load])
            return
        together: dict[MBarrier, list[Load]] = {}
        for load in left:
            together.setdefault(load.barrier, []).append(load)
        for loads in together.values():
            _issue(loads)


def _not_in_order(loads: list[Load]) -> list[Load]:
    """Return the loads to check one by one. The others are proved to be in order, and recorded, by CTA and mbarrier."""
    groups: list[list[Load]] = []
    latest: dict[Cta, list[Load]] = {}
    for load in loads:
        group = latest.get(load.cta)
        if group is not None and group[0].size == load.size and group[0].barrier is load.barrier:
            group.append(load)
        else:
            latest[load.cta] = group = [load]
            groups.append(group)
    proved: set[Load] = set()
    for group in groups:
        if not _in_order(group):
            break
        proved.update(group)
    return [load for load in loads if load not in proved]


def _in_order(group: list[Load]) -> bool:
    """Return whether loads of one size into one CTA, by one mbarrier, are in order. If so, record them."""
    first, smem = group[0], group[0].cta.smem
    cells = smem.spans(tuple([load.offset for load in group]), first.size)
    accesses = [load.me for load in group]
    return cells is not None and smem.shadow.prove(cells, accesses, first.me.warp.clock, write=True)


def _issue(loads: list[Load]) -> None:
    """Issue copies that report to one phase of one mbarrier, to complete one after another."""
    barrier = loads[0].barrier
    arrived = [(load.counted, load.party) for load in loads]

    def perform() -> None:
        for load in loads:
            load.move()
        barrier.complete_copies(arrived)

    loads[0].cta.cluster.agents.issue(AsyncOperation((barrier,), perform, about=loads))


def issue_loads(warp: Warp) -> None:
    """Check and issue the warp's queued loads."""
    if warp.queued_loads is not None:
        warp.queued_loads.issue()


@dataclass(frozen=True, slots=True)
class Route:
    """The checked destinations of a load: CTA, offset and mbarrier of each."""

    tensor: TensorMap
    targets: list[tuple[Cta, int, MBarrier]]


def load_access(instr: Instr, warp: Warp, barrier: MBarrier, pattern: Pattern | None = None) -> Access:
    """Return an access of a load that reports to the present phase of an mbarrier."""
    return Access(barrier.component, barrier.phase + 1, False, instr, warp, LOAD, via=barrier, pattern=pattern)


def load_boxes(instr: Instr, warp: Warp, route: Route, boxes: list[tuple[int, ...]]) -> None:
    """Queue loads of boxes at these coordinates by a checked route. The caller calls `issue_loads` afterwards."""
    tensor, launch, row = route.tensor, warp.cta.launch, warp.queued_loads
    size, counted = tensor.shared_bytes * len(boxes), tensor.box_bytes * len(boxes)
    found = [_checked(instr, warp, tensor, coordinates, LOAD) for coordinates in boxes]
    if row is None:
        row = warp.queued_loads = LoadQueue()
    watched = launch.memory.tracks(tensor.address)
    for cta, offset, barrier in route.targets:
        taken = row.takes(barrier, counted)
        if not taken:
            row.issue()
        me = load_access(instr, warp, barrier, tensor.pattern)
        if watched:
            reading = load_access(instr, warp, barrier)
            for box in found:
                if box is not None:
                    rows = rows_of(box[0].low, box[1])
                    warp.cta.cluster.outside.read(rows, _row_bytes(box[1]), reading, warp.clock)
        cta.smem.check_span(offset, size, instr, warp, LOAD)
        launch.stats.copied_in_bytes += size
        party = Party(instr, warp, LOAD, (me.component, me.time))
        row.add(Load(me, party, cta, offset, size, barrier, counted, tensor, found))
        if not taken:
            row.issue()


def store_boxes(
    instr: Instr,
    warp: Warp,
    lane: int,
    tensor: TensorMap,
    boxes: list[tuple[int, ...]],
    offset: int,
    reduction: str | None,
) -> None:
    """Store boxes that are contiguous in this CTA's shared memory to global memory, in the lane's open group."""
    smem, size = warp.cta.smem, tensor.box_bytes * len(boxes)
    aligned(offset, TMA_ALIGNMENT, f"the source of {STORE}", instr, warp)
    found = [_checked(instr, warp, tensor, coordinates, STORE, writes=True) for coordinates in boxes]
    smem.check_span(offset, size, instr, warp, STORE)
    warp.cta.launch.stats.copied_out_bytes += size
    copies = bulk_thread(warp, lane)
    outside, reduces = warp.cta.cluster.outside, reduction is not None
    inside = [box for box in found if box is not None]
    writes = [copies.writes.access(instr, STORE, reduces) for _ in inside]
    for (part, there), write in zip(inside, writes, strict=True):
        outside.write_by_agent(rows_of(part.low, there), _row_bytes(there), write, warp.clock)
    smem.shadow.read(smem.span(offset, size), copies.access(instr, STORE), warp.clock, tensor.pattern)

    def perform() -> None:
        values = smem.chunks[swizzled_chunks(offset, size, tensor.swizzle)].view(f"u{tensor.width}")
        left = iter(writes)
        for box, new in zip(found, values.reshape(len(boxes), -1), strict=True):
            if box is not None:
                next(left).complete(partial(tensor.write, *box, new, reduction))

    copies.issue(instr, perform, about=Store(warp.cta, offset, size, tensor, found, reduction))


def _row_bytes(there: np.ndarray) -> int:
    """Return the bytes of each row of an array whose last dimension is contiguous."""
    return int(there.shape[-1]) * there.itemsize


def _checked(
    instr: Instr, warp: Warp, tensor: TensorMap, coordinates: tuple[int, ...], what: str, writes: bool = False
) -> Box:
    """Return the part of a box that lies in the tensor. Raises OutOfBounds unless an allocation holds it."""
    part, memory = tensor.part(coordinates), warp.cta.launch.memory
    if part is None:
        return None
    allocation = memory.known(part.low, part.high)
    if allocation is None:
        reach = memory.writable if writes else memory.readable
        allocation = reach(part.low, part.high, instr, warp, f"{what} at coordinates {coordinates}", described=True)
    return part, tensor.view(part, allocation)
