"""Operands: parse the text between an opcode and its semicolon to the types of `syntax`."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache

from .syntax import Address, Dual, Imm, Not, Operand, Reg, Sink, Special, Symbol, TensorAddress, Vector

_TOKEN = re.compile(r"\d+\.\d*[eE][+-]?\d+|[\w$%.:]+|[{}\[\](),|!+-]")
_INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_DECIMAL = re.compile(r"\d+\.\d*(?:[eE][+-]?\d+)?$")
_CLOSING = {"{": "}", "(": ")"}
_END = ""

Lookup = Callable[[str], Reg | Vector | None]


def literal(token: str) -> Imm | None:
    """Return a PTX number, or None if the token is not one."""
    if _INTEGER.match(token):
        digits = token.rstrip("U")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return Imm(int(digits, 8 if octal else 0))
    if _DECIMAL.match(token):
        return Imm(int.from_bytes(struct.pack("<d", float(token)), "little"), "f64")
    head = token[:2]
    if head in ("0f", "0F") and len(token) == 10:
        return Imm(int(token[2:], 16), "f32")
    if head in ("0d", "0D") and len(token) == 18:
        return Imm(int(token[2:], 16), "f64")
    return None


class OperandReader:
    """A cursor over the tokens of one operand list. Raises ValueError at invalid syntax."""

    def __init__(self, text: str, lookup: Lookup) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._at = 0
        self._lookup = lookup

    def read(self) -> tuple[Operand, ...]:
        """Return all operands, which are separated by commas."""
        found: list[Operand] = []
        while self._peek() != _END:
            found.append(self._operand())
            if self._peek() != _END:
                self._expect(",")
        return tuple(found)

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        if not token:
            raise ValueError("the operand list ends too early")
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        token = self._next()
        if token != wanted:
            raise ValueError(f"expected {wanted!r}, found {token!r}")

    def _operand(self) -> Operand:
        token = self._peek()
        if token in _CLOSING:
            return self._vector()
        if token == "[":
            return self._address()
        if token == "!":
            self._next()
            source = self._lookup(self._next())
            if not isinstance(source, Reg) or source.type != "pred":
                raise ValueError("only a predicate register can be negated")
            return Not(source)
        first = self._atom()
        if self._peek() == "|":
            self._next()
            return Dual(first, self._atom())
        return first

    def _vector(self) -> Vector:
        opening = self._next()
        if opening not in _CLOSING:
            raise ValueError(f"expected a vector, found {opening!r}")
        closing = _CLOSING[opening]
        items: list[Operand] = []
        while self._peek() != closing:
            items.append(self._operand())
            if self._peek() == ",":
                self._next()
        self._next()
        return Vector(tuple(items))

    def _address(self) -> Operand:
        self._expect("[")
        base = self._atom()
        if not isinstance(base, Reg | Symbol | Imm):
            raise ValueError(f"{base} cannot be the base of an address")
        offset = 0
        if self._peek() in ("+", "-"):
            sign = -1 if self._next() == "-" else 1
            moved = self._atom()
            if not isinstance(moved, Imm):
                raise ValueError("the offset of an address must be a literal")
            offset = sign * moved.value
        address = Address(base, offset)
        if self._peek() == ",":
            self._next()
            coordinates = self._vector()
            self._expect("]")
            return TensorAddress(address, coordinates)
        self._expect("]")
        return address

    def _atom(self) -> Operand:
        token = self._next()
        if token == "-":
            token += self._next()
        return atom(token, self._lookup)


def atom(token: str, lookup: Lookup) -> Operand:
    """Return an operand of one token: a register, a number or a name. Raises ValueError if it is none of these."""
    register = lookup(token)
    if register is not None:
        return register
    first = token[0]
    if first.isdigit() or first == "-":
        return _number(token)
    if token == "_":
        return Sink()
    if first == "%":
        return Special(token)
    if first.isalpha() or first in "_$":
        return Symbol(token)
    raise ValueError(f"unexpected {token!r}")


@cache
def _number(token: str) -> Imm:
    number = literal(token.removeprefix("-"))
    if number is None:
        raise ValueError(f"{token!r} is not a PTX literal")
    if token[0] != "-":
        return number
    if number.type != "int":
        raise ValueError("only an integer literal can follow '-'")
    return Imm(-number.value)
