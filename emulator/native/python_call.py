"""Machine code callable from Python like a builtin, at a fifth of the cost of a ctypes call.

A launch makes thousands of calls that take less than a microsecond. Arguments are not checked: callers must pass the
exact number of ints, each of at most 64 bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

_PREFIX: Final = "python_"
_FASTCALL: Final = 0x80
"""METH_FASTCALL: the arguments come as an array of objects and its length."""
DECLARED: Final = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
"""
"""Functions of CPython that the text of `wrapper` calls."""


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definitions: list[_Definition] = []
"""Definitions live as long as the process, like their machine code."""


def wrapper(name: str, arguments: Sequence[str], result: str) -> str:
    """Return a function that Python calls for the LLVM function `name`, of these types: ptr, i32 or i64."""
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
    """Return a Python callable for the LLVM function `name`. find: the addresses of compiled functions, by name."""
    definition = _Definition(name.encode(), find(_PREFIX + name), _FASTCALL, None)
    _definitions.append(definition)
    made: Any = ctypes.pythonapi.PyCFunction_NewEx
    made.restype, made.argtypes = ctypes.py_object, (ctypes.c_void_p,) * 3
    answer: Callable[..., int] = made(ctypes.addressof(definition), None, None)
    return answer
