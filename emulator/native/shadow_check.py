"""The common case of an access of cells with a shadow, as machine code: prove that it is in order, and note it.

It returns DONE only if `Shadow.read` or `Shadow.write` would report nothing and record only this access: every writer
and reader of the cells happens before it. ASK and FLUSH change nothing: the shadow has to check the access itself, or
first to merge the notes of compiled accesses. A read of cells that compiled stores wrote, and nothing read since,
merges their notes itself: such a note serves as an earlier access's epoch, and the shadow's state of the cell is older
than that store. It then returns MERGED, which implies DONE.

An earlier access is known by its epoch, a word that the history keeps: its component and time on the clocks, its proxy
and its swizzle. Cells with the same writer and reader as the cell before are skipped eight at a time, so that a tile
that one copy wrote costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from .compile import optimised
from .memory_layout import (
    ALL_LANES,
    COMPONENT_BITS,
    COMPONENTS_MAX,
    FIRST_ID,
    ID,
    LANE,
    MANY,
    TIME_BITS,
    WRITTEN,
    offset_of,
)
from .memory_layout import ASK as NEVER
from .python_call import DECLARED, builtin, wrapper

ASK: Final = 0
DONE: Final = 1
FLUSH: Final = 2
MERGED: Final = 3
DIFFERENT: Final = 64
"""The capacity of the lists of different writers and readers of one access's cells. Beyond it the shadow checks."""

ACCESSES: Final = 16
"""The number of consecutive writes that have such lists."""

REPLACED: Final = np.dtype([("count", "u8"), ("numbers", "i4", DIFFERENT)])
TAKEN: Final = np.dtype([("count", "u8"), ("notes", "i8", DIFFERENT)])
SHADOW: Final = np.dtype(
    [
        *((name, "u8") for name in ("writers", "readers", "writer_lanes", "reader_lanes", "epochs", "noted", "writes")),
        ("taken", TAKEN),
        ("replaced", REPLACED, (ACCESSES, 2)),
    ]
)
"""Addresses: a shadow's arrays, 0 for those that it lacks; the word that holds the epochs' address; the notes of
compiled accesses. taken: the different stores that a read merged, as notes without lanes; their numbers follow its own.
replaced: the different writers and readers that each of the writes replaced, or that those stores had replaced."""
CELLS: Final = np.dtype([(name, "i8") for name in ("first", "starts", "stride", "runs", "length", "together")])
"""Runs of neighbouring cells: from `first` every `stride`, or at the words at `starts`. together: the number of runs
of one access; further runs belong to the next access, with the next number."""

GENERIC: Final = 1
PATTERN_BITS: Final = 1
PATTERNS: Final = (1 << COMPONENT_BITS - PATTERN_BITS) - 1
NOT_KNOWN: Final = NEVER
"""The epoch of an access that fits no epoch."""

_ARGUMENTS: Final = (*("ptr",) * 3, *("i64",) * 4, "i32")
_REPLACED: Final = offset_of("replaced", SHADOW)
Check = Callable[[int, int, int, int, int, int, int, int], int]


@cache
def checks() -> tuple[Check, Check]:
    """Return the checks of reads and of writes.

    They are `check(shadow, cells, clock, width, follows, async, pattern, number)`. shadow, cells: addresses of a SHADOW
    and of CELLS. clock, width: the address of a clock's rows, and their length. follows: the component whose accesses
    are ordered before this one in any case, -1 for none. async: made through the async proxy. pattern: the swizzle of a
    read, 0 for none. number: the first access's number in the history, whose epoch becomes the note of a write.
    """
    text = DECLARED + _TEXT + _set(32) + _set(64) + _list(32) + _list(64) + _TAKE_OVER
    for name in ("read", "write"):
        text += _check(write=name == "write") + wrapper(name, _ARGUMENTS, "i32")
    find = optimised(text)
    return builtin("read", find), builtin("write", find)


