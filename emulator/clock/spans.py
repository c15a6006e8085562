"""Bounds of addresses: how far from its array an access can lie, and in how many places.

Addresses that follow from data have a bound, too: of an index that is masked, or of the bytes that it was loaded from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, inf
from typing import Final

from ..chip import LANES
from ..engine.effects import Effect
from ..isa.moves import parameter_bytes
from ..machine.launch.launch import Launch
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Operand, Reg, Special, Symbol
from .origins import POINTER_BYTES

GROWING: Final = 3
"""The passes over a kernel after which a bound that still grows has no end."""
WORD_BITS: Final = 32
AXES: Final = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Span:
    """Multiples of `step` from 0 to `most`. A step of 0 is that of one number."""

    most: float
    step: int

    @property
    def places(self) -> float:
        """The number of different values."""
        return 1 + self.most // self.step if self.step else 1.0

    def __or__(self, other: Span) -> Span:
        return Span(max(self.most, other.most), gcd(self.step, other.step, *self._between(other)))

    def _between(self, other: Span) -> tuple[int, ...]:
        """Return the distance of two single numbers."""
        far = abs(self.most - other.most)
        return (int(far),) if not (self.step or other.step) and far < inf else ()


ENDLESS: Final = Span(inf, 1)
Spans = Mapping[Reg, Span]


def spans(found: Sequence[Effect], launch: Launch) -> Callable[[Operand], Span]:
    """Return a function that gives the span of an address. A pointer that is a parameter counts as 0."""
    known: dict[Reg, Span] = {}

    def of(operand: Operand) -> Span:
        match operand:
            case Address(base=base):
                return of(base)
            case Imm(value=value):
                return Span(value, 0)
            case Symbol():
                return Span(0, 0)
            case Special(name=name):
                return _special(name.lstrip("%"), launch)
            case Reg():
                return known.get(operand, Span(0, 0))
        return ENDLESS

    passes, changed = 0, True
    while changed:
        passes, changed = passes + 1, False
        for effect in found:
            made = _result(effect, of, launch) if effect.writes else ENDLESS
            for register in effect.writes:
                joined = known[register] | made if register in known else made
                if joined != known.get(register):
                    known[register], changed = joined if passes <= GROWING else ENDLESS, True
    return of


def _special(name: str, launch: Launch) -> Span:
    register, _, axis = name.partition(".")
    sizes = {"tid": launch.block, "ctaid": launch.grid, "ntid": launch.block, "nctaid": launch.grid}
    if register in sizes and axis in AXES:
        size = sizes[register][AXES[axis]]
        return Span(size, 0) if register[0] == "n" else Span(size - 1, int(size > 1))
    return Span(LANES - 1, 1) if register == "laneid" else ENDLESS


def _parameter(instr_bytes: int, at: int, launch: Launch) -> Span:
    value = int.from_bytes(launch.param_bytes[at : at + instr_bytes], "little")
    pointer = instr_bytes == POINTER_BYTES and launch.memory.known(value, value + 1) is not None
    return Span(0 if pointer else value, 0)


def _result(effect: Effect, of: Callable[[Operand], Span], launch: Launch) -> Span:
    """Return the span of what an instruction writes."""
    instr, kind, sources = effect.instr, effect.instr.kind, effect.sources
    if kind is Kind.PARAMETER:
        address = instr.operands[1]
        assert isinstance(address, Address) and isinstance(address.base, Imm)
        size = parameter_bytes(instr)
        return _parameter(size, address.base.value, launch) if size <= POINTER_BYTES else ENDLESS
    bits = next((int(m[1:]) for m in reversed(instr.modifiers) if m[1:].isdecimal() and m[0] in "bus"), 64)
    if kind is Kind.LOAD:
        return Span(2.0**bits - 1, 1) if bits <= WORD_BITS else ENDLESS
    if not sources or not effect.pure:
        return ENDLESS
    a, b, *rest = *map(of, sources), Span(0, 0)
    match kind:
        case Kind.MOVE | Kind.ADDRESS:
            return a
        case Kind.CONVERT:
            return Span(min(a.most, 2.0**bits - 1), a.step) if bits < WORD_BITS else a
        case Kind.ADD | Kind.OR | Kind.XOR:
            return _sum(a, b)
        case Kind.SUBTRACT:
            return Span(a.most, 1) if a.step or b.step else Span(max(a.most - b.most, 0), 0)
        case Kind.MULTIPLY if "hi" not in instr.modifiers:
            return _product(a, b)
        case Kind.MULTIPLY_ADD if "hi" not in instr.modifiers:
            return _sum(_product(a, b), rest[0])
        case Kind.SHIFT_LEFT if not b.step:
            return _product(a, Span(2.0 ** min(b.most, 64), 0))
        case Kind.SHIFT_RIGHT if not b.step:
            return Span(a.most // 2 ** min(b.most, 64), 1) if a.most < inf else ENDLESS
        case Kind.AND:
            least, mask = min((a, b), key=lambda s: s.most), int(b.most) if not b.step and b.most < inf else 0
            return Span(least.most, max(least.step if least is a else a.step, mask & -mask))
        case Kind.SELECT:
            return a | b
    if instr.opcode in ("min", "rem", "max"):
        most = max(a.most, b.most) if instr.opcode == "max" else min(a.most, b.most)
        return Span(max(most - (instr.opcode == "rem"), 0), 1)
    return ENDLESS


def _sum(a: Span, b: Span) -> Span:
    """Return the span of a sum: of two single numbers one, else multiples of the steps."""
    return Span(_signed(a) + _signed(b), gcd(a.step, b.step))


def _signed(a: Span) -> float:
    """Return the upper end of a span; that of a single number may be negative."""
    return a.most - 2.0**WORD_BITS if not a.step and 2.0 ** (WORD_BITS - 1) <= a.most < 2.0**WORD_BITS else a.most


def _product(a: Span, b: Span) -> Span:
    if 0 in (a.most, b.most):
        return Span(0, 0)
    step = (a.step or int(a.most)) * (b.step or int(b.most)) if max(a.most, b.most) < inf or (a.step and b.step) else 1
    return Span(a.most * b.most, step if a.step or b.step else 0)
