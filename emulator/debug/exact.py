"""A slice computed again in float64: with the rounding of every instruction, of none, or of all but some."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..machine.launch.source import SourcePlace
from ..ptx.kinds import Kind
from ..tensors import MANTISSA
from .events import Copied, Multiplied
from .places import bytes_at, source_line
from .slicing import Node, Slicer, Source, number, operand_kind, result_kind

Value = tuple[Node, str, int]
"""A node, the type as which it is read, and the byte in it."""


def reciprocal(x: float) -> float:
    """Return 1 / x, infinite for 0."""
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def _log2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x)


OPERATIONS: Final[dict[str, Callable[..., float]]] = {
    "add": lambda *terms: sum(terms),
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
    "max": lambda *a: max(a),
    "min": lambda *a: min(a),
    "neg": lambda a: -a,
    "abs": abs,
    "ex2": lambda a: 2.0**a,
    "lg2": _log2,
    "rcp": reciprocal,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: reciprocal(math.sqrt(a)),
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "div": lambda a, b: a * reciprocal(b),
    "cvt": lambda a: a,
}
"""The floating-point operations, without rounding."""
PASSING: Final = frozenset(
    {Kind.MOVE, Kind.SELECT, Kind.LOAD, Kind.MATRIX_LOAD, Kind.TENSOR_LOAD, Kind.PARAMETER, Kind.SHUFFLE}
)
"""The kinds of instructions whose result is one of their operands."""
TO_INTEGERS: Final = frozenset({"rni", "rzi", "rmi", "rpi"})


class Exact:
    """The values of a slice in float64.

    sources: of each value of the slice. Values that are no floats, or of other operations, are what they are.
    """

    def __init__(self, slicer: Slicer, sources: Mapping[Value, Sequence[Source]]) -> None:
        self._slicer, self._sources = slicer, sources
        self._order = sorted(sources, key=lambda value: value[0].event)
        self.actual = {value: self._actual(value) for value in self._order}
        self.rounding = {value: self._rounding(value) for value in self._order}
        """The rounding of each value's own instruction: its result less the exact result of its operands."""

    def without(self, instructions: frozenset[int] | None = None) -> dict[Value, float | None]:
        """Return all values without the rounding of these instructions, by index; of all instructions for None."""
        found: dict[Value, float | None] = {}
        for value in self._order:
            result, rounding = self._result(value, found), self.rounding[value]
            if result is None or rounding is None:
                found[value] = self.actual[value]
            else:
                drops = instructions is None or self._instruction(value) in instructions
                found[value] = result if drops else result + rounding
        return found

    def culprits(self, start: Value, expected: float, most: int = 8) -> list[tuple[int, float, int]]:
        """Return the source lines whose rounding moves the value `start` away from its right value.

        Each is (its first instruction, `start` without the rounding of its instructions, values that it rounds). The
        one that comes closest to `expected` is first. most: how many lines are tried, by their relative rounding.
        """
        kernel = self._slicer.recording.kernel
        sizes: dict[SourcePlace | int, float] = {}
        rounded: dict[SourcePlace | int, list[int]] = {}
        for value, rounding in self.rounding.items():
            actual = self.actual[value]
            if rounding and actual and math.isfinite(rounding):
                at = self._instruction(value)
                line = source_line(kernel, at)
                sizes[line] = max(sizes.get(line, 0.0), abs(rounding / actual))
                rounded.setdefault(line, []).append(at)
        held = self.actual[start]
        found = []
        for line in sorted(sizes, key=lambda line: -sizes[line])[:most]:
            after = self.without(frozenset(rounded[line]))[start]
            if after is not None and held is not None and abs(after - expected) < abs(held - expected):
                found.append((min(rounded[line]), after, len(rounded[line])))
        return sorted(found, key=lambda each: abs(each[1] - expected))

    def _instruction(self, value: Value) -> int:
        recording = self._slicer.recording
        return recording.issuer(recording.events[value[0].event]).at

    def _actual(self, value: Value) -> float | None:
        node, kind, offset = value
        if kind not in MANTISSA:
            return None
        held = self._slicer.value(node, kind, offset)
        return None if held is None else float(held)

    def _rounding(self, value: Value) -> float | None:
        exact, actual = self._result(value, self.actual), self.actual[value]
        if exact is None or actual is None:
            return None
        return 0.0 if exact == actual else actual - exact

    def _result(self, value: Value, known: Mapping[Value, float | None]) -> float | None:
        """Compute an instruction's exact result from its operands; None for others than float operations."""
        node, kind, _ = value
        if kind not in MANTISSA:
            return None
        event, sources = self._slicer.recording.events[node.event], self._sources[value]
        try:
            if isinstance(event, Multiplied):
                return self._product(event, sources, known)
            if isinstance(event, Copied):
                return self._one(sources, known)
            return self._operation(event.at, node, sources, known)
        except (
            TypeError,
            ValueError,
            OverflowError,
        ):  # an operand that is not known, or outside the operation's domain
            return None

    def _operation(
        self, at: int, node: Node, sources: Sequence[Source], known: Mapping[Value, float | None]
    ) -> float | None:
        effect = self._slicer.recording.effects[at]
        instr = effect.instr
        if node.slot[0] < 0 or instr.kind in PASSING:
            return self._one(sources, known)
        exact = OPERATIONS.get(instr.opcode)
        floats = result_kind(effect) in MANTISSA and operand_kind(effect) in MANTISSA
        if exact is None or not floats or not TO_INTEGERS.isdisjoint(instr.modifiers):
            return None
        return float(exact(*(self._number(s, known) for s in sources if s.role == "value")))

    def _one(self, sources: Sequence[Source], known: Mapping[Value, float | None]) -> float | None:
        """Return the value that an instruction copies, plus the value in memory to which it is added."""
        values = [source for source in sources if source.role in ("value", "accumulator")]
        if sum(source.role == "value" for source in values) != 1:
            return None
        return sum(self._number(source, known) for source in values)

    def _product(
        self, event: Multiplied, sources: Sequence[Source], known: Mapping[Value, float | None]
    ) -> float | None:
        shape = event.product.shape
        if shape.block or shape.idesc.d not in MANTISSA:
            return None
        a = [self._number(source, known) for source in sources if source.role == "a"]
        b = [self._number(source, known) for source in sources if source.role == "b"]
        sign = -1.0 if shape.idesc.negate_a != shape.idesc.negate_b else 1.0
        before = sum(self._number(source, known) for source in sources if source.role == "accumulator")
        return before * 2.0**-event.product.scale + sign * math.fsum(x * y for x, y in zip(a, b, strict=True))

    def _number(self, source: Source, known: Mapping[Value, float | None]) -> float:
        """Return the number that a source stands for. Raises TypeError if it is not known as a float."""
        if source.kind not in MANTISSA:
            raise TypeError(source)
        if source.node is not None:
            found = known.get((source.node, source.kind, source.offset))
            found = self._slicer.value(source.node, source.kind, source.offset) if found is None else found
            if found is None:
                raise TypeError(source)
            return float(found)
        if source.address >= 0 and not source.text:
            return float(number(int.from_bytes(bytes_at(source.address, source.width), "little"), source.kind))
        if source.text.startswith(("0f", "0d")):
            return float(number(int(source.text[2:], 16), source.kind))
        return float(number(int(source.text), source.kind))  # ValueError for other text
