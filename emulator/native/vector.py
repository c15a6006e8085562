"""Values of 32 lanes. A `Vec` is one such value; its operators append instructions to its `Code`.

There are two kinds of code (in `code`): a `Body` writes LLVM IR, a `Recorder` lists operations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from inspect import signature
from typing import Any, Final, Protocol

BITS: Final = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}
FLOATS: Final = frozenset({"float", "double"})
_SUFFIX = {"float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True, eq=False)
class Helper:
    """A function of vectors that is compiled once and called at every use. arguments, result: their kinds."""

    name: str
    result: str
    arguments: tuple[str, ...]
    body: Callable[..., Vec]


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """One LLVM instruction with {0}, {1} ... for its operands, and its declarations. Interned."""

    text: str
    kind: str
    declaration: str
    helper: Helper | None


@cache
def template(text: str, kind: str, declaration: str = "", helper: Helper | None = None) -> Template:
    """Return the template of a text whose result is a vector of `kind`."""
    return Template(text, kind, declaration, helper)


class Code(Protocol):
    """A consumer of instructions that returns their results."""

    def new(self, template: Template, operands: tuple[Vec, ...]) -> Vec:
        """Return the result of an instruction."""

    def constant(self, value: int | float, kind: str) -> Vec:
        """Return `value` in every lane; a Python float only for kinds float and double."""
        return self.bits(_pattern(value, kind), kind)

    def bits(self, pattern: int, kind: str) -> Vec:
        """Return the bit pattern in every lane."""
        return Vec(self, pattern & (1 << BITS[kind]) - 1, kind)

    def intrinsic(self, name: str, *operands: Vec, result: str | None = None, flags: str = "") -> Vec:
        """Call the LLVM intrinsic `llvm.name`, overloaded on its result (and argument if they differ)."""
        kinds = tuple([operand.kind for operand in operands])
        return self.new(_intrinsic(name, result or kinds[0], kinds, flags), operands)


@dataclass(frozen=True, slots=True)
class Vec:
    """One value in each of 32 lanes. Operators are those of the kind: fadd for float, add for integers.

    `place` is an int for a constant (its bits), else the compiler's representation of the value.
    """

    code: Code
    place: Any
    kind: str

    @property
    def width(self) -> int:
        return BITS[self.kind]

    def _operand(self, other: Vec | int | float) -> Vec:
        value = other if isinstance(other, Vec) else self.code.constant(other, self.kind)
        if value.kind != self.kind:
            raise TypeError(f"{self.kind} with {value.kind}")
        return value

    def _binary(self, op: str, other: Vec | int | float) -> Vec:
        return self.code.new(_two(op, self.kind, self.kind), (self, self._operand(other)))

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
            return self.code.new(template(f"fneg <32 x {self.kind}> {{0}}", self.kind), (self,))
        return self.code.constant(0, self.kind)._binary("sub", self)

    def shl(self, count: Vec | int) -> Vec:
        """Shift left; the count must be below the width."""
        return self._binary("shl", count)

    def shr(self, count: Vec | int) -> Vec:
        """Shift right, filling with zeros; the count must be below the width."""
        return self._binary("lshr", count)

    def sar(self, count: Vec | int) -> Vec:
        """Shift right, filling with the sign; the count must be below the width."""
        return self._binary("ashr", count)

    def divide(self, op: str, other: Vec) -> Vec:
        """Divide by udiv, sdiv, urem or srem; the divisor must not be zero."""
        return self._binary(op, other)

    def compare(self, op: str, other: Vec | int | float) -> Vec:
        """Compare by `op` as LLVM spells it: eq, ne, slt, ult ... for integers, oeq, olt, ueq, uno ... for floats."""
        name = "fcmp" if self.kind in FLOATS else "icmp"
        return self.code.new(_two(f"{name} {op}", self.kind, "i1"), (self, self._operand(other)))

    def select(self, yes: Vec, no: Vec) -> Vec:
        """Return `yes` where this predicate holds, `no` elsewhere."""
        return self.code.new(selection(yes.kind), (self, yes, no))

    def bitcast(self, kind: str) -> Vec:
        """Return the same bits as another kind of the same width. This takes no instruction."""
        return self if kind == self.kind else self.code.new(_conversion("bitcast", self.kind, kind), (self,))

    def zext(self, kind: str) -> Vec:
        """Widen with zeros, truncate, or return the same."""
        return self._resize("zext", kind)

    def sext(self, kind: str) -> Vec:
        """Widen with the sign, truncate, or return the same."""
        return self._resize("sext", kind)

    def convert(self, op: str, kind: str) -> Vec:
        """Convert by one of LLVM's value conversions: sitofp, uitofp, fpext, fptrunc."""
        return self.code.new(_conversion(op, self.kind, kind), (self,))

    def _resize(self, op: str, kind: str) -> Vec:
        if BITS[kind] == self.width:
            return self
        op = op if BITS[kind] > self.width else "trunc"
        return self.code.new(_conversion(op, self.kind, kind), (self,))


