"""Handlers of the skeleton's instructions by opcode. Each appends operations for the timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ...isa import registry
from ...isa.ld_st import STRONG
from ...isa.registry import Action, Handler, Lowering, never_communicates, never_uniform, no_hidden_reads
from ...ptx.syntax import Instr, Operand
from ..stretch import TENSOR_LOAD
from ..warps import TimedWarp

STRETCH: Final = "clock.stretch"
AWAIT_LOAD: Final = "clock.loaded"
ENTRIES: Final[dict[str, Handler]] = {}
KEPT: Final[dict[str, Callable[[Instr], Instr]]] = {}
"""By opcode, a function that reduces an instruction to the operands that its handler here takes, destinations first."""


def find(instr: Instr) -> Handler | Lowering:
    """Return the registry entry of a skeleton's instruction."""
    return ENTRIES.get(instr.opcode) or registry.find(instr)


def timed(
    *opcodes: str,
    keep: Callable[[Instr], Sequence[Operand]] = lambda instr: (),
    dst: int = 0,
    blocking: bool = False,
    uniform: Any = never_uniform,
) -> Callable[[Callable[[Instr], Action]], Callable[[Instr], Action]]:
    """Register the handler of `opcodes`. keep: selects the operands that the handler takes."""

    def kept(instr: Instr) -> Instr:
        return replace(instr, operands=tuple(keep(instr)))

    def register(make: Callable[[Instr], Action]) -> Callable[[Instr], Action]:
        for opcode in opcodes:
            ENTRIES[opcode] = Handler(dst, uniform, no_hidden_reads, never_communicates, make, blocking)
            KEPT[opcode] = kept
        return make

    return register


def first(count: int) -> Callable[[Instr], Sequence[Operand]]:
    """Return a selector of the first `count` operands."""
    return lambda instr: instr.operands[:count]


def everything(instr: Instr) -> Sequence[Operand]:
    return instr.operands


def is_global_store(instr: Instr) -> bool:
    """Return True for a store to global memory, which takes machine time whatever it stores."""
    return instr.opcode == "st" and "global" in instr.modifiers


def waits_at_first_use(instr: Instr) -> bool:
    """Return True for a load for which a warp waits at the first use of its value.

    A warp waits for a strong load at once, because it may poll until another warp has stored.
    """
    kinds = frozenset(instr.modifiers)
    return instr.opcode == TENSOR_LOAD or (instr.opcode == "ld" and kinds.isdisjoint({*STRONG, "mmio", "param"}))


@timed(STRETCH, keep=everything)
def _stretch(ins: Instr) -> Action:
    def begin(warp: TimedWarp, now: float, number: int) -> float:
        warp.timeline.begin(warp, number)
        return now

    return lambda warp, mask, number: warp.ops.append((begin, number))


def idle(warp: TimedWarp, now: float, done: float, ins: Instr, what: str) -> float:
    """Wait until a known time."""
    if done <= now:
        warp.visited(ins, what)
        return now
    warp.waited(ins, what, done - now)
    if warp.timeline.recorder is not None:
        warp.timeline.recorder.waited(warp, ins, what, now, done)
    return done