_TEXT: Final = f"""
define internal i64 @epoch(ptr %epochs, i32 %number) alwaysinline {{
  %index = zext i32 %number to i64
  %at = getelementptr i64, ptr %epochs, i64 %index
  %epoch = load i64, ptr %at
  ret i64 %epoch
}}

define internal i1 @seen(i64 %epoch, ptr %clock, i64 %width, i64 %follows, i64 %async, i64 %pattern) alwaysinline {{
  %wide = lshr i64 %epoch, {COMPONENT_BITS}
  %component = and i64 %wide, {COMPONENTS_MAX - 1}
  %generic = and i64 %epoch, {GENERIC}
  %row = and i64 %generic, %async
  %known = icmp ult i64 %component, %width
  %start = mul i64 %row, %width
  %place = add i64 %start, %component
  %safe = select i1 %known, i64 %place, i64 0
  %there = getelementptr i64, ptr %clock, i64 %safe
  %now = load i64, ptr %there
  %time = ashr i64 %epoch, {TIME_BITS}
  %over = icmp sge i64 %now, %time
  %past = and i1 %known, %over
  %after = icmp eq i64 %component, %follows
  %one = icmp ne i64 %epoch, {NOT_KNOWN}
  %piped = and i1 %after, %one
  %ordered = or i1 %past, %piped
  %shape = lshr i64 %epoch, {PATTERN_BITS}
  %theirs = and i64 %shape, {PATTERNS}
  %plain = icmp eq i64 %theirs, 0
  %any = icmp eq i64 %pattern, 0
  %equal = icmp eq i64 %theirs, %pattern
  %either = or i1 %plain, %any
  %fits = or i1 %either, %equal
  %good = and i1 %ordered, %fits
  ret i1 %good
}}

; Where run %run of cells begins.
define internal i64 @start(ptr %cells, i64 %run) alwaysinline {{
  %starts_at = getelementptr i64, ptr %cells, i64 1
  %starts = load ptr, ptr %starts_at
  %even = icmp eq ptr %starts, null
  br i1 %even, label %regular, label %listed
regular:
  %first = load i64, ptr %cells
  %stride_at = getelementptr i64, ptr %cells, i64 2
  %stride = load i64, ptr %stride_at
  %far = mul i64 %run, %stride
  %place = add i64 %first, %far
  ret i64 %place
listed:
  %at = getelementptr i64, ptr %starts, i64 %run
  %known = load i64, ptr %at
  ret i64 %known
}}

@nothing = private constant i64 0
"""

