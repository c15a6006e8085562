"""Names that the source gives to mbarriers and to arrays in shared memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ...ptx.syntax import Instr, Kernel, Variable
from .launch import Launch

INIT: Final = "mbarrier_init"
LOCAL: Final = re.compile(r"_ZZ.*E(\d+)(\D\w*)$")
"""A mangled local variable: its function, the length of its own name, and that name."""
POINTERS: Final = frozenset({"data_ptr", "ptr", "iterator", "toint"})
"""Members of a variable in the source that give its address."""


def mbarrier_name(launch: Launch, offset: int, init: Instr, earlier: Iterable[Instr]) -> str:
    """Return an mbarrier's name; empty if nothing names it.

    The first that exists of: the name from the launch, the name of the `.shared` variable or of CuTeDSL's array,
    the first argument of the source's call of `mbarrier_init`. If an array holds several mbarriers and is no member of
    a struct, an argument that is no array takes precedence. offset: in the CTA's window. init: the instruction that
    initialised it. earlier: the instructions that initialised the CTA's earlier mbarriers.
    """
    kernel = launch.kernel
    given = launch.names.get(offset - kernel.dynamic_shared_offset)
    if given:
        return given
    variable, place = shared_variable(kernel, offset, offset), launch.source_place(init)
    name, is_array = _argument(place.text) if place is not None else ("", False)
    if variable is not None and not (name and not is_array and variable in kernel.arrays and not variable.member):
        inside = (offset - variable.offset) // 8
        return source_name(variable.name) + (f"[{inside}]" if variable.size >= 16 else "")
    if not is_array:
        return name
    others = (launch.source_place(each) for each in earlier)
    return f"{name}[{sum(other is not None and _same(other, place) for other in others)}]"


def shared_variables(kernel: Kernel) -> tuple[Variable, ...]:
    """Return the named variables in a CTA's shared memory: `.shared` variables with a size, and CuTeDSL's arrays."""
    return *(each for each in kernel.shared if each.size), *kernel.arrays


def shared_variable(kernel: Kernel, first: int, last: int) -> Variable | None:
    """Return the named variable that holds bytes `first` to `last` of a CTA's window, None if none holds all."""
    known = shared_variables(kernel)
    return next((each for each in known if each.offset <= first and last < each.offset + each.size), None)


def source_name(name: str) -> str:
    """Return the name that a variable has inside its function in C++, from its mangled name; others as they are."""
    found = LOCAL.match(name)
    return found[2][: int(found[1])] if found else name


def _same(one: object, other: object) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ("file", "line"))


@lru_cache(maxsize=1024)
def _argument(text: str) -> tuple[str, bool]:
    """Return the variable in the first argument of a line's call of mbarrier_init, and whether it is an array."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return "", False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if called == INIT:
                return _variable(node.args[0])
    return "", False


def _variable(node: ast.expr) -> tuple[str, bool]:
    """Return the name of the variable whose address an expression takes, and whether it is an array."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _variable(node.left)[0], True
    if isinstance(node, ast.Subscript):
        return _variable(node.value)[0], True
    if isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Attribute):
        return _variable(node.func) if node.func.attr in POINTERS else ("", False)
    if isinstance(node, ast.Attribute):
        return _variable(node.value) if node.attr in POINTERS else (node.attr, False)
    return (node.id, False) if isinstance(node, ast.Name) else ("", False)
