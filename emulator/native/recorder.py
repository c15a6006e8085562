"""Code as a list of operations on rows of memory, each compiled once per process regardless of its occurrences.

Every operation reads whole rows (or constants), computes, and writes one row. Rows are those of the register file, or
scratch rows behind it, which are reused after their last use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ..chip import LANES
from .vector import BITS, Code, Template, Vec, selection, template

WORD, ROW = 4, 64
STEP_WORDS: Final = 8
MAX_OPERANDS: Final = STEP_WORDS - 2


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the register file, `offset` bytes from its start."""

    offset: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A row for the result of operation `index`, used by this code only."""

    index: int


@dataclass(frozen=True, slots=True)
class Active:
    """The predicate of the active lanes."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """The unit of compilation: an instruction, with the kind and the addressing of each operand. Interned."""

    template: Template
    operands: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Step:
    """One operation on operands. `result` is None until a row is allocated for it."""

    operation: Operation
    places: tuple[Any, ...]
    result: Row | None


class Recorder(Code):
    """A list of operations in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def new(self, template: Template, operands: tuple[Vec, ...]) -> Vec:
        """Append an operation, except for bitcasts. Return its result."""
        if template.text.startswith("bitcast"):
            return Vec(self, operands[0].place, template.kind)
        self.steps.append(_step(template, operands, None))
        return Vec(self, Scratch(len(self.steps) - 1), template.kind)

    def store(self, value: Vec, row: Row) -> None:
        """Write a value into a row, in the active lanes."""
        kept = Vec(self, row, value.kind)
        self.steps.append(_step(selection(value.kind), (self.active, value, kept), row))

    def copied(self, value: Vec) -> Vec:
        """Return a scratch row with the same content."""
        return self.new(template(f"freeze <32 x {value.kind}> {{0}}", value.kind), (value,))

    @property
    def active(self) -> Vec:
        """Return the active lanes."""
        return Vec(self, Active(), "i1")

    def placed(self, scratch_at: int) -> int:
        """Allocate rows for all results from `scratch_at` bytes on. Return the number of bytes used."""
        last_use = _last_uses(self.steps)
        rows = _Rows(scratch_at)
        found: dict[int, Row] = {}
        for index, step in enumerate(self.steps):
            used = {place.index for place in step.places if type(place) is Scratch}
            if used:
                step.places = tuple([found[p.index] if type(p) is Scratch else p for p in step.places])
                for number in used:
                    if last_use[number] == index:
                        rows.give_back(found[number], self.steps[number].operation.template.kind)
            if step.result is None:
                kind = step.operation.template.kind
                found[index] = step.result = rows.take(kind)
                if index not in last_use:
                    rows.give_back(step.result, kind)
        return rows.end - scratch_at


def row_bytes(kind: str) -> int:
    """Return the bytes of a value of this kind: a predicate is one word."""
    return _BYTES[kind]


_BYTES: Final = {kind: WORD if kind == "i1" else max(bits // 8 * LANES, ROW) for kind, bits in BITS.items()}


def _step(template: Template, operands: Sequence[Vec], result: Row | None) -> Step:
    if len(operands) > MAX_OPERANDS:
        raise ValueError(f"an operation of {len(operands)} operands; at most {MAX_OPERANDS} fit")
    found = tuple([(operand.kind, _MODES.get(type(operand.place), "row")) for operand in operands])
    return Step(_operation(template, found), tuple([operand.place for operand in operands]), result)


@cache
def _operation(template: Template, operands: tuple[tuple[str, str], ...]) -> Operation:
    return Operation(template, operands)


_MODES = {int: "constant", Active: "active"}


def _last_uses(steps: list[Step]) -> dict[int, int]:
    return {place.index: i for i, step in enumerate(steps) for place in step.places if type(place) is Scratch}


class _Rows:
    """Scratch rows by size, reused after they are given back."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._free: dict[int, list[Row]] = {}

    def take(self, kind: str) -> Row:
        size = row_bytes(kind)
        free = self._free.get(size)
        if free:
            return free.pop()
        align = min(size, ROW)
        self.end = -(-self.end // align) * align
        row = Row(self.end)
        self.end += size
        return row

    def give_back(self, row: Row, kind: str) -> None:
        self._free.setdefault(row_bytes(kind), []).append(row)
