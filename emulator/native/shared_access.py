"""Loads and stores of the CTA's own shared memory as machine code, with the happens-before check of the common case.

Beside the shadow of shared memory there is a note for each of its cells: who wrote it last and, for each warp, its last
read since. A load goes on if its warp's clock has seen what the notes say of the writes, a store also that of the
reads. Where a note is `ASK`, or the lanes' pattern is not the one whose bank conflicts are known, the handler decides.
"""

from __future__ import annotations

from typing import Final

from emulator.native.access import AccessBody

PATTERNS, START, LIMIT, DATA, WRITES, READS, READERS, CLOCK, COMPONENTS, WARPS, CELLS, WARP = range(2, 14)
"""Longs of the row `memory`: the launch's patterns; the window's start and size (0 while there are no notes), its bytes
in the host's memory; the notes of writes, those of the first warp's reads, the shadow's readers; the warp's clock; of
the CTA's warps their components and their number; the number of cells; the warp's own index."""
TIME_BITS, COMPONENT_BITS = 32, 20
"""A note is time << 32 | component << 20 | id of an instruction; an id of 0 says that the shadow knows who."""
COMPONENTS_MAX: Final = 1 << TIME_BITS - COMPONENT_BITS
ASK: Final = 0x7FFF_FFFF << TIME_BITS
"""Of a time that nobody has seen."""
UNWRITTEN: Final = ASK | 1
FIRST_ID: Final = 2
PATTERN_WORDS: Final = 36
"""A pattern: how often it occurred (64 bits), the active lanes, 0, and each one's offset from the first of them."""


