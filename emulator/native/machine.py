"""LLVM modules as machine code of this CPU, in memory by llvmlite, and its calls from Python.

Python calls it like a builtin, at a fifth of the cost of a ctypes call: a launch makes thousands of calls that take
less than a microsecond. Arguments are not checked: callers must pass the exact number of ints, each of at most 64 bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

_engines: list[llvm.ExecutionEngine] = []


def optimised(text: str) -> Callable[[str], int]:
    """Compile an LLVM module and return a lookup of its functions' addresses. For little code that runs often.

    These passes take 0.005 s where LLVM's default takes 0.09 s, for equally fast code.
    """
    module, machine = llvm.parse_assembly(text), _optimising_machine()
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.PipelineTuningOptions()))
    return lookup(module, machine)


def machine_code(text: str) -> Callable[[str], int]:
    """Compile an LLVM module that was optimised before and return a lookup of its functions' addresses."""
    return lookup(llvm.parse_assembly(text), _optimising_machine())


def _optimising_machine() -> llvm.TargetMachine:
    return _target().create_target_machine(
        opt=2, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )


def lookup(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> Callable[[str], int]:
    """Compile a module to machine code that lives as long as the process."""
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    find: Callable[[str], int] = engine.get_function_address
    return find


@cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


def host_machine() -> llvm.TargetMachine:
    """Return this CPU as a target without optimisation: each operation compiles to a few instructions."""
    return _target().create_target_machine(
        opt=0, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )


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
