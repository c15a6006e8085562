"""Vectors of 32 lanes as LLVM IR: a `Vec` is one SSA value, its operators append instructions to a `Code`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

LANES: Final = 32
BITS: Final = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "float": 32, "double": 64}
FLOATS: Final = frozenset({"float", "double"})
_SUFFIX = {"float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True)
class Helper:
    """A function of vectors that is compiled once and called wherever it is used."""

    name: str
    result: str
    arguments: tuple[str, ...]
    body: Callable[..., Vec]


@dataclass
class Code:
    """Straight-line IR under construction, and the intrinsics and helpers that it calls."""

    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    helpers: dict[str, Helper] = field(default_factory=dict)
    _count: int = 0

    def new(self, text: str, kind: str) -> Vec:
        """A fresh SSA value of vector `kind` computed by the instruction `text`."""
        return Vec(self, self.scalar(text), kind)

    def scalar(self, text: str) -> str:
        """A fresh SSA name of any type for the instruction `text`."""
        self._count += 1
        name = f"%t{self._count}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: int | float, kind: str) -> Vec:
        """`value` in every lane; a Python float only for kinds float and double."""
        if kind in FLOATS:
            return self.bits(_float_bits(float(value), kind), kind)
        if kind == "i1":
            return Vec(self, f"splat (i1 {'true' if value else 'false'})", kind)
        return Vec(self, f"splat (i{BITS[kind]} {int(value) & ((1 << BITS[kind]) - 1)})", kind)

    def bits(self, pattern: int, kind: str) -> Vec:
        """The bit pattern in every lane."""
        width = BITS[kind]
        splat = f"splat (i{width} {pattern & ((1 << width) - 1)})"
        if kind in FLOATS:
            return Vec(self, f"bitcast (<32 x i{width}> {splat} to <32 x {kind}>)", kind)
        return Vec(self, splat, kind)

    def intrinsic(self, name: str, *arguments: Vec, result: str | None = None, flags: str = "") -> Vec:
        """A call of the LLVM intrinsic `llvm.name`, overloaded on its result (and argument if they differ)."""
        kind = result or arguments[0].kind
        overload = f".v32{_suffix(kind)}"
        if result is not None and result != arguments[0].kind:
            overload += f".v32{_suffix(arguments[0].kind)}"
        return self._call(f"@llvm.{name}{overload}", kind, arguments, flags)

    def call(self, helper: Helper, *arguments: Vec) -> Vec:
        """A call of a helper of our own."""
        for argument, kind in zip(arguments, helper.arguments, strict=True):
            if argument.kind != kind:
                raise TypeError(f"{helper.name} takes {helper.arguments}, not {argument.kind}")
        self.helpers[helper.name] = helper
        text = ", ".join(f"<32 x {a.kind}> {a.text}" for a in arguments)
        return self.new(f"call <32 x {helper.result}> @{helper.name}({text})", helper.result)

    def _call(self, name: str, kind: str, arguments: tuple[Vec, ...], flags: str) -> Vec:
        types = ", ".join(f"<32 x {a.kind}>" for a in arguments)
        extra = f", {flags}" if flags else ""
        extra_type = f", {flags.split()[0]}" if flags else ""
        self.declarations.add(f"declare <32 x {kind}> {name}({types}{extra_type})")
        text = ", ".join(f"<32 x {a.kind}> {a.text}" for a in arguments)
        return self.new(f"call <32 x {kind}> {name}({text}{extra})", kind)


@dataclass(frozen=True, slots=True)
class Vec:
    """One value in each of 32 lanes. Operators are those of the kind: fadd for float, add for integers."""

    code: Code
    text: str
    kind: str

    @property
    def width(self) -> int:
        return BITS[self.kind]

    def _binary(self, op: str, other: Vec | int | float) -> Vec:
        right = other if isinstance(other, Vec) else self.code.constant(other, self.kind)
        if right.kind != self.kind:
            raise TypeError(f"{op} of {self.kind} and {right.kind}")
        return self.code.new(f"{op} <32 x {self.kind}> {self.text}, {right.text}", self.kind)

    def _arithmetic(self, op: str, other: Vec | int | float) -> Vec:
        return self._binary("f" + op if self.kind in FLOATS else op, other)

    def __add__(self, other: Vec | int | float) -> Vec:
        return self._arithmetic("add", other)

    def __sub__(self, other: Vec | int | float) -> Vec:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Vec | int | float) -> Vec:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Vec | int | float) -> Vec:
        return self._binary("fdiv", other)

    def __and__(self, other: Vec | int) -> Vec:
        return self._binary("and", other)

    def __or__(self, other: Vec | int) -> Vec:
        return self._binary("or", other)

    def __xor__(self, other: Vec | int) -> Vec:
        return self._binary("xor", other)

    def __invert__(self) -> Vec:
        return self._binary("xor", 1 if self.kind == "i1" else -1)

    def __neg__(self) -> Vec:
        if self.kind in FLOATS:
            return self.code.new(f"fneg <32 x {self.kind}> {self.text}", self.kind)
        return self.code.constant(0, self.kind)._binary("sub", self)

    def shl(self, count: Vec | int) -> Vec:
        """Left shift; the count must be below the width."""
        return self._binary("shl", count)

    def shr(self, count: Vec | int) -> Vec:
        """Right shift filling with zeros; the count must be below the width."""
        return self._binary("lshr", count)

    def sar(self, count: Vec | int) -> Vec:
        """Right shift filling with the sign; the count must be below the width."""
        return self._binary("ashr", count)

    def divide(self, op: str, other: Vec) -> Vec:
        """One of udiv, sdiv, urem, srem; the divisor must not be zero."""
        return self._binary(op, other)

    def compare(self, op: str, other: Vec | int | float) -> Vec:
        """`op` as LLVM spells it: eq, ne, slt, ult ... for integers, oeq, olt, ueq, uno ... for floats."""
        right = other if isinstance(other, Vec) else self.code.constant(other, self.kind)
        name = "fcmp" if self.kind in FLOATS else "icmp"
        return self.code.new(f"{name} {op} <32 x {self.kind}> {self.text}, {right.text}", "i1")

    def select(self, yes: Vec, no: Vec) -> Vec:
        """Where this predicate holds, `yes`, elsewhere `no`."""
        kind = f"<32 x {yes.kind}>"
        return self.code.new(f"select <32 x i1> {self.text}, {kind} {yes.text}, {kind} {no.text}", yes.kind)

    def bitcast(self, kind: str) -> Vec:
        """The same bits as another kind of the same width."""
        return self if kind == self.kind else self._convert("bitcast", kind)

    def zext(self, kind: str) -> Vec:
        """Widened with zeros, truncated, or the same."""
        return self._resize("zext", kind)

    def sext(self, kind: str) -> Vec:
        """Widened with the sign, truncated, or the same."""
        return self._resize("sext", kind)

    def convert(self, op: str, kind: str) -> Vec:
        """One of LLVM's value conversions: sitofp, uitofp, fpext, fptrunc."""
        return self._convert(op, kind)

    def _resize(self, op: str, kind: str) -> Vec:
        if BITS[kind] == self.width:
            return self
        return self._convert(op if BITS[kind] > self.width else "trunc", kind)

    def _convert(self, op: str, kind: str) -> Vec:
        return self.code.new(f"{op} <32 x {self.kind}> {self.text} to <32 x {kind}>", kind)


