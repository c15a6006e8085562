"""Loops that poll global memory until another CTA has stored or arrived.

The clock executes a few clusters and computes nothing that they store, so a poll would never end. All clusters are
assumed to be equally fast: a poll succeeds at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..engine.effects import Effect, effects
from ..isa.ld_st import STRONG
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr, Kernel, Reg, Symbol
from .operations import operation

STEPS: Final = 64
"""The maximum number of instructions of a loop that polls."""


def without_polls(kernel: Kernel, variables: Mapping[str, int]) -> tuple[Kernel, Sequence[Effect], tuple[Instr, ...]]:
    """Return a kernel whose polling loops end after one round, its effects, and the branches that repeated them.

    variables: host addresses of the module's variables.
    """
    found = effects(kernel, variables)
    instrs, labels = list(kernel.instrs), dict(kernel.labels)
    repeated = []
    for i, instr in enumerate(kernel.instrs):
        if (exit_at := _exit(kernel, found, i)) is None:
            continue
        label = f"clock.poll {i}"
        labels[label] = exit_at
        instrs[i] = replace(instr, operands=(Symbol(label),), guard=None)
        repeated.append(instr)
    if not repeated:
        return kernel, found, ()
    kernel = replace(kernel, instrs=tuple(instrs), labels=labels)
    return kernel, effects(kernel, variables), tuple(repeated)


def _exit(kernel: Kernel, found: Sequence[Effect], branch: int) -> int | None:
    """Return the exit of a polling loop that ends with this branch, taken if its poll succeeds; None for others."""
    start = _target(kernel, branch)
    if start is None or not 0 <= branch - start < STEPS:
        return None
    body = range(start, branch + 1)
    if not all(_may_poll(kernel.instrs[i]) for i in body):
        return None
    polled = _polled(found, body)
    for i in body:
        guard = kernel.instrs[i].guard
        to = _target(kernel, i)
        if to is None or guard is None or guard[0] not in polled:
            continue
        if i == branch:
            return branch + 1
        if to not in body:
            return to
    return None


def _target(kernel: Kernel, i: int) -> int | None:
    """Return the index to which a branch goes, None for anything else."""
    instr = kernel.instrs[i]
    if instr.kind is not Kind.BRANCH or not isinstance(instr.operands[0], Symbol):
        return None
    return kernel.labels.get(instr.operands[0].name)


def _polls(instr: Instr) -> bool:
    """Return True for an access whose result another CTA may change."""
    if any(m.startswith(("shared", "local", "param", "const")) for m in instr.modifiers):
        return False
    return instr.kind is Kind.ATOMIC or (instr.kind is Kind.LOAD and not STRONG.isdisjoint(instr.modifiers))


def _may_poll(instr: Instr) -> bool:
    """Return True for an instruction of a polling loop: no operation but polls, so that its rounds are equal."""
    return instr.kind is not Kind.EXIT and (operation(instr) is None or _polls(instr))


def _polled(found: Sequence[Effect], body: range) -> set[Reg]:
    """Return the registers that follow from what the loop polls."""
    polled: set[Reg] = set()
    for _ in range(2):
        for i in body:
            if _polls(found[i].instr) or not polled.isdisjoint(found[i].reads):
                polled.update(found[i].writes)
    return polled
