"""The statements between the braces of a kernel, as instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from emulator.ptx.declarations import Scope, variable
from emulator.ptx.families import split
from emulator.ptx.operands import OperandReader, atom
from emulator.ptx.source import Source
from emulator.ptx.syntax import Address, Instr, Location, Operand, Reg, Symbol, Variable, Vector

_PIECE = re.compile(
    r"\s*(?:(?P<open>\{)|(?P<close>\})|(?P<label>[\w$]+)\s*:(?!:)|(?P<loc>\.(?:loc|file)\b[^\n]*)"
    r"|(?P<statement>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);)"
)
_INSTRUCTION = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_PLAIN = re.compile(r"[^\s\[{(|!,]+(?:, [^\s\[{(|!,]+)*")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")


@dataclass(frozen=True)
class _Statement:
    """A statement that is not yet taken apart."""

    text: str
    at: int
    scope: Scope


class Body:
    """What stands from `start` to `end` of a source. Labels are instruction indices, by kernel-wide name."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self._source = source
        self._start, self._end = start, end
        self.instrs: list[Instr] = []
        self.labels: dict[str, int] = {}
        self.shared: list[Variable] = []
        self.local: list[Variable] = []
        self.locations: list[Location] = []
        self._scopes: list[Scope] = []
        self._read()

    @property
    def registers(self) -> tuple[Reg, ...]:
        """All registers that are used, by name."""
        seen: set[Reg] = set()
        for scope in self._scopes:
            seen.update(found for found in scope.registers.values() if isinstance(found, Reg))
        return tuple(sorted(seen, key=lambda reg: reg.name))

    def _read(self) -> None:
        """Declarations first: an instruction may stand before the label that it names."""
        instructions: list[_Statement] = []
        for statement in self._statements():
            if statement.text[0] == ".":
                self._declaration(statement)
            else:
                instructions.append(statement)
        for statement in instructions:
            self._instruction(statement)

    def _statements(self) -> Iterator[_Statement]:
        text, at = self._source.text, self._start
        scope = self._opened(None)
        count = 0
        while True:
            match = _PIECE.match(text, at, self._end)
            if match is None:
                self._nothing_left(at)
                return
            kind = match.lastgroup or ""
            found, start, at = match.group(kind), match.start(kind), match.end()
            if kind == "statement" and found:
                count += found[0] != "."
                yield _Statement(found, start, scope)
            elif kind == "label":
                scope.labels.add(found)
                self.labels[scope.rename(found)] = count
            elif kind == "open":
                scope = self._opened(scope)
            elif kind == "close":
                if scope.parent is None:
                    raise self._source.refuse("a brace is closed twice", start)
                scope = scope.parent
            elif kind == "loc" and scope.parent is None:  # within inline assembly it counts the lines of that
                self._location(found, count)

    def _nothing_left(self, at: int) -> None:
        rest = self._source.text[at : self._end]
        if rest.strip():
            raise self._source.refuse("a statement is not understood", at + len(rest) - len(rest.lstrip()))

    def _opened(self, parent: Scope | None) -> Scope:
        scope = Scope(parent, len(self._scopes))
        self._scopes.append(scope)
        return scope

    def _location(self, text: str, instr: int) -> None:
        match = _LOC.match(text)
        if match:
            file = self._source.files.get(int(match.group(1)), "")
            self.locations.append(Location(instr, file, int(match.group(2))))

    def _declaration(self, statement: _Statement) -> None:
        text = statement.text
        try:
            if text.startswith(".reg"):
                _, type_name, names = text.split(None, 2)
                statement.scope.declare(type_name[1:], names)
            elif text.startswith(".param"):
                statement.scope.declare_call_parameter(text)
            elif text.startswith((".shared", ".local")):
                self._variable(text)
            elif not text.startswith((".pragma", ".branchtargets")):
                raise ValueError("a directive is not understood")
        except ValueError as error:
            raise self._source.refuse(str(error), statement.at) from None

    def _variable(self, text: str) -> None:
        found = variable(text)
        if found is None:
            raise ValueError("a variable is not understood")
        (self.shared if found[0] == "shared" else self.local).append(found[1])

    def _instruction(self, statement: _Statement) -> None:
        match = _INSTRUCTION.fullmatch(statement.text)
        if match is None:
            raise self._source.refuse("an instruction is not understood", statement.at)
        negated, predicate, spelling, rest = match.groups()
        scope = statement.scope
        guard = None
        if predicate:
            register = scope.register(predicate)
            if not isinstance(register, Reg):
                raise self._source.refuse(f"guard {predicate!r} is not declared", statement.at)
            guard = (register, not negated)
        opcode, modifiers = split(spelling)
        opcode = "ld" if opcode == "ldu" else opcode
        operands = self._operands(rest, statement)
        if opcode == "bra":
            operands = tuple(_resolved(operand, scope) for operand in operands)
        elif opcode == "call":
            modifiers, operands = _called(modifiers, operands)
        elif "param" in modifiers:
            opcode, modifiers, operands = _moved(opcode, modifiers, operands, scope)
        text = " ".join(statement.text.split())
        self.instrs.append(Instr(opcode, modifiers, operands, guard, self._source.line(statement.at), text))

    def _operands(self, text: str, statement: _Statement) -> tuple[Operand, ...]:
        lookup = statement.scope.register
        try:
            if _PLAIN.fullmatch(text):
                return tuple([atom(token, lookup) for token in text.split(", ")])
            return OperandReader(text, lookup).read()
        except ValueError as error:
            raise self._source.refuse(str(error), statement.at) from None


def _resolved(operand: Operand, scope: Scope) -> Operand:
    if not isinstance(operand, Symbol):
        return operand
    return Symbol(scope.label(operand.name) or operand.name)


def _called(modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> tuple[tuple[str, ...], tuple[Operand, ...]]:
    """A call's function as its last modifier, its results and its arguments as its two operands."""
    vectors = [operand for operand in operands if isinstance(operand, Vector)]
    names = [operand.name for operand in operands if isinstance(operand, Symbol)]
    results = vectors[0] if isinstance(operands[0], Vector) else Vector(())
    arguments = vectors[-1] if isinstance(operands[-1], Vector) else Vector(())
    return (*modifiers, *names[:1]), (results, arguments)


def _moved(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], scope: Scope
) -> tuple[str, tuple[str, ...], tuple[Operand, ...]]:
    """ld.param and st.param of a call's parameters are moves."""
    for place, other in (operands, operands[::-1]) if len(operands) == 2 else ():
        if isinstance(place, Address) and isinstance(place.base, Reg) and place.offset == 0:
            holder: Scope | None = scope
            while holder is not None and place.base not in holder.call_parameters:
                holder = holder.parent
            if holder is not None:
                pair = (place.base, other) if opcode == "st" else (other, place.base)
                return "mov", modifiers[-1:], pair
    return opcode, modifiers, operands
