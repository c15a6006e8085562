"""Reads of registers that no path has written: their values are undefined.

Compilers leave such reads in correct programs, where the value does not matter. They are formal, except those that
decide something (an address, a guard, an operand of the machine).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Level, UnwrittenRead
from ..isa.registry import Handler
from ..leniency import Grade, Leniency
from ..ptx.dataflow import forward
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Instr, TensorAddress
from .effects import Effect, registers
from .liveness import Liveness

_MOVES_DATA = frozenset({Kind.LOAD, Kind.STORE, Kind.TENSOR_STORE})


@dataclass(frozen=True)
class Unwritten:
    """A read of unwritten registers."""

    instr: Instr
    names: tuple[str, ...]
    level: Grade

    def report(self, warp: Any) -> None:
        """Report it, once per launch."""
        launch = warp.cta.launch
        known = launch.registry.setdefault(Unwritten, set())
        if id(self) not in known:
            known.add(id(self))
            what = f"{self.instr.opcode} reads {', '.join(self.names)}, which nothing wrote"
            launch.report(UnwrittenRead(what, self.instr, warp, level=self.level))


def unwritten(flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> dict[int, Unwritten]:
    """Return the reads of unwritten registers, by the id of their effects. A copy of such a register writes nothing."""
    wanted = liveness.live_in[0]
    if not wanted:
        return {}

    def at_end(block: int, written: int) -> int:
        for effect in effects[flow.blocks[block].start : flow.blocks[block].end]:
            written |= _written(effect, written, liveness)
        return written

    found = {}
    for index, written in forward(flow.ways, {0: 0}, at_end, int.__or__).items():
        for effect in effects[flow.blocks[index].start : flow.blocks[index].end]:
            missing = liveness.bits(_certain(effect)) & ~written
            if missing:
                found[id(effect)] = _fault(effect, missing, liveness)
            written |= _written(effect, written, liveness)
    return found


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


def _fault(effect: Effect, missing: int, liveness: Liveness) -> Unwritten:
    decides = missing & liveness.bits(_deciding(effect))
    names = tuple(register.name for register in liveness.members(decides or missing))
    return Unwritten(effect.instr, names, Level.FAULT if decides else Leniency.REGISTER_UNWRITTEN)


def _deciding(effect: Effect) -> list[object]:
    """Return the registers that decide where an instruction goes, what it accesses or what the machine does."""
    instr = effect.instr
    if instr.guard is not None:
        return [instr.guard[0]]
    every = isinstance(effect.entry, Handler) and instr.kind not in _MOVES_DATA
    operands = effect.sources if every else [o for o in effect.sources if isinstance(o, Address | TensorAddress)]
    return [register for operand in operands for register in registers(operand)]
