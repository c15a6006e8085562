"""Compilation of operations to machine code, and the loop that runs lists of them, in memory by llvmlite.

An operation takes the register file, the active lanes as bits, and its operands. A step is eight 64-bit words: the
operation's address, the offset of its result, then offsets or constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from .body import Body, link
from .load_store import LoadStore, LoadStoreBody, LoadStoreStep
from .python_call import DECLARED, builtin, wrapper
from .recorder import STEP_WORDS, Operation, Row, Step
from .shared_load_store import SharedLoadStoreBody
from .vector import BITS, FLOATS, Vec

_LOOP = """
define ptr @run(ptr %r, i32 %m, ptr %steps) nounwind {
entry:
  br label %next
next:
  %at = phi ptr [ %steps, %entry ], [ %after, %do ]
  %function = load ptr, ptr %at, align 8
  %ended = icmp eq ptr %function, null
  br i1 %ended, label %end, label %do
do:
  %operands = getelementptr i64, ptr %at, i64 1
  %after = call ptr %function(ptr %r, i32 %m, ptr %operands)
  %stopped = icmp eq ptr %after, null
  br i1 %stopped, label %stop, label %next
stop:
  ret ptr %at
end:
  ret ptr null
}
"""
_addresses: dict[Operation | LoadStore, int] = {}
_engines: list[llvm.ExecutionEngine] = []


class StepLists:
    """Lists of steps in memory, ready to run. The object must outlive their use."""

    def __init__(self, lists: Sequence[Sequence[Step | LoadStoreStep]]) -> None:
        _compile({step.operation for steps in lists for step in steps})
        total = sum(len(steps) + 1 for steps in lists)
        self._words = np.zeros((total, STEP_WORDS), np.uint64)
        self._starts: list[int] = []
        at = 0
        for steps in lists:
            self._starts.append(self._words.ctypes.data + at * STEP_WORDS * 8)
            if steps:
                self._words[at : at + len(steps)] = [_encoded(step) for step in steps]
            at += len(steps) + 1

    def address(self, index: int, step: int = 0) -> int:
        """Return the address of a list or of one of its steps, for `runner`."""
        return self._starts[index] + step * STEP_WORDS * 8


def _encoded(step: Step | LoadStoreStep) -> list[int]:
    words = [_addresses[step.operation]]
    for place in step.places if isinstance(step, LoadStoreStep) else (step.result, *step.places):
        words.append(place.offset if type(place) is Row else place if type(place) is int else 0)
    return words + [0] * (STEP_WORDS - len(words))


@cache
def runner() -> Callable[[int, int, int], int]:
    """Return `run(address of the register file, active lanes as bits, address of a list of steps)`.

    It returns the address of the step that stopped because it asks for its handler; 0 at the end of the list.
    """
    text = DECLARED + _LOOP + wrapper("run", ("ptr", "i32", "ptr"), "ptr")
    return builtin("run", optimised(text))


def _compile(operations: Iterable[Operation | LoadStore]) -> None:
    """Compile the operations that this process has not compiled yet."""
    missing = [operation for operation in operations if operation not in _addresses]
    if not missing:
        return
    written = [_function(f"operation{i}", operation) for i, operation in enumerate(missing)]
    text = link((text for text, _ in written), (body for _, body in written))
    find = _lookup(llvm.parse_assembly(text), host_machine())
    for i, operation in enumerate(missing):
        _addresses[operation] = find(f"operation{i}")


def _function(name: str, operation: Operation | LoadStore) -> tuple[str, Body]:
    """Return the definition of one operation."""
    body = _load_store(operation) if isinstance(operation, LoadStore) else _computation(operation)
    head = f"define ptr @{name}(ptr %r, i32 %m, ptr %w) nounwind {{"
    return "\n".join([head, *body.lines, "}"]), body


def _load_store(access: LoadStore) -> Body:
    body = SharedLoadStoreBody(access) if access.shared else LoadStoreBody(access)
    body.write()
    return body


def _computation(operation: Operation) -> Body:
    body = Body()
    operands = tuple(_operand(body, i, kind, mode) for i, (kind, mode) in enumerate(operation.operands))
    result = body.new(operation.template, operands)
    address = body.place(0)
    if result.kind == "i1":
        word = body.scalar(f"bitcast <32 x i1> {result.place} to i32")
        body.do(f"store i32 {word}, ptr {address}, align 4")
    else:
        body.do(f"store <32 x {result.kind}> {result.place}, ptr {address}, align 64")
    body.do(f"ret ptr {body.after()}")
    return body


def _operand(body: Body, index: int, kind: str, mode: str) -> Vec:
    if mode == "active":
        return Vec(body, body.scalar("bitcast i32 %m to <32 x i1>"), kind)
    if mode == "constant":
        return _constant(body, index, kind)
    address = body.place(index + 1)
    if kind == "i1":
        word = body.scalar(f"load i32, ptr {address}, align 4")
        return Vec(body, body.scalar(f"bitcast i32 {word} to <32 x i1>"), kind)
    return Vec(body, body.scalar(f"load <32 x {kind}>, ptr {address}, align 64"), kind)


def _constant(body: Body, index: int, kind: str) -> Vec:
    integer = f"i{BITS[kind]}"
    value = body.word(index + 1)
    if integer != "i64":
        value = body.scalar(f"trunc i64 {value} to {integer}")
    splat = body.splat(integer, value)
    if kind in FLOATS:
        splat = body.scalar(f"bitcast <32 x {integer}> {splat} to <32 x {kind}>")
    return Vec(body, splat, kind)


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
    return _lookup(module, machine)


def machine_code(text: str) -> Callable[[str], int]:
    """Compile an LLVM module that was optimised before and return a lookup of its functions' addresses."""
    return _lookup(llvm.parse_assembly(text), _optimising_machine())


def _optimising_machine() -> llvm.TargetMachine:
    return _target().create_target_machine(
        opt=2, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )


def _lookup(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> Callable[[str], int]:
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
