"""Ordinary loads and stores in the common case. All other cases are left to their handlers.

Each function performs an access and returns the address of the next step, or 0 without any effect: a lane is misaligned
or outside what the handler allowed last time, or the access may not be in order (`memory_layout` explains when it is).
The handler then performs the whole access and reports its faults.

This is restricted Python: `python -m lab.checks` has numba translate it to `load_store.ll`, which `operations` turns
into machine code. Uncompiled, this module is the reference for the machine code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from ..chip import ALL_LANES, LANES, RANK_SHIFT
from .code import Row
from .machine import machine_code
from .memory_layout import (
    COMPONENT_BITS,
    FIRST_ID,
    GLOBAL_TIME_BITS,
    GLOBAL_WHO,
    ID_BITS,
    LANE,
    LOST,
    MANY,
    MEMORY_ROW,
    PATTERN,
    READ,
    SERIAL_BITS,
    TIME_BITS,
    UNCHANGED,
    UNWRITTEN,
    WINDOW,
    WRITTEN,
    component_of,
    offset_of,
)
from .words import i32, i64, u8, u16, u32

DATA, ADDRESS, ADDEND, NUMBER, MEMORY, GUARD, FORM = range(7)
"""The operands of a step: the first data register or the stored constant, the address register, the addend, the
access's number in the program, the row `memory`, the guard, the form."""
NEXT: Final = 7 * 8
"""The bytes from a step's operands to the next step."""
SIGNED, LONG, UNIFORM, GUARDED, GUARD_HOLDS, CONSTANT, ONCE, PEER = (1 << bit for bit in range(8))
WIDTH_AT, COUNT_AT, REGISTER_AT, CELL_AT = 8, 16, 24, 32
BYTE: Final = 0xFF
WINDOWS, BYTES, PATTERNS, START, LIMIT_AT, HOST, WRITES, READS, PENDING, READERS, EPOCHS = range(11)
WARPS, CELLS_OF, SHIFT, STORED, CLOCK_AT, WARP, COMPONENT, SERIAL, PEERS, CTAS, LAST = range(11, 22)
"""The fields of MEMORY_ROW."""
ROW_BYTES: Final = MEMORY_ROW.itemsize
WINDOW_START, WINDOW_COUNT, WINDOW_WRITES, WINDOW_READS = range(4)
WINDOW_BYTES: Final = WINDOW.itemsize
PATTERN_BYTES: Final = PATTERN.itemsize
PATTERN_LANES: Final = offset_of("lanes", PATTERN)
PATTERN_OFFSETS: Final = offset_of("offsets", PATTERN)
PATTERN_WHO: Final = offset_of("who", PATTERN)


