"""The operands of handlers, and of the loads and stores that become machine code, as places in the register file.

Handlers fetch their operands and store their results by Python source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..errors import Decoding
from ..isa import special_registers
from ..isa.ld_st import MemoryOp
from ..isa.special_registers import MEMORY
from ..native.builder import Slot
from ..native.code import Row
from ..native.load_store import LoadStore, LoadStoreStep
from ..ptx.syntax import ALL_BYTES, Address, Dual, Imm, Instr, Not, Operand, Reg, Sink, Special, TensorAddress, Vector
from .effects import Effect

_ROWS = {"b8": "rows16", "b16": "rows16", "b32": "rows32", "b64": "rows64", "b128": "rows128"}
_WORDS = {"b8": ("halves", 2), "b16": ("halves", 2), "b32": ("words", 4), "b64": ("longs", 8)}
_LIMIT = {"b32": 0xFFFF_FFFF, "b64": 0xFFFF_FFFF_FFFF_FFFF}


@dataclass(frozen=True)
class Fetcher:
    """The source for operands, from the places of registers and their uniformity.

    In the source, `r` is the register file, `lane` an active lane; `lanes_of` converts a word of bits to bool[32].
    """

    slots: Mapping[Reg | Special, Slot]
    varying: frozenset[Reg]

    def is_uniform(self, operand: Operand) -> bool:
        """Return whether the operand is one number for the whole warp."""
        match operand:
            case Imm():
                return True
            case Reg():
                return operand not in self.varying and operand.type != "b128"
            case Special():
                return not special_registers.varies(operand)
            case Not(reg):
                return self.is_uniform(reg)
        return False

    def source(self, operand: Operand, instr: Instr) -> str:
        """Return an expression for a source operand."""
        match operand:
            case Imm(value):
                return str(value)
            case Reg() | Special():
                return self._register(operand)
            case Not(reg):
                return f"(not {self._register(reg)})" if self.is_uniform(reg) else f"~{self._register(reg)}"
            case Address(base, offset):
                return self._address(base, offset)
            case TensorAddress(Address(base, offset), coordinates):
                return f"{self._address(base, offset)}, {self.source(coordinates, instr)}"
            case Vector(items):
                return self._vector(items)
        raise TypeError(f"PTX line {instr.line}: {operand} as a source of {instr.opcode}")

    def predicate_bits(self, register: Reg) -> str:
        """Return an expression for a predicate as a word with a bit for each lane."""
        return f"r.words[{self.slots[register].offset // 4}]"

    def store(self, operand: Operand, value: str) -> list[str]:
        """Return statements that store the value(s) named `value`; `mask` and `bits` are in scope."""
        items = _destinations(operand)
        if not items or (len(items) == 1 and isinstance(items[0], Sink)):
            return []
        if len(items) == 1:
            return [self._put(items[0], value)]
        block = self._block(items)
        if block:
            return [f"put_rows({block}, {value}, mask)"]
        return [self._put(item, f"{value}[{i}]") for i, item in enumerate(items) if not isinstance(item, Sink)]

    def _register(self, operand: Reg | Special) -> str:
        slot = self.slots[operand]
        uniform = self.is_uniform(operand)
        if slot.type == "pred":
            word = f"r.words[{slot.offset // 4}]"
            return f"({word} >> lane & 1 == 1)" if uniform else f"lanes_of({word})"
        if uniform:
            words, size = _WORDS[slot.type]
            return f"r.{words}[{slot.offset // size} + lane]"
        return f"r.{_ROWS[slot.type]}[{slot.row}].copy()"

    def _address(self, base: Operand, offset: int) -> str:
        if isinstance(base, Imm):
            return str(base.value + offset)
        assert isinstance(base, Reg | Special)
        value = self._register(base)
        if offset == 0:
            return value
        slot = self.slots[base]
        limit = _LIMIT[slot.type]
        if self.is_uniform(base):
            return f"({value} + {offset} & {limit})"
        return f"(r.{_ROWS[slot.type]}[{slot.row}] + u{slot.type[1:]}({offset & limit}))"

    def _vector(self, items: tuple[Operand, ...]) -> str:
        if all(self.is_uniform(item) for item in items):
            return "(" + "".join(f"{self.source_of_item(item)}, " for item in items) + ")"
        block = self._block(list(items))
        if block:
            return f"{block}.copy()"
        rows = ", ".join(self._row(item, items) for item in items)
        return f"stack(({rows},))"

    def source_of_item(self, item: Operand) -> str:
        """Return an expression for an item of a vector of uniform values."""
        if isinstance(item, Imm):
            return str(item.value)
        assert isinstance(item, Reg | Special)
        return self._register(item)

    def _row(self, item: Operand, items: tuple[Operand, ...]) -> str:
        if isinstance(item, Imm):
            types = {i.type for i in items if isinstance(i, Reg)}
            width = max(16, max(int(t[1:]) for t in types))
            return f"full(32, {item.value & (1 << width) - 1}, u{width})"
        assert isinstance(item, Reg)
        slot = self.slots[item]
        return f"r.{_ROWS[slot.type]}[{slot.row}]"

    def _block(self, items: list[Operand]) -> str | None:
        """Return an expression for the rows of registers that are adjacent and in order; None for others."""
        slots = [self.slots.get(item) if isinstance(item, Reg) else None for item in items]
        first = slots[0]
        if first is None or first.type not in ("b16", "b32", "b64"):
            return None
        for place, slot in enumerate(slots):
            if slot is None or slot.type != first.type or slot.row != first.row + place:
                return None
        return f"r.{_ROWS[first.type]}[{first.row}:{first.row + len(slots)}]"

    def _put(self, item: Operand, value: str) -> str:
        assert isinstance(item, Reg)
        slot = self.slots[item]
        if slot.type == "pred":
            return f"put_predicate(r.words, {slot.offset // 4}, {value}, bits)"
        return f"put(r.{_ROWS[slot.type]}, {slot.row}, {value}, mask)"


def _destinations(operand: Operand) -> list[Operand]:
    match operand:
        case Vector(items):
            return list(items)
        case Dual(d, p):
            return [d, p]
    return [operand]


_LONG = 1 << 64
_BITS = {"b16": 16, "b32": 32, "b64": 64}


@dataclass(frozen=True)
class LoadStores:
    """A kernel's loads and stores that are machine code, numbered in the order of the text.

    steps: by the id of the effect. instrs: by number, with the access's name in reports. stores: the numbers of those
    that store, by the id of the effect.
    """

    steps: Mapping[int, LoadStoreStep]
    instrs: Sequence[tuple[Instr, str]]
    stores: Mapping[int, int]


def load_stores(effects: Sequence[Effect], fetcher: Fetcher, cell: int, asking: Collection[int] = ()) -> LoadStores:
    """Find the loads and stores that can be machine code.

    cell: of global memory, in bytes. asking: the ids of effects whose handler has to check every access.
    """
    found: dict[int, LoadStoreStep] = {}
    instrs: list[tuple[Instr, str]] = []
    stores: dict[int, int] = {}
    for effect in effects:
        if id(effect) in asking:
            continue
        with Decoding(effect.instr):
            step = load_store(effect, fetcher, len(found), cell)
        if step is not None:
            if step.operation.store:
                stores[id(effect)] = len(found)
            found[id(effect)] = step
            instrs.append((effect.instr, MemoryOp(effect.instr).what))
    return LoadStores(found, instrs, stores)


def load_store(effect: Effect, fetcher: Fetcher, number: int, cell: int) -> LoadStoreStep | None:
    """Return an access as a step, or None. number: its number in the program. cell: of global memory, in bytes."""
    instr, slots = effect.instr, fetcher.slots
    if MEMORY not in effect.reads:
        return None
    op = MemoryOp(instr)
    store = op.stores
    address, data = instr.operands[:2] if store else instr.operands[1::-1]
    items = data.items if isinstance(data, Vector) else (data,)
    registers = _together(items, fetcher)
    place = Row(registers.offset) if registers else data.value % _LONG if isinstance(data, Imm) else None
    assert isinstance(address, Address)
    shared = op.space == "shared"
    if op.strong or place is None or not isinstance(address.base, Reg | Special):
        return None
    if shared and instr.used != ALL_BYTES:  # compiled code checks all bytes
        return None
    if op.space == "generic" and fetcher.is_uniform(address.base):  # each lane has its own result
        return None
    base = slots[address.base]
    bits = _BITS[registers.type] if registers else 8 * op.width
    if bits < 8 * op.width:
        return None
    access = LoadStore(
        store,
        shared,
        shared and not op.own_cta,
        op.width,
        op.count,
        bits,
        op.signed,
        base.type == "b64",
        fetcher.is_uniform(address.base) and (not store or all(fetcher.is_uniform(item) for item in items)),
        None if instr.guard is None else instr.guard[1],
        registers is None,
        0 if shared else cell,
        op.once,
    )
    guard = None if instr.guard is None else Row(slots[instr.guard[0]].offset)
    where = Row(base.offset), address.offset % _LONG, number, Row(slots[MEMORY].offset)
    return LoadStoreStep(access, (place, *where, guard))


def _together(items: Sequence[Operand], fetcher: Fetcher) -> Slot | None:
    """Return the slot of the first of some registers, or None unless they are adjacent and of one type."""
    slots = [fetcher.slots.get(item) for item in items if isinstance(item, Reg | Special)]
    first = slots[0] if slots else None
    if first is None or first.type not in _BITS or len(slots) < len(items):
        return None
    side = all(s is not None and (s.type, s.row) == (first.type, first.row + i) for i, s in enumerate(slots))
    return first if side else None
