"""The last writers and readers of each memory cell, against which every access is checked for happens-before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from ...chip import ALL_LANES, LANES
from ...native.memory_layout import LANE, LANE_BITS, address_of
from ...native.shadow_check import ACCESSES, DONE, FLUSH, REPLACED, SHADOW, checks
from ...ptx.kinds import Kind
from ..formats.descriptors import Pattern
from .access import GPU, Access, LaneAgent
from .cells import Cells
from .clocks import ORDERED, Clock
from .history import History

UNWRITTEN: Final = 0
MBARRIER: Final = 1
OUTSIDE: Final = 2
SPECIAL: Final = 3
"""Writer numbers below SPECIAL stand for no access: unwritten, an mbarrier object, reserved or outside the window."""

NUMBER: Final = 0xFFFF_FFFF
"""The bits of a number in a pair of them."""

SORT_ABOVE = 512


class Blame(Protocol):
    """Report of a conflict of the access `me` with the access `number` on the part `hit` (a mask) of `cells`."""

    def __call__(self, me: Access, clock: Clock, verb: str, cells: Any, hit: Any, number: int, kind: str) -> None: ...


def distinct(numbers: np.ndarray) -> Any:
    """Return the different values of an array, cheaply when there is only one."""
    if numbers.size == 0:
        return ()
    first = numbers.item(0)
    if (numbers == first).all():
        return (first,)
    if numbers.size > SORT_ABOVE:
        flat = numbers.ravel()
        heads = flat[1:][flat[1:] != flat[:-1]]  # most come in runs
        return np.unique(np.append(heads, first)).tolist()
    return set(numbers.ravel().tolist())


class BlameLanes(Protocol):
    """Reports that lanes of the access `me` conflict on `cells` with other lanes of the access `number`.

    racing: the conflicting cells, as a mask. mine: the lanes that touch each cell.
    """

    def __call__(self, me: Access, verb: str, cells: Any, racing: Any, mine: Any, number: int, kind: str) -> None: ...


class Mixed(Protocol):
    """Counts cells that `me` reads by one swizzle pattern and that the access `number` wrote by another."""

    def __call__(self, me: Access, pattern: Pattern, cells: Any, number: int) -> None: ...


class PendingRecords(Protocol):
    """Accesses recorded by compiled code and not yet merged into the shadow."""

    writes: np.ndarray
    """The last writer of each cell as compiled loads and stores know it, int64."""
    pending: np.ndarray
    """A flag per cell that has pending records, uint8."""

    def flush_all(self) -> None:
        """Merge all records into the shadow."""

    def flush(self, cells: Any, write: bool) -> None:
        """Merge the records of cells (slice or intp array) into the shadow. write: invalidate them for machine code."""

    def split(self, times: int) -> None:
        """Follow the shadow, each of whose cells became `times` cells. No record may be pending."""


class Replaced(Sequence[Iterable[int]]):
    """The different writers and readers that a proved write replaced, decoded for a report only."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return 2

    def __getitem__(self, which: Any) -> Any:
        found = np.frombuffer(self._raw, REPLACED)[which]
        return sorted(found["numbers"][: found["count"]].tolist())


