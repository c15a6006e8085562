"""The common case of an access of cells with a shadow: prove that it is in order, and record it.

`read` and `write` return DONE only if `Shadow.read` or `Shadow.write` would report nothing and record only this access:
every writer and reader of the cells happens before it. ASK and FLUSH change nothing: the shadow has to check the access
itself, or first to merge the records of compiled accesses. `merge` does so for records of stores.

An earlier access is known by its epoch, a word that the history keeps: its component and time on the clocks, its proxy
and its swizzle. Cells with the same writer and reader as the cell before are skipped eight at a time, so that a tile
that one copy wrote costs next to nothing.

This is restricted Python: `python -m lab.checks` has numba translate the functions in ENTRIES, with those that they
call, to `shadow_check.ll`, which `checks` turns into machine code. Uncompiled, they are its reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from ..chip import ALL_LANES
from .machine import DECLARED, builtin, machine_code, wrapper
from .memory_layout import ASK as NEVER
from .memory_layout import COMPONENT_BITS, LANE, MANY, READ, TIME_BITS, component_of, offset_of
from .words import i32, i64, u8, u32

ASK: Final = 0
DONE: Final = 1
FLUSH: Final = 2
DIFFERENT: Final = 64
"""The capacity of the lists of different writers and readers of one access's cells. Beyond it the shadow checks."""

ACCESSES: Final = 16
"""The number of consecutive writes that have such lists."""

REPLACED: Final = np.dtype([("count", "u8"), ("numbers", "i4", DIFFERENT)])
STORES: Final = np.dtype([("count", "u8"), ("records", "i8", DIFFERENT)])
SHADOW: Final = np.dtype(
    [
        *(
            (name, "u8")
            for name in ("writers", "readers", "writer_lanes", "reader_lanes", "epochs", "pending", "writes")
        ),
        ("merged", STORES),
        ("replaced", REPLACED, (ACCESSES, 2)),
    ]
)
"""Addresses: a shadow's arrays, 0 for those that it lacks; the word that holds the epochs' address; the records of
compiled accesses. merged: the different stores that `merge` found, as records without lanes. replaced: the different
writers and readers that each of the writes replaced, or that those stores had replaced."""
CELLS: Final = np.dtype([(name, "i8") for name in ("first", "starts", "stride", "runs", "length", "together")])
"""Runs of neighbouring cells: from `first` every `stride`, or at the words at `starts`. together: the number of runs
of one access; further runs belong to the next access, with the next number."""

GENERIC: Final = 1
PATTERN_BITS: Final = 1
NOT_KNOWN: Final = NEVER
"""The epoch of an access that fits no epoch."""

PATTERNS: Final = (1 << COMPONENT_BITS - PATTERN_BITS) - 1
WRITERS, READERS, WRITER_LANES, READER_LANES, EPOCHS, PENDING, RECORDS = range(7)
_MERGED: Final = offset_of("merged", SHADOW)
_REPLACED: Final = offset_of("replaced", SHADOW)
_LIST: Final = REPLACED.itemsize
"""Bytes of one list of replaced accesses. An access has one of writers and, behind it, one of readers."""
FIRST, STARTS, STRIDE, RUNS, LENGTH, TOGETHER = range(6)
NOBODY: Final[Any] = np.int32(-1)
"""No writer or reader. Its type lets eight numbers be compared in one vector."""
EIGHT: Final = 8
"""The number of neighbouring cells that are compared at once."""

Check = Callable[..., int]


@cache
def checks() -> tuple[Check, Check, Check]:
    """Return `read`, `write` and `merge` as machine code."""
    text = DECLARED + files(__package__).joinpath("shadow_check.ll").read_text()
    wrappers = (wrapper(entry.__name__, ("i64",) * entry.__code__.co_argcount, "i32") for entry in ENTRIES)
    find = machine_code(text + "".join(wrappers))
    found, written, merged = (builtin(entry.__name__, find) for entry in ENTRIES)
    return found, written, merged


def read(shadow: int, cells: int, clock: int, width: int, follows: int, agent: int, pattern: int, number: int) -> int:
    """Check and record one or several reads.

    shadow, cells: addresses of a SHADOW and of CELLS. clock, width: the address of a clock's rows, and their length.
    follows: the component whose accesses are ordered before this one in any case, -1 for none. agent: 1 for an access
    through the async proxy, else 0. pattern: the swizzle of the read, 0 for none. number: the first access's number in
    the history.
    """
    return _access(shadow, cells, clock, width, follows, agent, pattern, number, False)


def write(shadow: int, cells: int, clock: int, width: int, follows: int, agent: int, pattern: int, number: int) -> int:
    """Check and record one or several writes, and list what each replaces. The epoch of the first is their record."""
    return _access(shadow, cells, clock, width, follows, agent, pattern, number, True)


def merge(shadow: int, records: int, pending: int, cells: int, count: int, ids: int, number: int) -> int:
    """Enter the stores of cell records into the shadow. Return the number of cells that were merged.

    records, pending, cells: addresses of all records, of their marks or 0, and of the cells' numbers. ids: the bits of
    a record that say that the shadow does not know the store. number: that of the first store that is found.
    """
    fields, stores, before = i64(shadow), shadow + _MERGED, shadow + _REPLACED
    writers, readers, lanes = i32(fields[WRITERS]), i32(fields[READERS]), u32(fields[WRITER_LANES])
    i64(stores)[0] = i64(before)[0] = i64(before + _LIST)[0] = 0
    store = which = -1
    for each in range(count):
        cell = i64(cells)[each]
        record = i64(records)[cell]
        if record & ids != 0:
            if record & ~LANE != store:
                store = record & ~LANE
                which = _place(i64(stores + 8), i64(stores), store)
            if which < 0 or not (_listed(before, writers[cell]) and _listed(before + _LIST, readers[cell])):
                return each
            writers[cell], readers[cell] = number + which, 0
            lanes[cell] = ALL_LANES if record & LANE == MANY else 1 << (record & LANE)
            i64(records)[cell] = record & ~ids
        if pending != 0:
            u8(pending)[cell] &= READ
    return count