_TAKE_OVER: Final = f"""
; The place of a number that is in a list of different ones.
define internal i32 @place(ptr %list, i64 %number) {{
  %numbers = getelementptr i64, ptr %list, i64 1
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %at = getelementptr i64, ptr %numbers, i64 %i
  %there = load i64, ptr %at
  %same = icmp eq i64 %there, %number
  %i1 = add i64 %i, 1
  br i1 %same, label %done, label %next
done:
  %place = trunc i64 %i to i32
  ret i32 %place
}}

; Have the shadow know what compiled stores wrote in one run of cells. %first: the number of the first that is taken.
define internal void @take_over(ptr %taken, ptr %noted, ptr %writes, ptr %writers, ptr %lanes, i64 %start, i64 %length,
    i32 %first) {{
  %end = add i64 %start, %length
  br label %next
next:
  %c = phi i64 [ %start, %0 ], [ %c8, %pass ], [ %c1, %step ]
  %left = sub i64 %end, %c
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %look, label %done
look:
  %noted_at = getelementptr i8, ptr %noted, i64 %c
  %writes_at = getelementptr i64, ptr %writes, i64 %c
  %writer_at = getelementptr i32, ptr %writers, i64 %c
  %lanes_at = getelementptr i32, ptr %lanes, i64 %c
  %several = icmp sge i64 %left, 8
  br i1 %several, label %eight, label %one

eight:
  %n8 = load i64, ptr %noted_at, align 1
  %silent8 = icmp eq i64 %n8, 0
  br i1 %silent8, label %pass, label %eight_noted
eight_noted:
  %all_stored = icmp eq i64 %n8, {WRITTEN * 0x0101_0101_0101_0101}
  %notes8 = load <8 x i64>, ptr %writes_at, align 8
  %by8 = and <8 x i64> %notes8, splat (i64 {~LANE})
  %by = extractelement <8 x i64> %by8, i32 0
  %by_all = shufflevector <8 x i64> %by8, <8 x i64> poison, <8 x i32> zeroinitializer
  %by_other = icmp ne <8 x i64> %by8, %by_all
  %by_bits = bitcast <8 x i1> %by_other to i8
  %by_same = icmp eq i8 %by_bits, 0
  %alike = and i1 %all_stored, %by_same
  br i1 %alike, label %take_eight, label %one
take_eight:
  %place8 = call i32 @place(ptr %taken, i64 %by)
  %number8 = add i32 %first, %place8
  %number_first = insertelement <8 x i32> poison, i32 %number8, i32 0
  %number_all = shufflevector <8 x i32> %number_first, <8 x i32> poison, <8 x i32> zeroinitializer
  store <8 x i32> %number_all, ptr %writer_at, align 4
  %lane8 = and <8 x i64> %notes8, splat (i64 {LANE})
  %lane_bits8 = shl <8 x i64> splat (i64 1), %lane8
  %many8 = icmp eq <8 x i64> %lane8, splat (i64 {MANY})
  %bits8 = select <8 x i1> %many8, <8 x i64> splat (i64 {ALL_LANES}), <8 x i64> %lane_bits8
  %words8 = trunc <8 x i64> %bits8 to <8 x i32>
  store <8 x i32> %words8, ptr %lanes_at, align 4
  %epochs8 = and <8 x i64> %notes8, splat (i64 {~ID})
  store <8 x i64> %epochs8, ptr %writes_at, align 8
  store i64 0, ptr %noted_at, align 1
  br label %pass
pass:
  %c8 = add i64 %c, 8
  br label %next

one:
  %n = load i8, ptr %noted_at
  %silent = icmp eq i8 %n, 0
  br i1 %silent, label %step, label %take
take:
  %note = load i64, ptr %writes_at
  %access = and i64 %note, {~LANE}
  %place = call i32 @place(ptr %taken, i64 %access)
  %number = add i32 %first, %place
  store i32 %number, ptr %writer_at
  %lane = and i64 %note, {LANE}
  %lane_bit = shl i64 1, %lane
  %many = icmp eq i64 %lane, {MANY}
  %bits = select i1 %many, i64 {ALL_LANES}, i64 %lane_bit
  %word = trunc i64 %bits to i32
  store i32 %word, ptr %lanes_at
  %epoch = and i64 %note, {~ID}
  store i64 %epoch, ptr %writes_at
  store i8 0, ptr %noted_at
  br label %step
step:
  %c1 = add i64 %c, 1
  br label %next
done:
  ret void
}}
"""


def _list(bits: int) -> str:
    """Return the function that adds to a list of words of so many bits."""
    return f"""
; Add a number to a list of different ones. False if it is full.
define internal i1 @list{bits}(ptr %list, i{bits} %number) {{
  %count = load i64, ptr %list
  %numbers = getelementptr i64, ptr %list, i64 1
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i1, %other ]
  %last = icmp eq i64 %i, %count
  br i1 %last, label %new, label %look
look:
  %at = getelementptr i{bits}, ptr %numbers, i64 %i
  %known = load i{bits}, ptr %at
  %same = icmp eq i{bits} %known, %number
  br i1 %same, label %done, label %other
other:
  %i1 = add i64 %i, 1
  br label %next
new:
  %full = icmp eq i64 %count, {DIFFERENT}
  br i1 %full, label %failed, label %add
add:
  %end = getelementptr i{bits}, ptr %numbers, i64 %count
  store i{bits} %number, ptr %end
  %more = add i64 %count, 1
  store i64 %more, ptr %list
  br label %done
done:
  ret i1 true
failed:
  ret i1 false
}}
"""


