"""Ordinary loads and stores as machine code for the common case. All other cases are left to their handlers.

A step stops its list if a lane is misaligned or outside the allocation that the handler allowed last time. The handler
then performs the whole access and reports its faults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..chip import LANES
from .body import Body
from .memory_layout import (
    GLOBAL_TIME_BITS,
    GLOBAL_WHO,
    ID_BITS,
    LOST,
    MANY,
    MEMORY_ROW,
    SERIAL_BITS,
    UNCHANGED,
    WINDOW,
    offset_of,
)
from .recorder import Row

DATA, ADDRESS, ADDEND, NUMBER, MEMORY, GUARD = range(6)
"""The operands of a step: the first data register or the stored constant, the address register, the addend, the
access's number in the program, the row `memory`, the guard."""


@dataclass(frozen=True, slots=True)
class LoadStore:
    """An operation: a load or store of `count` elements of `width` bytes per lane, to or from registers of `bits`.

    shared: of shared memory, else global. peer: of any CTA of the cluster. address: the kind of the address register.
    uniform: address and stored data are the same in all lanes. guard: the required value of the guard's predicate, if
    there is one. constant: the stored data is a number. cell: bytes of global memory per note. once: the loaded memory
    must not be written in the launch.
    """

    store: bool
    shared: bool
    peer: bool
    width: int
    count: int
    bits: int
    signed: bool
    address: str
    uniform: bool
    guard: bool | None
    constant: bool
    cell: int
    once: bool


@dataclass(frozen=True, slots=True)
class LoadStoreStep:
    """One access, on operands in the order DATA to GUARD."""

    operation: LoadStore
    places: tuple[Row | int, Row, int, int, Row, Row | None]


