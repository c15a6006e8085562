"""Prototypes of CUDA's C functions, from which the entry points' signatures are made.

`prototypes.txt` is generated from cuda-bindings and lists the newest version of each function without version suffix.
`prototypes_extra.txt` is written by hand.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

TABLE: Final = Path(__file__).with_name("prototypes.txt")
EXTRA: Final = Path(__file__).with_name("prototypes_extra.txt")
_TYPES: Final = {
    **{"ptr": ctypes.c_size_t, "u64": ctypes.c_uint64, "i64": ctypes.c_int64, "u32": ctypes.c_uint32},
    **{"u16": ctypes.c_uint16, "u8": ctypes.c_uint8},
    **{"i32": ctypes.c_int32, "f32": ctypes.c_float, "f64": ctypes.c_double, "void": None},
}
"""Pointers are integers, so that Python functions get addresses, 0 for a null pointer."""
_LINE: Final = re.compile(r"^(\w+) (\w+)\((.*)\)$", re.MULTILINE)


class Prototype(NamedTuple):
    """The ctypes types of a C function."""

    result: Any
    parameters: tuple[Any, ...]


def prototype(name: str) -> Prototype:
    """Return the prototype of a function of CUDA. Raises KeyError for an unknown name.

    A name with a suffix (a version, _ptsz, _ptds) that the tables do not list has the prototype of the name without it.
    """
    known = _prototypes()
    return known[name] if name in known else known[re.sub(r"_(v\d+|pt(sz|ds))$", "", name)]


def names(prefix: str) -> list[str]:
    """Return the names of all functions of CUDA that begin so."""
    return [name for name in _prototypes() if name.startswith(prefix)]


@cache
def _prototypes() -> dict[str, Prototype]:
    found = {}
    for result, name, listed in _LINE.findall(TABLE.read_text() + EXTRA.read_text()):
        parameters = [each.partition(" ")[0] for each in listed.split(", ") if each]
        found[name] = Prototype(_TYPES[result], tuple(_TYPES[each] for each in parameters))
    return found
