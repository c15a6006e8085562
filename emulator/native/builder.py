"""The code of a segment: consecutive pure instructions of one basic block, as one list of operations on registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..chip import LANES
from ..ptx.syntax import Imm, Not, Operand, Reg, Sink, Special, Vector
from .code import Recorder, Row, Step
from .vector import BITS, FLOATS, Vec, helper

INTEGER_OF: dict[str, str] = {"pred": "i1", "b8": "i8", "b16": "i16", "b32": "i32", "b64": "i64"}


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a register: `offset` bytes into the register file, `row` among the rows of its type."""

    type: str
    offset: int
    row: int


@dataclass(slots=True)
class Cell:
    """The value of a register within a segment: its vectors by kind, or two halves that are not joined yet."""

    type: str
    vectors: dict[str, Vec] = field(default_factory=dict)
    halves: tuple[Cell, Cell] | None = None

    def vector(self, kind: str) -> Vec:
        """Return the value as `kind`: the same bits, or the low bits if `kind` is narrower."""
        found = self.vectors.get(kind)
        if found is None:
            found = self.vectors[kind] = self._derive(kind)
        return found

    def _derive(self, kind: str) -> Vec:
        own = INTEGER_OF[self.type]
        if BITS[kind] > BITS[own]:
            raise TypeError(f"a {self.type} register has no {kind}")
        if BITS[kind] == BITS[own]:
            if kind != own:
                return self.vector(own).bitcast(kind)
            if self.vectors:
                return next(iter(self.vectors.values())).bitcast(own)
            return self._joined()
        if self.halves is not None and BITS[kind] * 2 <= BITS[own]:
            return self.halves[0].vector(kind)
        narrow = self.vector(own).zext(f"i{BITS[kind]}")
        return narrow.bitcast(kind)

    def _joined(self) -> Vec:
        assert self.halves is not None
        return _joined(*(half.vector(INTEGER_OF[half.type]) for half in self.halves))

    def split(self) -> tuple[Cell, Cell]:
        """Return the low and the high half."""
        if self.halves is None:
            half = {"b128": "b64", "b64": "b32", "b32": "b16", "b16": "b8"}[self.type]
            kind = INTEGER_OF[half]
            whole = self.vector(INTEGER_OF[self.type])
            low = Cell(half, {kind: whole.zext(kind)})
            high = Cell(half, {kind: _upper_half(whole)})
            self.halves = (low, high)
        return self.halves


@helper(lambda low, _: f"i{2 * low.width}")
def _joined(low: Vec, high: Vec) -> Vec:
    wide = f"i{2 * low.width}"
    return low.zext(wide) | high.zext(wide).shl(low.width)


