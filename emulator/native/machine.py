"""LLVM modules as machine code of this CPU, in memory by llvmlite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

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
