"""Ordinary loads and stores as machine code, in the common case. Whatever else one meets is left to its handler.

A step stops the list that it is in if some lane is misaligned, or outside of the allocation that the handler met last
time. The handler then does all of the access, and reports what there is to report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emulator.native.body import Body
from emulator.native.recorder import Row
from emulator.native.vector import LANES

WINDOWS: Final = 0
BYTES: Final = 1
"""Longs of the row `memory`: where the launch's windows are, and its counts of bytes loaded and stored.

A window is two longs for each instruction: the address of an allocation, and how many of its bytes, from the first,
may be the first of an access.
"""


@dataclass(frozen=True, slots=True)
class Access:
    """An operation: a load or store of `count` elements of `width` bytes a lane, to or from registers of `bits`.

    address: the kind of the address register. uniform: it is the same in all lanes, as is what is stored. guard: what
    the guard's predicate must be, if there is one. constant: what is stored is a number.
    """

    store: bool
    width: int
    count: int
    bits: int
    signed: bool
    address: str
    uniform: bool
    guard: bool | None
    constant: bool

    def body(self) -> Body:
        """The code of the operation."""
        writer = _Writer(self)
        writer.write()
        return writer


@dataclass(frozen=True, slots=True)
class AccessStep:
    """One access, on `places`: the first data register or what is stored, the address, what to add to it, the number
    of its window, the row `memory`, the guard."""

    operation: Access
    places: tuple[Row | int, Row, int, int, Row, Row | None]


class _Writer(Body):
    """Writes one access."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self.access = access
        self.element, self.register = f"i{8 * access.width}", f"i{access.bits}"

    def write(self) -> None:
        """Find the lanes, check their addresses, then load or store, and count."""
        live = self._live()
        asked = live
        if self.access.uniform:
            asked = self.scalar(f"and i32 {live}, {self.scalar(f'sub i32 0, {live}')}")
        lanes = self.scalar(f"bitcast i32 {asked} to <32 x i1>")
        address = self._address()
        self._go_on_if(self._inside(address, asked))
        for index in range(self.access.count):
            at = self._two("add", "i64", address, f"splat (i64 {index * self.access.width})")
            pointers = self.scalar(f"inttoptr <32 x i64> {at} to <32 x ptr>")
            if self.access.store:
                self._store(index, pointers, lanes)
            else:
                self._load(index, pointers, lanes, live)
        self._count(asked)
        self.do("br label %done\ndone:")
        self.do(f"ret ptr {self.after()}\nask:\nret ptr null")

    def _live(self) -> str:
        """The lanes that take part. Without any it is done."""
        if self.access.guard is None:
            return "%m"
        held = self.scalar(f"load i32, ptr {self.place(5)}, align 4")
        if not self.access.guard:
            held = self.scalar(f"xor i32 {held}, -1")
        live = self.scalar(f"and i32 %m, {held}")
        nobody = self.scalar(f"icmp eq i32 {live}, 0")
        self.do(f"br i1 {nobody}, label %done, label %some\nsome:")
        return live

    def _address(self) -> str:
        kind = self.access.address
        row = self.scalar(f"load <32 x {kind}>, ptr {self.place(1)}, align 64")
        offset = self.word(2)
        if kind != "i64":
            offset = self.scalar(f"trunc i64 {offset} to {kind}")
        address = self._two("add", kind, row, self.splat(kind, offset))
        return address if kind == "i64" else self.scalar(f"zext <32 x {kind}> {address} to <32 x i64>")

    def _inside(self, address: str, asked: str) -> str:
        """Whether all addresses are aligned and in the window."""
        windows = self.scalar(f"load ptr, ptr {self._memory(WINDOWS)}, align 8")
        window = self.scalar(f"getelementptr [2 x i64], ptr {windows}, i64 {self.word(3)}")
        start = self.scalar(f"load i64, ptr {window}, align 8")
        count = self.scalar(f"load i64, ptr {self.scalar(f'getelementptr i64, ptr {window}, i64 1')}, align 8")
        within = self._two("sub", "i64", address, self.splat("i64", start))
        inside = self._two("icmp ult", "i64", within, self.splat("i64", count))
        rest = self._two("and", "i64", address, f"splat (i64 {self.access.width * self.access.count - 1})")
        aligned = self._two("icmp eq", "i64", rest, "zeroinitializer")
        good = self.scalar(f"bitcast <32 x i1> {self._two('and', 'i1', inside, aligned)} to i32")
        return self.scalar(f"icmp eq i32 {self.scalar(f'and i32 {good}, {asked}')}, {asked}")

    def _two(self, op: str, kind: str, a: str, b: str) -> str:
        return self.scalar(f"{op} <32 x {kind}> {a}, {b}")

    def _memory(self, index: int) -> str:
        return self.scalar(f"getelementptr i64, ptr {self.place(4)}, i64 {index}")

    def _go_on_if(self, good: str) -> None:
        self.do(f"br i1 {good}, label %go, label %ask\ngo:")

    def _load(self, index: int, pointers: str, lanes: str, live: str) -> None:
        kind = self.element
        value = self.called(
            f"<32 x {kind}> @llvm.masked.gather.v32{kind}.v32p0(<32 x ptr>, i32, <32 x i1>, <32 x {kind}>)",
            (pointers, self.access.width, lanes, "zeroinitializer"),
        )
        if self.access.uniform:
            lane = self.called("i32 @llvm.cttz.i32(i32, i1)", (live, "true"))
            value = self.splat(kind, self.scalar(f"extractelement <32 x {kind}> {value}, i32 {lane}"))
            lanes = self.scalar(f"bitcast i32 {live} to <32 x i1>")
        if self.register != kind:
            extend = "sext" if self.access.signed else "zext"
            value = self.scalar(f"{extend} <32 x {kind}> {value} to <32 x {self.register}>")
        row = self._row(index)
        old = self.scalar(f"load <32 x {self.register}>, ptr {row}, align 64")
        new = self.scalar(f"select <32 x i1> {lanes}, <32 x {self.register}> {value}, <32 x {self.register}> {old}")
        self.do(f"store <32 x {self.register}> {new}, ptr {row}, align 64")

    def _store(self, index: int, pointers: str, lanes: str) -> None:
        kind = self.element
        if self.access.constant:
            number = self.word(0)
            value = self.splat(kind, number if kind == "i64" else self.scalar(f"trunc i64 {number} to {kind}"))
        else:
            value = self.scalar(f"load <32 x {self.register}>, ptr {self._row(index)}, align 64")
            if self.register != kind:
                value = self.scalar(f"trunc <32 x {self.register}> {value} to <32 x {kind}>")
        self.called(
            f"void @llvm.masked.scatter.v32{kind}.v32p0(<32 x {kind}>, <32 x ptr>, i32, <32 x i1>)",
            (value, pointers, self.access.width, lanes),
        )

    def _row(self, index: int) -> str:
        """Where the register of element `index` is."""
        return self.scalar(
            f"getelementptr i8, ptr {self.place(0)}, i64 {index * max(4, self.access.bits // 8) * LANES}"
        )

    def _count(self, asked: str) -> None:
        counts = self.scalar(f"load ptr, ptr {self._memory(BYTES)}, align 8")
        count = self.scalar(f"getelementptr i64, ptr {counts}, i64 {int(self.access.store)}")
        lanes = self.scalar(f"zext i32 {self.called('i32 @llvm.ctpop.i32(i32)', (asked,))} to i64")
        more = self.scalar(f"mul i64 {lanes}, {self.access.width * self.access.count}")
        sum_ = self.scalar(f"add i64 {self.scalar(f'load i64, ptr {count}, align 8')}, {more}")
        self.do(f"store i64 {sum_}, ptr {count}, align 8")
