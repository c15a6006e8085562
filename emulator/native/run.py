"""A run: consecutive pure instructions of one basic block, as one compiled function over the register file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from emulator.errors import UnknownInstruction
from emulator.native.vector import BITS, FLOATS, LANES, Code, Vec
from emulator.ptx.syntax import Imm, Instr, Not, Operand, Reg, Sink, Special, Vector

INTEGER_OF: dict[str, str] = {"pred": "i1", "b8": "i8", "b16": "i16", "b32": "i32", "b64": "i64"}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a register lives: `offset` bytes into the register file, `row` within the rows of its type."""

    type: str
    offset: int
    row: int


@dataclass(slots=True)
class Cell:
    """What a register holds within a run: the forms that exist already, or two halves still apart."""

    type: str
    forms: dict[str, Vec] = field(default_factory=dict)
    halves: tuple[Cell, Cell] | None = None

    def form(self, kind: str) -> Vec:
        """The value as `kind`: the same bits, or the low bits when `kind` is narrower."""
        found = self.forms.get(kind)
        if found is None:
            found = self.forms[kind] = self._derive(kind)
        return found

    def _derive(self, kind: str) -> Vec:
        own = INTEGER_OF[self.type]
        if BITS[kind] > BITS[own]:
            raise TypeError(f"a {self.type} register has no {kind}")
        if BITS[kind] == BITS[own]:
            if kind != own:
                return self.form(own).bitcast(kind)
            if self.forms:
                return next(iter(self.forms.values())).bitcast(own)
            return self._joined(own)
        if self.halves is not None and BITS[kind] * 2 <= BITS[own]:
            return self.halves[0].form(kind)
        narrow = self.form(own).zext(f"i{BITS[kind]}")
        return narrow.bitcast(kind)

    def _joined(self, own: str) -> Vec:
        assert self.halves is not None
        low, high = (INTEGER_OF[half.type] for half in self.halves)
        shift = BITS[own] // 2
        return self.halves[0].form(low).zext(own) | self.halves[1].form(high).zext(own).shl(shift)

    def split(self) -> tuple[Cell, Cell]:
        """The low and the high half."""
        if self.halves is None:
            half = {"b128": "b64", "b64": "b32", "b32": "b16", "b16": "b8"}[self.type]
            kind = INTEGER_OF[half]
            whole = self.form(INTEGER_OF[self.type])
            low = Cell(half, {kind: whole.zext(kind)})
            high = Cell(half, {kind: whole.shr(BITS[kind]).zext(kind)})
            self.halves = (low, high)
        return self.halves


