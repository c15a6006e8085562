"""Source locations of instructions: file, line, function, and the line's text."""

from __future__ import annotations

import ast
import linecache
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from ...errors import UnknownInstruction, place_in
from ...ptx.syntax import Instr, Kernel, Location

Callers = Mapping[tuple[str, str], Sequence["FunctionCall"]]

INSTALLED: Final = frozenset({"include", "site-packages", "dist-packages"})
"""Folders of libraries' sources. The line that is shown of several calls is the first one outside of them."""


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of the compiled program.

    caller: for a function with several call sites, the nearest line before it, in PTX order, that belongs to a caller.
    The compiler inlines calls without recording the place; None if the surrounding lines allow another caller. near:
    the compiler recorded only the compiled function; this is the nearest earlier line. inlined: the compiler
    recorded `caller`, the call of this inlined function.
    """

    file: str
    line: int
    caller: SourcePlace | None = None
    near: bool = False
    inlined: bool = False

    @property
    def text(self) -> str:
        """The line as written, without its indentation; empty if the file cannot be read."""
        return source_line(self.file, self.line)

    @property
    def function(self) -> str:
        """The qualified name of the function that holds the line; empty if unknown."""
        return _function_at(self.file, self.line)

    @property
    def where(self) -> str:
        """File (relative if below the working directory or in an installed package), line and function."""
        shown = os.path.relpath(self.file)
        file = os.path.normpath(self.file).rpartition("/site-packages/")[2] if shown.startswith("..") else shown
        within = f" in {self.function}" if self.function else ""
        return f"{'near ' * self.near}{file}:{self.line}{within}"

    @property
    def calls(self) -> list[SourcePlace]:
        """The callers, from the nearest to the kernel."""
        return [] if self.caller is None else [self.caller, *self.caller.calls]

    @property
    def own_call(self) -> SourcePlace:
        """The nearest call outside of installed libraries; the nearest of all, or this place, if there is none."""
        calls = self.calls
        return next((call for call in calls if INSTALLED.isdisjoint(call.file.split(os.sep))), (calls or [self])[0])

    def __str__(self) -> str:
        if self.caller is None:
            return f"{self.where}: {self.text}"
        if not self.inlined:
            return f"{self.where}, called near {self.caller.where}: {self.text}"
        return f"{self.where}, called at {', at '.join(call.where for call in self.calls)}: {self.own_call.text}"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a source file: its lines and its calls."""

    name: str
    first: int
    last: int
    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call, by the last part of the callee's name, and its lines."""

    name: str
    first: int
    last: int


def source_place(kernel: Kernel, instr: int) -> SourcePlace | None:
    """Return the place of a kernel's instruction, by its index; None if the compiler gave none."""
    at = bisect_right(kernel.locations, instr, key=lambda one: one.instr) - 1
    if at not in kernel.sources:
        kernel.sources[at] = _find_place(kernel, at)
    found = kernel.sources[at]
    assert found is None or isinstance(found, SourcePlace)
    return found


def place_of(kernel: Kernel, instr: Instr) -> str:
    """Describe an instruction of a kernel: its PTX line, its text, its source line if known, the kernel."""
    at = kernel.places.get(instr.place)
    where = None if at is None else source_place(kernel, at)
    return f"{place_in(instr, where)}\nin kernel {kernel.name}"


def _find_place(kernel: Kernel, last: int) -> SourcePlace | None:
    """Return the place of the instructions that location `last` begins."""
    locations, at = kernel.locations, last
    while at >= 0 and not (locations[at].line and locations[at].column):  # line 0 is compiler-generated code
        at -= 1
    if at < 0:
        return None
    near = any(location.line for location in locations[at + 1 : last + 1])
    if (call := _inlined_at(kernel, at)) is not None:
        return SourcePlace(locations[at].file, locations[at].line, call, near, True)
    here = SourcePlace(locations[at].file, locations[at].line, near=near)
    return replace(here, caller=_caller(kernel, at, here.function.rpartition(".")[2]))