class Shadow:
    """The last writer and the last reader(s) of each cell, as numbers of a history.

    by_lane: keep lanes (bits) too. The lanes of a writer all stored the same value; the lanes of readers are in the
    last warp that read. 0 means an access by an agent, or a generic one that is not made by single lanes.

    After a strong write, later accesses may still race with the accesses that it replaced. So the recorded writer
    includes those, see `_with_replaced`.
    """

    def __init__(
        self,
        shape: int | tuple[int, ...],
        history: History,
        blame: Blame,
        mixed: Mixed | None = None,
        by_lane: BlameLanes | None = None,
    ) -> None:
        self.writer = np.zeros(shape, np.int32)
        self.reader = np.zeros(shape, np.int32)
        self.history, self.blame, self.mixed, self.by_lane = history, blame, mixed, by_lane
        self.writer_lanes = np.zeros(shape if by_lane else 0, np.uint32)
        # Not np.zeros_like, which would write to every page.
        self.reader_lanes: np.ndarray = np.zeros(self.writer_lanes.shape, np.uint32)
        self.records: PendingRecords | None = None
        self._row = np.zeros(1, SHADOW)
        self._at = address_of(self._row)
        self._row["epochs"] = history.epochs
        self._replaced, self._merged = self._row["replaced"][0], self._row["merged"][0]
        self._update_row()

    def _update_row(self) -> None:
        """Update the addresses of the arrays in the record for compiled code."""
        records, row = self.records, self._row
        row["writers"], row["readers"] = address_of(self.writer), address_of(self.reader)
        if self.by_lane is not None:
            row["writer_lanes"], row["reader_lanes"] = address_of(self.writer_lanes), address_of(self.reader_lanes)
        row["pending"], row["writes"] = (
            (address_of(records.pending), address_of(records.writes)) if records is not None else (0, 0)
        )

    def attach(self, records: PendingRecords | None) -> None:
        """Attach the records of compiled accesses, which are flushed on demand from then on."""
        self.records = records
        self._update_row()

    def split(self, times: int) -> None:
        """Replace each cell by `times` cells with the same writers and readers."""
        self.writer, self.reader = np.repeat(self.writer, times), np.repeat(self.reader, times)
        self.writer_lanes, self.reader_lanes = np.repeat(self.writer_lanes, times), np.repeat(self.reader_lanes, times)
        self._update_row()

    def write_each(self, cells: np.ndarray, accesses: Sequence[Access], clock: Clock, lanes: np.ndarray) -> bool:
        """Return whether consecutive writes by single lanes of one warp to disjoint cells are all in order.

        If so, record them; if not, record nothing and the caller checks each write. cells: intp[accesses, cells of
        each]. lanes: the lanes that write them, as bits, uint32[cells of each].
        """
        if self.records is not None:
            self.records.flush(cells, write=True)
        me, history = accesses[0], self.history
        writers, readers = self.writer[cells], self.reader[cells]
        for number in {*distinct(writers), *distinct(readers)} - {UNWRITTEN}:
            other = history.accesses[number]
            if other is None or other.overwrote or not me.orders(other, clock):
                return False
            if me.unsynced_since(other.last, clock):
                return False
        for access, *replaced in zip(accesses, _of_each(writers), _of_each(readers), strict=True):
            access.replaced = replaced
        first = history.record_all(accesses)
        self.writer[cells] = np.arange(first, first + len(accesses))[:, None]
        self.reader[cells] = 0
        self.writer_lanes[cells] = lanes
        return True

    def prove(
        self,
        cells: Cells,
        accesses: Sequence[Access],
        clock: Clock,
        pattern: Pattern | None = None,
        write: bool = False,
    ) -> bool:
        """Return whether compiled code proves that consecutive accesses are in order. If so, record them.

        If not, the caller checks each. cells: those of all accesses. Several reads may differ in their instructions
        only; several writes are of disjoint cells and report to one phase of an mbarrier.
        """
        if clock.first or (write and len(accesses) > ACCESSES):
            return False
        if cells.end > self.writer.size:
            return False
        me, history = accesses[0], self.history
        if write and me.warp.cta.launch.reads_in_flight:
            return False
        number = history.record_all(accesses)
        check = checks()[write]
        arguments = (
            self._at,
            cells.at,
            clock.address,
            clock.v.shape[1],
            me.follows[0] if me.follows else -1,
            not me.generic,
            0 if pattern is None else pattern.number,
            number,
        )
        answer = check(*arguments)
        if answer == FLUSH and self.records is not None:
            self.records.flush(cells.index, write=False)
            answer = check(*arguments)
        if write and answer == DONE:
            for access, found in zip(accesses, self._replaced, strict=False):
                access.replaced = Replaced(found.tobytes())
        return answer == DONE

    def unwritten(self, cells: Cells) -> bool:
        """Return whether any of the cells is unwritten."""
        if self.records is not None:
            self.records.flush(cells.index, write=False)
        return bool((self.writer[cells.index] == UNWRITTEN).any())

    def read(self, cells: Any, me: Access, clock: Clock, pattern: Pattern | None = None, lanes: Any = None) -> None:
        """Check a read of `cells`, then record it. Raises what `blame` raises.

        cells: any numpy index, or Cells. pattern: the swizzle of the read. lanes: the lanes that read each cell, as
        bits (see `by_lane`).
        """
        if type(cells) is Cells:
            if lanes is None and self.prove(cells, (me,), clock, pattern):
                return
            cells = cells.index
        if self.records is not None:
            self.records.flush(cells, write=False)
        accesses = self.history.accesses
        writers = self.writer[cells]
        # Causality order, proxies: the async proxy sees a generic write only after fence.proxy.async
        # (test_pairs.py, "no fence.proxy.async before the mma").
        row = ORDERED if me.generic else me.visible
        for number in distinct(writers):
            other = accesses[number]
            if other is None:
                # Nothing was written, or the cell is no memory of the program.
                self.blame(me, clock, "reads", cells, writers == number, number, "write")
            # Two accesses of the async proxy need no proxy fence between them.
            elif not me.orders(other, clock, row if other.generic else ORDERED):
                self._check_writer(me, clock, "reads", cells, writers == number, number)
            elif pattern is not None and other.pattern is not None and other.pattern != pattern and self.mixed:
                self.mixed(me, pattern, cells, number)
            elif lanes is not None and self.by_lane is not None:
                since = me.unsynced_since(other.last, clock)
                if since:
                    self._check_readers(cells, writers == number, number, me, lanes, since)
                elif other.generic and other.via is not None and (wrote := self.writer_lanes[cells]).any():
                    # cp.async: the lanes have waited and met since, so later reads need no check of their lanes.
                    self.writer_lanes[cells] = np.where(writers == number, 0, wrote)
        self.record_read(cells, me, clock, lanes)

    def _check_writer(self, me: Access, clock: Clock, verb: str, cells: Any, hit: Any, number: int) -> None:
        """Report the writes of access `number`, the last of the cells in the mask `hit`, that `me` races with.

        PTX's causality order: what was observed happens before what the observer does next. A later read observes an
        earlier strong write too if a read-modify-write replaced it.
        """
        last, readers = self._last(number), self.reader[cells][hit]
        row = me.visible if last.generic and not me.generic else ORDERED
        for part in parts_of(self.history.accesses[number]):
            if me.orders(part, clock, row if part is last else ORDERED):
                continue
            # Observation order goes through a chain of read-modify-writes, not through a plain store.
            shown = part is last or _is_atomic(last)
            # Causality order, base case: what a strong read observed happens before what its warp does next
            # (test_who_saw_a_flag_may_reset_it_by_a_weak_store).
            if not (shown and self._observed(part, readers, me, clock)):
                self.blame(me, clock, verb, cells, hit, self.history.record(part), "write")

    def _observed(self, other: Access, readers: np.ndarray, me: Access, clock: Clock) -> bool:
        """Return whether each cell has a strong read that observed the strong `other` and that `me` comes after."""

        def saw(read: Access) -> bool:
            return read.morally_strong(other) and me.comes_after(read, clock)

        return all(any(map(saw, parts_of(self.history.accesses[number]))) for number in distinct(readers))

    def _with_replaced(self, writers: np.ndarray, readers: np.ndarray, mine: int, me: Access, clock: Clock) -> Any:
        """Return the numbers of the strong write `me` together with what it replaces in each cell.

        mine: the number of `me` alone.
        """
        pairs = writers.astype(np.int64) << 32 | readers
        kept = {pair: self._combined(pair >> 32, pair & NUMBER, mine, me, clock) for pair in distinct(pairs)}
        return _mapped(pairs, kept)

    def _combined(self, writer: int, reader: int, mine: int, me: Access, clock: Clock) -> int:
        """Return the number of the strong write `me` together with what it replaces and others may still race with.

        These are weak accesses, and strong ones that `me` is not ordered after. mine: the number of `me` alone.
        """
        last, reads = self.history.accesses[writer], parts_of(self.history.accesses[reader])
        seen = [r for r in reads if r.strong and r.instr is not me.instr and me.comes_after(r, clock)]
        # An atom whose result is read observes what it replaces; "reductions do not form acquire patterns"
        # (test_the_last_cta_reads_what_all_added).
        if me.instr.kind is Kind.ATOMIC and me.warp.cta.launch.result_used(me.instr):
            seen.append(me)
        unseen = (w for w in parts_of(last) if not (w.strong and any(r.morally_strong(w) for r in seen)))
        writes = _unsubsumed(unseen, me, clock)
        # A later access may race with a weak access that this write replaced
        # (test_atomics_do_not_hide_the_load_before_them).
        overwrote = _unsubsumed((*(last.overwrote if last else ()), *reads), me, clock)
        return self._recorded((*writes, me), overwrote) if writes or overwrote else mine

    def _recorded(self, parts: tuple[Access, ...], overwrote: tuple[Access, ...] = ()) -> int:
        """Record several unordered accesses as one, and return its number."""
        me = parts[-1]
        combined = me.combines_as(-1, 0, me.generic, me.instr, me.warp, me.what, parts=parts, overwrote=overwrote)
        return self.history.record(combined)

    def _check_readers(self, cells: Any, here: Any, number: int, me: Access, lanes: Any, since: int) -> None:
        """Report lanes that read cells (mask `here`) which other lanes wrote by access `number`, unsynchronised."""
        wrote = self.writer_lanes[cells]
        racing = here & (wrote != 0) & (lanes & ~wrote != 0)
        if me.warp.lane_syncs and racing.any():
            racing &= _by_pair(lanes, wrote, lambda lane, those: not me.warp.lanes_ordered_before(lane, since) & those)
        if racing.any():
            assert self.by_lane is not None
            self.by_lane(me, "reads", cells, racing, lanes, number, "write")

    def merge_writes(
        self,
        cells: np.ndarray,
        records: np.ndarray,
        pending: np.ndarray | None,
        ids: int,
        access: Callable[[int], Access],
    ) -> None:
        """Record the writes of compiled code that the `records` of cells (intp[n]) stand for, in no order.

        pending, ids: see `native.shadow_check.merge`. access: returns the access of a record.
        """
        _, _, merge = checks()
        arrays, done = (self._at, address_of(records), 0 if pending is None else address_of(pending)), 0
        while done < cells.size:
            left = cells[done:]
            done += merge(*arrays, address_of(left), left.size, ids, len(self.history.accesses))
            replaced = Replaced(self._replaced[0].tobytes())
            for record in self._merged["records"][: self._merged["count"]].tolist():
                made = access(record)
                made.replaced = replaced
                self.history.record(made)

    def merge_reads(self, cells: np.ndarray, records: np.ndarray, access: Callable[[int, np.ndarray], Access]) -> None:
        """Record the reads of compiled code that `records` of cells (intp[n]) stand for, 0 for none.

        access: returns the access of a record. Its second argument are the lanes of each cell, as bits.
        """
        epochs, lanes = records & ~LANE, LANE_BITS[records & LANE]
        for epoch in distinct(epochs):
            if epoch:
                here = epochs == epoch
                me = access(epoch, lanes[here])
                self.record_read(cells[here], me, me.alone(), lanes[here])

    def record_read(self, cells: Any, me: Access, clock: Clock, lanes: Any = None) -> None:
        """Record a read that is in order."""
        history = self.history
        mine = history.record(me)
        readers = self.reader[cells]
        earlier = distinct(readers)
        if self.by_lane is not None:
            self._record_readers(cells, readers, earlier, me, clock, lanes)
        replaced = {number: self._joined(number, mine, me, clock) for number in earlier}
        self.reader[cells] = _mapped(readers, replaced)

    def _record_readers(self, cells: Any, readers: Any, earlier: Any, me: Access, clock: Clock, lanes: Any) -> None:
        """Record the lanes of a read, together with unsynchronised earlier reads of the same warp."""
        unmet = [number for number in earlier if lanes is not None and self._last_unsynced_since(number, me, clock)]
        if unmet:
            before = np.where(np.isin(readers, unmet), self.reader_lanes[cells], 0)
            if (before & ~lanes).any():
                others = (self._last(number) for number in unmet)
                me.merge_lanes(others, _all_of(lanes), _all_of(before))
                lanes = lanes | before
        _record_lanes(self.reader_lanes, cells, lanes)

    def joined(self, readers: np.ndarray, me: Access) -> Any:
        """Return the numbers of readers together with the reader `me`, which nothing orders with them."""
        return _mapped(
            readers, {n: self._recorded((*parts_of(self.history.accesses[n]), me)) for n in distinct(readers)}
        )

    def _last_unsynced_since(self, number: int, me: Access, clock: Clock) -> int:
        return 0 if self.history.accesses[number] is None else me.unsynced_since(self._last(number), clock)

    def _last(self, number: int) -> Access:
        other = self.history.accesses[number]
        assert other is not None
        return other.last

    def _check_lanes(
        self, cells: Any, numbers: Any, number: int, kind: str, me: Access, clock: Clock, lanes: Any
    ) -> None:
        """Report lanes that write cells which other lanes touched by access `number`, unsynchronised."""
        since = 0 if self.by_lane is None else self._last_unsynced_since(number, me, clock)
        if not since:
            return
        before = (self.writer_lanes if kind == "write" else self.reader_lanes)[cells]
        via = self._last(number).via
        if isinstance(via, LaneAgent) and via.lane is not None:
            before = np.full_like(before, 1 << via.lane)
        other = before != lanes
        if kind == "read" and lanes.size == 1:  # one for all active lanes
            other |= lanes & lanes - 1 != 0
        if other.any():
            racing = other & (numbers == number) & (before != 0)
            if me.warp.lane_syncs and racing.any():
                racing &= _by_pair(lanes, before, lambda lane, them: them & ~me.warp.lanes_ordered_before(lane, since))
            if racing.any():
                assert self.by_lane is not None
                self.by_lane(me, "writes", cells, racing, lanes, number, kind)

    def _joined(self, number: int, mine: int, me: Access, clock: Clock) -> int:
        """Return the number of the readers `number` and `mine` together: `mine` alone if it subsumes the others."""
        other = self.history.accesses[number]
        if other is None:
            return mine
        kept = [p for p in other.parts or (other,) if not subsumes(me, p, clock)]
        return self._recorded((*kept, me)) if kept else mine

    def write(self, cells: Any, me: Access, clock: Clock, lanes: Any = None) -> bool:
        """Check a write of `cells`, then record it. Return whether several lanes write one cell.

        cells: any numpy index, or Cells. lanes: the lanes that write each cell, as bits (see `by_lane`). Raises what
        `blame` raises.
        """
        if type(cells) is Cells:
            if lanes is None and self.prove(cells, (me,), clock, write=True):
                return False
            cells = cells.index
        if self.records is not None:
            self.records.flush(cells, write=True)
        accesses = self.history.accesses
        row = ORDERED if me.generic else me.visible
        writers, readers = self.writer[cells], self.reader[cells]
        replaced, read = me.replaced = distinct(writers), distinct(readers)
        for number in replaced:
            other = accesses[number]
            if other is None:
                if number != UNWRITTEN:
                    self.blame(me, clock, "writes", cells, writers == number, number, "write")
                continue
            if not me.orders(other, clock, row if other.generic else ORDERED):
                self._check_writer(me, clock, "writes", cells, writers == number, number)
            elif lanes is not None:
                self._check_lanes(cells, writers, number, "write", me, clock, lanes)
            # The strong write replaced this read in the shadow (test_atomics_do_not_hide_the_load_before_them).
            for late in other.overwrote:
                if not me.orders(late, clock):
                    self.blame(me, clock, "writes", cells, writers == number, self.history.record(late), "read")
        for number in read:
            other = accesses[number]
            if other is None:
                continue
            if not me.orders(other, clock) or (not me.generic and other.overtaken(clock)):
                self.blame(me, clock, "writes", cells, readers == number, number, "read")
            elif lanes is not None:
                self._check_lanes(cells, readers, number, "read", me, clock, lanes)
        mine = self.history.record(me)
        # A weak write needs no parts: whatever races with a replaced access races with it too, or was reported.
        self.writer[cells] = self._with_replaced(writers, readers, mine, me, clock) if me.strong else mine
        self.reader[cells] = 0
        return self.by_lane is not None and _record_lanes(self.writer_lanes, cells, lanes)