class Run:
    """The code of one run. Lowerings call `read` and `write`; `finish` stores what outlives the run."""

    def __init__(self, name: str, slots: Mapping[Reg | Special, Slot]) -> None:
        self.name = name
        self.code = Code()
        self._slots = slots
        self._cells: dict[Reg | Special, Cell] = {}
        self._written: dict[Reg, None] = {}
        self._guard: Vec | None = None
        self.active = self.code.new("bitcast i32 %m to <32 x i1>", "i1")

    def set_guard(self, guard: tuple[Reg, bool] | None) -> None:
        """Let the following writes only happen where the guard holds."""
        self._guard = None
        if guard is not None:
            predicate = self.read(guard[0], "i1")
            self._guard = predicate if guard[1] else ~predicate

    @property
    def taking_part(self) -> Vec:
        """The lanes that execute the present instruction."""
        return self.active if self._guard is None else self.active & self._guard

    def read(self, operand: Operand, kind: str) -> Vec:
        """A source operand as a vector of `kind`; a wider register gives its low bits."""
        if isinstance(operand, Imm):
            return self._literal(operand, kind)
        if isinstance(operand, Not):
            return ~self.read(operand.reg, kind)
        if isinstance(operand, Vector):
            return self._packed(operand, kind)
        return self.cell(operand).form(kind)

    def cell(self, operand: Operand) -> Cell:
        """What a register or special register holds."""
        if not isinstance(operand, Reg | Special):
            raise TypeError(f"{operand} is not a register")
        found = self._cells.get(operand)
        if found is None:
            found = self._cells[operand] = self._load(self._slots[operand])
        return found

    def write(self, operand: Operand, value: Vec) -> None:
        """Give a destination register a value of its own width, or a narrower integer to be zero-extended."""
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
        """Let a destination hold what `cell` holds, at no cost."""
        if isinstance(operand, Sink):
            return
        assert isinstance(operand, Reg)
        if self._guard is not None and (operand in self._cells or operand in self._slots):
            own = INTEGER_OF[operand.type]
            kept = self.cell(operand).form(own)
            cell = Cell(operand.type, {own: self._guard.select(cell.form(own), kept)})
        self._cells[operand] = cell
        self._written[operand] = None

    def finish(self, live: Iterable[Reg]) -> str:
        """Store the written registers that are `live` afterwards, in the active lanes; the function's text."""
        wanted = set(live)
        for register in self._written:
            if register in wanted:
                self._store(self._slots[register], self._cells[register])
        head = f"define void @{self.name}(ptr %r, i32 %m) nounwind {{"
        return "\n".join([head, *self.code.lines, "ret void", "}"])

    def _literal(self, operand: Imm, kind: str) -> Vec:
        if (operand.type, kind) in (("f64", "float"), ("f32", "double")):
            raise TypeError("a floating-point literal of the wrong width")
        if kind == "i1":
            return self.code.constant(operand.value != 0, kind)
        if operand.type == "int" and kind in FLOATS:
            return self.code.constant(float(operand.value), kind)
        return self.code.bits(operand.value, kind)

    def _packed(self, operand: Vector, kind: str) -> Vec:
        """{lo, hi} (or four) read as one wide value."""
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

    def _address(self, slot: Slot, extra: int = 0) -> str:
        return self.code.scalar(f"getelementptr i8, ptr %r, i64 {slot.offset + extra}")

    def _load(self, slot: Slot) -> Cell:
        if slot.type == "pred":
            bits = self.code.scalar(f"load i32, ptr {self._address(slot)}, align 4")
            return Cell("pred", {"i1": self.code.new(f"bitcast i32 {bits} to <32 x i1>", "i1")})
        if slot.type == "b128":
            halves = [self._load(Slot("b64", slot.offset + 8 * LANES * i, 0)) for i in range(2)]
            return Cell("b128", halves=(halves[0], halves[1]))
        kind = INTEGER_OF[slot.type]
        return Cell(slot.type, {kind: self._load_lanes(self._address(slot), kind)})

    def _load_lanes(self, address: str, kind: str) -> Vec:
        return self.code.new(f"load <32 x {kind}>, ptr {address}, align 64", kind)

    def _store(self, slot: Slot, cell: Cell) -> None:
        if slot.type == "pred":
            self._store_predicate(slot, cell.form("i1"))
        elif slot.type == "b128":
            for i, half in enumerate(cell.split()):
                self._store(Slot("b64", slot.offset + 8 * LANES * i, 0), half)
        else:
            kind = INTEGER_OF[slot.type]
            address = self._address(slot)
            value = self.active.select(cell.form(kind), self._load_lanes(address, kind))
            self.code.lines.append(f"store <32 x {kind}> {value.text}, ptr {address}, align 64")

    def _store_predicate(self, slot: Slot, value: Vec) -> None:
        address, new = self._address(slot), self.code.scalar
        old = new(f"load i32, ptr {address}, align 4")
        bits = new(f"bitcast <32 x i1> {value.text} to i32")
        changed = new(f"xor i32 {old}, {bits}")
        taken = new(f"and i32 {changed}, %m")
        self.code.lines.append(f"store i32 {new(f'xor i32 {old}, {taken}')}, ptr {address}, align 4")


def refuse(instr: Instr, what: str) -> UnknownInstruction:
    """The error for a form of an instruction that has no lowering."""
    return UnknownInstruction(instr, what)