def _inlined_at(kernel: Kernel, at: int) -> SourcePlace | None:
    """Return the call of the inlined function that location `at` belongs to, with the calls around it."""
    locations, calls = kernel.locations, list[SourcePlace]()
    while (call := locations[at].inlined_at) is not None:
        calls.append(SourcePlace(*call[:2]))
        at = next((n for n in reversed(range(at)) if _position(locations[n]) == call), -1)
        if at < 0:
            break
    found = None
    for place in reversed(calls):
        found = replace(place, caller=found)
    return found


def _position(location: Location) -> tuple[str, int, int]:
    return location.file, location.line, location.column


@contextmanager
def locating_errors(kernel: Kernel) -> Iterator[None]:
    """Add the kernel and the source line to every UnknownInstruction raised inside."""
    try:
        yield
    except UnknownInstruction as error:
        at = kernel.places.get(error.instr.place)
        error.locate(kernel.name, None if at is None else source_place(kernel, at))
        raise


def _caller(kernel: Kernel, at: int, name: str) -> SourcePlace | None:
    """Return the line before location `at` of a function that calls `name`, if that is certainly the caller.

    That is so if the next such line belongs to the same function. It is also so if the line itself is a call, and the
    next such line, if any, is a call too.
    """
    callers = _callers(kernel.files, name)
    if not callers:
        return None
    before = _nearest(reversed(kernel.locations[:at]), callers)
    after = _nearest(iter(kernel.locations[at + 1 :]), callers)
    if before is None:
        return None
    if after is not None and (before.file, before.function) == (after.file, after.function):
        return before
    certain = all(place is None or _is_call(callers[place.file, place.function], place) for place in (before, after))
    return before if certain else None


def _nearest(locations: Iterator[Location], callers: Callers) -> SourcePlace | None:
    lines = ((location.file, location.line) for location in locations if location.column)
    return next((SourcePlace(*line) for line in lines if (line[0], _function_at(*line)) in callers), None)


def _is_call(calls: Sequence[FunctionCall], place: SourcePlace) -> bool:
    return any(call.first <= place.line <= call.last for call in calls)


@lru_cache(maxsize=256)
def _callers(files: tuple[str, ...], name: str) -> Callers:
    """Return the calls of `name` by (file, function), or nothing if there is only one call."""
    others = [(file, f) for file in files for f in functions(file) if f.name.rpartition(".")[2] != name]
    calling = {(file, f.name): tuple(call for call in f.calls if call.name == name) for file, f in others}
    return {caller: calls for caller, calls in calling.items() if calls} if sum(map(len, calling.values())) > 1 else {}


@lru_cache(maxsize=4096)
def _function_at(file: str, line: int) -> str:
    """Return the qualified name of the function that holds a line; empty if unknown."""
    return next((f.name for f in functions(file) if f.first <= line <= f.last), "")


@lru_cache(maxsize=64)
def functions(file: str) -> tuple[Function, ...]:
    """Return a Python file's functions, inner ones first; none if it cannot be read or parsed."""
    try:
        tree = ast.parse("".join(_lines(file)))
    except SyntaxError:
        return ()
    return tuple(_within(tree, ""))


def source_line(file: str, line: int) -> str:
    """Return a line of a source file without its indentation; empty if the file cannot be read."""
    lines = _lines(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _lines(file: str) -> list[str]:
    """Return the lines of a source file; none if it is not a plain file: PTX may name a pipe, which blocks a reader."""
    return linecache.getlines(os.path.abspath(file)) if os.path.isfile(file) else []  # a script may change its folder


def _within(node: ast.AST, prefix: str) -> list[Function]:
    found = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            found += _within(child, prefix)
            continue
        found += _within(child, f"{prefix}{child.name}.")
        if isinstance(child, ast.FunctionDef):
            last = child.end_lineno or child.lineno
            found.append(Function(prefix + child.name, child.lineno, last, tuple(_called(child))))
    return found


def _called(function: ast.FunctionDef) -> Iterator[FunctionCall]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            yield FunctionCall(name, node.lineno, node.end_lineno or node.lineno)