def _access(
    shadow: int, cells: int, clock: int, width: int, follows: int, agent: int, pattern: int, number: int, write: bool
) -> int:
    answer = _prove(shadow, cells, clock, width, follows, agent, pattern, write)
    if answer == DONE:
        _record(shadow, cells, agent, number, write)
    return answer


def _prove(shadow: int, cells: int, clock: int, width: int, follows: int, agent: int, pattern: int, write: bool) -> int:
    """Return DONE if every writer and reader of the cells happens before. List those that each write replaces."""
    fields, together = i64(shadow), i64(cells)[TOGETHER]
    writers, readers, epochs = i32(fields[WRITERS]), i32(fields[READERS]), i64(i64(fields[EPOCHS])[0])
    pending, recording = u8(fields[PENDING]), fields[PENDING] != 0
    writer = reader = NOBODY
    for run in range(i64(cells)[RUNS]):
        before = shadow + _REPLACED + run // together * 2 * _LIST
        if write and run % together == 0:
            i64(before)[0] = i64(before + _LIST)[0] = 0
            writer = reader = NOBODY
        cell = _start(cells, run)
        end = cell + i64(cells)[LENGTH]
        while cell < end:
            if (
                end - cell >= EIGHT
                and _same(writers, readers, cell, writer, reader)
                and _quiet(pending, recording, cell)
            ):
                cell += EIGHT
                continue
            if recording and pending[cell] != 0:
                return FLUSH
            if writers[cell] != writer:
                writer = writers[cell]
                if not ((write and writer == 0) or _seen(epochs[writer], clock, width, follows, agent, pattern)):
                    return ASK
                if write and not _listed(before, writer):
                    return ASK
            if readers[cell] != reader:
                reader = readers[cell]
                if reader != 0 and not _seen(epochs[reader], clock, width, follows, 0, 0):
                    return ASK
                if write and not _listed(before + _LIST, reader):
                    return ASK
            cell += 1
    return DONE


def _record(shadow: int, cells: int, agent: int, number: int, write: bool) -> None:
    """Record proved accesses. Any lane may read what an agent wrote. Without an epoch, compiled code has to ask."""
    fields, place = i64(shadow), i64(cells)
    lanes, epoch = fields[WRITER_LANES if write else READER_LANES], i64(i64(fields[EPOCHS])[0])[number]
    record = NEVER if epoch == NOT_KNOWN else epoch & -(1 << COMPONENT_BITS) | MANY
    for run in range(place[RUNS]):
        start, own = _start(cells, run), number + run // place[TOGETHER]
        end = start + place[LENGTH]
        _fill(i32(fields[READERS]), start, end, 0 if write else own)
        if lanes != 0 and agent == 0:
            _fill(i32(lanes), start, end, 0)
        if write:
            _fill(i32(fields[WRITERS]), start, end, own)
            if fields[RECORDS] != 0:
                _fill(i64(fields[RECORDS]), start, end, record)


def _seen(epoch: int, clock: int, width: int, follows: int, agent: int, pattern: int) -> bool:
    """Return whether an access happens before one with this clock, and was not made by another swizzle."""
    component = component_of(epoch)
    row = epoch & GENERIC & agent
    past = component < width and i32(clock)[row * width + component] >= epoch >> TIME_BITS
    other = epoch >> PATTERN_BITS & PATTERNS
    return (past or (component == follows and epoch != NOT_KNOWN)) and (other == 0 or pattern == 0 or other == pattern)


def _start(cells: int, run: int) -> int:
    """Return the first cell of a run."""
    place = i64(cells)
    if place[STARTS] != 0:
        return i64(place[STARTS])[run]
    return place[FIRST] + run * place[STRIDE]


def _listed(replaced: int, number: int) -> bool:
    return _place(i32(replaced + 8), i64(replaced), number) >= 0


def _place(numbers: Any, count: Any, number: int) -> int:
    """Return the place of a number among `count[0]` different ones, added if it is new. -1 if they are too many."""
    for i in range(count[0]):
        if numbers[i] == number:
            return i
    if count[0] == DIFFERENT:
        return -1
    numbers[count[0]] = number
    added: int = count[0]
    count[0] = added + 1
    return added


def _fill(words: Any, start: int, end: int, word: int) -> None:
    for cell in range(start, end):
        words[cell] = word


def _same(writers: Any, readers: Any, cell: int, writer: int, reader: int) -> bool:
    """Return whether eight neighbours have this writer and this reader."""
    same = True
    for i in range(EIGHT):
        same &= (writers[cell + i] == writer) & (readers[cell + i] == reader)
    return same


def _quiet(pending: Any, recording: bool, cell: int) -> bool:
    """Return whether eight neighbours have no pending records."""
    quiet = True
    if recording:
        for i in range(EIGHT):
            quiet &= pending[cell + i] == 0
    return quiet


ENTRIES: Final = (read, write, merge)
CALLED: Final = (_place,)
"""The function that is not inlined. Inlining it as well costs compile time at each start and gains nothing."""