@helper(lambda whole: f"i{whole.width // 2}")
def _upper_half(whole: Vec) -> Vec:
    return whole.shr(whole.width // 2).zext(f"i{whole.width // 2}")


class Builder:
    """The code of one segment. Lowerings call `read` and `write`; `finish` stores registers that outlive it."""

    def __init__(self, slots: Mapping[Reg | Special, Slot]) -> None:
        self.code = Recorder()
        self._slots = slots
        self._cells: dict[Reg | Special, Cell] = {}
        self._written: dict[Reg, None] = {}
        self._guard: Vec | None = None

    def set_guard(self, guard: tuple[Reg, bool] | None) -> None:
        """Make the following writes conditional on a guard."""
        self._guard = None
        if guard is not None:
            predicate = self.read(guard[0], "i1")
            self._guard = predicate if guard[1] else ~predicate

    @property
    def taking_part(self) -> Vec:
        """Return the lanes that execute the present instruction."""
        return self.code.active if self._guard is None else self.code.active & self._guard

    def read(self, operand: Operand, kind: str) -> Vec:
        """Return a source operand as a vector of `kind`, or the low bits of a wider register."""
        if isinstance(operand, Imm):
            return self._literal(operand, kind)
        if isinstance(operand, Not):
            return ~self.read(operand.reg, kind)
        if isinstance(operand, Vector):
            return self._packed(operand, kind)
        return self.cell(operand).vector(kind)

    def cell(self, operand: Operand) -> Cell:
        """Return the value of a register or special register."""
        if not isinstance(operand, Reg | Special):
            raise TypeError(f"{operand} is not a register")
        found = self._cells.get(operand)
        if found is None:
            found = self._cells[operand] = self._load(self._slots[operand])
        return found

    def write(self, operand: Operand, value: Vec) -> None:
        """Write a value of a destination register's width, or a narrower integer, which is zero-extended."""
        if isinstance(operand, Sink):
            return
        if isinstance(operand, Vector):
            self._unpack(operand, value)
            return
        assert isinstance(operand, Reg)
        own = INTEGER_OF[operand.type]
        if value.width < BITS[own]:
            value = value.bitcast(f"i{value.width}").zext(own)
        if value.width != BITS[own]:
            raise TypeError(f"{value.kind} does not fit {operand}")
        self.alias(operand, Cell(operand.type, {value.kind: value}))

    def alias(self, operand: Operand, cell: Cell) -> None:
        """Make a destination share the value of `cell`, at no cost. Raises TypeError unless it is equally wide."""
        if isinstance(operand, Sink):
            return
        assert isinstance(operand, Reg)
        if operand.type != cell.type:
            raise TypeError(f"{cell.type} does not fit {operand}")
        if self._guard is not None and (operand in self._cells or operand in self._slots):
            own = INTEGER_OF[operand.type]
            kept = self.cell(operand).vector(own)
            cell = Cell(operand.type, {own: self._guard.select(cell.vector(own), kept)})
        self._cells[operand] = cell
        self._written[operand] = None

    def finish(self, live: Iterable[Reg]) -> list[Step]:
        """Store the written registers that are `live` afterwards, in the active lanes. Return the segment's steps."""
        wanted = set(live)
        stores = [s for r in self._written if r in wanted for s in self._parts(self._slots[r], self._cells[r])]
        overwritten = {row for _, row in stores}
        safe = [(self.code.copied(v) if v.place in overwritten else v, row) for v, row in stores]
        for value, row in safe:
            self.code.store(value, row)
        return self.code.steps

    def _literal(self, operand: Imm, kind: str) -> Vec:
        if (operand.type, kind) in (("f64", "float"), ("f32", "double")):
            raise TypeError("a floating-point literal of the wrong width")
        if kind == "i1":
            return self.code.constant(operand.value != 0, kind)
        if operand.type == "int" and kind in FLOATS:
            return self.code.constant(float(operand.value), kind)
        return self.code.bits(operand.value, kind)

    def _packed(self, operand: Vector, kind: str) -> Vec:
        """Return {lo, hi} (or four registers) as one wide value."""
        part = BITS[kind] // len(operand.items)
        wide = f"i{BITS[kind]}"
        value = self.read(operand.items[0], f"i{part}").zext(wide)
        for place, item in enumerate(operand.items[1:], 1):
            value = value | self.read(item, f"i{part}").zext(wide).shl(place * part)
        return value.bitcast(kind)

    def _unpack(self, operand: Vector, value: Vec) -> None:
        part = value.width // len(operand.items)
        bits = value.bitcast(f"i{value.width}")
        for place, item in enumerate(operand.items):
            if not isinstance(item, Sink):
                self.write(item, (bits.shr(place * part) if place else bits).zext(f"i{part}"))

    def _load(self, slot: Slot) -> Cell:
        if slot.type == "b128":
            halves = [self._load(half) for half in _halves(slot)]
            return Cell("b128", halves=(halves[0], halves[1]))
        kind = INTEGER_OF[slot.type]
        return Cell(slot.type, {kind: Vec(self.code, Row(slot.offset), kind)})

    def _parts(self, slot: Slot, cell: Cell) -> Iterator[tuple[Vec, Row]]:
        """Yield the values that make up a register, each with its row."""
        if slot.type == "b128":
            for half, part in zip(_halves(slot), cell.split(), strict=True):
                yield from self._parts(half, part)
        else:
            yield cell.vector(INTEGER_OF[slot.type]), Row(slot.offset)


def _halves(slot: Slot) -> list[Slot]:
    """Return the low and the high half of a b128 register's place."""
    return [Slot("b64", slot.offset + 8 * LANES * i, 0) for i in range(2)]
