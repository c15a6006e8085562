"""Reads of registers that no path has written: their values are undefined.

Compilers leave such reads in correct programs, where the value does not matter. They are formal, except those that
decide something (an address, a guard, an operand of the machine).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import Level, UnwrittenRead
from ..isa.registry import Handler
from ..leniency import Leniency
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, TensorAddress
from .effects import Effect, registers
from .liveness import Liveness
from .static_fault import StaticFault

_MOVES_DATA = frozenset({Kind.LOAD, Kind.STORE, Kind.TENSOR_STORE})


def unwritten(flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> dict[int, StaticFault]:
    """Return the reads of unwritten registers, by the id of their effects. A copy of such a register writes nothing."""
    if not liveness.live_in[0]:
        return {}

    def follow(written: int, at: int) -> int:
        return written | _written(effects[at], written, liveness)

    return {
        id(effects[at]): _fault(effects[at], missing, liveness)
        for at, written in flow.before_each(0, follow, int.__or__)
        if (missing := liveness.bits(_certain(effects[at])) & ~written)
    }


def _written(effect: Effect, before: int, liveness: Liveness) -> int:
    copies = effect.instr.kind is Kind.MOVE and effect.instr.guard is None
    reads = liveness.reads(effect)
    return 0 if copies and reads and not reads & before else liveness.writes(effect)


def _certain(effect: Effect) -> tuple[object, ...]:
    """Return the operands that are read in any case: the guard of a guarded instruction, but no accumulator of an MMA.

    The MMA may ignore its accumulator.
    """
    guard = effect.instr.guard
    if guard is None and effect.instr.kind is Kind.GROUP_MMA:
        return tuple(register for operand in effect.sources[1:] for register in registers(operand))
    return effect.reads if guard is None else (guard[0],)


def _fault(effect: Effect, missing: int, liveness: Liveness) -> StaticFault:
    decides = missing & liveness.bits(_deciding(effect))
    names = ", ".join(register.name for register in liveness.members(decides or missing))
    what = f"{effect.instr.opcode} reads {names}, which nothing wrote"
    return StaticFault(UnwrittenRead, what, effect.instr, Level.FAULT if decides else Leniency.REGISTER_UNWRITTEN)


def _deciding(effect: Effect) -> list[object]:
    """Return the registers that decide where an instruction goes, what it accesses or what the machine does."""
    instr = effect.instr
    if instr.guard is not None:
        return [instr.guard[0]]
    every = isinstance(effect.entry, Handler) and instr.kind not in _MOVES_DATA
    operands = effect.sources if every else [o for o in effect.sources if isinstance(o, Address | TensorAddress)]
    return [register for operand in operands for register in registers(operand)]