def helper(
    result: str | Callable[..., str] = "", *arguments: str
) -> Callable[[Callable[..., Vec]], Callable[..., Vec]]:
    """Return a decorator that compiles a function once for the kinds of its vectors and its constants, and calls it.

    The constants are ints and strings that follow the vectors. result: the kind of the result, or a function that
    returns it; by default that of the first vector. arguments: the only kinds that the function takes; any by default.
    """

    def wrap(body: Callable[..., Vec]) -> Callable[..., Vec]:
        known: dict[tuple[Any, ...], Template] = {}

        @wraps(body)
        def call(*values: Any) -> Vec:
            vectors = tuple([value for value in values if isinstance(value, Vec)])
            kinds, constants = tuple([vector.kind for vector in vectors]), values[len(vectors) :]
            found = known.get((kinds, constants))
            if found is None:
                signature(body).bind(*values)
                if arguments not in ((), kinds):
                    raise TypeError(f"{body.__name__} takes {arguments}, not {list(kinds)}")
                kind = result(*values) if callable(result) else result or kinds[0]
                name = ".".join([body.__module__, body.__name__, *kinds, *map(str, constants)])
                made = Helper(name, kind, kinds, lambda *given: body(*given, *constants))
                found = known[kinds, constants] = _call(made)
            return vectors[0].code.new(found, vectors)

        return call

    return wrap


def _two(op: str, kind: str, result: str) -> Template:
    return template(f"{op} <32 x {kind}> {{0}}, {{1}}", result)


def selection(kind: str) -> Template:
    """Return the template of operand 1 where operand 0 holds, operand 2 elsewhere."""
    return template(f"select <32 x i1> {{0}}, <32 x {kind}> {{1}}, <32 x {kind}> {{2}}", kind)


def _conversion(op: str, source: str, kind: str) -> Template:
    return template(f"{op} <32 x {source}> {{0}} to <32 x {kind}>", kind)


def _call(helper: Helper) -> Template:
    arguments = ", ".join(f"<32 x {kind}> {{{i}}}" for i, kind in enumerate(helper.arguments))
    text = f"call <32 x {helper.result}> @{helper.name}({arguments})"
    return template(text, helper.result, helper=helper)


@cache
def _intrinsic(name: str, kind: str, arguments: tuple[str, ...], flags: str) -> Template:
    overload = f".v32{_suffix(kind)}"
    if kind != arguments[0]:
        overload += f".v32{_suffix(arguments[0])}"
    types = [f"<32 x {argument}>" for argument in arguments]
    given = [f"{t} {{{i}}}" for i, t in enumerate(types)]
    if flags:
        types.append(flags.split()[0])
        given.append(flags)
    function = f"<32 x {kind}> @llvm.{name}{overload}"
    return template(f"call {function}({', '.join(given)})", kind, f"declare {function}({', '.join(types)})")


def _suffix(kind: str) -> str:
    return _SUFFIX.get(kind, kind)


def _pattern(value: int | float, kind: str) -> int:
    if kind == "float":
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    if kind == "double":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    return int(value != 0) if kind == "i1" else int(value)
