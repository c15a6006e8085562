"""LLVM IR: function bodies, and one module of all functions that they need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .recorder import STEP_WORDS
from .vector import BITS, FLOATS, Code, Helper, Template, Vec


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