def _of_each(numbers: np.ndarray) -> list[Any]:
    """Return the different values of each row."""
    if (numbers == numbers[0]).all():
        return [distinct(numbers[0])] * len(numbers)
    if (numbers == numbers[:, :1]).all():
        return [(number,) for number in numbers[:, 0].tolist()]
    return [distinct(row) for row in numbers]


def _mapped(numbers: np.ndarray, to: Mapping[int, int]) -> Any:
    """Return the numbers that a mapping replaces `numbers` by: one if it is the same for all."""
    if len(set(to.values())) <= 1:
        return next(iter(to.values()), UNWRITTEN)
    new = numbers.copy()
    for old, number in to.items():
        new[numbers == old] = number
    return new


def parts_of(access: Access | None) -> tuple[Access, ...]:
    """Return the accesses that are merged into one, none for None."""
    return () if access is None else access.parts or (access,)


def _is_atomic(access: Access | None) -> bool:
    """Return whether a write is a read-modify-write."""
    return access is not None and access.instr.kind.is_read_modify_write


def subsumes(me: Access, earlier: Access, clock: Clock) -> bool:
    """Return whether `me` subsumes `earlier`: an access that does not race with `me` cannot race with `earlier`."""
    # A strong access may be morally strong with one that races with the weak `earlier`
    # (test_atomics_do_not_hide_the_load_before_them).
    return me.comes_after(earlier, clock) and (not me.strong or earlier.strong == GPU)


