"""Functions of a module and calls of them, which are inlined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .source import Source

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