class LoadStoreBody(Body):
    """The code of an access of global memory."""

    def __init__(self, access: LoadStore) -> None:
        super().__init__()
        self.access = access
        self.bytes = access.width * access.count
        self.live = ""
        """The lanes that execute the access, as bits."""
        self.unchanged: list[str] = []
        """For each stored cell, the lanes in which no store of the launch changed it."""
        self.lost: list[str] = []
        """For each stored cell, the lanes whose own earlier store of other bits nothing else records."""
        self.again: list[str] = []
        """For each stored cell, the lanes that stored there before."""
        self.element, self.register = f"i{8 * access.width}", f"i{access.bits}"

    def write(self) -> None:
        """Write the code: find the lanes, check their addresses, load or store, count."""
        self.live = live = self._live()
        asked = live
        if self.access.uniform:
            asked = self.scalar(f"and i32 {live}, {self.scalar(f'sub i32 0, {live}')}")
        lanes = self.scalar(f"bitcast i32 {asked} to <32 x i1>")
        address = self._address()
        start, count = self.window(address, asked)
        offset = self.two("sub", "i64", address, self.splat("i64", start))
        inside = self.two("icmp ult", "i64", offset, self.splat("i64", count))
        rest = self.two("and", "i64", address, f"splat (i64 {self.bytes - 1})")
        aligned = self.two("icmp eq", "i64", rest, "zeroinitializer")
        good = self.two("and", "i1", lanes, self.two("and", "i1", inside, aligned))
        good = self.scalar(f"bitcast <32 x i1> {self.check(offset, good, asked)} to i32")
        self.do(f"br i1 {self.scalar(f'icmp eq i32 {good}, {asked}')}, label %go, label %ask\ngo:")
        if self.access.store:
            self._mark_executed()
        places = [
            self.pointers(
                self.two("add", "i64", self.host(address, offset), f"splat (i64 {index * self.access.width})")
            )
            for index in range(self.access.count)
        ]
        if self.access.store:
            values = [self._value(index) for index in range(self.access.count)]
            self.compare(values, places, lanes)
            for value, there in zip(values, places, strict=True):
                self.scatter(self.element, value, there, lanes)
        else:
            for index, there in enumerate(places):
                self._load(index, there, lanes, live)
        self.note(offset, lanes, asked)
        self.do("br label %done\ndone:")
        self.do(f"ret ptr {self.after()}\nask:\nret ptr null")

    def _mark_executed(self) -> None:
        """Mark the lanes that execute the store."""
        table = self.scalar(f"load ptr, ptr {self.field(self.place(MEMORY), 'stored', MEMORY_ROW)}, align 8")
        there = self.at(table, "i32", self.word(NUMBER))
        known = self.scalar(f"load i32, ptr {there}, align 4")
        self.do(f"store i32 {self.scalar(f'or i32 {known}, {self.live}')}, ptr {there}, align 4")

    def row(self) -> str:
        """Return the address of the row `memory`."""
        return self.place(MEMORY)

    def window(self, address: str, asked: str) -> tuple[str, str]:
        """Return the start of the window, and the number of bytes in which an access may begin."""
        found = self.at(self.memory("windows"), f"[{WINDOW.itemsize} x i8]", self.word(NUMBER))
        self.notes = {name: self.long(self.field(found, name, WINDOW)) for name in ("writes", "reads")}
        self.start = self.long(self.field(found, "start", WINDOW))
        return self.start, self.long(self.field(found, "count", WINDOW))

    def check(self, offset: str, good: str, asked: str) -> str:
        """Return the lanes, among those with good addresses, that may proceed. offset: from the window's start."""
        self.tracked = self.scalar(f"icmp ne i64 {self.notes['writes']}, 0")
        self.do(f"br label %window\nwindow:\nbr i1 {self.tracked}, label %noted, label %checked\nnoted:")
        own = self.two("or", "i64", self.splat("i64", self._serial()), self.lane_of_each())
        kept, unused, marked, lost = good, dict[str, list[str]](), list[str](), list[str]()
        for name in self.notes:
            unused[name] = []
            for pointers in self._notes_at(offset, name):
                there = self.gather("i64", pointers, good)
                unused[name].append(free := self.two("icmp eq", "i64", there, "zeroinitializer"))
                if self.access.store and name == "writes":
                    marked.append(self._bit(there, UNCHANGED))
                    lost.append(self._bit(there, LOST))
                if not (self.access.once and name == "writes"):
                    who = self.two("and", "i64", there, f"splat (i64 {GLOBAL_WHO})")
                    free = self.two("or", "i1", free, self.two("icmp eq", "i64", who, own))
                kept = self.two("and", "i1", kept, free)
        unchanged = [
            self.two("or", "i1", bit, self.two("icmp ugt", "i1", unwritten, unread))
            for bit, unwritten, unread in zip(marked, unused["writes"], unused["reads"], strict=False)
        ]
        if self.access.uniform:
            kept = self.scalar(f"select i1 {self.one_or_all()}, <32 x i1> {kept}, <32 x i1> zeroinitializer")
        again = [self.scalar(f"xor <32 x i1> {none}, splat (i1 true)") for none in unused["writes"] if marked]
        self.do("br label %checked\nchecked:")
        self.unchanged, self.lost, self.again = (
            [self.scalar(f"phi <32 x i1> [ zeroinitializer, %window ], [ {cell}, %noted ]") for cell in cells]
            for cells in (unchanged, lost, again)
        )
        return self.scalar(f"phi <32 x i1> [ {good}, %window ], [ {kept}, %noted ]")

    def _bit(self, notes: str, bit: int) -> str:
        """Return the lanes whose notes have a bit."""
        return self.two("icmp ne", "i64", self.two("and", "i64", notes, f"splat (i64 {bit})"), "zeroinitializer")

    def _serial(self) -> str:
        """Return the warp's serial number, shifted as in a note."""
        return self.scalar(f"shl i64 {self.long(self.field(self.row(), 'serial', MEMORY_ROW))}, {SERIAL_BITS}")

    def _notes_at(self, offset: str, name: str) -> list[str]:
        """Return the addresses of the notes of each lane's cells, by cell."""
        address = self.two("add", "i64", offset, self.splat("i64", self.start))
        cell = self.two("lshr", "i64", address, f"splat (i64 {self.access.cell.bit_length() - 1})")
        at = self.two("add", "i64", self.two("shl", "i64", cell, "splat (i64 3)"), self.splat("i64", self.notes[name]))
        count = self.bytes // self.access.cell
        return [self.pointers(self.two("add", "i64", at, f"splat (i64 {8 * i})")) for i in range(count)]

    def compare(self, values: list[str], places: list[str], lanes: str) -> None:
        """Find, if that is noted, the cells that UNCHANGED and LOST hold for once the store is made."""
        self.do(f"br i1 {self.tracked}, label %compare, label %compared\ncompare:")
        kind = self.element
        same = [
            self.two("icmp eq", kind, self.gather(kind, place, lanes), value)
            for value, place in zip(values, places, strict=True)
        ]
        each = [same[index * self.access.cell // self.access.width] for index in range(len(self.unchanged))]
        kept = [self.two("and", "i1", cell, alike) for cell, alike in zip(self.unchanged, each, strict=True)]
        changed = [self.two("icmp ugt", "i1", cell, alike) for cell, alike in zip(self.again, each, strict=True)]
        lost = [self.two("or", "i1", cell, other) for cell, other in zip(self.lost, changed, strict=True)]
        self.do("br label %compared\ncompared:")
        self.unchanged, self.lost = (
            [self.scalar(f"phi <32 x i1> [ zeroinitializer, %go ], [ {cell}, %compare ]") for cell in cells]
            for cells in (kept, lost)
        )

    def host(self, address: str, offset: str) -> str:
        """Return the addresses in host memory."""
        return address

    def note(self, offset: str, lanes: str, asked: str) -> None:
        """Note the access if the allocation is tracked, and count its bytes."""
        self.do(f"br i1 {self.tracked}, label %mark, label %marked\nmark:")
        component = self.long(self.field(self.row(), "component", MEMORY_ROW))
        time = self.scalar(f"shl i64 {self.long(self.at(self.memory('clock'), 'i64', component))}, {GLOBAL_TIME_BITS}")
        who = self.scalar(f"add i64 {self.scalar(f'shl i64 {self.word(NUMBER)}, {ID_BITS}')}, {1 << ID_BITS}")
        note = self.splat("i64", self.scalar(f"or i64 {self.scalar(f'or i64 {time}, {self._serial()}')}, {who}"))
        note = self.two("or", "i64", note, self.lane_of_each())
        for index, pointers in enumerate(self._notes_at(offset, "writes" if self.access.store else "reads")):
            stored = note
            for cells, bit in ((self.unchanged, UNCHANGED), (self.lost, LOST)) if self.access.store else ():
                one = f"<32 x i64> splat (i64 {bit}), <32 x i64> zeroinitializer"
                stored = self.two("or", "i64", stored, self.scalar(f"select <32 x i1> {cells[index]}, {one}"))
            self.scatter("i64", stored, pointers, lanes)
        self.do("br label %marked\nmarked:")
        count = self.at(self.memory("bytes"), "i64", int(self.access.store))
        lanes = self.scalar(f"zext i32 {self.called('i32 @llvm.ctpop.i32(i32)', (asked,))} to i64")
        total = self.scalar(f"add i64 {self.long(count)}, {self.scalar(f'mul i64 {lanes}, {self.bytes}')}")
        self.do(f"store i64 {total}, ptr {count}, align 8")

    def lane_of_each(self) -> str:
        """Return each lane's number, or MANY for all lanes of a uniform access by several."""
        if not self.access.uniform:
            return f"<{', '.join(f'i64 {lane}' for lane in range(LANES))}>"
        first = self.called("i32 @llvm.cttz.i32(i32, i1)", (self.live, "true"))
        one = self.scalar(f"select i1 {self._alone()}, i32 {first}, i32 {MANY}")
        return self.splat("i64", self.scalar(f"zext i32 {one} to i64"))

    def _alone(self) -> str:
        """Return whether one lane executes the access."""
        less = self.scalar(f"and i32 {self.live}, {self.scalar(f'sub i32 {self.live}, 1')}")
        return self.scalar(f"icmp eq i32 {less}, 0")

    def one_or_all(self) -> str:
        """Return whether one lane or all lanes execute the access."""
        return self.scalar(f"or i1 {self._alone()}, {self.scalar(f'icmp eq i32 {self.live}, -1')}")

    def memory(self, name: str) -> str:
        """Load an address from the row `memory`."""
        return self.scalar(f"load ptr, ptr {self.field(self.row(), name, MEMORY_ROW)}, align 8")

    def field(self, address: str, name: str, within: np.dtype) -> str:
        """Return the address of a field of a record."""
        return self.at(address, "i8", offset_of(name, within))

    def _live(self) -> str:
        """Return the lanes that execute the access. Without any it is done."""
        if self.access.guard is None:
            return "%m"
        held = self.scalar(f"load i32, ptr {self.place(GUARD)}, align 4")
        if not self.access.guard:
            held = self.scalar(f"xor i32 {held}, -1")
        live = self.scalar(f"and i32 %m, {held}")
        self.do(f"br i1 {self.scalar(f'icmp eq i32 {live}, 0')}, label %done, label %some\nsome:")
        return live

    def _address(self) -> str:
        kind = self.access.address
        row = self.scalar(f"load <32 x {kind}>, ptr {self.place(ADDRESS)}, align 64")
        more = self.word(ADDEND)
        if kind == "i64":
            return self.two("add", kind, row, self.splat(kind, more))
        address = self.two("add", kind, row, self.splat(kind, self.scalar(f"trunc i64 {more} to {kind}")))
        return self.scalar(f"zext <32 x {kind}> {address} to <32 x i64>")

    def _load(self, index: int, pointers: str, lanes: str, live: str) -> None:
        value = self.gather(self.element, pointers, lanes)
        if self.access.uniform:
            lane = self.called("i32 @llvm.cttz.i32(i32, i1)", (live, "true"))
            one = self.scalar(f"extractelement <32 x {self.element}> {value}, i32 {lane}")
            value, lanes = self.splat(self.element, one), self.scalar(f"bitcast i32 {live} to <32 x i1>")
        if self.register != self.element:
            extend = "sext" if self.access.signed else "zext"
            value = self.scalar(f"{extend} <32 x {self.element}> {value} to <32 x {self.register}>")
        row, kind = self._row(index), f"<32 x {self.register}>"
        old = self.scalar(f"load {kind}, ptr {row}, align 64")
        new = self.scalar(f"select <32 x i1> {lanes}, {kind} {value}, {kind} {old}")
        self.do(f"store {kind} {new}, ptr {row}, align 64")

    def _value(self, index: int) -> str:
        """Return element `index` of the stored data."""
        if self.access.constant:
            value = self.splat("i64", self.word(DATA))
        else:
            value = self.scalar(f"load <32 x {self.register}>, ptr {self._row(index)}, align 64")
        have = "i64" if self.access.constant else self.register
        return value if have == self.element else self.scalar(f"trunc <32 x {have}> {value} to <32 x {self.element}>")

    def _row(self, index: int) -> str:
        """Return the address of the register of element `index`."""
        return self.at(self.place(DATA), "i8", index * max(4, self.access.bits // 8) * LANES)
