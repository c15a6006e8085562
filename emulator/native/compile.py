"""IR text to callable machine code, in this process, by llvmlite."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache

import llvmlite.binding as llvm

from emulator.native.vector import Code, define

RUN_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)


class NativeModule:
    """Compiled functions by name. Keep it alive as long as they are called."""

    def __init__(self, text: str) -> None:
        module = llvm.parse_assembly(text)
        self._engine = llvm.create_mcjit_compiler(module, host_machine())
        self._engine.finalize_object()

    def function(self, name: str) -> Callable[[int, int], None]:
        """`void name(register file, active lanes)`."""
        return RUN_TYPE(self._engine.get_function_address(name))


def link(definitions: Iterable[str], code: Iterable[Code]) -> str:
    """One module of `definitions` and all that their code refers to, each helper once."""
    texts = list(definitions)
    declarations: set[str] = set()
    defined: set[str] = set()
    work = list(code)
    while work:
        part = work.pop()
        declarations |= part.declarations
        for name, helper in part.helpers.items():
            if name not in defined:
                defined.add(name)
                text, needs = define(helper)
                texts.append(text)
                work.append(needs)
    return "\n".join([*sorted(declarations), *texts])


@cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


def host_machine() -> llvm.TargetMachine:
    """This CPU, without optimisation: measured 23 us a PTX instruction to compile, 2 to 3 ns to run."""
    return _target().create_target_machine(
        opt=0, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
