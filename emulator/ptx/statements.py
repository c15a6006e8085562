"""The statements of a kernel in order, with called functions inlined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .declarations import Scope, array_of
from .operands import atom
from .source import Source
from .syntax import Imm, Instr, Location, Not, Operand, Reg, Symbol

Shape = tuple[tuple[str, ...], tuple[str, ...]]

_FUNCTION = re.compile(
    r"(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.func\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{"
)
_CALL = re.compile(
    r"(?:@(!?)([\w$%]+)\s+)?call(\.uni)?\s+(?:\(([^)]*)\)\s*,\s*)?(%?[\w$]+)\s*(?:,\s*\(([^)]*)\)\s*)?"
    r"(?:,\s*([\w$]+)\s*)?",
    re.S,
)
_PROTOTYPE = re.compile(r"([\w$]+)\s*:\s*\.callprototype\s*(?:\(([^)]*)\)\s*)?_\s*(?:\(([^)]*)\))?")
_DECLARED_NAME = re.compile(r"\s*[\w$]+\s*(\[\d+\])?$")
FUNCTION_ADDRESSES: Final = 0x7E00_0000_0000_0000
FUNCTION_BYTES: Final = 16
"""Addresses of functions are synthetic: nothing is stored in this range."""


@dataclass(frozen=True)
class Function:
    """A `.func` with a body, from position `start` to `end` of the source.

    results, parameters: their declarations.
    """

    name: str
    results: tuple[str, ...]
    parameters: tuple[str, ...]
    start: int
    end: int

    @property
    def shape(self) -> Shape:
        """The types of results and parameters, without their names."""
        return _shape(self.results), _shape(self.parameters)


@dataclass(frozen=True)
class Call:
    """A call as written. guard: the predicate's name and its wanted value.

    name: of the function, or of a register that holds its address. prototype: the name of the `.callprototype` of a
    call through a register; empty for others.
    """

    name: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: tuple[str, bool] | None
    prototype: str


def candidates(
    source: Source, prototype: str, before: int, known: Mapping[str, Function]
) -> list[tuple[int, Function]]:
    """Return the functions that a call through `prototype` may reach, each with its address.

    These are the functions of the prototype's shape whose address the module takes.
    """
    shapes = {m[1]: (_shape(_parts(m[2])), _shape(_parts(m[3]))) for m in _PROTOTYPE.finditer(source.text, 0, before)}
    return [
        (FUNCTION_ADDRESSES + FUNCTION_BYTES * i, function)
        for i, (name, function) in enumerate(known.items())
        if function.shape == shapes.get(prototype) and _taken(name, source.text)
    ]


def _taken(name: str, text: str) -> bool:
    return re.search(rf"(?:\bmov\.[a-z]64\s[^;,]*,\s*|=[^;]*[\s{{,(]){re.escape(name)}(?![\w$])", text) is not None


def _shape(declarations: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_DECLARED_NAME.sub(r"\1", " ".join(one.split())) for one in declarations)


def functions(source: Source) -> Iterator[tuple[int, Function]]:
    """Yield every function of a module with the position at which its text starts."""
    for found in _FUNCTION.finditer(source.text):
        results, name, parameters, _ = found.groups()
        end = source.end_of_block(found.end())
        yield found.start(), Function(name, _parts(results), _parts(parameters), found.end(), end - 1)


def call_of(text: str, known: Mapping[str, Function]) -> Call | None:
    """Return a statement as a call of a known function or through a register, or None if it is neither."""
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    negated, predicate, uni, results, name, arguments, prototype = found.groups()
    through_register = name[0] == "%" and prototype and not uni
    if not through_register and (name not in known or prototype):
        return None
    guard = (predicate, not negated) if predicate else None
    return Call(name, _parts(results), _parts(arguments), guard, prototype or "")


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


_PIECE = re.compile(
    r"\s*(?:(?P<open>\{)|(?P<close>\})|(?P<label>[\w$]+)\s*:(?!:)|(?P<loc>\.(?:loc|file)\b[^\n]*)"
    r"|(?P<statement>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);)"
)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_TARGETS = re.compile(r"([\w$]+)\s*:\s*\.branchtargets\s+([^;]*);")
_INDEXED = re.compile(r"(?:@(!?)([\w$%]+)\s+)?brx\.idx(?:\.uni)?\s+([\w$%]+)\s*,\s*([\w$]+)")
_CHOSEN, _KNOWN = Reg("@brx", "pred"), Reg("@known", "pred")
_END = "the end"


@dataclass(frozen=True)
class Statement:
    """An unparsed statement. made: an instruction that the front end generated, which has no text of its own."""

    text: str
    at: int
    scope: Scope
    made: Instr | None = None


class Statements:
    """A reader of statements. It records labels (instruction indices by kernel-wide name), scopes and source lines.

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
        """Yield the statements between two positions.

        The caller must declare the names of a statement before it requests the next one.
        """
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
                    raise self._source.error("a brace is closed twice", start)
                scope = scope.parent
            elif kind == "loc" and scope.parent is None and not self._source.inline(start):
                # .loc inside inline assembly counts lines of the assembly
                self._location(found)

    def guard(self, name: str, statement: Statement) -> Reg:
        """Return the predicate register that guards a statement."""
        register = statement.scope.register(name)
        if not isinstance(register, Reg):
            raise self._source.error(f"guard {name!r} is not declared", statement.at)
        if register.type != "pred":
            raise self._source.error(f"guard {name!r} is not a predicate", statement.at)
        return register

    def _nothing_left(self, at: int, end: int) -> None:
        rest = self._source.text[at:end]
        if rest.strip():
            raise self._source.error("this is not a statement", at + len(rest) - len(rest.lstrip()))

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
            file, line, column, *at = (int(each or 0) for each in match.groups())
            name = self._source.files.get
            call = (name(at[0], ""), at[1], at[2]) if at[1] else None
            self.locations.append(Location(self._count, name(file, ""), line, column, call))

    def _expanded(self, statement: Statement) -> Iterator[Statement]:
        """Yield a statement, or the statements that replace a call or an indexed branch."""
        call = call_of(statement.text, self._known)
        if call is not None and call.prototype:
            yield from self._called(call, statement)
        elif call is not None:
            if call.name in self._calls:
                raise self._source.error(f"recursion of {call.name}", statement.at)
            self._calls.append(call.name)
            yield from self._inlined(call, self._known[call.name], statement)
            self._calls.pop()
        elif match := _INDEXED.fullmatch(statement.text):
            yield from self._branches(statement, *match.groups())
        else:
            self._count += statement.text[0] != "."
            yield statement

    def _inlined(
        self, call: Call, function: Function, at: Statement, guard: tuple[Reg, bool] | None = None
    ) -> Iterator[Statement]:
        """Yield a function's body in a scope of its own, between moves of its arguments and of its results."""
        scope = self._opened(None)
        scope.end_label = scope.rename(_END)
        try:
            given, wanted = self._passed(call, function, at, scope)
        except ValueError as error:
            raise self._source.error(f"{error}, in a call of {function.name}", at.at) from None
        if call.guard is not None:
            guard = (self.guard(call.guard[0], at), call.guard[1])
        if guard is not None:
            yield self._made(at, "bra", (Symbol(scope.end_label),), guard=(guard[0], not guard[1]))
        for parameter, value in given:
            yield self._made(at, "mov", (parameter, value), parameter.type)
        yield from self.read(function.start, function.end, scope)
        self._label(_END, scope)
        for result, value in wanted:
            yield self._made(at, "mov", (value, result), result.type, guard=guard)

    def _passed(
        self, call: Call, function: Function, at: Statement, scope: Scope
    ) -> tuple[list[tuple[Reg, Operand]], list[tuple[Reg, Operand]]]:
        """Return the scalar arguments and the scalar results of a call as (register in the function, operand outside).

        An array parameter is shared with the caller.
        """
        pairs: list[list[tuple[Reg, Operand]]] = []
        sides = ((function.parameters, call.arguments), (function.results, call.results))
        for formal, actual in sides:
            if len(actual) != len(formal):
                raise ValueError(f"{len(actual)} arguments or results where {len(formal)} are declared")
            pairs.append([])
            for text, name in zip(formal, actual, strict=True):
                array = array_of(text)
                if array is None:
                    pairs[-1].append((scope.declare_call_parameter(text), atom(name, at.scope.register)))
                    continue
                held = at.scope.array(name)
                if held is None:
                    raise ValueError(f"{name!r} is not an array")
                scope.arrays[array.name] = held
        return pairs[0], pairs[1]

    def _called(self, call: Call, at: Statement) -> Iterator[Statement]:
        """Yield a call through a register: the inlined body of each candidate behind a comparison of the address.

        An address of no candidate traps.
        """
        value = at.scope.register(call.name)
        if not isinstance(value, Reg):
            raise self._source.error(f"{call.name!r} is not a register", at.at)
        if call.guard is not None:
            raise self._source.error("a guarded call through a register is not supported", at.at)
        reachable = candidates(self._source, call.prototype, at.at, self._known)
        for number, (address, _) in enumerate(reachable):
            more = (("or",), (_KNOWN,)) if number else ((), ())
            yield self._made(at, "setp", (_KNOWN, value, Imm(address), *more[1]), "eq", *more[0], "u64")
        yield self._made(at, "trap", (), guard=(_KNOWN, False) if reachable else None)
        for address, function in reachable:
            if function.name in self._calls:
                raise self._source.error(f"recursion of {function.name}", at.at)
            chosen = Reg(f"@called@{len(self.scopes)}", "pred")
            yield self._made(at, "setp", (chosen, value, Imm(address)), "eq", "u64")
            self._calls.append(function.name)
            yield from self._inlined(call, function, at, (chosen, True))
            self._calls.pop()

    def _branches(
        self, at: Statement, negated: str | None, predicate: str | None, index: str, table: str
    ) -> Iterator[Statement]:
        """Yield a comparison and a branch for each target of `brx.idx`.

        PTX does not define an index beyond the table; here it traps.
        """
        tables = [found for found in _TARGETS.finditer(self._source.text, 0, at.at) if found[1] == table]
        if not tables:
            raise self._source.error(f"no .branchtargets called {table!r} before this", at.at)
        guard = (self.guard(predicate, at), not negated) if predicate else None
        targets = [Symbol(name.strip()) for name in tables[-1][2].split(",")]
        value = at.scope.register(index)
        if not isinstance(value, Reg):
            raise self._source.error(f"index {index!r} is not a register", at.at)
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
        """Return a generated instruction that implements part of a statement."""
        self._count += 1
        text = " ".join(at.text.split())
        return replace(at, made=Instr(opcode, modifiers, operands, guard, self._source.line(at.at), text))
