"""PTX declarations: registers by scope, parameters, variables and kernel directives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .operands import literal
from .syntax import GlobalVariable, Param, Reg, Variable, Vector

_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\S*\s+(?:\.\w+\s+|\d+\s+)*)?([\w$]+)(?:\[(\d+)\])?"
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?"
    r"(?:\.v(\d)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?\s*(?:=\s*(.*))?$",
    re.S,
)
_NAME = re.compile(r"[\w$%]+")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*")
_RANGE = re.compile(r"(%?[\w$]+)<(\d+)>")
_WIDTHS = {"pred": 1, "b128": 16} | {
    f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64) if kind != "f" or bits > 8
}


_PARTS = {"v2": "xy", "v4": "xyzw"}
_COLOURS = "rgba"


@dataclass
class Scope:
    """Names declared between two braces.

    serial: the number of the scope; the kernel's own scope is 0.
    """

    parent: Scope | None
    serial: int
    labels: set[str] = field(default_factory=set)
    registers: dict[str, Reg | Vector] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)
    call_parameters: set[Reg] = field(default_factory=set)
    arrays: dict[str, str] = field(default_factory=dict)
    """Local-memory names that hold array call parameters, by parameter name."""
    end_label: str | None = None
    """The label after the body of an inlined function; set in its outermost scope."""

    def rename(self, name: str) -> str:
        """Return the kernel-wide name of a name in this scope."""
        return f"{name}@{self.serial}" if self.serial else name

    def declare(self, type_name: str, names: str) -> None:
        """Declare registers: `.reg .type names`, where names is `a, b` or `%r<n>`, or a vector `.reg .v4 .type names`.

        The parts of a vector `a` are `a.x`, `a.y`, ... and also `a.r`, `a.g`, ...
        Raises ValueError for an invalid type or name.
        """
        if type_name in _PARTS:
            self._declare_vectors(type_name, names)
            return
        width = _register_type(type_name)
        for name in (part.strip() for part in names.split(",")):
            many = _RANGE.fullmatch(name)
            if many:
                self.ranges[many.group(1)] = (width, int(many.group(2)))
            else:
                self.registers[name] = Reg(self.rename(_register_name(name)), width)

    def _declare_vectors(self, vector: str, typed_names: str) -> None:
        type_name, names = (*typed_names.split(None, 1), "", "")[:2]
        width = _register_type(type_name.removeprefix("."))
        for name in (part.strip() for part in names.split(",")):
            if _RANGE.fullmatch(name):
                raise ValueError(f"{name!r}: a range of vector registers is not valid PTX")
            parts = [Reg(self.rename(f"{_register_name(name)}.{part}"), width) for part in _PARTS[vector]]
            self.registers[name] = Vector(tuple(parts))
            for letters in (_PARTS[vector], _COLOURS):
                self.registers.update({f"{name}.{letter}": reg for letter, reg in zip(letters, parts, strict=False)})

    def declare_array(self, text: str) -> Variable | None:
        """Declare an array parameter such as `.param .align 16 .b8 name[24]` as local memory.

        Returns None for a scalar.
        """
        array = array_of(text)
        if array is None:
            return None
        self.arrays[array.name] = self.rename(array.name)
        return Variable(self.arrays[array.name], array.size, array.align, 0)

    def array(self, name: str) -> str | None:
        """Return the local-memory name of an array call parameter that is visible here."""
        return self.arrays.get(name) or (self.parent.array(name) if self.parent else None)

    def declare_call_parameter(self, text: str) -> Reg:
        """Declare a scalar `.param .type name` in a body: it is held in a register between caller and function."""
        match = _PARAM.fullmatch(text)
        if match is None:
            raise ValueError("unsupported call parameter")
        register = Reg(self.rename(match.group(3)), _register_type(match.group(2)))
        self.registers[match.group(3)] = register
        self.call_parameters.add(register)
        return register

    def register(self, token: str) -> Reg | Vector | None:
        """Return the register, or the vector of registers, that a token names here, or None."""
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
        """Return the kernel-wide name of a label that is visible here, or None."""
        if name in self.labels:
            return self.rename(name)
        return self.parent.label(name) if self.parent else None


def array_of(text: str) -> Param | None:
    """Return the declaration of an array call parameter, or None for a scalar."""
    match = _PARAM.fullmatch(text)
    if match is None or match.group(4) is None:
        return None
    (found,) = parameters(text)
    return found


def _register_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid register name")
    return name


def _bytes(type_name: str) -> int:
    if type_name not in _WIDTHS:
        raise ValueError(f"unsupported type '.{type_name}'")
    return _WIDTHS[type_name]


def _alignment(align: str | None, otherwise: int) -> int:
    found = otherwise if align is None else int(align)
    if found < 1 or found & found - 1:
        raise ValueError(f".align {found} is not a power of two")
    return found


def _register_type(type_name: str) -> str:
    if type_name not in _WIDTHS:
        raise ValueError(f"unsupported register type '.{type_name}'")
    return "pred" if type_name == "pred" else f"b{8 * _WIDTHS[type_name]}"


def parameters(text: str) -> tuple[Param, ...]:
    """Return a kernel's parameters with their offsets. Raises ValueError for an invalid type or alignment."""
    found = []
    offset = 0
    for match in _PARAM.finditer(text):
        align, type_name, name, count = match.groups()
        element = _bytes(type_name)
        size = element * int(count or 1)
        alignment = _alignment(align, element)
        offset = -(-offset // alignment) * alignment
        found.append(Param(name, offset, size, alignment, type_name))
        offset += size
    return tuple(found)


def variable(text: str) -> tuple[str, Variable, GlobalVariable] | None:
    """Parse a variable: return its state space, and the variable both as a window variable and as a global variable.

    Raises ValueError for an invalid type, alignment or initialiser.
    """
    match = _VARIABLE.match(text)
    if match is None:
        return None
    space, align, vector, type_name, name, count, values = match.groups()
    element = _bytes(type_name)
    size = 0 if count == "" else element * int(vector or 1) * int(count or 1)
    alignment = _alignment(align, element * int(vector or 1))
    initial, references = _initial(values or "", element)
    constant = GlobalVariable(name, size, alignment, initial, references, constant=space == "const")
    return space, Variable(name, size, alignment, 0), constant


def _initial(values: str, element: int) -> tuple[bytes, tuple[tuple[int, str], ...]]:
    """Return an initialiser's bytes, and the (offset, name) of every address in them."""
    found = b""
    references = []
    for value in re.findall(r"-?[\w$]+", values.replace("generic(", "(")):
        number = literal(value.lstrip("-"))
        if number is not None:
            signed = -number.value if value[0] == "-" else number.value
            found += (signed & (1 << 8 * element) - 1).to_bytes(element, "little")
        elif element == 8 and _SYMBOL.fullmatch(value) and "+" not in values:
            references.append((len(found), value))
            found += bytes(element)
        else:
            raise ValueError(f"unsupported value {value!r} in an initialiser")
    return found, tuple(references)


def placed(variables: Iterable[Variable], start: int) -> Iterator[Variable]:
    """Yield the variables with consecutive aligned offsets from `start`."""
    offset = start
    for found in variables:
        offset = -(-offset // found.align) * found.align
        yield Variable(found.name, found.size, found.align, offset)
        offset += found.size


def dimensions(text: str, name: str) -> tuple[int, int, int] | None:
    """Return the up to three sizes of a directive such as `.reqntid 128, 1, 1`, or None if it is absent."""
    match = re.search(rf"\.{name}\s+(\d+(?:\s*,\s*\d+)*)", text)
    if match is None:
        return None
    numbers = [int(n) for n in match.group(1).split(",")]
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def number(text: str, name: str) -> int | None:
    """Return the number of a directive such as `.maxnreg 168`, or None if it is absent."""
    match = re.search(rf"\.{name}\s+(\d+)", text)
    return int(match.group(1)) if match else None