def _set(bits: int) -> str:
    """Return the function that sets cells of an array of words of so many bits."""
    return f"""
; Set cells of an array, if there is one.
define internal void @set{bits}(ptr %array, i64 %start, i64 %length, i{bits} %value) alwaysinline {{
  %absent = icmp eq ptr %array, null
  br i1 %absent, label %done, label %prepare
prepare:
  %end = add i64 %start, %length
  %first = insertelement <8 x i{bits}> poison, i{bits} %value, i32 0
  %all = shufflevector <8 x i{bits}> %first, <8 x i{bits}> poison, <8 x i32> zeroinitializer
  br label %next
next:
  %c = phi i64 [ %start, %prepare ], [ %c8, %eight ], [ %c1, %one ]
  %left = sub i64 %end, %c
  %at = getelementptr i{bits}, ptr %array, i64 %c
  %several = icmp sge i64 %left, 8
  br i1 %several, label %eight, label %few
eight:
  store <8 x i{bits}> %all, ptr %at, align {bits // 8}
  %c8 = add i64 %c, 8
  br label %next
few:
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %one, label %done
one:
  store i{bits} %value, ptr %at
  %c1 = add i64 %c, 1
  br label %next
done:
  ret void
}}
"""


def _check(write: bool) -> str:
    """Return the function `read` or `write`."""
    return f"""
define i32 @{"write" if write else "read"}(ptr %shadow, ptr %cells, ptr %clock, i64 %width, i64 %follows, i64 %async,
    i64 %pattern, i32 %number) {{
  {_fields()}
  %epochs = load ptr, ptr %epochs_word
  {_NOTE if write else ""}
  %noting = icmp ne ptr %noted, null
  %by_agent = icmp ne i64 %async, 0
  %own_lanes = select i1 %by_agent, ptr null, ptr %{"writer" if write else "reader"}_lanes
  %runs_at = getelementptr i64, ptr %cells, i64 3
  %runs = load i64, ptr %runs_at
  %length_at = getelementptr i64, ptr %cells, i64 4
  %length = load i64, ptr %length_at
  %together_at = getelementptr i64, ptr %cells, i64 5
  %together = load i64, ptr %together_at
  %lists = alloca ptr
  %run = alloca i64
  %cell = alloca i64
  %writer = alloca i32
  %reader = alloca i32
  {"" if write else _NOTHING_TAKEN}
  store i64 0, ptr %run
  store i32 -1, ptr %writer
  store i32 -1, ptr %reader
  br label %next_run

{_next_cells(write)}
{_one_cell(write)}
{_note_runs(write)}
done:
  ret i32 {DONE}
ask:
  ret i32 {ASK}
settle:
  ret i32 {FLUSH}
}}
"""


def _next_cells(write: bool) -> str:
    """Return the loop over runs. Eight cells with the writer and reader of the cell before are skipped at once."""
    return f"""
next_run:
  %this = load i64, ptr %run
  %ended = icmp eq i64 %this, %runs
  br i1 %ended, label %proved, label %look
look:
  %next = add i64 %this, 1
  store i64 %next, ptr %run
  %start = call i64 @start(ptr %cells, i64 %this)
  %end = add i64 %start, %length
  store i64 %start, ptr %cell
  {_own_lists() if write else "br label %next_cells"}
next_cells:
  %c = load i64, ptr %cell
  %left = sub i64 %end, %c
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %cells_left, label %next_run
cells_left:
  %w = load i32, ptr %writer
  %r = load i32, ptr %reader
  %writer_at = getelementptr i32, ptr %writers, i64 %c
  %reader_at = getelementptr i32, ptr %readers, i64 %c
  %note_at = getelementptr i8, ptr %noted, i64 %c
  %note_place = select i1 %noting, ptr %note_at, ptr @nothing
  %several = icmp sge i64 %left, 8
  br i1 %several, label %eight, label %one

eight:
  %w8 = load <8 x i32>, ptr %writer_at, align 4
  %r8 = load <8 x i32>, ptr %reader_at, align 4
  %n8 = load i64, ptr %note_place, align 1
  {_same("same", "%w8", "%w", "%r8", "%r")}
  %quiet = icmp eq i64 %n8, 0
  %past = and i1 %same, %quiet
  br i1 %past, label %pass, label %{"one" if write else "eight_stored"}
{"" if write else _EIGHT_STORED}
pass:
  %c8 = add i64 %c, 8
  store i64 %c8, ptr %cell
  br label %next_cells
"""