class SharedAccessBody(AccessBody):
    """The code of an access of shared memory."""

    def window(self) -> tuple[str, str]:
        """The CTA's own. Without notes there is none."""
        limit = self.number(LIMIT)
        self.do(f"br i1 {self.scalar(f'icmp eq i64 {limit}, 0')}, label %ask, label %noted\nnoted:")
        return self.number(START), limit

    def host(self, address: str, offset: str) -> str:
        """The places in the host's memory."""
        return self.two("add", "i64", offset, self.splat("i64", self.number(DATA)))

    def check(self, offset: str, good: str, asked: str) -> str:
        """The lanes that are ordered after what the notes tell, if the pattern is known."""
        first = self.two("lshr", "i64", offset, "splat (i64 2)")
        self.cells = [self.two("add", "i64", first, f"splat (i64 {i})") for i in range(self.bytes // 4)]
        kept = good
        for cells in self.cells:
            notes = self.gather("i64", self.all_at(self.memory(WRITES), "i64", cells), good)
            clock = self.all_at(self.memory(CLOCK), "i64", self._component(notes))
            ordered = self._seen(self.gather("i64", clock, good), notes)
            if self.access.store:
                fresh = self.two("icmp eq", "i64", notes, f"splat (i64 {UNWRITTEN})")
                readers = self.gather("i32", self.all_at(self.memory(READERS), "i32", cells), good)
                unread = self.two("icmp eq", "i32", readers, "zeroinitializer")
                ordered = self.two("and", "i1", self.two("or", "i1", ordered, fresh), unread)
            kept = self.two("and", "i1", kept, ordered)
        if self.access.store:
            kept = self._after_reads(kept, good)
        known = self._pattern_is_known(offset, asked)
        return self.scalar(f"select i1 {known}, <32 x i1> {kept}, <32 x i1> zeroinitializer")

    def note(self, offset: str, lanes: str, asked: str) -> None:
        """Note the access, and count its pattern."""
        warp = self.number(WARP)
        component = self.long(self.at(self.memory(COMPONENTS), "i64", warp))
        time = self.scalar(f"shl i64 {self.long(self.at(self.memory(CLOCK), 'i64', component))}, {TIME_BITS}")
        who = self.scalar(f"shl i64 {component}, {COMPONENT_BITS}")
        where = self.scalar(f"add i64 {self.word(3)}, {FIRST_ID}")
        note = self.splat("i64", self.scalar(f"or i64 {time}, {self.scalar(f'or i64 {who}, {where}')}"))
        into = self.memory(WRITES) if self.access.store else self._reads(warp)
        for cells in self.cells:
            self.scatter("i64", note, self.all_at(into, "i64", cells), lanes)
        if self.access.store:
            self._forget_reads(lanes)
        pattern = self._pattern()
        self.do(f"store i64 {self.scalar(f'add i64 {self.long(pattern)}, 1')}, ptr {pattern}, align 8")

    def number(self, index: int) -> str:
        """A number of the row `memory`."""
        return self.long(self.at(self.place(4), "i64", index))

    def all_at(self, address: str, kind: str, indices: str) -> str:
        """The addresses of elements."""
        return self.scalar(f"getelementptr {kind}, ptr {address}, <32 x i64> {indices}")

    def _component(self, notes: str) -> str:
        low = self.two("lshr", "i64", notes, f"splat (i64 {COMPONENT_BITS})")
        return self.two("and", "i64", low, f"splat (i64 {COMPONENTS_MAX - 1})")

    def _seen(self, times: str, notes: str) -> str:
        return self.two("icmp sge", "i64", times, self.two("ashr", "i64", notes, f"splat (i64 {TIME_BITS})"))

    def _reads(self, warp: str) -> str:
        """The notes of a warp's reads."""
        return self.at(self.memory(READS), "i64", self.scalar(f"mul i64 {warp}, {self.number(CELLS)}"))

    def _after_reads(self, kept: str, good: str) -> str:
        """The lanes that are also ordered after all warps' reads."""
        self.do("br label %reads\nreads:\nbr label %read\nread:")
        self.do("%reader = phi i64 [ 0, %reads ], [ %reader1, %read ]")
        self.do(f"%kept = phi <32 x i1> [ {kept}, %reads ], [ %kept1, %read ]")
        component = self.long(self.at(self.memory(COMPONENTS), "i64", "%reader"))
        seen = self.splat("i64", self.long(self.at(self.memory(CLOCK), "i64", component)))
        kept = "%kept"
        for cells in self.cells:
            notes = self.gather("i64", self.all_at(self._reads("%reader"), "i64", cells), good)
            kept = self.two("and", "i1", kept, self._seen(seen, notes))
        self.do(f"%kept1 = freeze <32 x i1> {kept}")
        self._next("reader", "read")
        return "%kept1"

    def _forget_reads(self, lanes: str) -> None:
        self.do("br label %forgets\nforgets:\nbr label %forget\nforget:")
        self.do("%forgotten = phi i64 [ 0, %forgets ], [ %forgotten1, %forget ]")
        for cells in self.cells:
            self.scatter("i64", "zeroinitializer", self.all_at(self._reads("%forgotten"), "i64", cells), lanes)
        self._next("forgotten", "forget")

    def _next(self, counter: str, label: str) -> None:
        """The end of a loop over the CTA's warps."""
        self.do(f"%{counter}1 = add i64 %{counter}, 1")
        more = self.scalar(f"icmp ult i64 %{counter}1, {self.number(WARPS)}")
        self.do(f"br i1 {more}, label %{label}, label %{label}_end\n{label}_end:")

    def _pattern(self) -> str:
        return self.at(self.memory(PATTERNS), f"[{PATTERN_WORDS} x i32]", self.word(3))

    def _pattern_is_known(self, offset: str, asked: str) -> str:
        lane = self.called("i32 @llvm.cttz.i32(i32, i1)", (asked, "true"))
        first = self.splat("i64", self.scalar(f"extractelement <32 x i64> {offset}, i32 {lane}"))
        apart = self.scalar(f"trunc <32 x i64> {self.two('sub', 'i64', offset, first)} to <32 x i32>")
        lanes = self.scalar(f"bitcast i32 {asked} to <32 x i1>")
        apart = self.scalar(f"select <32 x i1> {lanes}, <32 x i32> {apart}, <32 x i32> zeroinitializer")
        pattern = self._pattern()
        last = self.scalar(f"load <32 x i32>, ptr {self.at(pattern, 'i32', 4)}, align 16")
        same = self.scalar(f"bitcast <32 x i1> {self.two('icmp eq', 'i32', apart, last)} to i32")
        active = self.scalar(f"load i32, ptr {self.at(pattern, 'i32', 2)}, align 8")
        all_same = self.scalar(f"icmp eq i32 {same}, -1")
        wanted = "1" if self.access.uniform else asked
        return self.scalar(f"and i1 {all_same}, {self.scalar(f'icmp eq i32 {active}, {wanted}')}")
