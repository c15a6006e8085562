"""Loads and stores of shared memory as machine code, with the happens-before check of the common case.

`memory_layout` explains when an access may proceed.
"""

from __future__ import annotations

from functools import partial, reduce

from ..chip import RANK_SHIFT
from .load_store import NUMBER, LoadStore, LoadStoreBody
from .memory_layout import (
    COMPONENT_BITS,
    COMPONENTS_MAX,
    FIRST_ID,
    ID_BITS,
    LANE,
    MANY,
    MEMORY_ROW,
    PATTERN,
    READ,
    TIME_BITS,
    UNWRITTEN,
    WRITTEN,
)


class SharedLoadStoreBody(LoadStoreBody):
    """The code of an access of shared memory."""

    def __init__(self, access: LoadStore) -> None:
        super().__init__(access)
        self._peer = ""
        self.were_read = ""
        """For a store, whether reads of its cells by any warp are noted."""

    def row(self) -> str:
        """Return the address of the row `memory` for the CTA, or for the peer that is accessed."""
        return self._peer or super().row()

    def window(self, address: str, asked: str) -> tuple[str, str]:
        """Return the window of the CTA, or of the CTA that the first lane accesses. Without notes there is none."""
        if self.access.peer:
            lane = self.called("i32 @llvm.cttz.i32(i32, i1)", (asked, "true"))
            first = self.scalar(f"extractelement <32 x i64> {address}, i32 {lane}")
            rank = self.scalar(f"lshr i64 {first}, {RANK_SHIFT}")
            known = self.scalar(f"icmp ult i64 {rank}, {self.number('ctas')}")
            self.do(f"br i1 {known}, label %near, label %ask\nnear:")
            self._peer = self.at(self.memory("peers"), f"[{MEMORY_ROW.itemsize} x i8]", rank)
        limit = self.number("limit")
        self.do(f"br i1 {self.scalar(f'icmp eq i64 {limit}, 0')}, label %ask, label %noted\nnoted:")
        return self.number("start"), limit

    def host(self, address: str, offset: str) -> str:
        """Return the addresses in host memory."""
        return self.two("add", "i64", offset, self.splat("i64", self.number("data")))

    def check(self, offset: str, good: str, asked: str) -> str:
        """Return the lanes ordered after the notes, if the pattern is known."""
        first = self.two("lshr", "i64", offset, "splat (i64 2)")
        self.cells = [self.two("add", "i64", first, f"splat (i64 {i})") for i in range(self.bytes // 4)]
        self.warp = self.number("warp")
        self.component = self.long(self.at(self.memory("components"), "i64", self.warp))
        self.lane = self.lane_of_each()
        kept = good
        for cells in self.cells:
            notes = self.gather("i64", self.all_at(self.memory("writes"), "i64", cells), good)
            ordered = self._seen(self.gather("i64", self._clock_of(notes), good), notes)
            if self.access.store:
                fresh = self.two("icmp eq", "i64", notes, f"splat (i64 {UNWRITTEN})")
                readers = self.gather("i32", self.all_at(self.memory("readers"), "i32", cells), good)
                ordered = self.two("and", "i1", self.two("or", "i1", ordered, fresh), self._unread(readers, good))
            kept = self.two("and", "i1", kept, ordered)
        if self.access.store:
            kept = self._after_reads(kept, good)
        known = self._pattern_is_known(offset, asked)
        if self.access.store and self.access.uniform:
            known = self.scalar(f"and i1 {known}, {self.one_or_all()}")
        return self.scalar(f"select i1 {known}, <32 x i1> {kept}, <32 x i1> zeroinitializer")

    def compare(self, values: list[str], places: list[str], lanes: str) -> None:
        """Do nothing: shared memory has no UNCHANGED bit."""

    def note(self, offset: str, lanes: str, asked: str) -> None:
        """Note the access, and count its pattern."""
        time = self.scalar(f"shl i64 {self.long(self.at(self.memory('clock'), 'i64', self.component))}, {TIME_BITS}")
        who = self.scalar(f"shl i64 {self.component}, {COMPONENT_BITS}")
        where = self.scalar(f"add i64 {self.scalar(f'shl i64 {self.word(NUMBER)}, {ID_BITS}')}, {FIRST_ID}")
        note = self.splat("i64", self.scalar(f"or i64 {time}, {self.scalar(f'or i64 {who}, {where}')}"))
        if self.access.store:
            for cells in self.cells:
                there = self.all_at(self.memory("writes"), "i64", cells)
                self.scatter("i64", self.two("or", "i64", note, self.lane), there, lanes)
            self._forget_reads(lanes)
        else:
            self._note_reads(note, lanes)
        for cells in self.cells:
            noted = WRITTEN if self.access.store else WRITTEN | READ
            self.scatter("i8", f"splat (i8 {noted})", self.all_at(self.memory("noted"), "i8", cells), lanes)
        pattern = self._pattern()
        self.do(f"store i64 {self.scalar(f'add i64 {self.long(pattern)}, 1')}, ptr {pattern}, align 8")

    def _note_reads(self, note: str, lanes: str) -> None:
        """Note a load by its lane, or by MANY if another lane read there since the lanes last synchronised."""
        who = self.lane
        if not self.access.uniform:
            place = self.field(self._pattern(), "who", PATTERN)
            who = self.scalar(f"zext <32 x i32> {self.scalar(f'load <32 x i32>, ptr {place}, align 16')} to <32 x i64>")
        met = self.splat("i64", self._time_of_lanes(self.component))
        for cells in self.cells:
            there = self.all_at(self._reads(self.warp), "i64", cells)
            before = self.gather("i64", there, lanes)
            other = self.two("icmp ne", "i64", self._lane_of(before), who)
            late = self.scalar(f"xor <32 x i1> {self._seen(met, before)}, splat (i1 true)")
            several = self.two("and", "i1", other, late)
            by = self.scalar(f"select <32 x i1> {several}, <32 x i64> splat (i64 {MANY}), <32 x i64> {who}")
            self.scatter("i64", self.two("or", "i64", note, by), there, lanes)

    def _unread(self, readers: str, good: str) -> str:
        """Return the lanes whose cells have no readers in the shadow, or readers that all lanes have seen."""
        none = self.two("icmp eq", "i32", readers, "zeroinitializer")
        table = self.scalar(f"load ptr, ptr {self.memory('epochs')}, align 8")
        numbers = self.scalar(f"zext <32 x i32> {readers} to <32 x i64>")
        epochs = self.gather("i64", self.all_at(table, "i64", numbers), good)
        component = self._component(epochs)
        own = self.two("icmp eq", "i64", component, self.splat("i64", self.component))
        place = self.two("add", "i64", component, self.scalar(f"zext <32 x i1> {own} to <32 x i64>"))
        times = self.gather("i64", self.all_at(self.memory("clock"), "i64", place), good)
        return self.two("or", "i1", none, self._seen(times, epochs))

    def _lane_of(self, notes: str) -> str:
        return self.two("and", "i64", notes, f"splat (i64 {LANE})")

    def _time_of_lanes(self, component: str) -> str:
        """Return the time up to which the lanes of the warp with this component have seen each other."""
        return self.long(self.at(self.memory("clock"), "i64", self.scalar(f"add i64 {component}, 1")))

    def _clock_of(self, notes: str) -> str:
        """Return the clock entries for the writers: the component's, or its lanes' if another lane wrote."""
        component = self._component(notes)
        own = self.two("icmp eq", "i64", component, self.splat("i64", self.component))
        lane = self._lane_of(notes)
        other = self.two("icmp ne", "i64", lane, self.lane)
        if not self.access.store:
            other = self.two("and", "i1", other, self.two("icmp ne", "i64", lane, f"splat (i64 {MANY})"))
        apart = self.scalar(f"zext <32 x i1> {self.two('and', 'i1', own, other)} to <32 x i64>")
        return self.all_at(self.memory("clock"), "i64", self.two("add", "i64", component, apart))

    def number(self, name: str) -> str:
        """Load a number from the row `memory`."""
        return self.long(self.field(self.row(), name, MEMORY_ROW))

    def all_at(self, address: str, kind: str, indices: str) -> str:
        """Return the addresses of elements."""
        return self.scalar(f"getelementptr {kind}, ptr {address}, <32 x i64> {indices}")

    def _component(self, notes: str) -> str:
        low = self.two("lshr", "i64", notes, f"splat (i64 {COMPONENT_BITS})")
        return self.two("and", "i64", low, f"splat (i64 {COMPONENTS_MAX - 1})")

    def _seen(self, times: str, notes: str) -> str:
        return self.two("icmp sge", "i64", times, self.two("ashr", "i64", notes, f"splat (i64 {TIME_BITS})"))

    def _reads(self, warp: str) -> str:
        """Return the address of the notes of a warp's reads."""
        notes = self.scalar(f"load ptr, ptr {self.memory('reads')}, align 8")
        return self.at(notes, "i64", self.scalar(f"mul i64 {warp}, {self.number('cells')}"))

    def _after_reads(self, kept: str, good: str) -> str:
        """Return the lanes that are also ordered after all warps' reads.

        There are none unless a cell is marked READ. Loads set the mark; flushing reads to the shadow, or forgetting
        them as here, clears it.
        """
        self.do("br label %reads\nreads:")
        noted = [self.gather("i8", self.all_at(self.memory("noted"), "i8", cells), good) for cells in self.cells]
        read = self.two("and", "i8", reduce(partial(self.two, "or", "i8"), noted), f"splat (i8 {READ})")
        some = self.scalar(f"bitcast <32 x i1> {self.two('icmp ne', 'i8', read, 'zeroinitializer')} to i32")
        self.were_read = self.scalar(f"icmp ne i32 {some}, 0")
        self.do(f"br i1 {self.were_read}, label %read, label %after_reads\nread:")
        self.do("%reader = phi i64 [ 0, %reads ], [ %reader1, %read ]")
        self.do(f"%kept = phi <32 x i1> [ {kept}, %reads ], [ %kept1, %read ]")
        component = self.long(self.at(self.memory("components"), "i64", "%reader"))
        seen = self.long(self.at(self.memory("clock"), "i64", component))
        own = self.scalar(f"icmp eq i64 %reader, {self.warp}")
        met = self.scalar(f"select i1 {own}, i64 {self._time_of_lanes(component)}, i64 {seen}")
        seen, met = self.splat("i64", seen), self.splat("i64", met)
        several = self.two("icmp eq", "i64", self.lane, f"splat (i64 {MANY})")
        before, kept = kept, "%kept"
        for cells in self.cells:
            notes = self.gather("i64", self.all_at(self._reads("%reader"), "i64", cells), good)
            other = self.two("or", "i1", self.two("icmp ne", "i64", self._lane_of(notes), self.lane), several)
            times = self.scalar(f"select <32 x i1> {other}, <32 x i64> {met}, <32 x i64> {seen}")
            kept = self.two("and", "i1", kept, self._seen(times, notes))
        self.do(f"%kept1 = freeze <32 x i1> {kept}")
        self._next("reader", "read")
        self.do("br label %after_reads\nafter_reads:")
        return self.scalar(f"phi <32 x i1> [ {before}, %reads ], [ %kept1, %read_end ]")

    def _forget_reads(self, lanes: str) -> None:
        self.do(f"br i1 {self.were_read}, label %forgets, label %after_forgets\nforgets:\nbr label %forget\nforget:")
        self.do("%forgotten = phi i64 [ 0, %forgets ], [ %forgotten1, %forget ]")
        for cells in self.cells:
            self.scatter("i64", "zeroinitializer", self.all_at(self._reads("%forgotten"), "i64", cells), lanes)
        self._next("forgotten", "forget")
        self.do("br label %after_forgets\nafter_forgets:")

    def _next(self, counter: str, label: str) -> None:
        """Write the end of a loop over the warps with notes."""
        self.do(f"%{counter}1 = add i64 %{counter}, 1")
        more = self.scalar(f"icmp ult i64 %{counter}1, {self.long(self.memory('warps'))}")
        self.do(f"br i1 {more}, label %{label}, label %{label}_end\n{label}_end:")

    def _pattern(self) -> str:
        return self.at(self.memory("patterns"), f"[{PATTERN.itemsize} x i8]", self.word(NUMBER))

    def _pattern_is_known(self, offset: str, asked: str) -> str:
        lane = self.called("i32 @llvm.cttz.i32(i32, i1)", (asked, "true"))
        first = self.splat("i64", self.scalar(f"extractelement <32 x i64> {offset}, i32 {lane}"))
        apart = self.scalar(f"trunc <32 x i64> {self.two('sub', 'i64', offset, first)} to <32 x i32>")
        lanes = self.scalar(f"bitcast i32 {asked} to <32 x i1>")
        apart = self.scalar(f"select <32 x i1> {lanes}, <32 x i32> {apart}, <32 x i32> zeroinitializer")
        pattern = self._pattern()
        last = self.scalar(f"load <32 x i32>, ptr {self.field(pattern, 'offsets', PATTERN)}, align 16")
        same = self.scalar(f"bitcast <32 x i1> {self.two('icmp eq', 'i32', apart, last)} to i32")
        active = self.scalar(f"load i32, ptr {self.field(pattern, 'lanes', PATTERN)}, align 8")
        all_same = self.scalar(f"icmp eq i32 {same}, -1")
        wanted = "1" if self.access.uniform else asked
        return self.scalar(f"and i1 {all_same}, {self.scalar(f'icmp eq i32 {active}, {wanted}')}")
