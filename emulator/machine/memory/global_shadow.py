"""The shadow of global memory that is written during a launch: every access is checked, within and between clusters.

An allocation is tracked from the moment at which a write in the launch is expected. That is the start of the launch if
a store's address comes from a parameter, else the first write. Every access of a tracked allocation comes here or is
noted by compiled code (see `native.memory_layout`). Writes of agents are only listed until another kind of access
touches the allocation, so an output that is written once costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...errors import DataRace, Level, place
from ...leniency import Grade, Leniency
from ...native.memory_layout import (
    GLOBAL_ID,
    GLOBAL_TIME_BITS,
    GLOBAL_WHO,
    ID_BITS,
    IDS_MAX,
    LOST,
    NOBODY,
    SERIAL_BITS,
    SERIALS_MAX,
    UNCHANGED,
    UNKNOWN,
    lane_of,
)
from ..order.clocks import Clock
from ..order.equal_stores import replace_equal, replaced_unequal, unsafe_cells
from ..order.flags import Flags
from ..order.global_access import EndedWarp, GlobalAccess, Overlap
from ..order.history import History
from ..order.shadow import UNWRITTEN, Shadow, distinct
from ..reports.report import report_conflict, report_lane_race, report_store_collision
from ..reports.suspects import part_of_load

if TYPE_CHECKING:
    from ...ptx.syntax import Instr
    from ..launch.globalmem import Allocation
    from ..launch.launch import Launch
    from ..order.access import Access, Issuer

CELLS_MAX: Final = 1 << 28
"""An allocation of more cells is not tracked."""
STORED, REDUCED = np.uint8(1), np.uint8(2)
"""Kinds of agents' writes. Reductions need no order among themselves."""


Touched = tuple[np.ndarray, np.ndarray]
"""The cells of one allocation that a process wrote, and those that it accessed, since
`GlobalShadow.start_footprint`. One bit for each cell."""
Footprint = dict[int, Touched] | None
"""Touched cells by the allocation's address; None if an allocation was written whose earlier readers are unknown."""


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

    accesses: the instructions that notes refer to, by number, with their names in reports and their strengths.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch, self._areas = launch, dict[int, Area]()
        self.cell = launch.kernel.global_cell
        self.history = _Accesses(0)
        self.flags = Flags()
        self.accesses: list[tuple[Instr, str, int]] = []
        self._numbers: dict[int, int] = {}
        self.warps: list[Any] = []
        """The warps of the launch, by serial number."""
        self._tracked: set[int] = set()

    def start_footprint(self) -> None:
        """Collect in `footprint` the accesses from now on."""
        self._tracked = set(self._launch.memory.tracked)
        for area in self._areas.values():
            area.start_footprint()

    def footprint(self) -> Footprint:
        """Return the cells accessed since `start_footprint`."""
        if self._launch.memory.tracked != self._tracked:
            return None
        return {address: touched for address, area in self._areas.items() if (touched := area.touched()) is not None}

    @classmethod
    def of(cls, launch: Launch) -> GlobalShadow:
        """Return the shadow of a launch."""
        found: GlobalShadow | None = launch.registry.get(cls)
        if found is None:
            found = launch.registry[cls] = cls(launch)
        return found

    def expect(self, by_threads: Iterable[int], by_agents: Iterable[int]) -> None:
        """Track the allocations that the parameters at these offsets point to, directly or through a tensor map.

        by_threads: threads write there. by_agents: only agents do, so their writes are only listed.
        """
        for offset in by_agents:
            self._expect(offset)
        for offset in by_threads:
            area = self._expect(offset)
            if area is not None:
                area.touch()

    def _expect(self, offset: int) -> Area | None:
        memory = self._launch.memory
        address = int.from_bytes(self._launch.param_bytes[offset : offset + 8], "little")
        found = memory.known(address, address + 1)
        if found is None or found.size > CELLS_MAX * self.cell:
            return None
        memory.track(found)
        return self._area(found)

    def number(self, me: Access) -> int:
        """Return the number of an access's instruction."""
        known = self._numbers.get(id(me.instr))
        if known is None:
            known = self._numbers[id(me.instr)] = len(self.accesses)
            self.accesses.append((me.instr, me.what, me.strong))
        return known

    def register(self, warp: Issuer) -> int:
        """Register a warp that starts. Return its serial number."""
        self.warps.append(warp)
        return len(self.warps) - 1

    def release_warps(self, warps: Iterable[Issuer]) -> None:
        """Release the ended warps of a cluster, except for what reports need."""
        ended = {warp: EndedWarp(warp) for warp in warps}
        for warp, left in ended.items():
            self.warps[warp.serial] = left
        for access in self.history.forget(next(iter(ended)).cta.cluster_id):
            access.via = None
            if access.warp in ended:  # an access that was recorded twice is released already
                access.warp = ended[access.warp]  # type: ignore[assignment]
        for area in self._areas.values():
            area.release_warps(ended)

    def area(self, low: int, high: int) -> Area | None:
        """Return the tracked allocation that holds bytes `low` to `high - 1`, or None."""
        memory = self._launch.memory
        found = memory.known(low, high) if memory.tracked else None
        return None if found is None or found.address not in memory.tracked else self._area(found)

    def read(
        self, addresses: np.ndarray, size: int, me: Access, clock: Clock, lanes: Any = None, once: bool = False
    ) -> None:
        """Check and note a read of `size` bytes at each address (uint64[n]).

        lanes: the lanes of each address, as bits, uint32[n]. once: a non-coherent load, whose memory must not be
        written in the launch.
        """
        area = self.area(int(addresses.min()), int(addresses.max()) + size)
        if area is not None:
            cells = area.cells(addresses, size)
            if not area.note_if_private(area.reads, cells, me, lanes, once):
                area.read(cells, GlobalAccess.of(me), clock, lanes, once)

    def write(self, addresses: np.ndarray, values: np.ndarray, me: Access, clock: Clock, lanes: Any) -> None:
        """Check and note a write of unsigned[n, count] `values` at each address (uint64[n]), before it is made."""
        memory, size = self._launch.memory, values.itemsize * values.shape[1]
        found = memory.known(int(addresses.min()), int(addresses.max()) + size)
        if found is not None and found.size <= CELLS_MAX * self.cell:
            memory.track(found)
            area = self._area(found)
            same = area.same(addresses, values)
            if not area.note_if_private(area.writes, area.cells(addresses, size), me, lanes, same=same):
                area.write(addresses, values, GlobalAccess.of(me), clock, lanes, same)

    def write_by_agent(self, addresses: np.ndarray, size: int, me: GlobalAccess, clock: Clock) -> None:
        """Note that an agent will write `size` bytes at each address, given in ascending order of the ends."""
        memory = self._launch.memory
        found = memory.known(addresses.item(0), addresses.item(-1) + size)
        if found is not None:
            memory.track(found)
            self._area(found).write_by_agent(addresses, size, me, clock)

    def _area(self, allocation: Allocation) -> Area:
        area = self._areas.get(allocation.address)
        if area is None:
            area = self._areas[allocation.address] = Area(allocation, self)
        return area


