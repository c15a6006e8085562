"""Loads of global memory that a warp waits for in a later block than the one that issues them.

A GPU tracks the registers of loads by scoreboards: a warp goes on across branches and barriers until an instruction
uses the value. Fences of memory, those of proxies too, become MEMBAR in machine code, which waits for loads as well.
A load that is executed again while its value is still on its way waits, because it would need another register.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..engine.effects import Effect
from ..isa.registry import Timing
from ..ptx.flow import Flow
from ..ptx.syntax import Reg

FENCES: Final = ("fence", "fence.proxy", "membar")
Held = Mapping[Reg, frozenset[int]]
"""The loads that no instruction has waited for, as negated PTX lines, by the registers that hold their values."""
NONE: Final = frozenset[int]()


def carried(flow: Flow, found: Sequence[Effect], is_carried: Callable[[Effect], bool]) -> Mapping[int, Held]:
    """Return what registers hold before each block, by the block's first instruction.

    found: the effects of the instructions. is_carried: returns True for a load that a warp need not wait for in its
    block.
    """
    loads = {i: -effect.instr.line for i, effect in enumerate(found) if is_carried(effect)}

    def follow(held: dict[Reg, frozenset[int]], at: int) -> dict[Reg, frozenset[int]]:
        if not held and at not in loads:
            return held
        effect = found[at]
        read = NONE.union(*(held.get(r, NONE) for r in effect.reads if isinstance(r, Reg)))
        new = read if effect.entry is not None and effect.entry.timing is Timing.FREE else NONE
        waited = NONE.union(*held.values()) if is_fence(effect) else read - new
        if at in loads:
            new = frozenset({loads[at]})
            waited |= new
        if waited:
            held = {register: left for register, lines in held.items() if (left := lines - waited)}
        for register in effect.writes:
            kept = held.get(register, NONE) if effect.instr.guard and at not in loads else NONE
            held[register] = new | kept
        return {register: lines for register, lines in held.items() if lines}

    def join(one: dict[Reg, frozenset[int]], other: dict[Reg, frozenset[int]]) -> dict[Reg, frozenset[int]]:
        return {register: one.get(register, NONE) | other.get(register, NONE) for register in one.keys() | other.keys()}

    nothing: dict[Reg, frozenset[int]] = {}
    starts = {block.start for block in flow.blocks}
    each = flow.before_each(nothing, follow, join, dict) if loads else ()
    return {at: dict(held) for at, held in each if at in starts and held}


def is_fence(effect: Effect) -> bool:
    """Return True for a fence that waits for the warp's loads."""
    return effect.instr.opcode in FENCES
