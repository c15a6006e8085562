"""Compilation of operations to machine code, and the loop that runs lists of them, in memory by llvmlite.

An operation takes the register file, the active lanes as bits, and its operands. A step is eight 64-bit words: the
operation's address, the offset of its result, then offsets or constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from .code import STEP_WORDS, Body, Operation, Row, Step, link
from .load_store import LoadStoreStep, operations
from .machine import DECLARED, builtin, host_machine, lookup, optimised, wrapper
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
_addresses: dict[Operation, int] = {}


class StepLists:
    """Lists of steps in memory, ready to run. The object must outlive their use."""

    def __init__(self, lists: Sequence[Sequence[Step | LoadStoreStep]]) -> None:
        _compile({step.operation for steps in lists for step in steps if isinstance(step, Step)})
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
    if isinstance(step, LoadStoreStep):
        access = step.operation
        address, places = operations()[access.shared, access.store], (*step.places, access.form)
    else:
        address, places = _addresses[step.operation], (step.result, *step.places)
    words = [place.offset if type(place) is Row else place if type(place) is int else 0 for place in places]
    return [address, *words] + [0] * (STEP_WORDS - 1 - len(words))


@cache
def runner() -> Callable[[int, int, int], int]:
    """Return `run(address of the register file, active lanes as bits, address of a list of steps)`.

    It returns the address of the step that stopped because it asks for its handler; 0 at the end of the list.
    """
    text = DECLARED + _LOOP + wrapper("run", ("ptr", "i32", "ptr"), "ptr")
    return builtin("run", optimised(text))


def _compile(operations: Iterable[Operation]) -> None:
    """Compile the operations that this process has not compiled yet."""
    missing = [operation for operation in operations if operation not in _addresses]
    if not missing:
        return
    written = [_function(f"operation{i}", operation) for i, operation in enumerate(missing)]
    text = link((text for text, _ in written), (body for _, body in written))
    find = lookup(llvm.parse_assembly(text), host_machine())
    for i, operation in enumerate(missing):
        _addresses[operation] = find(f"operation{i}")


def _function(name: str, operation: Operation) -> tuple[str, Body]:
    """Return the definition of one operation."""
    body = _computation(operation)
    head = f"define ptr @{name}(ptr %r, i32 %m, ptr %w) nounwind {{"
    return "\n".join([head, *body.lines, "}"]), body


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
