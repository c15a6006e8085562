"""PTX text to a `Module`. Registers and labels are block scoped; every statement keeps its line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from emulator.errors import PtxSyntaxError
from emulator.ptx.families import split
from emulator.ptx.operands import OperandReader, literal
from emulator.ptx.syntax import (
    RESERVED_SHARED_BYTES,
    GlobalVariable,
    Instr,
    Kernel,
    Location,
    Module,
    Operand,
    Param,
    Reg,
    Symbol,
    Variable,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PIECE = re.compile(
    r"\s*(?:(?P<open>\{)|(?P<close>\})|(?P<label>[\w$]+)\s*:(?!:)|(?P<loc>\.(?:loc|file)\b[^\n]*)"
    r"|(?P<statement>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);)"
)
_INSTRUCTION = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_RANGE = re.compile(r"(%?[\w$]+)<(\d+)>")
_ENTRY = re.compile(r"(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{]*)\{")
_FUNCTION = re.compile(r"(?:\.visible\s+|\.weak\s+)*\.func\b[^{;]*\{")
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\S*\s+(?:\.\w+\s+|\d+\s+)*)?([\w$]+)(?:\[(\d+)\])?"
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?"
    r"(?:\.v(\d)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?\s*(?:=\s*(.*))?$",
    re.S,
)
_TARGET = re.compile(r"\.target\s+(\w+)")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_WIDTHS = {"pred": 1, "b128": 16} | {
    f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64) if kind != "f" or bits > 8
}
_TYPES = {name: "pred" if name == "pred" else f"b{8 * size}" for name, size in _WIDTHS.items()}
_DIMENSIONS = ("reqntid", "maxntid", "reqnctapercluster")


def parse(text: str) -> Module:
    """A PTX module. Raises PtxSyntaxError naming line and text."""
    return _Parser(text).module()


@dataclass
class _Scope:
    """Names declared between two braces."""

    parent: _Scope | None
    serial: int
    registers: dict[str, Reg] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)

    def rename(self, name: str) -> str:
        """The kernel-wide name of what this scope calls `name`."""
        return f"{name}@{self.serial}" if self.serial else name

    def register(self, token: str) -> Reg | None:
        found = self.registers.get(token)
        if found is not None:
            return found
        stem = token.rstrip("0123456789")
        declared = self.ranges.get(stem)
        if declared and len(stem) < len(token) and int(token[len(stem) :]) < declared[1]:
            found = Reg(self.rename(token), declared[0])
        elif self.parent is not None:
            found = self.parent.register(token)
        if found is not None:
            self.registers[token] = found
        return found

    def label(self, name: str) -> str | None:
        if name in self.labels:
            return self.rename(name)
        return self.parent.label(name) if self.parent else None


@dataclass(frozen=True)
class _Raw:
    """A statement that is not yet taken apart."""

    text: str
    at: int
    scope: _Scope


class _Parser:
    def __init__(self, text: str) -> None:
        self._source = tuple(text.splitlines())
        self._text = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        self._newlines = [i for i, c in enumerate(text) if c == "\n"]
        self._files: dict[int, str] = {int(m.group(1)): m.group(2) for m in _FILE.finditer(self._text)}

    def module(self) -> Module:
        target = _TARGET.search(self._text)
        if target is None:
            raise PtxSyntaxError("no .target directive", 1, self._source[0] if self._source else "")
        kernels: dict[str, Kernel] = {}
        outside: list[str] = []
        at = 0
        for entry in _ENTRY.finditer(self._text):
            outside.append(self._text[at : entry.start()])
            end = self._end_of_block(entry.end())
            kernels[entry.group(1)] = self._kernel(entry, end)
            at = end
        outside.append(self._text[at:])
        variables, shared = self._module_variables(outside)
        return Module(
            {name: _with_shared(kernel, shared) for name, kernel in kernels.items()},
            variables,
            target.group(1),
        )

    def _line(self, at: int) -> int:
        return bisect_right(self._newlines, at - 1) + 1

    def _refuse(self, reason: str, at: int) -> PtxSyntaxError:
        line = self._line(at)
        return PtxSyntaxError(reason, line, self._source[line - 1].strip())

    def _end_of_block(self, at: int) -> int:
        depth = 1
        for brace in re.finditer(r"[{}]", self._text[at:]):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                return at + brace.end()
        raise self._refuse("a brace is never closed", at)

    def _kernel(self, entry: re.Match[str], end: int) -> Kernel:
        body = _Body(self, entry.end(), end - 1)
        body.read()
        directives = entry.group(3)
        sizes = {name: _dimensions(directives, name) for name in _DIMENSIONS}
        return Kernel(
            name=entry.group(1),
            params=_params(entry.group(2) or ""),
            shared=tuple(body.shared),
            local=tuple(_placed(body.local, 0)),
            registers=tuple(body.used_registers()),
            instrs=tuple(body.instrs),
            labels=body.labels,
            maxnreg=_number(directives, "maxnreg"),
            minnctapersm=_number(directives, "minnctapersm"),
            locations=tuple(body.locations),
            source=self._source,
            **sizes,
        )

    def _module_variables(self, outside: list[str]) -> tuple[tuple[GlobalVariable, ...], list[Variable]]:
        found: list[GlobalVariable] = []
        shared: list[Variable] = []
        for text in outside:
            if _FUNCTION.search(text):
                at = self._text.index(text) + _FUNCTION.search(text).start()  # type: ignore[union-attr]
                raise self._refuse("device functions (.func with a body) are not supported", at)
            for statement in text.split(";"):
                match = _VARIABLE.search(statement.strip())
                if match is None:
                    continue
                if match.group(1) == "shared":
                    shared.append(_variable(match))
                else:
                    found.append(_global(match))
        return tuple(found), shared


class _Body:
    """The statements between the braces of one kernel."""

    def __init__(self, parser: _Parser, start: int, end: int) -> None:
        self._parser = parser
        self._start, self._end = start, end
        self.instrs: list[Instr] = []
        self.labels: dict[str, int] = {}
        self.shared: list[Variable] = []
        self.local: list[Variable] = []
        self.locations: list[Location] = []
        self._scopes: list[_Scope] = []

    def read(self) -> None:
        raws: list[_Raw] = []
        for raw in self._statements():
            if raw.text[0] == ".":
                self._directive(raw)
            else:
                raws.append(raw)
        for raw in raws:
            self._instruction(raw)

    def used_registers(self) -> Iterator[Reg]:
        seen: set[Reg] = set()
        for scope in self._scopes:
            seen.update(scope.registers.values())
        return iter(sorted(seen, key=lambda reg: reg.name))

    def _statements(self) -> Iterator[_Raw]:
        text, at = self._parser._text, self._start
        scope = _Scope(None, 0)
        self._scopes.append(scope)
        count = 0
        while True:
            match = _PIECE.match(text, at, self._end)
            if match is None:
                rest = text[at : self._end]
                if rest.strip():
                    where = at + len(rest) - len(rest.lstrip())
                    raise self._parser._refuse("a statement is not understood", where)
                return
            kind = match.lastgroup
            start, at = match.start(kind or 0), match.end()
            if kind == "statement":
                found = match.group("statement")
                if found:
                    count += found[0] != "."
                    yield _Raw(found, start, scope)
            elif kind == "label":
                scope.labels.add(match.group("label"))
                self.labels[scope.rename(match.group("label"))] = count
            elif kind == "open":
                scope = _Scope(scope, len(self._scopes))
                self._scopes.append(scope)
            elif kind == "close":
                if scope.parent is None:
                    raise self._parser._refuse("a brace is closed twice", start)
                scope = scope.parent
            else:
                self._location(match.group("loc"), count)

    def _location(self, text: str, instr: int) -> None:
        match = _LOC.match(text)
        if match:
            file = self._parser._files.get(int(match.group(1)), "")
            self.locations.append(Location(instr, file, int(match.group(2))))

    def _directive(self, raw: _Raw) -> None:
        if raw.text.startswith(".reg"):
            self._registers(raw)
        elif raw.text.startswith((".shared", ".local")):
            match = _VARIABLE.match(raw.text)
            if match is None:
                raise self._parser._refuse("a variable is not understood", raw.at)
            (self.shared if match.group(1) == "shared" else self.local).append(_variable(match))
        elif not raw.text.startswith((".pragma", ".param", ".branchtargets")):
            raise self._parser._refuse("a directive is not understood", raw.at)

    def _registers(self, raw: _Raw) -> None:
        _, type_name, names = raw.text.split(None, 2)
        if type_name[1:] not in _TYPES:
            raise self._parser._refuse(f"register type {type_name!r}", raw.at)
        width = _TYPES[type_name[1:]]
        for name in names.split(","):
            many = _RANGE.fullmatch(name.strip())
            if many:
                raw.scope.ranges[many.group(1)] = (width, int(many.group(2)))
            else:
                raw.scope.registers[name.strip()] = Reg(raw.scope.rename(name.strip()), width)

    def _instruction(self, raw: _Raw) -> None:
        match = _INSTRUCTION.fullmatch(raw.text)
        if match is None:
            raise self._parser._refuse("an instruction is not understood", raw.at)
        negated, predicate, spelling, rest = match.groups()
        guard = None
        if predicate:
            reg = raw.scope.register(predicate)
            if reg is None:
                raise self._parser._refuse(f"guard {predicate!r} is not declared", raw.at)
            guard = (reg, not negated)
        opcode, modifiers = split(spelling)
        operands = self._operands(rest, raw)
        if opcode in ("bra", "brx"):
            operands = tuple(_resolve(operand, raw.scope) for operand in operands)
        text = " ".join(raw.text.split())
        self.instrs.append(Instr(opcode, modifiers, operands, guard, self._parser._line(raw.at), text))

    def _operands(self, text: str, raw: _Raw) -> tuple[Operand, ...]:
        lookup = raw.scope.register
        registers = raw.scope.registers
        try:
            simple = tuple(registers[token] for token in text.split(", "))
        except KeyError:
            pass
        else:
            return simple
        try:
            return OperandReader(text, lookup).read()
        except ValueError as error:
            raise self._parser._refuse(str(error), raw.at) from None


def _resolve(operand: Operand, scope: _Scope) -> Operand:
    if not isinstance(operand, Symbol):
        return operand
    return Symbol(scope.label(operand.name) or operand.name)


def _params(text: str) -> tuple[Param, ...]:
    found = []
    offset = 0
    for match in _PARAM.finditer(text):
        align, type_name, name, count = match.groups()
        element = _WIDTHS[type_name]
        size = element * int(count or 1)
        alignment = int(align or element)
        offset = -(-offset // alignment) * alignment
        found.append(Param(name, offset, size, alignment))
        offset += size
    return tuple(found)


def _variable(match: re.Match[str]) -> Variable:
    _, align, vector, type_name, name, count, _ = match.groups()
    element = _WIDTHS[type_name] * int(vector or 1)
    size = element * (int(count) if count else 1) if count != "" else 0
    return Variable(name, size, int(align or element), 0)


def _global(match: re.Match[str]) -> GlobalVariable:
    variable = _variable(match)
    element = _WIDTHS[match.group(4)]
    values = re.findall(r"-?\w+", match.group(7) or "")
    numbers = [literal(value.lstrip("-")) for value in values]
    initial = b"".join(
        ((-n.value if v[0] == "-" else n.value) & ((1 << 8 * element) - 1)).to_bytes(element, "little")
        for n, v in zip(numbers, values, strict=True)
        if n is not None
    )
    return GlobalVariable(variable.name, variable.size, variable.align, initial)


def _placed(variables: list[Variable], start: int) -> Iterator[Variable]:
    offset = start
    for variable in variables:
        offset = -(-offset // variable.align) * variable.align
        yield Variable(variable.name, variable.size, variable.align, offset)
        offset += variable.size


def _with_shared(kernel: Kernel, module_shared: list[Variable]) -> Kernel:
    """The kernel with its own and the module's shared variables placed, sizeless (dynamic) ones last."""
    from dataclasses import replace

    used = {o.name for i in kernel.instrs for o in i.operands if isinstance(o, Symbol)}
    everything = [*kernel.shared, *(v for v in module_shared if v.name in used)]
    fixed = tuple(_placed([v for v in everything if v.size], RESERVED_SHARED_BYTES))
    kernel = replace(kernel, shared=fixed)
    dynamic = tuple(Variable(v.name, 0, v.align, kernel.dynamic_shared_offset) for v in everything if not v.size)
    return replace(kernel, shared=fixed + dynamic)


def _dimensions(text: str, name: str) -> tuple[int, int, int] | None:
    match = re.search(rf"\.{name}\s+(\d+(?:\s*,\s*\d+)*)", text)
    if match is None:
        return None
    numbers = [int(n) for n in match.group(1).split(",")]
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _number(text: str, name: str) -> int | None:
    match = re.search(rf"\.{name}\s+(\d+)", text)
    return int(match.group(1)) if match else None
