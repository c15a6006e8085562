"""The shadow of global memory that is written during a launch: every access is checked, within and between clusters.

An allocation is tracked from the moment at which a write in the launch is expected. That is the start of the launch if
a store's address comes from a parameter, else the first write. Every access of a tracked allocation comes here or is
pending by compiled code (see `native.memory_layout`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ...errors import DataRace, Level, UnwrittenRead, place
from ...leniency import Grade, Leniency
from ...native.memory_layout import (
    GLOBAL_ID,
    GLOBAL_TIME_BITS,
    ID_BITS,
    LOST,
    NOBODY,
    SERIAL_BITS,
    SERIALS_MAX,
    UNCHANGED,
    lane_of,
)
from ...ptx.syntax import Instr, Kernel
from ..launch.globalmem import Allocation
from ..launch.launch import Launch
from ..launch.source import place_of
from ..order.access import Access, Issuer
from ..order.clocks import Clock
from ..order.equal_stores import replace_equal, replaced_unequal, unsafe_cells
from ..order.flags import Flags
from ..order.global_access import GlobalAccess, Overlap
from ..order.history import History
from ..order.operations import By, EarlierAccess, Runs
from ..order.shadow import UNWRITTEN, Shadow, distinct, parts_of
from ..reports.report import report_conflict, report_lane_race, report_store_collision
from ..reports.suspects import part_of_load

DISCARD: Final = "discard"
"""The name of the accesses of `discard.L2`."""
CELLS_MAX: Final = 1 << 28
"""An allocation of more cells is not tracked."""

Touched = tuple[np.ndarray, np.ndarray]
"""The cells of one allocation that a process wrote, and those that it accessed, since
`GlobalShadow.start_footprint`. One bit for each cell."""
Footprint = dict[int, Touched] | None
"""Touched cells by the allocation's address; None if memory was written whose earlier readers are unknown."""


def disjoint(footprints: Sequence[Footprint]) -> bool:
    """Return whether no footprint certainly contains a cell that another one wrote."""
    known = [share for share in footprints if share is not None]
    for address in {address for share in known for address in share}:
        (written, accessed), *others = (share[address] for share in known if address in share)
        for more, seen in others:
            if (more & accessed).any() or (seen & written).any():
                return False
            written, accessed = written | more, accessed | seen
    return len(known) == len(footprints)


