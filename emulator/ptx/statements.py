"""The statements of a kernel one after another, those of a called function in the place of the call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .calls import Call, CallByAddress, Function, call_by_address, call_of, meant
from .declarations import Scope, array_of
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
_CHOSEN, _KNOWN = Reg("@brx", "pred"), Reg("@known", "pred")
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
        elif by_address := call_by_address(statement.text):
            yield from self._called(by_address, statement)
        elif match := _INDEXED.fullmatch(statement.text):
            yield from self._branches(statement, *match.groups())
        else:
            self._count += statement.text[0] != "."
            yield statement

    def _inlined(
        self, call: Call, function: Function, at: Statement, guard: tuple[Reg, bool] | None = None
    ) -> Iterator[Statement]:
        """The function's body in a scope of its own, between moves of what goes in and of what comes out."""
        scope = self._opened(None)
        scope.leaves_to = scope.rename(_END)
        try:
            given, wanted = self._passed(call, function, at, scope)
        except ValueError as error:
            raise self._source.refuse(f"{error}, in a call of {function.name}", at.at) from None
        if call.guard is not None:
            guard = (self.guard(call.guard[0], at), call.guard[1])
        if guard is not None:
            yield self._made(at, "bra", (Symbol(scope.leaves_to),), guard=(guard[0], not guard[1]))
        for parameter, value in given:
            yield self._made(at, "mov", (parameter, value), parameter.type)
        yield from self.read(function.start, function.end, scope)
        self._label(_END, scope)
        for result, value in wanted:
            yield self._made(at, "mov", (value, result), result.type, guard=guard)

    def _passed(
        self, call: Call, function: Function, at: Statement, scope: Scope
    ) -> tuple[list[tuple[Reg, Operand]], list[tuple[Reg, Operand]]]:
        """The numbers that go into a function and those that come out, each with what it is outside. An array is the
        caller's within too."""
        pairs: list[list[tuple[Reg, Operand]]] = []
        sides = ((function.parameters, call.arguments), (function.results, call.results))
        for formal, actual in sides:
            if len(actual) != len(formal):
                raise ValueError(f"{len(actual)} arguments or results for {len(formal)}")
            pairs.append([])
            for text, name in zip(formal, actual, strict=True):
                array = array_of(text)
                if array is None:
                    pairs[-1].append((scope.declare_call_parameter(text), atom(name, at.scope.register)))
                    continue
                held = at.scope.array(name)
                if held is None:
                    raise ValueError(f"{name!r} is no array")
                scope.arrays[array.name] = held
        return pairs[0], pairs[1]

    def _called(self, by_address: CallByAddress, at: Statement) -> Iterator[Statement]:
        """A comparison with each function that may be meant, and its body; a trap where it is none of them."""
        value = at.scope.register(by_address.register)
        if not isinstance(value, Reg):
            raise self._source.refuse(f"{by_address.register!r} is not a register", at.at)
        if by_address.call.guard is not None:
            raise self._source.refuse("a guarded call of what a register names", at.at)
        candidates = meant(self._source, by_address.prototype, at.at, self._known)
        for number, (address, _) in enumerate(candidates):
            more = (("or",), (_KNOWN,)) if number else ((), ())
            yield self._made(at, "setp", (_KNOWN, value, Imm(address), *more[1]), "eq", *more[0], "u64")
        yield self._made(at, "trap", (), guard=(_KNOWN, False) if candidates else None)
        for address, function in candidates:
            if function.name in self._calls:
                raise self._source.refuse(f"recursion of {function.name}", at.at)
            chosen = Reg(f"@called@{len(self.scopes)}", "pred")
            yield self._made(at, "setp", (chosen, value, Imm(address)), "eq", "u64")
            self._calls.append(function.name)
            yield from self._inlined(by_address.call, function, at, (chosen, True))
            self._calls.pop()

    def _branches(
        self, at: Statement, negated: str | None, predicate: str | None, index: str, table: str
    ) -> Iterator[Statement]:
        """A comparison and a branch for each target. PTX leaves open where an index beyond goes: it is a fault."""
        tables = [found for found in _TARGETS.finditer(self._source.text, 0, at.at) if found[1] == table]
        if not tables:
            raise self._source.refuse(f"no .branchtargets called {table!r} before this", at.at)
        guard = (self.guard(predicate, at), not negated) if predicate else None
        targets = [Symbol(name.strip()) for name in tables[-1][2].split(",")]
        value = at.scope.register(index)
        if not isinstance(value, Reg):
            raise self._source.refuse(f"index {index!r} is not a register", at.at)
        for number, target in enumerate(targets):
            if guard is None:
                yield self._made(at, "setp", (_CHOSEN, value, Imm(number)), "eq", "u32")
            else:
                taken = guard[0] if guard[1] else Not(guard[0])
                yield self._made(at, "setp", (_CHOSEN, value, Imm(number), taken), "eq", "and", "u32")
            yield self._made(at, "bra", (target,), guard=(_CHOSEN, True))
        yield self._made(at, "trap", (), guard=guard)

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
