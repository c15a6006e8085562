"""Parse a kernel's body: the statements between its braces, as instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from .declarations import Scope, variable
from .kinds import Kind, split
from .operands import OperandReader, atom
from .source import Source
from .statements import Function, Statement, Statements
from .syntax import ALL_BYTES, Address, Instr, Location, Operand, Reg, Symbol, Variable, Vector

_INSTRUCTION = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w.:]*(?:\s+\.[A-Za-z][\w.:]*)*)\s*(.*)", re.S)
_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s*(.*)", re.S)
_USED_BYTES = re.compile(r'\.pragma\s+"used_bytes_mask\s+(0x[0-9a-fA-F]{1,8}|\d+)"')
_PLAIN = re.compile(r"[^\s\[{(|!,]+(?:, [^\s\[{(|!,]+)*")


class Body:
    """The parsed text between positions `start` and `end` of a source.

    known: the functions that the body may call, by name.
    """

    def __init__(self, source: Source, start: int, end: int, known: Mapping[str, Function]) -> None:
        self._source = source
        self.instrs: list[Instr] = []
        self.shared: list[Variable] = []
        self.local: list[Variable] = []
        self._statements = Statements(source, known)
        self._read(start, end)

    @property
    def labels(self) -> dict[str, int]:
        """Instruction indices by kernel-wide label name."""
        return self._statements.labels

    @property
    def locations(self) -> list[Location]:
        """The positions at which source lines begin (`.loc`)."""
        return self._statements.locations

    @property
    def registers(self) -> tuple[Reg, ...]:
        """All registers that the body uses, sorted by name."""
        seen: set[Reg] = set()
        for scope in self._statements.scopes:
            seen.update(found for found in scope.registers.values() if isinstance(found, Reg))
        return tuple(sorted(seen, key=lambda reg: reg.name))

    def _read(self, start: int, end: int) -> None:
        """Read all declarations, then the instructions.

        An instruction may precede the declaration of the label that it names.
        """
        instructions: list[tuple[Statement, int]] = []
        used = ALL_BYTES
        for statement in self._statements.read(start, end):
            if statement.made is None and statement.text[0] == ".":
                self._declaration(statement)
                if pragma := _USED_BYTES.match(statement.text):
                    used = int(pragma[1], 0)
            else:
                instructions.append((statement, used))
                used = ALL_BYTES
        for statement, used in instructions:
            made = statement.made or self._instruction(statement)
            if made.kind is Kind.BRANCH:
                made = replace(made, operands=tuple(_resolved(operand, statement.scope) for operand in made.operands))
            if used != ALL_BYTES:
                made = replace(made, used=used)
            self.instrs.append(made)

    def _declaration(self, statement: Statement) -> None:
        text = statement.text
        try:
            if found := _REGISTERS.fullmatch(text):
                statement.scope.declare(found[1], found[2])
            elif text.startswith(".param"):
                if array := statement.scope.declare_array(text):
                    self.local.append(array)
                else:
                    statement.scope.declare_call_parameter(text)
            elif text.startswith((".shared", ".local")):
                self._variable(text)
            elif not text.startswith((".pragma", ".branchtargets", ".callprototype")):
                raise ValueError("unsupported directive")
        except ValueError as error:
            raise self._source.error(str(error), statement.at) from None

    def _variable(self, text: str) -> None:
        found = variable(text)
        if found is None:
            raise ValueError("unsupported variable declaration")
        (self.shared if found[0] == "shared" else self.local).append(found[1])

    def _instruction(self, statement: Statement) -> Instr:
        match = _INSTRUCTION.fullmatch(statement.text)
        if match is None:
            raise self._source.error("this is not an instruction", statement.at)
        negated, predicate, spelling, rest = match.groups()
        scope = statement.scope
        guard = (self._statements.guard(predicate, statement), not negated) if predicate else None
        opcode, modifiers = split("".join(spelling.split()))
        opcode = "ld" if opcode == "ldu" else opcode
        operands = self._operands(rest, statement)
        if opcode == "ret" and (end := _end_of_function(scope)) is not None:
            opcode, modifiers, operands = "bra", (), (Symbol(end),)
        elif opcode == "call":
            modifiers, operands = _called(modifiers, operands)
        elif "param" in modifiers:
            opcode, modifiers, operands = _moved(opcode, modifiers, operands, scope)
        text = " ".join(statement.text.split())
        return Instr(opcode, modifiers, operands, guard, self._source.line(statement.at), text)

    def _operands(self, text: str, statement: Statement) -> tuple[Operand, ...]:
        lookup = statement.scope.register
        try:
            if _PLAIN.fullmatch(text):
                return tuple([atom(token, lookup) for token in text.split(", ")])
            return OperandReader(text, lookup).read()
        except ValueError as error:
            raise self._source.error(str(error), statement.at) from None


def _end_of_function(scope: Scope) -> str | None:
    """Return the end label of the inlined function that contains a scope, or None in the kernel's own body."""
    while scope.parent is not None:
        scope = scope.parent
    return scope.end_label


def _resolved(operand: Operand, scope: Scope) -> Operand:
    if not isinstance(operand, Symbol):
        return operand
    return Symbol(scope.label(operand.name) or operand.name)


def _called(modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> tuple[tuple[str, ...], tuple[Operand, ...]]:
    """Return a call's modifiers with the function's name appended, and its two operands: results and arguments."""
    vectors = [operand for operand in operands if isinstance(operand, Vector)]
    names = [operand.name for operand in operands if isinstance(operand, Symbol)]
    results = vectors[0] if isinstance(operands[0], Vector) else Vector(())
    arguments = vectors[-1] if isinstance(operands[-1], Vector) else Vector(())
    return (*modifiers, *names[:1]), (results, arguments)


def _moved(
    opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], scope: Scope
) -> tuple[str, tuple[str, ...], tuple[Operand, ...]]:
    """Rewrite ld.param and st.param of call parameters.

    A scalar parameter becomes a `mov`. An array parameter becomes an access of local memory.
    """
    for place, other in (operands, operands[::-1]) if len(operands) == 2 else ():
        if isinstance(place, Address) and isinstance(place.base, Symbol) and (held := scope.array(place.base.name)):
            moved = Address(Symbol(held), place.offset)
            local = tuple("local" if part.startswith("param") else part for part in modifiers)
            return opcode, local, (moved, other) if opcode == "st" else (other, moved)
        if isinstance(place, Address) and isinstance(place.base, Reg) and place.offset == 0:
            holder: Scope | None = scope
            while holder is not None and place.base not in holder.call_parameters:
                holder = holder.parent
            if holder is not None:
                pair = (place.base, other) if opcode == "st" else (other, place.base)
                return "mov", modifiers[-1:], pair
    return opcode, modifiers, operands
