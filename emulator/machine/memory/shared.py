"""Shared memory of one CTA: its bytes, their shadow, and the mbarriers in it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from ...chip import RANK_SHIFT, RESERVED_SHARED_BYTES
from ...errors import BarrierError, Fault, Level, Misaligned, OutOfBounds, place
from ...leniency import Grade, Leniency
from ...ptx.syntax import ALL_BYTES, Instr
from ..formats.descriptors import Pattern
from ..launch.shared_names import shared_variable, source_name
from ..order.access import Access, Issuer, TaintedStore
from ..order.cells import Cells, pieces, span
from ..order.clocks import Clock
from ..order.owner import CtaOwner
from ..order.shadow import MBARRIER, OUTSIDE, UNWRITTEN, Shadow, distinct
from ..reports.report import (
    report_conflict,
    report_lane_race,
    report_store_collision,
    tainted_store_fault,
    unwritten_cells,
    written,
)
from ..reports.suspects import part_of_load, report_read
from ..synchronisation.mbarrier import MAX_COUNT, MBarrier
from .tmem import ALLOC

WORD = 4
CHUNK = 16
OFFSET_MASK = 0x00FF_FFFF
POISON = 0xFF


class SharedMemory:
    """`size` bytes of a CTA's window from offset 0; the first 1,024 are reserved.

    The shadow has a cell for each word of 4 bytes until the first access of one or two bytes, then for each byte.
    """

    def __init__(self, cta: CtaOwner, size: int) -> None:
        self.cta, self.size = cta, size
        padded = -(-size // CHUNK) * CHUNK
        self.bytes = np.full(padded, POISON, np.uint8)
        self.views = {w: self.bytes.view(f"u{w}") for w in (1, 2, 4, 8)}
        self.chunks = self.bytes.view(np.complex128)
        self.shift = 2
        self.shadow = Shadow(padded >> self.shift, cta.cluster.history, self._blame, self._mixed, self._blame_lanes)
        self._mark(0, RESERVED_SHARED_BYTES, OUTSIDE)
        if size % WORD:
            self.refine()
        self._mark(size, padded, OUTSIDE)
        self._stored: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        """The store being checked: its values, the view of memory, and the indices that it writes."""
        self.mbarriers: dict[int, MBarrier] = {}
        self.retired: list[MBarrier] = []
        self.initialised = 0

    def _mark(self, start: int, stop: int, number: int) -> None:
        self.shadow.writer[start >> self.shift : -(-stop // (1 << self.shift))] = number

    def refine(self) -> None:
        """Give each byte a shadow cell of its own from now on."""
        records = self.shadow.records
        if records is not None:
            records.flush_all()
        self.shadow.split(WORD)
        self.shift = 0
        if records is not None:
            records.split(WORD)

    def _blame(self, me: Access, clock: Clock, verb: str, cells: Any, hit: Any, number: int, kind: str) -> None:
        shadow = self.shadow
        if shadow.records is not None:
            shadow.records.flush_all()
        where = np.arange(shadow.writer.size)[cells][hit]
        part = part_of_load(me, hit)
        if isinstance(tainted := shadow.history.accesses[number], TaintedStore):
            if me.orders(tainted.by, clock):
                if verb == "reads":
                    report_read(me, tainted_store_fault(tainted, me), part)
                return
            number = tainted.store
        near = self._near(int(where.min())) if number == UNWRITTEN else ()
        if near:
            self.cta.launch.registry[unwritten_cells(me.warp, me.instr.line)] = shadow, where
        rewrites = shadow.history.accesses[number] is not None and verb == "writes" and kind == "write"
        level = self._level_of_rewriting(me, clock, hit, number) if rewrites else Level.FAULT
        other = shadow.history.accesses[number]
        if kind == "read" and not me.generic and other is not None and other.seen_by(clock):
            # As for a write over it: programs read the word of tcgen05.alloc, meet at bar.sync, and copy there.
            writers = (shadow.history.accesses[each] for each in distinct(shadow.writer[where]))
            level = Leniency.WORD_OF_ALLOC if all(each and each.what == ALLOC for each in writers) else level
        report_conflict(me, clock, verb, self._shown(where), shadow.history, number, kind, near, level, part)

    def taint_last_store(self, parts: Iterable[tuple[int, int, Fault]], width: int, size: int) -> None:
        """Mark parts of the last store as suspect values, which are reported when they are read.

        parts: the element of `width` bytes within the `size` bytes of a lane, the lanes as bits, the load's fault.
        """
        shadow, history = self.shadow, self.shadow.history
        number = len(history.accesses) - 1
        store = history.accesses[number]
        assert store is not None
        for element, lanes, fault in parts:
            cells = np.flatnonzero((shadow.writer == number) & (shadow.writer_lanes & lanes != 0))
            cells = cells[(cells << self.shift) % size // width == element]
            if shadow.records is not None:
                shadow.records.flush(cells, write=True)
            shadow.writer[cells] = history.record(TaintedStore(store, number, fault))

    def _level_of_rewriting(self, me: Access, clock: Clock, hit: Any, number: int) -> Grade:
        """Return the level of the write `me` over what the access `number` wrote, in the cells of the mask `hit`.

        Three cases are formal: several warps store equal bits by one instruction; several warps copy the same bytes by
        one instruction and report to one phase of an mbarrier, so that a waiting warp sees all of them; and the async
        proxy overwrites the word that tcgen05.alloc wrote, in order but without a fence.proxy.async.
        """
        other = self.shadow.history.accesses[number]
        assert other is not None
        if other.what == ALLOC and other.seen_by(clock):
            return Leniency.WORD_OF_ALLOC
        if other.instr is not me.instr:
            return Level.FAULT
        if me.route and (me.route, me.component, me.time) == (other.route, other.component, other.time):
            return Leniency.EQUAL_BITS
        if self._stored is None:
            return Level.FAULT
        values, view, index = self._stored
        hit = hit.reshape(len(values), -1).any(1)
        places, last = np.unique(
            index[hit][::-1], return_index=True
        )  # of lanes that store at one address the last one wins
        same = np.array_equal(view[places], values[hit][::-1].ravel()[last])
        return Leniency.EQUAL_BITS if same else Level.FAULT

    def _shown(self, cells: np.ndarray | np.intp) -> str:
        window = self.cta.window
        first, last = int(cells.min()) << self.shift, (int(cells.max()) + 1 << self.shift) - 1
        return (
            f"shared memory {window + first:#x} to {window + last:#x} of CTA {self.cta.name} "
            f"({cells.size << self.shift} bytes{self._variable(first, last)})"
        )

    def _variable(self, first: int, last: int) -> str:
        """Return the `.shared` variable that holds bytes of the window as text, "" if none holds them all."""
        found = shared_variable(self.cta.launch.kernel, first, last)
        if found is None:
            return ""
        return f" of {source_name(found.name)}" + (f" from byte {first - found.offset}" if first > found.offset else "")

    def _blame_lanes(self, me: Access, verb: str, cells: Any, racing: Any, mine: Any, number: int, kind: str) -> None:
        report_lane_race(me, verb, cells, racing, mine, self.shadow, number, kind, self._shown)

    def _mixed(self, me: Access, pattern: Pattern, cells: Any, number: int) -> None:
        hit = np.arange(self.shadow.writer.size)[cells][self.shadow.writer[cells] == number]
        pieces = np.unique(hit << self.shift & -CHUNK)
        writer = self.shadow.history.accesses[number]
        assert writer is not None and writer.pattern is not None
        where = f"{self.cta.window + int(pieces[0]):#x} of CTA {self.cta.name}"
        self.cta.launch.stats.count_swizzle_mismatch(
            pieces.size,
            f"{me.origin()}, reads {where} by {pattern}; {writer.origin()}, wrote it by {writer.pattern}",
        )

    def _near(self, cell: int) -> tuple[tuple[str, str], ...]:
        window, shift = self.cta.window, self.shift
        runs = written(self.shadow.writer, cell, self.shadow.history.accesses)
        shown = (
            f"{(a << shift) + window:#x} to {(b + 1 << shift) + window - 1:#x} by {by.origin()}" for a, b, by in runs
        )
        return tuple(("near", text) for text in shown) or (("near", "nothing was written"),)

    def cells(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Return the shadow cells of `size` bytes at each of `offsets` (intp[n])."""
        if size < WORD and self.shift:
            self.refine()
        count = max(size >> self.shift, 1)
        first = offsets >> self.shift
        return first if count == 1 else first[:, None] + np.arange(count)

    def span(self, offset: int, size: int) -> Cells:
        """Return the shadow cells of `size` contiguous bytes."""
        if (offset | size) & (WORD - 1) and self.shift:
            self.refine()
        first = offset >> self.shift
        return span(first, (offset + size >> self.shift) - first)

    def spans(self, offsets: tuple[int, ...], size: int) -> Cells | None:
        """Return the cells of one access per offset, in multiples of 16 bytes; None if they overlap."""
        return _spans(offsets, size, self.shift)

    def local_offset(self, address: int, instr: Instr, warp: Issuer, what: str) -> int:
        """Return the offset of an address in this CTA's shared memory. Raises OutOfBounds for another CTA's."""
        rank = (address & 0xFFFF_FFFF) >> RANK_SHIFT
        if rank != self.cta.rank:
            where = f"in the window of CTA rank {rank}; this is rank {self.cta.rank}"
            raise OutOfBounds(f"{what} at {address & 0xFFFF_FFFF:#x}, {where}", instr, warp)
        return address & OFFSET_MASK

    def check_span(self, offset: int, size: int, instr: Instr, warp: Issuer, what: str) -> None:
        """Raise OutOfBounds unless `size` bytes from `offset` lie in the window."""
        if offset < RESERVED_SHARED_BYTES or offset + size > self.size:
            raise OutOfBounds(
                f"{what} at {self.cta.window + offset:#x}, {size} bytes, leaves the shared memory of {self.cta}: "
                f"{self.cta.window + RESERVED_SHARED_BYTES:#x} to {self.cta.window + self.size:#x}",
                instr,
                warp,
            )

    def load(
        self,
        offsets: np.ndarray,
        width: int,
        count: int,
        me: Access,
        clock: Clock,
        lanes: np.ndarray | None,
        used: int = ALL_BYTES,
    ) -> np.ndarray:
        """Return `count` elements of `width` bytes at each offset: unsigned[n, count]. Offsets lie in the window.

        lanes: the lanes of each offset, as bits, uint32[n]; None if the access is not by single lanes. used: the bytes
        that the program uses, as bits; other bytes are not checked.
        """
        cells = self.cells(offsets, width * count)
        if used != ALL_BYTES and cells.ndim == 2:
            each = (1 << (1 << self.shift)) - 1
            cells = cells[:, [i for i in range(cells.shape[1]) if used >> (i << self.shift) & each]]
        self.shadow.read(cells, me, clock, lanes=along(lanes, cells))
        return self.views[width][(offsets // width)[:, None] + np.arange(count)]

    def store(
        self, offsets: np.ndarray, values: np.ndarray, me: Access, clock: Clock, lanes: np.ndarray | None
    ) -> None:
        """Write unsigned[n, count] `values` at the offsets. lanes: which write each, as for `load`."""
        width, count = values.itemsize, values.shape[1]
        cells = self.cells(offsets, width * count)
        view, index = self.views[width], (offsets // width)[:, None] + np.arange(count)
        self._stored = values, view, index
        several = self.shadow.write(cells, me, clock, along(lanes, cells))
        self._stored = None
        if several and lanes is not None and not me.strong:
            self.check_overlap(offsets, values, lanes, me)
        view[index] = values

    def last_writer(self, offset: int) -> Access | None:
        """Return the last access that wrote a byte; None if nothing did."""
        cell = np.array([offset >> self.shift])
        if self.shadow.records is not None:
            self.shadow.records.flush(cell, write=False)
        found = self.shadow.history.accesses[self.shadow.writer[cell].item(0)]
        return None if found is None else found.last

    def check_overlap(self, offsets: np.ndarray, values: np.ndarray, lanes: np.ndarray, me: Access) -> None:
        """Report lanes that write different bytes to one address. values: unsigned[n, count], at the offsets."""
        size = values.itemsize * values.shape[1]
        report_store_collision(
            me, offsets, values, lanes, lambda at: self._shown(self.cells(offsets[at : at + 1], size))
        )

    def chunk_cells(self, chunks: np.ndarray) -> Cells:
        """Return the shadow cells of 16-byte chunks (numbered from the window's start)."""
        per = CHUNK >> self.shift
        return pieces(chunks * per, per)

    # mbarriers ---------------------------------------------------------------------------------------------------

    def init_mbarrier(self, offset: int, count: int, instr: Instr, warp: Issuer) -> None:
        """Execute mbarrier.init. Raises BarrierError for a live mbarrier at the offset or a count out of range.

        NVIDIA's programs let every warp initialise the same mbarrier, or every lane. While it is unused, only level
        `pedantic` reports that.
        """
        if offset & 7:
            raise Misaligned(f"mbarrier.init at {offset:#x}: an mbarrier is 8-byte aligned", instr, warp)
        self.check_span(offset, 8, instr, warp, "mbarrier.init")
        if not 0 < count <= MAX_COUNT:
            raise BarrierError(f"mbarrier.init with a count of {count}; allowed is 1 to {MAX_COUNT}", instr, warp)
        if (old := self.mbarriers.get(offset)) is not None:
            again = old.unused and old.count == count and (old.init.warp is not warp or old.init.instr is instr)
            fault = BarrierError(
                f"mbarrier.init on {old}, which is live",
                instr,
                warp,
                (
                    ("initialised at", f"PTX line {old.init.instr.line} by {old.init.warp}"),
                    ("missing", "mbarrier.inval before this mbarrier.init"),
                ),
                Leniency.SAME_INIT if again else Level.FAULT,
            )
            if not again:
                raise fault
            self.cta.launch.report(fault)
            return
        access = warp.access(instr, "mbarrier.init")
        self.shadow.write(self.span(offset, 8), access, warp.clock)
        self._mark(offset, offset + 8, MBARRIER)
        self.mbarriers[offset] = MBarrier(self.cta, offset, self.initialised, count, access)
        self.initialised += 1

    def drop_mbarrier(self, offset: int, instr: Instr, warp: Issuer) -> None:
        """Execute mbarrier.inval: the bytes become ordinary, unwritten memory."""
        self.retired.append(self.mbarrier(offset, instr, warp))
        del self.mbarriers[offset]
        self.cta.cluster.lookups.clear()
        self._mark(offset, offset + 8, UNWRITTEN)

    def mbarrier(self, offset: int, instr: Instr, warp: Issuer) -> MBarrier:
        """Return the live mbarrier at `offset`, which `warp` must be ordered after. Raises BarrierError if none is."""
        found = self.mbarriers.get(offset)
        if found is None:
            known = ", ".join(f"#{b.order} at {self.cta.window + o:#x}" for o, b in self.mbarriers.items()) or "none"
            raise BarrierError(
                f"no mbarrier was initialised at {self.cta.window + offset:#x} of CTA {self.cta.name}",
                instr,
                warp,
                (("live mbarriers", known),),
            )
        init = found.init
        if init.warp is warp or found in warp.known:
            return found
        if init.seen_by(warp.clock):
            warp.known |= {found}  # a clock never forgets
        else:
            what = f"{found} is used without being ordered after its initialisation"
            missing = f"a barrier between PTX lines {init.instr.line} and {instr.line}"
            at = (("initialised at", place(init.instr, init.warp)), ("initialised by", str(init.warp)))
            self.cta.launch.report(BarrierError(what, instr, warp, (*at, ("missing", missing))))
        return found


@lru_cache(maxsize=1024)
def _spans(offsets: tuple[int, ...], size: int, shift: int) -> Cells | None:
    firsts = np.array(offsets)
    if (np.diff(np.sort(firsts)) < size).any():
        return None
    return pieces(firsts >> shift, size >> shift, len(offsets))


def along(lanes: np.ndarray | None, cells: np.ndarray) -> np.ndarray | None:
    """Return the lanes of each cell or row of cells. lanes: of each row, or of each word of it."""
    if lanes is None or cells.ndim == 1:
        return lanes
    return lanes[:, None] if lanes.ndim == 1 else lanes.repeat(cells.shape[1] // lanes.shape[1], 1)