class Area:
    """A tracked allocation: its shadow, and the notes of compiled code about its cells.

    writes, reads: int64[cells]. Empty until something other than agents touches the allocation; until then agents'
    writes are only listed.
    """

    def __init__(self, allocation: Allocation, whole: GlobalShadow) -> None:
        self._allocation, self._whole, self._cell = allocation, whole, whole.cell
        self._base = allocation.address & -whole.cell
        self._listed: list[tuple[np.ndarray, int, Access]] = []
        self._taken = np.zeros(0, np.uint8)
        """The kinds of listed writes to each cell: STORED, REDUCED or both."""
        self._left = 0
        """The number of listed writes, from the first, whose warps were released."""
        self._shadow: Shadow | None = None
        self._same: np.ndarray | None = None
        """For the store being checked: whether each address already holds the stored bits."""
        self.writes = self.reads = np.zeros(0, np.int64)
        self._before: np.ndarray | None = None
        """The cells that were accessed before `start_footprint`."""

    @property
    def _count(self) -> int:
        return -(-(self._allocation.address + self._allocation.size - self._base) // self._cell)

    def start_footprint(self) -> None:
        """Collect in `touched` the cells accessed from now on, without those that were accessed before.

        Accesses of other clusters to the latter that matter are reported as races.
        """
        _, self._before = self._accessed()

    def release_warps(self, ended: Mapping[Issuer, EndedWarp]) -> None:
        """Release ended warps, except for what reports need."""
        for _, _, access in self._listed[self._left :]:
            if access.warp in ended:
                access.warp = access.via.copies.warp = ended[access.warp]  # type: ignore[assignment]
        while self._left < len(self._listed) and isinstance(self._listed[self._left][2].warp, EndedWarp):
            self._left += 1

    def touched(self) -> Touched | None:
        """Return the cells accessed since `start_footprint`; None for nothing."""
        new = True if self._before is None else ~self._before
        written, accessed = (bits & new for bits in self._accessed())
        return (np.packbits(written), np.packbits(accessed)) if accessed.any() else None

    def _accessed(self) -> Touched:
        """Return the masks of written and of accessed cells, bool[cells]."""
        if self._shadow is None:
            listed = self._taken != 0 if self._taken.size else np.zeros(self._count, bool)
            return listed, listed
        written = (self._shadow.writer != UNWRITTEN) | (self.writes != 0)
        return written, written | (self._shadow.reader != UNWRITTEN) | (self.reads != 0)

    def touch(self) -> Shadow:
        """Return the shadow, made from the listed writes at the first call."""
        if self._shadow is None:
            count = self._count
            self.writes, self.reads = np.zeros(count, np.int64), np.zeros(count, np.int64)
            self._shadow = Shadow(count, self._whole.history, self._blame, by_lane=self._blame_lanes)
            for addresses, size, me in self._listed:
                cells = self.cells(addresses, size)
                if me.strong and self._shadow.writer[cells].any():
                    self._shadow.keep_superseded(cells, me, Clock(0))
                self._shadow.writer[cells] = self._whole.history.record(me)
                self.writes[cells] = NOBODY
            self._listed.clear()
            self._taken = np.zeros(0, np.uint8)
        return self._shadow

    def notes(self) -> tuple[int, int]:
        """Return the addresses of the notes of writes and of reads, biased to index by address; 0 if there are none."""
        if self._shadow is None:
            return 0, 0
        skipped = 8 * (self._base // self._cell)
        return tuple((there.ctypes.data - skipped) % (1 << 64) for there in (self.writes, self.reads))  # type: ignore[return-value]

    def same(self, addresses: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return whether each address already holds the values, unsigned[n, count]: bool[n]."""
        view, base = self._allocation.view(values.itemsize)
        first = (addresses - np.uint64(base)).astype(np.intp) // values.itemsize
        found: np.ndarray = (view[first[:, None] + np.arange(values.shape[1])] == values).all(1)
        return found

    def note_if_private(
        self,
        notes: np.ndarray,
        cells: np.ndarray,
        me: Access,
        lanes: Any,
        once: bool = False,
        same: np.ndarray | None = None,
    ) -> bool:
        """Note an access as compiled code would, if each lane finds its own notes or none. Return whether it did.

        same: for a write, see `same`.
        """
        if self._shadow is None or lanes is None or not me.generic or (number := self._whole.number(me)) >= IDS_MAX:
            return False
        lane = _lane_numbers(lanes.tobytes())
        if lane.size == 1 and lane.item() == UNKNOWN:
            return False
        if me.strong and not self._all_strong(notes[cells]):
            return False
        who = me.warp.serial << SERIAL_BITS | lane
        for there, none in ((self.writes[cells], once), (self.reads[cells], False)):
            if (((there & GLOBAL_WHO) != who) | none)[there != 0].any():
                return False
        if np.unique(cells).size < cells.size:
            return False
        kept = 0
        if same is not None:
            there = self.writes[cells]
            kept = UNCHANGED * (_unchanged(there, self.reads[cells] != 0) & same[:, None])
            kept |= LOST * ((there != 0) & ((there & LOST != 0) | ~same[:, None]))
        notes[cells] = me.time << GLOBAL_TIME_BITS | number + 1 << ID_BITS | who | kept
        return True

    def _all_strong(self, notes: np.ndarray) -> bool:
        """Return whether all these notes are of strong accesses, or empty."""
        numbers = distinct((notes[notes != 0] & GLOBAL_ID) >> ID_BITS)
        return all(number and self._whole.accesses[number - 1][2] for number in numbers)

    def read(self, cells: np.ndarray, me: GlobalAccess, clock: Clock, lanes: Any, once: bool) -> None:
        """Check and note a read."""
        shadow = self.touch()
        self._flush(cells)
        if once:
            self._report_nc_read(cells, me)
        if lanes is not None:
            me.together = int(np.bitwise_or.reduce(lanes))
            lanes = lanes[:, None]
        shadow.read(cells, me, clock, lanes=lanes)
        self._report_hidden(cells, me, clock)
        note = _note(me, None if lanes is None else shadow.reader_lanes[cells])
        self.reads[cells] = np.where(self._alone(shadow.reader[cells]), note, NOBODY)

    def write(
        self,
        addresses: np.ndarray,
        values: np.ndarray,
        me: GlobalAccess,
        clock: Clock,
        lanes: Any,
        same: np.ndarray,
    ) -> None:
        """Check and note a write. same: see the method of that name."""
        shadow, size = self.touch(), values.itemsize * values.shape[1]
        cells = self.cells(addresses, size)
        self._flush(cells)
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
        asks = several or lanes is None or me.beside or me.hidden or (me.strong and shadow.superseded[cells].any())
        note = _note(me, None if asks else lanes[:, None])
        self.writes[cells], self.reads[cells] = note | UNCHANGED * me.unchanged, 0

    def write_by_agent(self, addresses: np.ndarray, size: int, me: GlobalAccess, clock: Clock) -> None:
        """List the write; or check and note it, once other accesses touched the allocation or agents these cells."""
        cells = self.cells(addresses, size)
        if self._shadow is None:
            if not self._taken.size:
                self._taken = np.zeros(self._count, np.uint8)
            taken = self._taken[cells]
            if not (taken & STORED if me.strong else taken).any():
                self._taken[cells] = taken | (REDUCED if me.strong else STORED)
                self._listed.append((addresses, size, me))
                return
        shadow = self.touch()
        self._flush(cells)
        shadow.write(cells, me, clock)
        self.writes[cells], self.reads[cells] = NOBODY, 0

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
        readers = [accesses[number] for number in distinct(self.touch().reader[cells])]
        return all(r is not None and any(part.warp is me.warp for part in r.parts or (r,)) for r in readers)

    def _alone(self, readers: np.ndarray) -> Any:
        """Return whether each of the readers is one access."""
        accesses = self._whole.history.accesses
        joint = [number for number in distinct(readers) if (access := accesses[number]) is None or access.parts]
        return ~np.isin(readers, joint) if joint else True

    def _flush(self, cells: np.ndarray) -> None:
        """Merge the notes of compiled code about cells into the shadow."""
        shadow, places = self.touch(), cells.reshape(-1)
        shadow.settle_writes(places, self.writes, None, GLOBAL_ID, self._noted)
        reads = self.reads[places]
        noted = reads & GLOBAL_ID != 0
        if noted.any():
            shadow.settle_reads(places[noted], reads[noted], self._noted_read)
            self.reads[places] = reads & ~GLOBAL_ID

    def _noted_read(self, epoch: int, lanes: np.ndarray) -> GlobalAccess:
        me = self._noted(epoch)
        me.together = int(np.bitwise_and.reduce(lanes))
        return me

    def _noted(self, epoch: int) -> GlobalAccess:
        instr, what, strong = self._whole.accesses[((epoch & GLOBAL_ID) >> ID_BITS) - 1]
        warp = self._whole.warps[epoch >> SERIAL_BITS & SERIALS_MAX]
        access = GlobalAccess(warp.component, epoch >> GLOBAL_TIME_BITS, True, instr, warp, what)
        access.issued, access.strong = access.time, strong
        access.unchanged, access.lost = bool(epoch & UNCHANGED), bool(epoch & LOST)
        access.same = not access.lost
        return access

    def _report_nc_read(self, cells: np.ndarray, me: GlobalAccess) -> None:
        """Report a load by the non-coherent path from memory that was written in the launch, in order or not."""
        accesses = self._whole.history.accesses
        wrote = next((a for n in distinct(self.touch().writer[cells]) if (a := accesses[n]) is not None), None)
        if wrote is not None:
            what = f"{me.what}.nc reads {self._shown(cells)}, which {wrote.what} wrote in this launch"
            at = (("written at", place(wrote.instr, wrote.warp)), ("by", str(wrote.warp)))
            missing = ("missing", f"a load without .nc at PTX line {me.instr.line}")
            self._whole._launch.report(DataRace(what, me.instr, me.warp, (*at, missing)))

    def _shown(self, cells: np.ndarray | np.intp) -> str:
        first, last = (self._base + self._cell * int(at) for at in (cells.min(), cells.max() + 1))
        count = self._cell * np.unique(cells).size
        name = self._whole._launch.memory.name_of(self._allocation)
        return f"global memory {first:#x} to {last - 1:#x} of {name} ({count} bytes)"

    def _blame(self, me: Access, clock: Clock, verb: str, cells: Any, number: int, kind: str) -> None:
        if number == UNWRITTEN:
            return
        shadow, history = self.touch(), self._whole.history
        other = history.accesses[number]
        hit = shadow.done_by(cells, number, kind)
        level: Grade = Level.FAULT
        write = other if kind == "write" else me
        if (verb, kind) != ("writes", "write") and isinstance(write, GlobalAccess) and write.unchanged:
            level = Leniency.PUT_BACK
        elif self._equal(me, clock, verb, cells, hit, kind, other):
            level = Leniency.EQUAL_BITS
        shown, part = self._shown(cells[hit]), part_of_load(me, hit)
        copies = [each for each in (me, other) if isinstance(each, GlobalAccess) and not (each.generic or each.strong)]
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
            return last and not unsafe_cells(me, other, cells[hit], clock).size  # type: ignore[arg-type]
        if self._same is None or not self._same[hit.any(1)].all():
            return False
        if kind == "write":
            return _is_plain(other)
        accesses = self._whole.history.accesses
        writers = [accesses[number] for number in distinct(self.touch().writer[cells][hit])]
        return all(_is_plain(w) and not (w is None or me.orders(w, clock)) for w in writers)

    def _replace(self, cells: np.ndarray, me: GlobalAccess, clock: Clock) -> None:
        """Before a write, look at stores that earlier ones of the same bits replaced without order."""
        assert self._same is not None
        shadow, history = self.touch(), self._whole.history
        writers = shadow.writer[cells]
        for number in distinct(writers):
            other = history.accesses[number]
            here = writers == number
            if not isinstance(other, GlobalAccess) or not _is_plain(other):
                continue
            at = np.unique(cells[here])
            if self._same[here.any(1)].all():
                replace_equal(me, other, at, clock, history.accesses)
                continue
            for beside in replaced_unequal(me, other, at, clock):
                shown, store = self._shown(beside.cells), history.record(beside.store)
                report_conflict(me, clock, "writes", shown, history, store, "write")

    def _report_hidden(self, cells: np.ndarray, me: GlobalAccess, clock: Clock) -> None:
        """Report a read that may see other bits than the last write stored, although it is ordered after that."""
        writers, history = self.touch().writer[cells], self._whole.history
        for number in distinct(writers):
            last = history.accesses[number]
            if not isinstance(last, GlobalAccess) or not last.hidden or not me.comes_after(last, clock):
                continue
            hit = (writers == number) & np.isin(cells, unsafe_cells(me, last, cells[writers == number], clock))
            for hidden in last.hidden if hit.any() else ():
                shown, store = self._shown(hidden.cells), history.record(hidden.store)
                report_conflict(me, clock, "reads", shown, history, store, "write", part=part_of_load(me, hit))

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

    def _blame_lanes(self, me: Access, verb: str, cells: Any, apart: Any, mine: Any, number: int, kind: str) -> None:
        """Report a conflict between lanes.

        Compilers load a value in all lanes and store its successor from one lane. That lane stores after its own load,
        and the other lanes loaded in the same instruction.
        """
        report_lane_race(me, verb, cells, apart, mine, self.touch(), number, kind, self._shown, read_together=True)


def _note(me: GlobalAccess, lanes: Any) -> Any:
    """Return a note of an access that is in the shadow. lanes: as bits, None to make compiled code ask."""
    if lanes is None:
        return NOBODY
    return me.time << GLOBAL_TIME_BITS | me.warp.serial << SERIAL_BITS | lane_of(lanes)


def _is_plain(write: Access | None) -> bool:
    """Return True if a completed write does not depend on the old contents, i.e. is not a reduction."""
    parts = () if write is None else write.parts or (write,)
    return all(
        not part.instr.kind.is_read_modify_write if part.generic else not part.strong and _was_made(part)
        for part in parts
    )


def _was_made(write: Access) -> bool:
    return isinstance(write, GlobalAccess) and write.completed


def _unchanged(writes: np.ndarray, read: Any) -> Any:
    """Return whether no write with these notes changed its cell. read: whether the next writer had read it."""
    return np.where(writes == 0, read, writes & UNCHANGED != 0)


@lru_cache(maxsize=256)
def _lane_numbers(bits: bytes) -> np.ndarray:
    """Return lanes (bits, uint32[n]) as notes hold them: int64[n, 1]."""
    return lane_of(np.frombuffer(bits, np.uint32))[:, None]


class _Accesses(History):
    """A history of global accesses that finds those of a cluster."""

    def __init__(self, components: int) -> None:
        super().__init__(components)
        self._of: dict[Any, list[Access]] = {}

    def record(self, access: Access) -> int:
        self._of.setdefault(access.warp.cta.cluster_id, []).append(access)
        return super().record(access)

    def forget(self, cluster_id: Any) -> list[Access]:
        """Remove and return the accesses of a cluster that has ended."""
        return self._of.pop(cluster_id, [])
