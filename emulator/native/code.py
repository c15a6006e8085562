"""The two kinds of code to which the operators of a `Vec` append: a list of operations, and LLVM IR.

A `Recorder` lists operations on rows of memory, each compiled once per process regardless of its occurrences. Every
operation reads whole rows (or constants), computes, and writes one row. Rows are those of the register file, or scratch
rows behind it, which are reused after their last use. A `Body` is the IR of one function; `link` makes one module of
all functions that bodies need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ..chip import LANES
from .vector import BITS, FLOATS, Code, Helper, Template, Vec, selection, template

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


class Body(Code):
    """Straight-line IR under construction, with the intrinsics and helpers that it calls."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.helpers: dict[str, Helper] = {}

    def new(self, template: Template, operands: tuple[Vec, ...]) -> Vec:
        """Append an instruction. Return its result."""
        if template.declaration:
            self.declarations.add(template.declaration)
        if template.helper is not None:
            self.helpers[template.helper.name] = template.helper
        name = self.scalar(template.text.format(*(text_of(operand) for operand in operands)))
        return Vec(self, name, template.kind)

    def scalar(self, text: str) -> str:
        """Append an instruction of any result type. Return the name of its result."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(text)

    def splat(self, kind: str, value: str) -> str:
        """Return a vector with a scalar in every lane."""
        first = self.scalar(f"insertelement <32 x {kind}> poison, {kind} {value}, i32 0")
        return self.scalar(f"shufflevector <32 x {kind}> {first}, <32 x {kind}> poison, <32 x i32> zeroinitializer")

    # Operands of a step, in a function of the register file %r and the step's words %w.

    def word(self, index: int) -> str:
        """Return an operand."""
        address = self.scalar(f"getelementptr i64, ptr %w, i64 {index}")
        return self.scalar(f"load i64, ptr {address}, align 8")

    def place(self, index: int) -> str:
        """Return the address of the row that an operand names."""
        return self.scalar(f"getelementptr i8, ptr %r, i64 {self.word(index)}")

    def after(self) -> str:
        """Return the address of the next step."""
        return self.scalar(f"getelementptr i64, ptr %w, i64 {STEP_WORDS - 1}")


def text_of(operand: Vec) -> str:
    """Return an operand as IR: a name, or a constant in every lane."""
    place: Any = operand.place
    if isinstance(place, str):
        return place
    if operand.kind == "i1":
        return f"splat (i1 {'true' if place else 'false'})"
    width = BITS[operand.kind]
    splat = f"splat (i{width} {place})"
    if operand.kind in FLOATS:
        return f"bitcast (<32 x i{width}> {splat} to <32 x {operand.kind}>)"
    return splat


def define(helper: Helper) -> tuple[str, Body]:
    """Return the text of a helper's definition, and the body whose declarations and helpers it needs."""
    body = Body()
    arguments = [Vec(body, f"%a{i}", kind) for i, kind in enumerate(helper.arguments)]
    result = helper.body(*arguments)
    parameters = ", ".join(f"<32 x {a.kind}> {a.place}" for a in arguments)
    head = f"define internal <32 x {helper.result}> @{helper.name}({parameters}) nounwind {{"
    tail = f"ret <32 x {helper.result}> {text_of(result)}"
    return "\n".join([head, *body.lines, tail, "}"]), body


def link(definitions: Iterable[str], bodies: Iterable[Body]) -> str:
    """Return one module of `definitions` and everything that their bodies refer to, each helper once."""
    texts = list(definitions)
    declarations: set[str] = set()
    defined: set[str] = set()
    work = list(bodies)
    while work:
        part = work.pop()
        declarations |= part.declarations
        for name, helper in part.helpers.items():
            if name not in defined:
                defined.add(name)
                text, needs = define(helper)
                texts.append(text)
                work.append(needs)
    return "\n".join([*sorted(declarations), *texts])
