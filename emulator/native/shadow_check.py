"""The common case of an access of cells that have a shadow, as machine code: proved to be in order, and noted.

It is DONE only where `Shadow.read` or `Shadow.write` would find nothing, and note no more than the one new number: all
that wrote the cells is seen, and so is all that read them. ASK and SETTLE leave everything as it was: the shadow has to
look itself, or first to take over what compiled loads and stores noted.

An earlier access is known here by its epoch, a word that the history keeps: where and when it shows on the clocks, by
which proxy it was made, and by which swizzle. Cells that have the writer and the reader of the cell before are passed
four at a time: a tile that one copy wrote takes next to nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from .compile import optimised
from .memory_layout import ASK as NEVER
from .memory_layout import COMPONENT_BITS, COMPONENTS_MAX, TIME_BITS, offset_of

ASK: Final = 0
DONE: Final = 1
SETTLE: Final = 2
DIFFERENT: Final = 64
"""So many different writers and readers of one access's cells are told apart; the shadow itself looks at more."""

ACCESSES: Final = 16
"""So many writes at once have lists of what they replace."""

REPLACED: Final = np.dtype([("count", "u8"), ("numbers", "i4", DIFFERENT)])
SHADOW: Final = np.dtype(
    [
        *((name, "u8") for name in ("writers", "readers", "writer_lanes", "reader_lanes", "epochs", "noted", "writes")),
        ("replaced", REPLACED, (ACCESSES, 2)),
    ]
)
"""Addresses of a shadow's arrays, 0 for what it does not have; of the word where the epochs' address is; of the notes
of compiled accesses. replaced: the different writers and readers that each of the writes found."""
CELLS: Final = np.dtype([(name, "i8") for name in ("first", "starts", "stride", "runs", "length", "together")])
"""Runs of so many neighbouring cells: from `first` on every `stride`, or where the words at `starts` say. together: as
many runs are one access; those after them are the next, with the next number."""

GENERIC: Final = 1
PATTERN_BITS: Final = 1
PATTERNS: Final = (1 << COMPONENT_BITS - PATTERN_BITS) - 1
NOT_KNOWN: Final = NEVER
"""The epoch of what has none of its own."""

_ARGUMENTS: Final = (*(ctypes.c_void_p,) * 3, *(ctypes.c_int64,) * 4, ctypes.c_int32, ctypes.c_int64)
_REPLACED: Final = offset_of("replaced", SHADOW)
_Check = ctypes.CFUNCTYPE(ctypes.c_int32, *_ARGUMENTS)
Check = Callable[[int, int, int, int, int, int, int, int, int], int]


def epoch(component: int, time: int, generic: bool, pattern: int) -> int:
    """The word for an access whose completion shows at `time` on a component of the clocks. pattern: 0 for none."""
    if not 0 <= component < COMPONENTS_MAX:
        return NOT_KNOWN
    return time << TIME_BITS | component << COMPONENT_BITS | pattern << PATTERN_BITS | generic


@cache
def checks() -> tuple[Check, Check]:
    """For reads and for writes: `check(shadow, cells, clock, width, follows, async, pattern, number, note)`.

    shadow, cells: addresses of a SHADOW and of CELLS. clock, width: the address of a clock's rows, and their length.
    follows: the component whose accesses come before this one whatever the clock says, -1 for none. async: whether it
    is made by the async proxy. pattern: by which swizzle it reads, 0 for none. number: its own in the history, of the
    first where there are several. note: of a write, for loads and stores that are machine code.
    """
    find = optimised(_TEXT + _set(32) + _set(64) + _check(write=False) + _check(write=True))
    read, write = _Check(find("read")), _Check(find("write"))
    return read, write


_TEXT: Final = f"""
define internal i1 @seen(ptr %epochs, i32 %number, ptr %clock, i64 %width, i64 %follows, i64 %async, i64 %pattern) {{
  %index = zext i32 %number to i64
  %at = getelementptr i64, ptr %epochs, i64 %index
  %epoch = load i64, ptr %at
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

; Add a number to a list of different ones. False if it is full.
define internal i1 @list(ptr %list, i32 %number) {{
  %count = load i64, ptr %list
  %numbers = getelementptr i64, ptr %list, i64 1
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i1, %other ]
  %last = icmp eq i64 %i, %count
  br i1 %last, label %new, label %look
look:
  %at = getelementptr i32, ptr %numbers, i64 %i
  %known = load i32, ptr %at
  %same = icmp eq i32 %known, %number
  br i1 %same, label %done, label %other
other:
  %i1 = add i64 %i, 1
  br label %next
new:
  %full = icmp eq i64 %count, {DIFFERENT}
  br i1 %full, label %failed, label %add
add:
  %end = getelementptr i32, ptr %numbers, i64 %count
  store i32 %number, ptr %end
  %more = add i64 %count, 1
  store i64 %more, ptr %list
  br label %done
done:
  ret i1 true
failed:
  ret i1 false
}}

; Where run %run of cells begins.
define internal i64 @start(ptr %cells, i64 %run) {{
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

@nothing = private constant i32 0
"""


def _set(bits: int) -> str:
    """The function that sets cells of an array of words so wide."""
    return f"""
; Set cells of an array, if there is one.
define internal void @set{bits}(ptr %array, i64 %start, i64 %length, i{bits} %value) {{
  %absent = icmp eq ptr %array, null
  br i1 %absent, label %done, label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i1, %do ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %do, label %done
do:
  %place = add i64 %start, %i
  %at = getelementptr i{bits}, ptr %array, i64 %place
  store i{bits} %value, ptr %at
  %i1 = add i64 %i, 1
  br label %next
done:
  ret void
}}
"""