def _unsubsumed(accesses: Iterable[Access], me: Access, clock: Clock) -> tuple[Access, ...]:
    """Return the accesses that `me` does not subsume, of each warp's the last weak and the last strong one."""
    left = (p for p in accesses if not subsumes(me, p, clock))
    return tuple({(p.warp, p.component, bool(p.strong)): p for p in left}.values())


def _by_pair(mine: np.ndarray, theirs: np.ndarray, conflict: Callable[[int, int], object]) -> np.ndarray:
    """Return a mask of the pairs of lane sets (bits) where `conflict` is true for one of the lanes `mine`."""
    pairs = mine.astype(np.uint64) << np.uint64(LANES) | theirs
    found, places = np.unique(pairs, return_inverse=True)
    answers = [
        any(conflict(lane, pair & ALL_LANES) for lane in range(LANES) if pair >> LANES >> lane & 1)
        for pair in found.tolist()
    ]
    return np.array(answers, bool)[places].reshape(pairs.shape)


def _all_of(lanes: Any) -> int:
    """Return the union of lane sets, as bits."""
    return int(np.bitwise_or.reduce(lanes, axis=None))


def _record_lanes(kept: np.ndarray, cells: Any, lanes: Any) -> bool:
    """Record the lanes of cells, 0 for None. Return whether several lanes share a cell."""
    kept[cells] = 0 if lanes is None else lanes
    if lanes is None or lanes.size == 1 or not (kept[cells] != lanes).any():
        return False
    np.bitwise_or.at(kept, cells, lanes)
    return True