@dataclass(frozen=True, slots=True)
class LoadStore:
    """An operation: a load or store of `count` elements of `width` bytes per lane, to or from registers of `bits`.

    shared: of shared memory, else global. peer: of any CTA of the cluster. long: the address register has 64 bits.
    uniform: address and stored data are the same in all lanes. guard: the required value of the guard's predicate, if
    there is one. constant: the stored data is a number. cell: bytes of global memory per record. once: the loaded
    memory must not be written in the launch.
    """

    store: bool
    shared: bool
    peer: bool
    width: int
    count: int
    bits: int
    signed: bool
    long: bool
    uniform: bool
    guard: bool | None
    constant: bool
    cell: int
    once: bool

    @property
    def form(self) -> int:
        """The operand FORM."""
        flags = {
            **{SIGNED: self.signed, LONG: self.long, UNIFORM: self.uniform, GUARDED: self.guard is not None},
            **{GUARD_HOLDS: bool(self.guard), CONSTANT: self.constant, ONCE: self.once, PEER: self.peer},
        }
        sizes = (
            (self.width, WIDTH_AT),
            (self.count, COUNT_AT),
            (self.bits // 8, REGISTER_AT),
            (max(self.cell.bit_length() - 1, 0), CELL_AT),
        )
        return sum(flag for flag, is_set in flags.items() if is_set) | sum(size << at for size, at in sizes)


@dataclass(frozen=True, slots=True)
class LoadStoreStep:
    """One access, on operands in the order DATA to GUARD."""

    operation: LoadStore
    places: tuple[Row | int, Row, int, int, Row, Row | None]


@cache
def operations() -> dict[tuple[bool, bool], int]:
    """Return the addresses of the operations as machine code, by whether they are shared and store."""
    find = machine_code(files(__package__).joinpath("load_store.ll").read_text())
    found = [find(entry.__name__) for entry in ENTRIES]
    return dict(zip(((shared, store) for shared in (False, True) for store in (False, True)), found, strict=True))


def load_global(registers: int, active: int, step: int) -> int:
    """Load from global memory."""
    return _global(registers, active, step, False)


def store_global(registers: int, active: int, step: int) -> int:
    """Store to global memory."""
    return _global(registers, active, step, True)


def load_shared(registers: int, active: int, step: int) -> int:
    """Load from shared memory."""
    return _shared(registers, active, step, False)


def store_shared(registers: int, active: int, step: int) -> int:
    """Store to shared memory."""
    return _shared(registers, active, step, True)


def _global(registers: int, active: int, step: int, store: bool) -> int:
    form, number, live = i64(step)[FORM], i64(step)[NUMBER], _live(registers, active, step)
    memory = registers + i64(step)[MEMORY]
    asked, window, size = _asked(form, live), i64(memory)[WINDOWS] + number * WINDOW_BYTES, _bytes(form)
    if not _global_in_order(registers, step, form, live, asked, window):
        return 0
    base, more, data = registers + i64(step)[ADDRESS], i64(step)[ADDEND], i64(step)[DATA]
    writes, reads, width = i64(window)[WINDOW_WRITES], i64(window)[WINDOW_READS], _width(form)
    record = _global_record(memory, number)
    for lane in range(LANES):
        if asked >> lane & 1:
            address = _address(base, more, form, lane)
            own, cells = record | _named(form, live, lane), size >> (form >> CELL_AT) if writes != 0 else 0
            for cell in range(cells):
                read = i64(_record_at(reads, form, address, cell))
                if store:
                    index = (cell << (form >> CELL_AT)) >> (width >> 1) - (width >> 3)  # widths are 1, 2, 4 and 8
                    value = _value(registers, data, form, lane, index)
                    same = _get(address + index * width, width) == _cut(value, width)
                    there = i64(_record_at(writes, form, address, cell))
                    there[0] = own | _kept(there[0], read[0] != 0, same)
                else:
                    read[0] = own
            _move(registers, form, live, data, lane, address, store)
    if store:
        u32(i64(memory)[STORED])[number] |= live
    i64(i64(memory)[BYTES])[1 if store else 0] += size * _count(asked)
    return step + NEXT


def _shared(registers: int, active: int, step: int, store: bool) -> int:
    form, number, live = i64(step)[FORM], i64(step)[NUMBER], _live(registers, active, step)
    memory = registers + i64(step)[MEMORY]
    asked, pattern, size = _asked(form, live), i64(memory)[PATTERNS] + number * PATTERN_BYTES, _bytes(form)
    if live == 0:
        return step + NEXT
    if not _shared_in_order(registers, step, form, live, asked, pattern, store):
        return 0
    base, more, data = registers + i64(step)[ADDRESS], i64(step)[ADDEND], i64(step)[DATA]
    row = start = host = pending = records = record = met = shift = 0
    for lane in range(LANES):
        if asked >> lane & 1:
            address = _address(base, more, form, lane)
            found = _row(memory, form, address)
            if found != row:
                row, start, host, pending = found, i64(found)[START], i64(found)[HOST], i64(found)[PENDING]
                records = i64(row)[WRITES] if store else _reads(row, i64(row)[WARP])
                i64(row)[LAST] = record = _shared_record(row, number)
                shift = i64(row)[SHIFT]
                met = i32(i64(row)[CLOCK_AT])[i64(row)[COMPONENT] + 1]
            _move(registers, form, live, data, lane, host + address - start, store)
            who = _named(form, live, lane) if store or form & UNIFORM else u32(pattern + PATTERN_WHO)[lane]
            for cell in range(address - start >> shift, address - start + size >> shift):
                if store:
                    if u8(pending)[cell] & READ:
                        _forget_reads(row, cell)
                    i64(records)[cell] = record | who
                else:
                    i64(records)[cell] = record | _merged(i64(records)[cell], who, met)
                u8(pending)[cell] = WRITTEN if store else WRITTEN | READ
    if store:
        u32(i64(memory)[STORED])[number] |= live
    i64(pattern)[0] += 1
    return step + NEXT


def _live(registers: int, active: int, step: int) -> int:
    """Return the lanes that execute the access, as bits."""
    form, live = i64(step)[FORM], active & ALL_LANES
    if form & GUARDED:
        held = u32(registers + i64(step)[GUARD])[0]
        live &= held if form & GUARD_HOLDS else held ^ ALL_LANES
    return live


def _asked(form: int, live: int) -> int:
    """Return the lanes whose addresses count: one, if all are the same."""
    return live & -live if form & UNIFORM else live


def _count(lanes: int) -> int:
    count = 0
    for lane in range(LANES):
        count += lanes >> lane & 1
    return count


def _one_or_all(live: int) -> bool:
    return live & live - 1 == 0 or live == ALL_LANES


def _named(form: int, live: int, lane: int) -> int:
    """Return a lane as records hold it: MANY for a uniform access by several."""
    return MANY if form & UNIFORM and live & live - 1 != 0 else lane


def _width(form: int) -> int:
    return form >> WIDTH_AT & BYTE


def _bytes(form: int) -> int:
    """Return the bytes that each lane accesses."""
    return _width(form) * (form >> COUNT_AT & BYTE)


def _address(base: int, more: int, form: int, lane: int) -> int:
    """Return a lane's address. base: the address of its register. more: the addend."""
    if form & LONG:
        return i64(base)[lane] + more
    return u32(base)[lane] + more & ALL_LANES


def _get(address: int, size: int) -> int:
    """Return the number of `size` bytes at an address, without its sign unless it has eight."""
    if size == 4:
        return u32(address)[0]
    if size == 8:
        return i64(address)[0]
    return u16(address)[0] if size == 2 else u8(address)[0]


def _put(address: int, size: int, value: int) -> None:
    """Write the low bytes of a number."""
    if size == 4:
        u32(address)[0] = value
    elif size == 8:
        i64(address)[0] = value
    elif size == 2:
        u16(address)[0] = value
    else:
        u8(address)[0] = value


def _cut(value: int, size: int) -> int:
    """Return the low bytes of a number as `_get` returns them."""
    return value if size == 8 else value & (1 << 8 * size) - 1


def _apart(form: int) -> int:
    """Return the bytes from the register of one element to that of the next."""
    return max(4, form >> REGISTER_AT & BYTE) * LANES


def _value(registers: int, data: int, form: int, lane: int, index: int) -> int:
    """Return element `index` of a lane's stored data."""
    if form & CONSTANT:
        return data
    size = form >> REGISTER_AT & BYTE
    return _get(registers + data + index * _apart(form) + lane * size, size)


def _move(registers: int, form: int, live: int, data: int, lane: int, there: int, store: bool) -> None:
    if store:
        _store(registers, data, form, lane, there)
    else:
        _load(registers + data, form, live, lane, there)


def _store(registers: int, data: int, form: int, lane: int, there: int) -> None:
    """Store a lane's elements at an address."""
    width = _width(form)
    for index in range(form >> COUNT_AT & BYTE):
        _put(there + index * width, width, _value(registers, data, form, lane, index))


def _load(to: int, form: int, live: int, lane: int, there: int) -> None:
    """Load a lane's elements from an address, into all live lanes if the access is uniform. to: the first register."""
    width, size = _width(form), form >> REGISTER_AT & BYTE
    if width == 4 and size == 4 and not form & UNIFORM:
        for index in range(form >> COUNT_AT & BYTE):
            u32(to + index * 4 * LANES)[lane] = u32(there)[index]
        return
    for index in range(form >> COUNT_AT & BYTE):
        value = _get(there + index * width, width)
        if form & SIGNED and width < 8:
            sign = 1 << 8 * width - 1
            value = (value ^ sign) - sign
        if form & UNIFORM:
            for each in range(LANES):
                if live >> each & 1:
                    _put(to + index * _apart(form) + each * size, size, value)
        else:
            _put(to + index * _apart(form) + lane * size, size, value)


def _global_in_order(registers: int, step: int, form: int, live: int, asked: int, window: int) -> bool:
    """Return whether every lane's address is aligned, in the window, and has the lane's own records or none."""
    size, writes, reads = _bytes(form), i64(window)[WINDOW_WRITES], i64(window)[WINDOW_READS]
    if writes != 0 and form & UNIFORM and not _one_or_all(live):
        return False
    serial = i64(registers + i64(step)[MEMORY])[SERIAL] << SERIAL_BITS
    base, more = registers + i64(step)[ADDRESS], i64(step)[ADDEND]
    start, end = i64(window)[WINDOW_START], i64(window)[WINDOW_START] + i64(window)[WINDOW_COUNT]
    for lane in range(LANES):
        if asked >> lane & 1:
            address = _address(base, more, form, lane)
            if not (start <= address < end and address & size - 1 == 0):
                return False
            if writes != 0:
                own = serial | _named(form, live, lane)
                for cell in range(size >> (form >> CELL_AT)):
                    write = i64(_record_at(writes, form, address, cell))[0]
                    read = i64(_record_at(reads, form, address, cell))[0]
                    if write != 0 and (form & ONCE or write & GLOBAL_WHO != own):
                        return False
                    if read != 0 and read & GLOBAL_WHO != own:
                        return False
    return True


def _record_at(records: int, form: int, address: int, cell: int) -> int:
    """Return the address of the record of one of a lane's cells."""
    return records + 8 * ((address >> (form >> CELL_AT)) + cell)


def _global_record(memory: int, number: int) -> int:
    """Return the record of an access without its lane."""
    time = i32(i64(memory)[CLOCK_AT])[i64(memory)[COMPONENT]]
    return time << GLOBAL_TIME_BITS | i64(memory)[SERIAL] << SERIAL_BITS | number + 1 << ID_BITS


def _kept(there: int, read: bool, same: bool) -> int:
    """Return UNCHANGED and LOST after a store. there: the record before it. read: whether there was a read."""
    if there == 0:
        return UNCHANGED if read and same else 0
    return (there & UNCHANGED if same else 0) | (there & LOST if same else LOST)


def _row(memory: int, form: int, address: int) -> int:
    """Return the MEMORY_ROW for the CTA of an address, 0 if there is none."""
    if not form & PEER:
        return memory
    rank = address >> RANK_SHIFT
    return i64(memory)[PEERS] + rank * ROW_BYTES if rank < i64(memory)[CTAS] else 0


def _compared(memory: int, form: int) -> int:
    """Return the bits in which offsets agree with a pattern. Ranks do modulo the CTAs, if these are a power of two."""
    ctas = i64(memory)[CTAS]
    return (ctas << RANK_SHIFT) - 1 & ALL_LANES if form & PEER and ctas & ctas - 1 == 0 else ALL_LANES


def _shared_in_order(registers: int, step: int, form: int, live: int, asked: int, pattern: int, store: bool) -> bool:
    """Return whether the lanes' addresses have the pattern, are aligned and in a window, and may be accessed."""
    if u32(pattern + PATTERN_LANES)[0] != (1 if form & UNIFORM else asked):
        return False
    if store and form & UNIFORM and not _one_or_all(live):
        return False
    base, more, first = registers + i64(step)[ADDRESS], i64(step)[ADDEND], -1
    memory, offsets, size = registers + i64(step)[MEMORY], pattern + PATTERN_OFFSETS, _bytes(form)
    compared = _compared(memory, form)
    row = start = limit = writes = shift = 0
    for lane in range(LANES):
        if asked >> lane & 1:
            address = _address(base, more, form, lane)
            first = address if first < 0 else first
            found = _row(memory, form, address)
            if found == 0 or (u32(offsets)[lane] - address + first) & compared != 0:
                return False
            if found != row:
                row, start, limit, writes = found, i64(found)[START], i64(found)[LIMIT_AT], i64(found)[WRITES]
                shift = i64(found)[SHIFT]
            offset, who = address - start, _named(form, live, lane)
            if not (0 <= offset < limit and offset & size - 1 == 0 and size >> shift != 0):
                return False
            for cell in range(offset >> shift, offset + size >> shift):
                record = i64(writes)[cell]
                other = record & LANE != who and (store or record & LANE != MANY)
                if not _seen(row, record, other) and not (store and record == UNWRITTEN):
                    return False
                if store and not (_unread(row, cell) and _read_before(row, cell, who)):
                    return False
    return True


def _seen(row: int, record: int, other: bool) -> bool:
    """Return whether an access with this record or epoch happens before. other: lanes may have to synchronise first."""
    component = component_of(record)
    own = component == i64(row)[COMPONENT]
    return i32(i64(row)[CLOCK_AT])[component + (1 if own and other else 0)] >= record >> TIME_BITS


def _unread(row: int, cell: int) -> bool:
    """Return whether the shadow has no reader of a cell, or one that all lanes have seen."""
    reader = i32(i64(row)[READERS])[cell]
    return reader == 0 or _seen(row, i64(i64(i64(row)[EPOCHS])[0])[reader], True)


def _reads(row: int, reader: int) -> int:
    """Return the address of the records of a warp's reads."""
    return i64(i64(row)[READS])[0] + 8 * reader * i64(row)[CELLS_OF]


def _read_before(row: int, cell: int, lane: int) -> bool:
    """Return whether all recorded reads of a cell are ordered before the store of a lane."""
    if not u8(i64(row)[PENDING])[cell] & READ:
        return True
    for reader in range(i64(i64(row)[WARPS])[0]):
        record = i64(_reads(row, reader))[cell]
        if not _seen(row, record, record & LANE != lane or lane == MANY):
            return False
    return True


def _shared_record(row: int, number: int) -> int:
    """Return the record of an access without its lane."""
    own = i64(row)[COMPONENT]
    time = i32(i64(row)[CLOCK_AT])[own]
    return time << TIME_BITS | own << COMPONENT_BITS | (number << ID_BITS) + FIRST_ID


def _merged(before: int, lane: int, met: int) -> int:
    """Return the lane of a load's record: MANY if another lane read there since the lanes synchronised, at `met`."""
    return MANY if before & LANE != lane and met < before >> TIME_BITS else lane


def _forget_reads(row: int, cell: int) -> None:
    for reader in range(i64(i64(row)[WARPS])[0]):
        i64(_reads(row, reader))[cell] = 0


ENTRIES: Final = (load_global, store_global, load_shared, store_shared)
CALLED: Final = (_global_in_order, _shared_in_order)