def _one_cell(write: bool) -> str:
    """Return the check of a cell with a new writer or reader, kept for the following cells once it is proved."""
    return f"""
one:
  %n1 = load i8, ptr %note_place
  switch i8 %n1, label %settle [ i8 0, label %writers_turn {"" if write else f"i8 {WRITTEN}, label %stored"} ]
{"" if write else _STORED}
writers_turn:
  %w1 = load i32, ptr %writer_at
  %w_same = icmp eq i32 %w1, %w
  br i1 %w_same, label %readers_turn, label %new_writer
new_writer:
  %w_epoch = call i64 @epoch(ptr %epochs, i32 %w1)
  %w_seen = call i1 @seen(i64 %w_epoch, ptr %clock, i64 %width, i64 %follows, i64 %async, i64 %pattern)
  {_or_nobody("%w_good", "%w_seen", "%w1") if write else "%w_good = and i1 %w_seen, true"}
  br i1 %w_good, label %keep_writer, label %ask
keep_writer:
  store i32 %w1, ptr %writer
  {_listed(0, "%w1", "readers_turn") if write else "br label %readers_turn"}
readers_turn:
  %r1 = load i32, ptr %reader_at
  %r_same = icmp eq i32 %r1, %r
  br i1 %r_same, label %step, label %new_reader
new_reader:
  %r_epoch = call i64 @epoch(ptr %epochs, i32 %r1)
  %r_seen = call i1 @seen(i64 %r_epoch, ptr %clock, i64 %width, i64 %follows, i64 0, i64 0)
  {_or_nobody("%r_good", "%r_seen", "%r1")}
  br i1 %r_good, label %keep_reader, label %ask
keep_reader:
  store i32 %r1, ptr %reader
  {_listed(1, "%r1", "step") if write else "br label %step"}
step:
  %c1 = add i64 %c, 1
  store i64 %c1, ptr %cell
  br label %next_cells
"""


def _note_runs(write: bool) -> str:
    """Return the noting of proved runs, `together` runs by one number."""
    return f"""
proved:
  {"" if write else _FIRST_TAKEN}
  br label %note_next
note_next:
  %again = phi i64 [ 0, %proved ], [ %following, %noted_run ]
  %own = phi i32 [ %number, %proved ], [ %own_next, %noted_run ]
  %until = phi i64 [ %together, %proved ], [ %until_next, %noted_run ]
  %all = icmp eq i64 %again, %runs
  br i1 %all, label %{"done" if write else "done_taking"}, label %noting_run
noting_run:
  %from = call i64 @start(ptr %cells, i64 %again)
  {_noted(write)}
  {"br label %noted_run" if write else _TAKE_RUN}
noted_run:
  %following = add i64 %again, 1
  %last_of_it = icmp eq i64 %following, %until
  %own_after = add i32 %own, 1
  %own_next = select i1 %last_of_it, i32 %own_after, i32 %own
  %until_after = add i64 %until, %together
  %until_next = select i1 %last_of_it, i64 %until_after, i64 %until
  br label %note_next

{"" if write else _DONE_TAKING}
"""


