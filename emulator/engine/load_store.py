"""Selection of the loads and stores that become machine code, and the places of their operands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..errors import Decoding
from ..isa.ld_st import MemoryOp
from ..isa.special_registers import MEMORY
from ..native.builder import Slot
from ..native.load_store import LoadStore, LoadStoreStep
from ..native.recorder import Row
from ..ptx.syntax import ALL_BYTES, Address, Imm, Instr, Operand, Reg, Special, Vector
from .effects import Effect
from .fetch import Fetcher

_LONG = 1 << 64
_CELL = 4
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
    if op.strong or place is None or (shared and op.bytes < _CELL) or not isinstance(address.base, Reg | Special):
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
    """Return the first slot of registers of one type that lie side by side, or None."""
    slots = [fetcher.slots.get(item) for item in items if isinstance(item, Reg | Special)]
    first = slots[0] if slots else None
    if first is None or first.type not in _BITS or len(slots) < len(items):
        return None
    side = all(s is not None and (s.type, s.row) == (first.type, first.row + i) for i, s in enumerate(slots))
    return first if side else None
