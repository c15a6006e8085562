"""LLVM IR: function bodies, and one module of all functions that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    def called(self, signature: str, operands: Sequence[object]) -> str:
        """Call an external function, given as `result @name(kinds)`. Return the name of its result."""
        self.declarations.add(f"declare {signature}")
        head, kinds = signature.rstrip(")").split("(")
        text = f"call {head}({', '.join(f'{k} {o}' for k, o in zip(kinds.split(', '), operands, strict=True))})"
        if not signature.startswith("void"):
            return self.scalar(text)
        self.do(text)
        return ""

    def splat(self, kind: str, value: str) -> str:
        """Return a vector with a scalar in every lane."""
        first = self.scalar(f"insertelement <32 x {kind}> poison, {kind} {value}, i32 0")
        return self.scalar(f"shufflevector <32 x {kind}> {first}, <32 x {kind}> poison, <32 x i32> zeroinitializer")

    def two(self, op: str, kind: str, a: str, b: str) -> str:
        """Append an instruction on two vectors of a kind."""
        return self.scalar(f"{op} <32 x {kind}> {a}, {b}")

    def at(self, address: str, kind: str, index: object) -> str:
        """Return the address of element `index` (a number or an i64) from an address on."""
        return self.scalar(f"getelementptr {kind}, ptr {address}, i64 {index}")

    def long(self, address: str) -> str:
        """Load the i64 at an address."""
        return self.scalar(f"load i64, ptr {address}, align 8")

    def pointers(self, addresses: str) -> str:
        """Convert a vector of i64 to pointers."""
        return self.scalar(f"inttoptr <32 x i64> {addresses} to <32 x ptr>")

    def gather(self, kind: str, pointers: str, lanes: str) -> str:
        """Load from a vector of addresses, 0 in the other lanes."""
        return self.called(
            f"<32 x {kind}> @llvm.masked.gather.v32{kind}.v32p0(<32 x ptr>, i32, <32 x i1>, <32 x {kind}>)",
            (pointers, int(kind[1:]) // 8, lanes, "zeroinitializer"),
        )

    def scatter(self, kind: str, value: str, pointers: str, lanes: str) -> None:
        """Store at a vector of addresses, in the order of the lanes."""
        self.called(
            f"void @llvm.masked.scatter.v32{kind}.v32p0(<32 x {kind}>, <32 x ptr>, i32, <32 x i1>)",
            (value, pointers, int(kind[1:]) // 8, lanes),
        )

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
