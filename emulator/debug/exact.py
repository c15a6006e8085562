"""Recomputation of a slice in float64, with the rounding of every instruction, of none, or of all but some."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..machine.launch.source import SourcePlace
from ..ptx.kinds import Kind
from ..tensors import MANTISSA
from .addresses import UNKNOWN
from .events import Copied, Multiplied
from .places import bytes_at, source_line
from .slicing import BITWISE, DATA, Node, Slicer, Source, number, operand_kind, result_kind

Value = tuple[Node, str, int]
"""A node, the type as which it is read, and the byte in it."""


def reciprocal(x: float) -> float:
    """Return 1 / x, infinite for 0."""
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def _log2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x)


OPERATIONS: Final[dict[str, Callable[..., float]]] = {
    "mul": lambda a, b: a * b,
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
"""The floating-point operations but sums, without rounding."""
SUMS: Final[dict[str, Callable[..., tuple[float, ...]]]] = {
    "add": lambda *terms: terms,
    "sub": lambda a, b: (a, -b),
    "fma": lambda a, b, c: (a * b, c),
    "mad": lambda a, b, c: (a * b, c),
}
"""The terms of operations that add."""
LIMITS: Final = {
    "f64": (2.0**-1022, sys.float_info.max),
    "f32": (2.0**-126, 3.402e38),
    "bf16": (2.0**-126, 3.389e38),
    "f16": (2.0**-24, 65504),
    "e4m3": (2.0**-9, 448),
    "e5m2": (2.0**-16, 57344),
}
"""The values of each type below which a result may become 0, and beyond which it saturates."""
APPROXIMATE: Final = 2.0**-10
"""The largest relative error of an `.approx` instruction, that of tanh, and of a product of tf32."""
PASSING: Final = frozenset(
    {Kind.MOVE, Kind.SELECT, Kind.LOAD, Kind.MATRIX_LOAD, Kind.TENSOR_LOAD, Kind.PARAMETER, Kind.SHUFFLE}
)
"""The kinds of instructions whose result is one of their operands."""
REDUX: Final = "redux.sync"
ATOMIC: Final = "atom"
TO_INTEGERS: Final = frozenset({"rni", "rzi", "rmi", "rpi"})


class Exact:
    """The values of a slice in float64.

    sources: the sources of each value of the slice. Values of other types than floats and of other operations are taken
    from the recording. held: the numbers of values whose parts several events may hold.
    """

    def __init__(self, slicer: Slicer, sources: Mapping[Value, Sequence[Source]], held: Mapping[Value, float]) -> None:
        self._slicer, self._sources = slicer, sources
        self._order = sorted(sources, key=lambda value: value[0].event)
        self.actual = {value: self._actual(value) for value in self._order} | dict(held)
        self.rounding = {value: self._rounding(value) for value in self._order}
        """The rounding of each value's own instruction: its result less the exact result of its operands.

        None if rounding cannot have made the difference, so that the instruction does something else than is assumed.
        """

    def without(self, instructions: frozenset[int] | None = None) -> dict[Value, float | None]:
        """Return all values without the rounding of these instructions, by index; of all instructions for None."""
        found: dict[Value, float | None] = {}
        for value in self._order:
            terms, rounding = self._terms(value, found), self.rounding[value]
            if terms is None or rounding is None:
                found[value] = self.actual[value]
            else:
                result = math.fsum(terms)
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

    def unknown(self) -> list[int]:
        """Return the instructions whose float results were not computed again, although operands of theirs were.

        An integer counts as one if it was computed from floats: an exponent, or the bits of a float.
        """
        found: dict[int, None] = {}
        floats: set[Value] = set()
        for value in self._order:
            sources, at = self._sources[value], self._instruction(value)
            kind = self._slicer.recording.effects[at].instr.kind
            computed = any(
                s.kind[:1] not in ("s", "u") or (s.node, s.kind, s.offset) in floats
                for s in sources
                if s.role in DATA and s.node is not None
            )
            if computed or value[1] in MANTISSA or result_kind(self._slicer.recording.effects[at]) in MANTISSA:
                floats.add(value)
            if value[1] in MANTISSA and self.rounding[value] is None and (computed or kind is Kind.GROUP_MMA):
                found[at] = None
        return list(found)

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
        terms, actual = self._terms(value, self.actual), self.actual[value]
        if terms is None or actual is None:
            return None
        try:
            exact = math.fsum(terms)
        except (ValueError, OverflowError):  # inf - inf
            return None
        if exact == actual:
            return 0.0
        beyond = all(abs(each) >= LIMITS[value[1]][1] for each in (exact, actual))
        return actual - exact if beyond or abs(actual - exact) <= self._most(value, terms) else None

    def _most(self, value: Value, terms: Sequence[float]) -> float:
        """Return the largest error that rounding a sum of these terms can make."""
        modifiers = self._slicer.recording.effects[self._instruction(value)].instr.modifiers
        unit, least = len(terms) * 2.0 ** -MANTISSA[value[1]], LIMITS[value[1]][0]
        if not {"approx", "tf32", "kind::tf32"}.isdisjoint(modifiers):
            unit, least = max(unit, 2 * APPROXIMATE), max(least, 2.0**-20)
        return unit * math.fsum(map(abs, terms)) + least

    def _terms(self, value: Value, known: Mapping[Value, float | None]) -> Sequence[float] | None:
        """Compute the terms of the exact result of a float operation from its operands; None for another one."""
        node, kind, _ = value
        if kind not in MANTISSA:
            return None
        event, sources = self._slicer.recording.events[node.event], self._sources[value]
        try:
            if isinstance(event, Multiplied):
                return self._product(event, sources, known)
            if isinstance(event, Copied):
                return self._one(value, event.issuer.at, known)
            return self._operation(event.at, value, known)
        except (
            TypeError,
            ValueError,
            OverflowError,
        ):  # an operand that is not known, or outside the operation's domain
            return None

    def _operation(self, at: int, value: Value, known: Mapping[Value, float | None]) -> Sequence[float] | None:
        effect = self._slicer.recording.effects[at]
        instr, sources = effect.instr, self._sources[value]
        if value[0].slot[0] < 0 or instr.kind in PASSING or instr.opcode == ATOMIC:
            return self._one(value, at, known)
        if instr.kind is Kind.WARP_MMA:
            return self._dot(sources, known)
        if (
            instr.opcode in BITWISE
            and sum(source.role == "value" and source.kind in MANTISSA for source in sources) == 1
        ):
            return self._one(value, at, known)
        floats = result_kind(effect) in MANTISSA and operand_kind(effect) in MANTISSA
        if not floats or not TO_INTEGERS.isdisjoint(instr.modifiers):
            return None
        numbers = [self._number(source, known) for source in sources if source.role == "value"]
        if "abs" in instr.modifiers:  # redux.sync.max.abs
            numbers = [abs(each) for each in numbers]
        if instr.opcode in SUMS:
            return SUMS[instr.opcode](*numbers)
        opcode = (
            next((m for m in instr.modifiers if m in ("max", "min")), "") if instr.opcode == REDUX else instr.opcode
        )
        return (OPERATIONS[opcode](*numbers),) if opcode in OPERATIONS else None

    def _one(self, value: Value, at: int, known: Mapping[Value, float | None]) -> Sequence[float] | None:
        """Return the value that an instruction copies, or those that it adds in memory."""
        values = [source for source in self._sources[value] if source.role in ("value", "accumulator")]
        if any(source.role == "accumulator" for source in values):
            modifiers = self._slicer.recording.effects[at].instr.modifiers
            if "exch" in modifiers and len(values) == 2:
                values = [source for source in values if source.role == "value"]
            elif "add" not in modifiers:
                return None
            return [self._number(source, known) for source in values]
        if len(values) != 1:
            return None
        (source,), actual = values, self.actual[value]
        if source.node is None and source.address >= 0 and not source.text and actual is not None:
            return [actual]  # what was read: the launch may have overwritten the memory since
        return [self._number(source, known)]

    def _product(
        self, event: Multiplied, sources: Sequence[Source], known: Mapping[Value, float | None]
    ) -> Sequence[float] | None:
        shape = event.product.shape
        if shape.block or shape.idesc.d not in MANTISSA:
            return None
        negated = shape.idesc.negate_a != shape.idesc.negate_b
        return self._dot(sources, known, -1.0 if negated else 1.0, 2.0**-event.product.scale)

    def _dot(
        self, sources: Sequence[Source], known: Mapping[Value, float | None], sign: float = 1.0, scale: float = 1.0
    ) -> Sequence[float]:
        a, b, before = (
            [self._number(source, known) for source in sources if source.role == role]
            for role in ("a", "b", "accumulator")
        )
        return [*(sign * x * y for x, y in zip(a, b, strict=True)), *(scale * x for x in before)]

    def _number(self, source: Source, known: Mapping[Value, float | None]) -> float:
        """Return the value of a source as a number. Raises TypeError if it is not known as a float."""
        if source.kind not in MANTISSA:
            raise TypeError(source)
        if source.node is not None:
            found = known.get((source.node, source.kind, source.offset))
            found = self._slicer.value(source.node, source.kind, source.offset) if found is None else found
            if found is None:
                raise TypeError(source)
            return float(found)
        if source.address >= 0 and not source.text:
            now = (
                source.held
                if source.held != UNKNOWN
                else int.from_bytes(bytes_at(source.address, source.width), "little")
            )
            return float(number(now, source.kind))
        if source.text.startswith(("0f", "0d")):
            return float(number(int(source.text[2:], 16), source.kind))
        return float(number(int(source.text), source.kind))  # ValueError for other text