def _same(result: str, writers: str, writer: str, readers: str, reader: str) -> str:
    """Return a comparison: eight cells all have this writer and this reader."""
    lines = []
    for eight, one in ((writers, writer), (readers, reader)):
        name = f"{one}_{result}"
        lines += [
            f"{name}_first = insertelement <8 x i32> poison, i32 {one}, i32 0",
            f"{name}_all = shufflevector <8 x i32> {name}_first, <8 x i32> poison, <8 x i32> zeroinitializer",
            f"{name}_other = icmp ne <8 x i32> {eight}, {name}_all",
        ]
    return "\n  ".join(
        [
            *lines,
            f"%{result}_other = or <8 x i1> {writer}_{result}_other, {reader}_{result}_other",
            f"%{result}_bits = bitcast <8 x i1> %{result}_other to i8",
            f"%{result} = icmp eq i8 %{result}_bits, 0",
        ]
    )


_NOTHING_TAKEN: Final = f"""%taken = getelementptr i8, ptr %shadow, i64 {offset_of("taken", SHADOW)}
  %before_writers = getelementptr i8, ptr %shadow, i64 {_REPLACED}
  %before_readers = getelementptr i8, ptr %before_writers, i64 {REPLACED.itemsize}
  store i64 0, ptr %taken
  store i64 0, ptr %before_writers
  store i64 0, ptr %before_readers
  %stored_by = alloca i64
  %before_writer = alloca i32
  %before_reader = alloca i32
  store i64 -1, ptr %stored_by
  store i32 -1, ptr %before_writer
  store i32 -1, ptr %before_reader"""
_EIGHT_STORED: Final = f"""eight_stored:
  %all_stored = icmp eq i64 %n8, {WRITTEN * 0x0101_0101_0101_0101}
  br i1 %all_stored, label %eight_notes, label %one
eight_notes:
  %notes_at = getelementptr i64, ptr %writes, i64 %c
  %notes8 = load <8 x i64>, ptr %notes_at, align 8
  %by = load i64, ptr %stored_by
  %by_first = insertelement <8 x i64> poison, i64 %by, i32 0
  %by_all = shufflevector <8 x i64> %by_first, <8 x i64> poison, <8 x i32> zeroinitializer
  %by8 = and <8 x i64> %notes8, splat (i64 {~LANE})
  %by_other = icmp ne <8 x i64> %by8, %by_all
  %by_bits = bitcast <8 x i1> %by_other to i8
  %by_same = icmp eq i8 %by_bits, 0
  %bw = load i32, ptr %before_writer
  %br = load i32, ptr %before_reader
  {_same("b_same", "%w8", "%bw", "%r8", "%br")}
  %stored_past = and i1 %by_same, %b_same
  br i1 %stored_past, label %pass, label %one"""
_STORED: Final = f"""stored:
  %note_of_write = getelementptr i64, ptr %writes, i64 %c
  %note1 = load i64, ptr %note_of_write
  %id = and i64 %note1, {ID}
  %compiled = icmp uge i64 %id, {FIRST_ID}
  br i1 %compiled, label %stores_turn, label %settle
stores_turn:
  %by1 = and i64 %note1, {~LANE}
  %by_before = load i64, ptr %stored_by
  %by_known = icmp eq i64 %by1, %by_before
  br i1 %by_known, label %before_writers_turn, label %new_store
new_store:
  %when = and i64 %by1, {~ID}
  %by_epoch = or i64 %when, {GENERIC}
  %by_seen = call i1 @seen(i64 %by_epoch, ptr %clock, i64 %width, i64 %follows, i64 %async, i64 %pattern)
  br i1 %by_seen, label %keep_store, label %ask
keep_store:
  store i64 %by1, ptr %stored_by
  %by_listed = call i1 @list64(ptr %taken, i64 %by1)
  br i1 %by_listed, label %before_writers_turn, label %settle
before_writers_turn:
  %bw1 = load i32, ptr %writer_at
  store i32 %bw1, ptr %before_writer
  %bw_listed = call i1 @list32(ptr %before_writers, i32 %bw1)
  br i1 %bw_listed, label %before_readers_turn, label %settle
before_readers_turn:
  %br1 = load i32, ptr %reader_at
  store i32 %br1, ptr %before_reader
  %br_listed = call i1 @list32(ptr %before_readers, i32 %br1)
  br i1 %br_listed, label %step, label %settle"""