class GlobalShadow:
    """The tracked allocations of one launch, by address.

    accesses: the instructions that records refer to, by number, with their names in reports.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch, self._areas = launch, dict[int, Area]()
        self.cell = launch.kernel.global_cell
        self.history = _Accesses(0)
        self.flags = Flags()
        for places, clock in () if launch.surroundings is None else launch.surroundings.releases():
            self.flags.seed(places, clock)
        self.accesses: list[tuple[Instr, str]] = []
        self.warps: list[Any] = []
        """The warps of the launch, by serial number."""
        self.untracked = False
        """True if memory was written that is not tracked."""
        self._tracked: set[int] = set()

    def start_footprint(self) -> None:
        """Collect in `footprint` the accesses from now on."""
        self._tracked = set(self._launch.memory.tracked)
        for area in self._areas.values():
            area.start_footprint()

    def footprint(self) -> Footprint:
        """Return the cells accessed since `start_footprint`."""
        if self.untracked or self._launch.memory.tracked != self._tracked:
            return None
        return {address: touched for address, area in self._areas.items() if (touched := area.touched()) is not None}

    def contents(self, footprint: dict[int, Touched]) -> list[np.ndarray]:
        """Return the contents of the written cells of each allocation."""
        return [self._areas[address].contents(written) for address, (written, _) in footprint.items()]

    def restore(self, footprint: dict[int, Touched], contents: Sequence[np.ndarray]) -> None:
        """Write contents that another process had."""
        for (address, (written, _)), there in zip(footprint.items(), contents, strict=True):
            area = self.area(address, address + 1)
            assert area is not None, "a footprint has allocations that were tracked before the fork"
            area.restore(written, there)

    @classmethod
    def of(cls, launch: Launch) -> GlobalShadow:
        """Return the shadow of a launch."""
        found: GlobalShadow | None = launch.registry.get(cls)
        if found is None:
            found = launch.registry[cls] = cls(launch)
        return found

    def expect(self, parameters: Iterable[int]) -> None:
        """Track the allocations that the parameters at these offsets point to, directly or through a tensor map."""
        for offset in parameters:
            address = int.from_bytes(self._launch.param_bytes[offset : offset + 8], "little")
            self._track(address, address + 1)

    def register(self, warp: Issuer) -> int:
        """Register a warp that starts. Return its serial number."""
        self.warps.append(warp)
        return len(self.warps) - 1

    def release(self, cluster_id: Any) -> None:
        """Release what reported the accesses of an ended cluster, except for agents whose writes reports name."""
        for access in self.history.forget(cluster_id):
            if not (isinstance(access, GlobalAccess) and access.completed):
                access.via = None

    def area(self, low: int, high: int) -> Area | None:
        """Return the tracked allocation that holds bytes `low` to `high - 1`, or None."""
        memory = self._launch.memory
        found = memory.known(low, high) if memory.tracked else None
        return None if found is None or found.address not in memory.tracked else self._area(found)

    def read(
        self, addresses: np.ndarray, size: int, me: Access, clock: Clock, lanes: Any = None, once: bool = False
    ) -> None:
        """Check and record a read of `size` bytes at each address (uint64[n]).

        lanes: the lanes of each address, as bits, uint32[n]. once: a non-coherent load, whose memory must not be
        written in the launch.
        """
        area = self.area(int(addresses.min()), int(addresses.max()) + size)
        if area is not None:
            area.read(area.cells(addresses, size), GlobalAccess.of(me), clock, lanes, once)

    def write(self, addresses: np.ndarray, values: np.ndarray, me: Access, clock: Clock, lanes: Any) -> None:
        """Check and record a write of unsigned[n, count] `values` at each address (uint64[n]), before it is made."""
        size = values.itemsize * values.shape[1]
        area = self._written(int(addresses.min()), int(addresses.max()) + size)
        if area is not None:
            area.write(addresses, values, GlobalAccess.of(me), clock, lanes)

    def write_by_agent(self, addresses: np.ndarray, size: int, me: GlobalAccess, clock: Clock) -> None:
        """Record that an agent will write `size` bytes at each address, given in ascending order of the ends."""
        area = self._written(addresses.item(0), addresses.item(-1) + size)
        if area is not None:
            area.write_by_agent(area.cells(addresses, size), me, clock)

    def _written(self, low: int, high: int) -> Area | None:
        """Return the tracked allocation that holds bytes `low` to `high - 1`, which are written."""
        area = self._track(low, high)
        self.untracked |= area is None
        return area

    def _track(self, low: int, high: int) -> Area | None:
        """Track the allocation that holds bytes `low` to `high - 1`. None if there is none, or it is too large."""
        memory = self._launch.memory
        found = memory.known(low, high)
        if found is None or found.size > CELLS_MAX * self.cell:
            return None
        memory.track(found)
        return self._area(found)

    def _area(self, allocation: Allocation) -> Area:
        area = self._areas.get(allocation.address)
        if area is None:
            area = self._areas[allocation.address] = Area(allocation, self)
            around = self._launch.surroundings
            for run in () if around is None else around.accesses_within(*area.bytes):
                area.enter(*run)
        return area

    def accessed(self) -> Runs:
        """Return the launch's accesses to tracked allocations."""
        kernel, by, runs = self._launch.kernel, dict[Any, int](), list[Any]()
        for area in self._areas.values():
            for starts, ends, write, numbers in area.runs():
                made = {number: self._kind(number) for number in distinct(numbers)}
                which = np.array([-1 if made[n] is None else by.setdefault(made[n], len(by)) for n in numbers.tolist()])
                own = which >= 0
                runs.append((starts[own], ends[own], write, which[own]))
        return Runs.of(runs, [_by(kernel, *kind) for kind in by])

    def written(self) -> Runs:
        """Return the launch's writes, without the instructions."""
        by = By("a write", partial(str, f"kernel {self._launch.kernel.name}"))
        return Runs.of(((*area.written(), True, 0) for area in self._areas.values()), [by])

    def _kind(self, number: int) -> tuple[Any, ...] | None:
        """Return instruction, name, scope and proxy of an access, and whether it is late; None for another launch's."""
        own = [part for part in parts_of(self.history.accesses[number]) if not isinstance(part, EarlierAccess)]
        if not own:
            return None
        around, last = self._launch.surroundings, own[-1]
        late = around is not None and any(map(around.is_late, own))
        return last.instr, last.what, min(part.strong for part in own), last.generic, late


