"""Machine code that Python calls as it calls a builtin of its own: a fifth of what a call by ctypes costs.

A launch makes thousands of calls that take less than a microsecond. What is called gets no checks: exactly so many
ints, each of at most 64 bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

_PREFIX: Final = "python_"
_FASTCALL: Final = 0x80
"""METH_FASTCALL: the arguments come as an array of objects, and how many they are."""
DECLARED: Final = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
"""
"""What the text of `wrapper` calls, of CPython."""


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definitions: list[_Definition] = []
"""They live as long as the process, as their machine code does."""


def wrapper(name: str, arguments: Sequence[str], result: str) -> str:
    """The function that Python is to call for the LLVM function `name`, of these types: ptr, i32 or i64."""
    lines = [f"define ptr @{_PREFIX}{name}(ptr %self, ptr %args, i64 %count) {{"]
    given = []
    for i, kind in enumerate(arguments):
        lines += [
            f"  %at{i} = getelementptr ptr, ptr %args, i64 {i}",
            f"  %object{i} = load ptr, ptr %at{i}",
            f"  %long{i} = call i64 @PyLong_AsLongLong(ptr %object{i})",
        ]
        converted = {"ptr": f"inttoptr i64 %long{i} to ptr", "i32": f"trunc i64 %long{i} to i32"}.get(kind)
        lines += [f"  %given{i} = {converted}"] if converted is not None else []
        given.append(f"{kind} %given{i}" if converted is not None else f"{kind} %long{i}")
    widened = {"ptr": "ptrtoint ptr %found to i64", "i32": "zext i32 %found to i64"}[result]
    lines += [
        f"  %found = call {result} @{name}({', '.join(given)})",
        f"  %wide = {widened}",
        "  %answer = call ptr @PyLong_FromLongLong(i64 %wide)",
        "  ret ptr %answer",
        "}",
    ]
    return "\n".join(lines)


def builtin(name: str, find: Callable[[str], int]) -> Callable[..., int]:
    """What Python calls for the LLVM function `name`. find: the address of a compiled function, by its name."""
    definition = _Definition(name.encode(), find(_PREFIX + name), _FASTCALL, None)
    _definitions.append(definition)
    made: Any = ctypes.pythonapi.PyCFunction_NewEx
    made.restype, made.argtypes = ctypes.py_object, (ctypes.c_void_p,) * 3
    answer: Callable[..., int] = made(ctypes.addressof(definition), None, None)
    return answer
