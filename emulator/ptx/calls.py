"""Functions of a module, and calls of them: a body takes the place of each call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .source import Source

_FUNCTION = re.compile(
    r"(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.func\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{"
)
_CALL = re.compile(
    r"(?:@(!?)([\w$%]+)\s+)?call(?:\.uni)?\s+(?:\(([^)]*)\)\s*,\s*)?([\w$]+)\s*(?:,\s*\(([^)]*)\)\s*)?", re.S
)


@dataclass(frozen=True)
class Function:
    """A `.func` with a body, from `start` to `end` of the source. results, parameters: their declarations."""

    name: str
    results: tuple[str, ...]
    parameters: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Call:
    """A call as it is written. guard: the predicate's name and its wanted value."""

    name: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: tuple[str, bool] | None


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