class Area:
    """A tracked allocation: its shadow, and the records of compiled code about its cells.

    writes, reads: int64[cells].
    """

    def __init__(self, allocation: Allocation, whole: GlobalShadow) -> None:
        self._allocation, self._whole, self._cell = allocation, whole, whole.cell
        self._base = allocation.address & -whole.cell
        count = -(-(allocation.address + allocation.size - self._base) // self._cell)
        self._shadow = Shadow(count, whole.history, self._blame, by_lane=self._blame_lanes)
        self._same: np.ndarray | None = None
        """For the store being checked: whether each address already holds the stored bits."""
        self.writes, self.reads = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._before: np.ndarray | None = None
        """The cells that were accessed before `start_footprint`."""

    @property
    def bytes(self) -> tuple[int, int]:
        """The first address, and the address after the last."""
        return self._allocation.address, self._allocation.address + self._allocation.size

    def enter(self, start: int, end: int, write: bool, access: EarlierAccess) -> None:
        """Put an access of bytes `start` to `end - 1` into the shadow: one from before the launch or concurrent."""
        cells = slice((start - self._base) // self._cell, -(-(end - self._base) // self._cell))
        history = self._whole.history
        if write:
            self._shadow.writer[cells] = history.record(access)
        else:
            self._shadow.reader[cells] = self._shadow.joined(self._shadow.reader[cells], access)
        self.writes[cells] = self.reads[cells] = NOBODY

    def written(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the runs of written bytes: their starts and ends."""
        written, _ = self._accessed()
        edges = np.flatnonzero(np.diff(written, prepend=False, append=False))
        return self._base + self._cell * edges[::2], self._base + self._cell * edges[1::2]

    def runs(self) -> Iterator[tuple[np.ndarray, np.ndarray, bool, np.ndarray]]:
        """Yield the writes and the reads of the launch: starts and ends in bytes, and the number of each access."""
        self._flush(np.flatnonzero((self.writes | self.reads) & GLOBAL_ID))
        for write, numbers in ((True, self._shadow.writer), (False, self._shadow.reader)):
            edges = np.flatnonzero(np.diff(numbers, prepend=UNWRITTEN, append=UNWRITTEN))
            if edges.size:
                kept = numbers[edges[:-1]] != UNWRITTEN
                starts, ends = (self._base + self._cell * at[kept] for at in (edges[:-1], edges[1:]))
                yield starts, ends, write, numbers[edges[:-1]][kept]

    def start_footprint(self) -> None:
        """Collect in `touched` the cells accessed from now on, without those that were accessed before.

        Accesses of other clusters to the latter that matter are reported as races.
        """
        _, self._before = self._accessed()

    def touched(self) -> Touched | None:
        """Return the cells accessed since `start_footprint`; None for nothing."""
        new = True if self._before is None else ~self._before
        written, accessed = (bits & new for bits in self._accessed())
        return (np.packbits(written), np.packbits(accessed)) if accessed.any() else None

    def contents(self, written: np.ndarray) -> np.ndarray:
        """Return the contents of written cells. written: one bit for each cell."""
        cells, _ = self._allocation.view(self._cell)
        found: np.ndarray = cells[np.unpackbits(written, count=cells.size).view(bool)]
        return found

    def restore(self, written: np.ndarray, contents: np.ndarray) -> None:
        """Write what `contents` returned in another process."""
        cells, _ = self._allocation.view(self._cell)
        cells[np.unpackbits(written, count=cells.size).view(bool)] = contents

    def last_writer(self, address: int) -> Access | None:
        """Return the last access that wrote a byte; None if nothing in this launch did."""
        cells = self.cells(np.array([address], np.uint64), 1)
        self._flush(cells)
        found = self._whole.history.accesses[self._shadow.writer[cells].item(0)]
        return None if found is None else found.last

    def _accessed(self) -> Touched:
        """Return the masks of written and of accessed cells, bool[cells]."""
        written = (self._shadow.writer != UNWRITTEN) | (self.writes != 0)
        return written, written | (self._shadow.reader != UNWRITTEN) | (self.reads != 0)

    def records(self) -> tuple[int, int]:
        """Return the addresses of the records of writes and of reads, biased to index by address."""
        skipped = 8 * (self._base // self._cell)
        return tuple((there.ctypes.data - skipped) % (1 << 64) for there in (self.writes, self.reads))  # type: ignore[return-value]

    def same(self, addresses: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return whether each address already holds the values, unsigned[n, count]: bool[n]."""
        view, base = self._allocation.view(values.itemsize)
        first = (addresses - np.uint64(base)).astype(np.intp) // values.itemsize
        found: np.ndarray = (view[first[:, None] + np.arange(values.shape[1])] == values).all(1)
        return found

    def read(self, cells: np.ndarray, me: GlobalAccess, clock: Clock, lanes: Any, once: bool) -> None:
        """Check and record a read."""
        shadow = self._shadow
        self._flush(cells)
        if once:
            # ld.global.nc: the memory must be read-only for the whole kernel
            # (test_the_non_coherent_path_reads_nothing_that_is_written_in_the_launch).
            self._report_nc_read(cells, me)
        if lanes is not None:
            me.together = int(np.bitwise_or.reduce(lanes))
            lanes = lanes[:, None]
        shadow.read(cells, me, clock, lanes=lanes)
        self._report_other_bits(cells, me, clock)
        self._report_discarded(cells, me, clock)
        record = _record(me, None if lanes is None else shadow.reader_lanes[cells])
        self.reads[cells] = np.where(self._alone(shadow.reader[cells]), record, NOBODY)

    def write(self, addresses: np.ndarray, values: np.ndarray, me: GlobalAccess, clock: Clock, lanes: Any) -> None:
        """Check and record a write."""
        shadow, size, same = self._shadow, values.itemsize * values.shape[1], self.same(addresses, values)
        cells = self.cells(addresses, size)
        self._flush(cells)
        # A warp that stores what it has loaded changes nothing, in whatever order the others come
        # (test_ctas_that_load_the_equal_bits_that_each_stored).
        me.unchanged = bool(same.all() and _unchanged(self.writes[cells], self._read_by(me, cells)).all())
        me.same = bool(same.all())
        self._same = same
        self._replace(cells, me, clock)
        several = shadow.write(cells, me, clock, None if lanes is None else lanes[:, None])
        self._same = None
        if several and not me.strong:
            report_store_collision(
                me, addresses, values, lanes, lambda at: self._shown(self.cells(addresses[at : at + 1], size))
            )
        several_accesses = not np.all(self._alone(shadow.writer[cells]))
        asks = several or lanes is None or me.same_bits or me.other_bits or several_accesses
        record = _record(me, None if asks else lanes[:, None])
        self.writes[cells], self.reads[cells] = record | UNCHANGED * me.unchanged, 0

    def write_by_agent(self, cells: np.ndarray, me: GlobalAccess, clock: Clock) -> None:
        """Check and record a write. The first access of all its cells is only recorded."""
        if self.writes[cells].any() or self.reads[cells].any():
            self._flush(cells)
            self._shadow.write(cells, me, clock)
            self.reads[cells] = 0
        else:
            self._shadow.writer[cells] = self._whole.history.record(me)
        self.writes[cells] = NOBODY

    def cells(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Return the cells that hold `size` bytes at each address: intp[n, cells]."""
        first = (addresses - np.uint64(self._base)).astype(np.intp) // self._cell
        return first[:, None] + np.arange(self._run(size))

    def _run(self, size: int) -> int:
        """Return the number of cells that hold `size` bytes."""
        return max(-(-size // self._cell), 1)

    def _read_by(self, me: GlobalAccess, cells: np.ndarray) -> bool:
        """Return whether the warp of `me` has read the cells since they were written."""
        accesses = self._whole.history.accesses
        readers = [accesses[number] for number in distinct(self._shadow.reader[cells])]
        return all(r is not None and any(part.warp is me.warp for part in r.parts or (r,)) for r in readers)

    def _alone(self, numbers: np.ndarray) -> Any:
        """Return whether each of the numbers stands for one access."""
        accesses = self._whole.history.accesses
        parted = [number for number in distinct(numbers) if (access := accesses[number]) is None or access.parts]
        return ~np.isin(numbers, parted) if parted else True

    def _flush(self, cells: np.ndarray) -> None:
        """Merge the records of compiled code about cells into the shadow."""
        shadow, places = self._shadow, cells.reshape(-1)
        shadow.merge_writes(places, self.writes, None, GLOBAL_ID, self._recorded)
        reads = self.reads[places]
        pending = reads & GLOBAL_ID != 0
        if pending.any():
            shadow.merge_reads(places[pending], reads[pending], self._compiled_read)
            self.reads[places] = reads & ~GLOBAL_ID

    def _compiled_read(self, epoch: int, lanes: np.ndarray) -> GlobalAccess:
        me = self._recorded(epoch)
        me.together = int(np.bitwise_and.reduce(lanes))
        return me

    def _recorded(self, epoch: int) -> GlobalAccess:
        instr, what = self._whole.accesses[((epoch & GLOBAL_ID) >> ID_BITS) - 1]
        warp = self._whole.warps[epoch >> SERIAL_BITS & SERIALS_MAX]
        access = GlobalAccess(warp.component, epoch >> GLOBAL_TIME_BITS, True, instr, warp, what)
        access.issued = access.time
        access.unchanged, access.lost = bool(epoch & UNCHANGED), bool(epoch & LOST)
        access.same = not access.lost
        return access

    def _report_nc_read(self, cells: np.ndarray, me: GlobalAccess) -> None:
        """Report a load by the non-coherent path from memory that was written in the launch, in order or not."""
        accesses = self._whole.history.accesses
        wrote = next((a for n in distinct(self._shadow.writer[cells]) if (a := accesses[n]) is not None), None)
        if wrote is not None and not isinstance(wrote, EarlierAccess):
            what = f"{me.what}.nc reads {self._shown(cells)}, which {wrote.what} wrote in this launch"
            at = (("written at", place(wrote.instr, wrote.warp)), ("by", str(wrote.warp)))
            missing = ("missing", f"a load without .nc at PTX line {me.instr.line}")
            self._whole._launch.report(DataRace(what, me.instr, me.warp, (*at, missing)))

    def _report_discarded(self, cells: np.ndarray, me: GlobalAccess, clock: Clock) -> None:
        """Report a read of what `discard` lost before, in order. A later write brings it back."""
        writers = self._shadow.writer[cells]
        for number in distinct(writers):
            store = self._whole.history.accesses[number]
            last = None if store is None else store.last
            if last is not None and last.what == DISCARD and me.comes_after(last, clock):
                what = (
                    f"{me.what} reads {self._shown(cells[writers == number])}, whose contents {last.instr.opcode} lost"
                )
                lines = ("discarded at", place(last.instr, last.warp)), ("by", str(last.warp))
                missing = ("missing", f"a store to it before PTX line {me.instr.line}")
                self._whole._launch.report(UnwrittenRead(what, me.instr, me.warp, (*lines, missing)))

    def _shown(self, cells: np.ndarray | np.intp) -> str:
        first, last = (self._base + self._cell * int(at) for at in (cells.min(), cells.max() + 1))
        count = self._cell * np.unique(cells).size
        name = self._whole._launch.memory.name_of(self._allocation)
        return f"global memory {first:#x} to {last - 1:#x} of {name} ({count} bytes)"

    def _blame(self, me: Access, clock: Clock, verb: str, cells: Any, hit: Any, number: int, kind: str) -> None:
        # The host may have written it before the launch.
        if number == UNWRITTEN:
            return
        history = self._whole.history
        other = history.accesses[number]
        level: Grade = Level.FAULT
        write = other if kind == "write" else me
        if (verb, kind) != ("writes", "write") and isinstance(write, GlobalAccess) and write.unchanged:
            # No order of the two gives other bits (test_ctas_that_put_back_what_they_loaded).
            level = Leniency.PUT_BACK
        elif self._equal(me, clock, verb, cells, hit, kind, other):
            # PTX calls it a race all the same (test_equal_bits_are_formal).
            level = Leniency.EQUAL_BITS
        shown, part = self._shown(cells[hit]), part_of_load(me, hit)
        copies = [each for each in (me, other) if isinstance(each, GlobalAccess) and not (each.generic or each.strong)]
        # Bulk copies write when they complete: only then are the bits of both known
        # (test_copies_of_two_ctas_to_one_place).
        if verb == "writes" and kind == "write" and len(copies) == 2:
            self._overlap(copies[0], copies[1], clock.copy(), cells[hit], shown, number)
        else:
            report_conflict(me, clock, verb, shown, history, number, kind, level=level, part=part)

    def _equal(
        self, me: Access, clock: Clock, verb: str, cells: np.ndarray, hit: np.ndarray, kind: str, other: Access | None
    ) -> bool:
        """Return whether the cells in the mask `hit` have the same bits in every order of two unordered accesses."""
        if verb == "reads":
            last = isinstance(other, GlobalAccess) and _is_plain(other)
            return last and not isinstance(other, EarlierAccess) and not unsafe_cells(me, other, cells[hit], clock).size  # type: ignore[arg-type]
        if self._same is None or not self._same[hit.any(1)].all():
            return False
        if kind == "write":
            return _is_plain(other)
        accesses = self._whole.history.accesses
        writers = [accesses[number] for number in distinct(self._shadow.writer[cells][hit])]
        return all(_is_plain(w) and not (w is None or me.orders(w, clock)) for w in writers)

    def _replace(self, cells: np.ndarray, me: GlobalAccess, clock: Clock) -> None:
        """Before a write, look at stores that earlier ones of the same bits replaced without order."""
        assert self._same is not None
        shadow, history = self._shadow, self._whole.history
        writers = shadow.writer[cells]
        for number in distinct(writers):
            store = history.accesses[number]
            other = None if store is None else store.last
            here = writers == number
            if not isinstance(other, GlobalAccess) or isinstance(other, EarlierAccess) or not _is_plain(other):
                continue
            at = np.unique(cells[here])
            if self._same[here.any(1)].all():
                replace_equal(me, other, at, clock, history.accesses)
                continue
            for earlier in replaced_unequal(me, other, at, clock):
                shown, late = self._shown(earlier.cells), history.record(earlier.store)
                report_conflict(me, clock, "writes", shown, history, late, "write")

    def _report_other_bits(self, cells: np.ndarray, me: GlobalAccess, clock: Clock) -> None:
        """Report a read that may see other bits than the last write stored, although it is ordered after that."""
        writers, history = self._shadow.writer[cells], self._whole.history
        for number in distinct(writers):
            store = history.accesses[number]
            last = None if store is None else store.last
            if not isinstance(last, GlobalAccess) or not last.other_bits or not me.comes_after(last, clock):
                continue
            hit = (writers == number) & np.isin(cells, unsafe_cells(me, last, cells[writers == number], clock))
            for earlier in last.other_bits if hit.any() else ():
                shown, late = self._shown(earlier.cells), history.record(earlier.store)
                report_conflict(me, clock, "reads", shown, history, late, "write", part=part_of_load(me, hit))

    def _overlap(
        self, me: GlobalAccess, other: GlobalAccess, clock: Clock, cells: Any, shown: str, number: int
    ) -> None:
        """Defer the level of two agents' writes to the same cells until both are performed."""

        def find(level: Grade) -> None:
            report_conflict(me, clock, "writes", shown, self._whole.history, number, "write", level=level)

        memory, _ = self._allocation.view(self._cell)
        overlap = Overlap(memory, cells, 1 if other.completed else 2, find)
        me.overlaps += (overlap,)
        other.overlaps += (overlap,)

    def _blame_lanes(self, me: Access, verb: str, cells: Any, racing: Any, mine: Any, number: int, kind: str) -> None:
        """Report a conflict between lanes.

        Compilers load a value in all lanes and store its successor from one lane. That lane stores after its own load,
        and the other lanes loaded in the same instruction.
        """
        report_lane_race(me, verb, cells, racing, mine, self._shadow, number, kind, self._shown, read_together=True)


def _record(me: GlobalAccess, lanes: Any) -> Any:
    """Return a record of an access that is in the shadow. lanes: as bits, None to make compiled code ask."""
    if lanes is None:
        return NOBODY
    return me.time << GLOBAL_TIME_BITS | me.warp.serial << SERIAL_BITS | lane_of(lanes)


def _by(kernel: Kernel, instr: Instr, what: str, strong: int, generic: bool, late: bool) -> By:
    system = bool({"sys", "volatile"}.intersection(instr.modifiers))
    return By(what, partial(place_of, kernel, instr), strong, generic, late, system)


def _is_plain(write: Access | None) -> bool:
    """Return True if a completed write does not depend on the old contents, i.e. is not a reduction."""
    return all(
        isinstance(part, EarlierAccess)
        or
        # A reduction adds to the old contents. The bits of a copy are known once it is complete
        # (test_the_bits_that_are_there_before_a_copy_comes_are_not_its_own).
        (not part.instr.kind.is_read_modify_write if part.generic else not part.strong and _was_made(part))
        for part in parts_of(write)
    )


def _was_made(write: Access) -> bool:
    return isinstance(write, GlobalAccess) and write.completed


def _unchanged(writes: np.ndarray, read: Any) -> Any:
    """Return whether no write with these records changed its cell. read: whether the next writer had read it."""
    return np.where(writes == 0, read, writes & UNCHANGED != 0)


class _Accesses(History):
    """A history of global accesses that finds those of a cluster."""

    def __init__(self, components: int) -> None:
        super().__init__(components)
        self._of: dict[Any, list[Access]] = {}

    def record_all(self, accesses: Sequence[Access]) -> int:
        for access in accesses:
            self._of.setdefault(access.warp.cta.cluster_id, []).append(access)
        return super().record_all(accesses)

    def forget(self, cluster_id: Any) -> list[Access]:
        """Remove and return the accesses of a cluster that has ended."""
        return self._of.pop(cluster_id, [])