def define(helper: Helper) -> tuple[str, Code]:
    """The text of a helper's definition, and the code whose declarations and helpers it needs."""
    code = Code()
    arguments = [Vec(code, f"%a{i}", kind) for i, kind in enumerate(helper.arguments)]
    result = helper.body(*arguments)
    parameters = ", ".join(f"<32 x {a.kind}> {a.text}" for a in arguments)
    head = f"define internal <32 x {helper.result}> @{helper.name}({parameters}) nounwind {{"
    tail = f"ret <32 x {helper.result}> {result.text}"
    return "\n".join([head, *code.lines, tail, "}"]), code


def helper(result: str, *arguments: str) -> Callable[[Callable[..., Vec]], Callable[..., Vec]]:
    """Make a function of vectors (of the kinds `arguments`) one that is compiled once and called."""

    def wrap(body: Callable[..., Vec]) -> Callable[..., Vec]:
        made = Helper(body.__name__, result, arguments, body)

        def call(*values: Vec) -> Vec:
            return values[0].code.call(made, *values)

        call.__doc__ = body.__doc__
        call.__name__ = body.__name__
        return call

    return wrap


def _suffix(kind: str) -> str:
    return _SUFFIX.get(kind, kind)


def _float_bits(value: float, kind: str) -> int:
    import struct

    layout, unsigned = ("<f", "<I") if kind == "float" else ("<d", "<Q")
    return int(struct.unpack(unsigned, struct.pack(layout, value))[0])
