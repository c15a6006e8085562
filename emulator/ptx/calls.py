"""Functions of a module, and calls of them: a body takes the place of each call."""

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
    r"(?:@(!?)([\w$%]+)\s+)?call(?:\.uni)?\s+(?:\(([^)]*)\)\s*,\s*)?([\w$]+)\s*(?:,\s*\(([^)]*)\)\s*)?", re.S
)
_BY_ADDRESS = re.compile(
    r"(?:@(!?)([\w$%]+)\s+)?call\s+(?:\(([^)]*)\)\s*,\s*)?(%[\w$]+)\s*(?:,\s*\(([^)]*)\)\s*)?,\s*([\w$]+)\s*", re.S
)
_PROTOTYPE = re.compile(r"([\w$]+)\s*:\s*\.callprototype\s*(?:\(([^)]*)\)\s*)?_\s*(?:\(([^)]*)\))?")
_DECLARED_NAME = re.compile(r"\s*[\w$]+\s*(\[\d+\])?$")
FUNCTION_ADDRESSES: Final = 0x7E00_0000_0000_0000
FUNCTION_BYTES: Final = 16
"""What stands for the address of a function: nothing else is there."""


@dataclass(frozen=True)
class Function:
    """A `.func` with a body, from `start` to `end` of the source. results, parameters: their declarations."""

    name: str
    results: tuple[str, ...]
    parameters: tuple[str, ...]
    start: int
    end: int

    @property
    def shape(self) -> Shape:
        """What it answers and takes, without the names."""
        return _shape(self.results), _shape(self.parameters)


@dataclass(frozen=True)
class Call:
    """A call as it is written. guard: the predicate's name and its wanted value."""

    name: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: tuple[str, bool] | None


@dataclass(frozen=True)
class CallByAddress:
    """A call of what a register names; `call` is it with each function that may be meant. shape: what that is like."""

    register: str
    call: Call
    prototype: str


def call_by_address(text: str) -> CallByAddress | None:
    """A statement as a call of what a register names, or None."""
    found = _BY_ADDRESS.fullmatch(text)
    if found is None:
        return None
    guard = (found[2], not found[1]) if found[2] else None
    return CallByAddress(found[4], Call("", _parts(found[3]), _parts(found[5]), guard), found[6])


def meant(source: Source, prototype: str, before: int, known: Mapping[str, Function]) -> list[tuple[int, Function]]:
    """The functions of a prototype's shape whose address the module takes, each with what stands for that."""
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
    """Every function of a module, each behind the position where its text starts."""
    for found in _FUNCTION.finditer(source.text):
        results, name, parameters, _ = found.groups()
        end = source.end_of_block(found.end())
        yield found.start(), Function(name, _parts(results), _parts(parameters), found.end(), end - 1)


def call_of(text: str, known: Mapping[str, Function]) -> Call | None:
    """A statement as a call of one of the known functions, or None."""
    found = _CALL.fullmatch(text)
    if found is None or found[4] not in known:
        return None
    guard = (found[2], not found[1]) if found[2] else None
    return Call(found[4], _parts(found[3]), _parts(found[5]), guard)


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