def _check(write: bool) -> str:
    """The function `read` or `write`."""
    return f"""
define i32 @{"write" if write else "read"}(ptr %shadow, ptr %cells, ptr %clock, i64 %width, i64 %follows, i64 %async,
    i64 %pattern, i32 %number, i64 %note) {{
  {_fields()}
  %epochs = load ptr, ptr %epochs_word
  %noting = icmp ne ptr %noted, null
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
  store i64 0, ptr %run
  store i32 -1, ptr %writer
  store i32 -1, ptr %reader
  br label %next_run

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
  %several = icmp sge i64 %left, 4
  br i1 %several, label %four, label %one

four:
  %w4 = load <4 x i32>, ptr %writer_at, align 4
  %r4 = load <4 x i32>, ptr %reader_at, align 4
  %n4 = load i32, ptr %note_place, align 1
  %w_first = insertelement <4 x i32> poison, i32 %w, i32 0
  %w_all = shufflevector <4 x i32> %w_first, <4 x i32> poison, <4 x i32> zeroinitializer
  %r_first = insertelement <4 x i32> poison, i32 %r, i32 0
  %r_all = shufflevector <4 x i32> %r_first, <4 x i32> poison, <4 x i32> zeroinitializer
  %w_other = xor <4 x i32> %w4, %w_all
  %r_other = xor <4 x i32> %r4, %r_all
  %other = or <4 x i32> %w_other, %r_other
  %bits = bitcast <4 x i32> %other to i128
  %same = icmp eq i128 %bits, 0
  %quiet = icmp eq i32 %n4, 0
  %past = and i1 %same, %quiet
  br i1 %past, label %pass, label %one
pass:
  %c4 = add i64 %c, 4
  store i64 %c4, ptr %cell
  br label %next_cells

one:
  %n1 = load i8, ptr %note_place
  %silent = icmp eq i8 %n1, 0
  br i1 %silent, label %writers_turn, label %settle
writers_turn:
  %w1 = load i32, ptr %writer_at
  %w_same = icmp eq i32 %w1, %w
  br i1 %w_same, label %readers_turn, label %new_writer
new_writer:
  %w_seen = call i1 @seen(ptr %epochs, i32 %w1, ptr %clock, i64 %width, i64 %follows, i64 %async, i64 %pattern)
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
  %r_seen = call i1 @seen(ptr %epochs, i32 %r1, ptr %clock, i64 %width, i64 %follows, i64 0, i64 0)
  {_or_nobody("%r_good", "%r_seen", "%r1")}
  br i1 %r_good, label %keep_reader, label %ask
keep_reader:
  store i32 %r1, ptr %reader
  {_listed(1, "%r1", "step") if write else "br label %step"}
step:
  %c1 = add i64 %c, 1
  store i64 %c1, ptr %cell
  br label %next_cells

proved:
  %again = phi i64 [ 0, %next_run ], [ %following, %noting_run ]
  %all = icmp eq i64 %again, %runs
  br i1 %all, label %done, label %noting_run
noting_run:
  %from = call i64 @start(ptr %cells, i64 %again)
  %which = udiv i64 %again, %together
  %further = trunc i64 %which to i32
  %own = add i32 %number, %further
  {_noted(write)}
  %following = add i64 %again, 1
  br label %proved

done:
  ret i32 {DONE}
ask:
  ret i32 {ASK}
settle:
  ret i32 {SETTLE}
}}
"""


def _fields() -> str:
    """The addresses in a SHADOW by their names; that of the epochs' address."""
    names = [name for name in SHADOW.names or () if name != "replaced"]
    lines = []
    for name in names:
        kept = "epochs_word" if name == "epochs" else name
        lines.append(f"%{name}_field = getelementptr i8, ptr %shadow, i64 {offset_of(name, SHADOW)}")
        lines.append(f"%{kept} = load ptr, ptr %{name}_field")
    return "\n  ".join(lines)


def _or_nobody(result: str, seen: str, number: str) -> str:
    """Whether an access is seen, or there was none."""
    return f"{result}_none = icmp eq i32 {number}, 0\n  {result} = or i1 {result}_none, {seen}"


def _own_lists() -> str:
    """Where another access begins: it has lists of its own, in which nothing stands."""
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
    """Remember the number of what a write replaces: of its writers, 0, or of its readers, 1."""
    told, lists, own = f"%told_{after}", f"%lists_{after}", f"%list_{after}"
    return f"""{lists} = load ptr, ptr %lists
  {own} = getelementptr i8, ptr {lists}, i64 {which * REPLACED.itemsize}
  {told} = call i1 @list(ptr {own}, i32 {number})
  br i1 {told}, label %{after}, label %ask"""


def _noted(write: bool) -> str:
    """Note the access in one run of cells: as the writer that nobody has read yet, or as the reader."""
    what = [("writers", "%own"), ("readers", "0"), ("writer_lanes", "0")] if write else []
    what = what or [("readers", "%own"), ("reader_lanes", "0")]
    lines = [f"call void @set32(ptr %{name}, i64 %from, i64 %length, i32 {value})" for name, value in what]
    lines += ["call void @set64(ptr %writes, i64 %from, i64 %length, i64 %note)"] * write
    return "\n  ".join(lines)