"""The check of a cell that compiled code stored to and nothing read since."""
_FIRST_TAKEN: Final = """%count_taken = load i64, ptr %taken
  %none_taken = icmp eq i64 %count_taken, 0
  %own_count = udiv i64 %runs, %together
  %own_numbers = trunc i64 %own_count to i32
  %first_taken = add i32 %number, %own_numbers"""
_DONE_TAKING: Final = f"""done_taking:
  br i1 %none_taken, label %done, label %done_taken
done_taken:
  ret i32 {MERGED}"""
_NOTE: Final = f"""%own_epoch = call i64 @epoch(ptr %epochs, i32 %number)
  %own_time = and i64 %own_epoch, {-(1 << COMPONENT_BITS)}
  %own_note = or i64 %own_time, {MANY}
  %own_unknown = icmp eq i64 %own_epoch, {NOT_KNOWN}
  %note = select i1 %own_unknown, i64 {NEVER}, i64 %own_note"""
"""Any lane may read what an agent wrote. Without an epoch, the note makes compiled code ask."""
_TAKE_RUN: Final = """br i1 %none_taken, label %noted_run, label %take_run
take_run:
  call void @take_over(ptr %taken, ptr %noted, ptr %writes, ptr %writers, ptr %writer_lanes, i64 %from, i64 %length,
    i32 %first_taken)
  br label %noted_run"""


def _fields() -> str:
    """Return loads of the addresses in a SHADOW by their names, and of the word that holds the epochs' address."""
    names = [name for name in SHADOW.names or () if name not in ("taken", "replaced")]
    lines = []
    for name in names:
        kept = "epochs_word" if name == "epochs" else name
        lines.append(f"%{name}_field = getelementptr i8, ptr %shadow, i64 {offset_of(name, SHADOW)}")
        lines.append(f"%{kept} = load ptr, ptr %{name}_field")
    return "\n  ".join(lines)


def _or_nobody(result: str, seen: str, number: str) -> str:
    """Return a test that an access is seen or that there is none."""
    return f"{result}_none = icmp eq i32 {number}, 0\n  {result} = or i1 {result}_none, {seen}"


def _own_lists() -> str:
    """Return the start of another access, with empty lists of its own."""
    return f"""%within = urem i64 %this, %together
  %begins = icmp eq i64 %within, 0
  br i1 %begins, label %own_lists, label %next_cells
own_lists:
  %access = udiv i64 %this, %together
  %far = mul i64 %access, {2 * REPLACED.itemsize}
  %place = add i64 %far, {_REPLACED}
  %own_writers = getelementptr i8, ptr %shadow, i64 %place
  %own_readers = getelementptr i8, ptr %own_writers, i64 {REPLACED.itemsize}
  store i64 0, ptr %own_writers
  store i64 0, ptr %own_readers
  store ptr %own_writers, ptr %lists
  store i32 -1, ptr %writer
  store i32 -1, ptr %reader
  br label %next_cells"""


def _listed(which: int, number: str, after: str) -> str:
    """Return the recording of a writer (0) or a reader (1) that a write replaces."""
    kept, lists, own = f"%kept_{after}", f"%lists_{after}", f"%list_{after}"
    return f"""{lists} = load ptr, ptr %lists
  {own} = getelementptr i8, ptr {lists}, i64 {which * REPLACED.itemsize}
  {kept} = call i1 @list32(ptr {own}, i32 {number})
  br i1 {kept}, label %{after}, label %ask"""


def _noted(write: bool) -> str:
    """Return the noting of the access in one run of cells: as the writer without readers, or as the reader."""
    what = [("writers", "%own"), ("readers", "0")] if write else [("readers", "%own")]
    what.append(("own_lanes", "0"))
    lines = [f"call void @set32(ptr %{name}, i64 %from, i64 %length, i32 {value})" for name, value in what]
    lines += ["call void @set64(ptr %writes, i64 %from, i64 %length, i64 %note)"] * write
    return "\n  ".join(lines)
