"""The statements of a kernel one after another, those of a called function in the place of the call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .calls import Call, Function, call_of
from .declarations import Scope
from .operands import atom
from .source import Source
from .syntax import Imm, Instr, Location, Not, Operand, Reg, Symbol

_PIECE = re.compile(
    r"\s*(?:(?P<open>\{)|(?P<close>\})|(?P<label>[\w$]+)\s*:(?!:)|(?P<loc>\.(?:loc|file)\b[^\n]*)"
    r"|(?P<statement>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);)"
)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_TARGETS = re.compile(r"([\w$]+)\s*:\s*\.branchtargets\s+([^;]*);")
_INDEXED = re.compile(r"(?:@(!?)([\w$%]+)\s+)?brx\.idx(?:\.uni)?\s+([\w$%]+)\s*,\s*([\w$]+)")
_CHOSEN = Reg("@brx", "pred")
_END = "the end"


@dataclass(frozen=True)
class Statement:
    """A statement that is not yet taken apart; `made` is one that no text says."""

    text: str
    at: int
    scope: Scope
    made: Instr | None = None


class Statements:
    """Reads statements, and notes the labels (instruction indices, by kernel-wide name), scopes and source lines.

    known: the functions that may be called.
    """

    def __init__(self, source: Source, known: Mapping[str, Function]) -> None:
        self._source, self._known = source, known
        self.labels: dict[str, int] = {}
        self.locations: list[Location] = []
        self.scopes: list[Scope] = []
        self._count = 0
        self._calls: list[str] = []

    def read(self, at: int, end: int, scope: Scope | None = None) -> Iterator[Statement]:
        """Those between two positions. What a statement names must be declared before the next is asked for."""
        text = self._source.text
        scope = scope or self._opened(None)
        while True:
            match = _PIECE.match(text, at, end)
            if match is None:
                self._nothing_left(at, end)
                return
            kind = match.lastgroup or ""
            found, start, at = match.group(kind), match.start(kind), match.end()
            if kind == "statement" and found:
                yield from self._expanded(Statement(found, start, scope))
            elif kind == "label":
                self._label(found, scope)
            elif kind == "open":
                scope = self._opened(scope)
            elif kind == "close":
                if scope.parent is None:
                    raise self._source.refuse("a brace is closed twice", start)
                scope = scope.parent
            elif kind == "loc" and scope.parent is None and not self._source.inline(start):
                # within inline assembly it counts the lines of that
                self._location(found)

    def guard(self, name: str, statement: Statement) -> Reg:
        """The predicate that guards a statement."""
        register = statement.scope.register(name)
        if not isinstance(register, Reg):
            raise self._source.refuse(f"guard {name!r} is not declared", statement.at)
        if register.type != "pred":
            raise self._source.refuse(f"guard {name!r} is no predicate", statement.at)
        return register

    def _nothing_left(self, at: int, end: int) -> None:
        rest = self._source.text[at:end]
        if rest.strip():
            raise self._source.refuse("a statement is not understood", at + len(rest) - len(rest.lstrip()))

    def _opened(self, parent: Scope | None) -> Scope:
        scope = Scope(parent, len(self.scopes))
        self.scopes.append(scope)
        return scope

    def _label(self, name: str, scope: Scope) -> None:
        scope.labels.add(name)
        self.labels[scope.rename(name)] = self._count

    def _location(self, text: str) -> None:
        match = _LOC.match(text)
        if match:
            file, line, column = map(int, match.groups())
            self.locations.append(Location(self._count, self._source.files.get(file, ""), line, column))

    def _expanded(self, statement: Statement) -> Iterator[Statement]:
        """A statement itself, or what a call or an indexed branch stands for."""
        if call := call_of(statement.text, self._known):
            if call.name in self._calls:
                raise self._source.refuse(f"recursion of {call.name}", statement.at)
            self._calls.append(call.name)
            yield from self._inlined(call, self._known[call.name], statement)
            self._calls.pop()
        elif match := _INDEXED.fullmatch(statement.text):
            yield from self._branches(statement, *match.groups())
        else:
            self._count += statement.text[0] != "."
            yield statement

    def _inlined(self, call: Call, function: Function, at: Statement) -> Iterator[Statement]:
        """The function's body in a scope of its own, between moves of what goes in and of what comes out."""
        scope = self._opened(None)
        scope.leaves_to = scope.rename(_END)
        try:
            formal = [scope.declare_call_parameter(text) for text in (*function.parameters, *function.results)]
            actual = [atom(name, at.scope.register) for name in (*call.arguments, *call.results)]
        except ValueError as error:
            raise self._source.refuse(f"{error}, in a call of {call.name}", at.at) from None
        if len(actual) != len(formal):
            raise self._source.refuse(f"{len(actual)} arguments and results; {call.name} has {len(formal)}", at.at)
        if call.guard is not None:
            register = self.guard(call.guard[0], at)
            yield self._made(at, "bra", (Symbol(scope.leaves_to),), guard=(register, not call.guard[1]))
        inputs = len(function.parameters)
        for parameter, given in zip(formal[:inputs], actual[:inputs], strict=True):
            yield self._made(at, "mov", (parameter, given), parameter.type)
        yield from self.read(function.start, function.end, scope)
        self._label(_END, scope)
        for wanted, result in zip(actual[inputs:], formal[inputs:], strict=True):
            yield self._made(at, "mov", (wanted, result), result.type)

    def _branches(
        self, at: Statement, negated: str | None, predicate: str | None, index: str, table: str
    ) -> Iterator[Statement]:
        """A comparison and a branch for each target but the last. PTX leaves open where an index beyond goes: there."""
        tables = [found for found in _TARGETS.finditer(self._source.text, 0, at.at) if found[1] == table]
        if not tables:
            raise self._source.refuse(f"no .branchtargets called {table!r} before this", at.at)
        guard = (self.guard(predicate, at), not negated) if predicate else None
        targets = [Symbol(name.strip()) for name in tables[-1][2].split(",")]
        value = at.scope.register(index)
        if not isinstance(value, Reg):
            raise self._source.refuse(f"index {index!r} is not a register", at.at)
        for number, target in enumerate(targets[:-1]):
            if guard is None:
                yield self._made(at, "setp", (_CHOSEN, value, Imm(number)), "eq", "u32")
            else:
                taken = guard[0] if guard[1] else Not(guard[0])
                yield self._made(at, "setp", (_CHOSEN, value, Imm(number), taken), "eq", "and", "u32")
            yield self._made(at, "bra", (target,), guard=(_CHOSEN, True))
        yield self._made(at, "bra", (targets[-1],), guard=guard)

    def _made(
        self,
        at: Statement,
        opcode: str,
        operands: tuple[Operand, ...],
        *modifiers: str,
        guard: tuple[Reg, bool] | None = None,
    ) -> Statement:
        """An instruction that stands for a part of a statement."""
        self._count += 1
        text = " ".join(at.text.split())
        return replace(at, made=Instr(opcode, modifiers, operands, guard, self._source.line(at.at), text))
