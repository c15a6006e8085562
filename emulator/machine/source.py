"""Where an instruction comes from in the program that was compiled: file, line, function, and the line's text."""

from __future__ import annotations

import ast
import linecache
import os
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.ptx.syntax import Kernel


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of the program.

    caller: for a function that is called from several places, the line before it that belongs to one of its callers.
    The compiler inlines every call and does not say where, so it is the nearest such line in the order of the PTX.
    """

    file: str
    line: int
    caller: SourcePlace | None = None

    @property
    def text(self) -> str:
        """The line as written, without its indentation; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def function(self) -> str:
        """The qualified name of the function that holds the line; empty if unknown."""
        return next((f.name for f in _functions(self.file) if f.first <= self.line <= f.last), "")

    @property
    def where(self) -> str:
        """File (from the working directory if it lies below), line and function."""
        shown = os.path.relpath(self.file)
        within = f" in {self.function}" if self.function else ""
        return f"{self.file if shown.startswith('..') else shown}:{self.line}{within}"

    def __str__(self) -> str:
        near = f", called near {self.caller.where}" if self.caller else ""
        return f"{self.where}{near}: {self.text}"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a source file: its lines, and the names that it calls, each as often as it does."""

    name: str
    first: int
    last: int
    calls: tuple[str, ...]


def source_place(kernel: Kernel, instr: int) -> SourcePlace | None:
    """The place of a kernel's instruction, by its index; None if the compiler told none."""
    locations = kernel.locations
    at = bisect_right(locations, instr, key=lambda one: one.instr) - 1
    while at >= 0 and not locations[at].line:  # line 0 is the compiler's own code
        at -= 1
    if at < 0:
        return None
    here = SourcePlace(locations[at].file, locations[at].line)
    callers = _callers(_files(kernel), here.function.rpartition(".")[2])
    for earlier in reversed(locations[:at]) if callers else ():
        place = SourcePlace(earlier.file, earlier.line)
        if (place.file, place.function) in callers:
            return replace(here, caller=place)
    return here


def _files(kernel: Kernel) -> tuple[str, ...]:
    return tuple(sorted({location.file for location in kernel.locations}))


@lru_cache(maxsize=256)
def _callers(files: tuple[str, ...], name: str) -> frozenset[tuple[str, str]]:
    """(file, function) of those that call `name`, if there is more than one call."""
    functions = [(file, f) for file in files for f in _functions(file) if f.name.rpartition(".")[2] != name]
    calling = [(file, f.name) for file, f in functions for called in f.calls if called == name]
    return frozenset(calling) if len(calling) > 1 else frozenset()


@lru_cache(maxsize=64)
def _functions(file: str) -> tuple[Function, ...]:
    """A Python file's functions, inner ones first; none if it cannot be read or is no Python."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    return tuple(_within(tree, ""))


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


def _called(function: ast.FunctionDef) -> list[str]:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return [f.attr if isinstance(f, ast.Attribute) else f.id for f in calls if isinstance(f, ast.Attribute | ast.Name)]
