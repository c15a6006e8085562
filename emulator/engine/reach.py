"""Which stores the value of a load may come to, if it comes to nothing else; and which loads a barrier follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..isa.barrier import BARRIERS, is_aligned
from ..ptx.flow import EXIT, Flow
from ..ptx.syntax import Address, Instr, Reg
from .blocks import EXCHANGES
from .effects import Effect, registers
from .watch import COMPUTES, choice


@dataclass(frozen=True)
class Reach:
    """The numbers of the stores, and whether it comes there from other lanes too."""

    stores: frozenset[int]
    exchanged: bool


def reach(flow: Flow, effects: Sequence[Effect], stores: Mapping[int, int], at: int) -> Reach | None:
    """Where what the load `at` brings may go; None if elsewhere than into what some of `stores` store.

    stores: their numbers by the id of the effect. What is computed from it counts as it does.
    """
    found, exchanged, chosen = set[int](), False, set[int]()
    held: list[frozenset[Reg]] = [frozenset()] * len(flow.blocks)
    (first,) = (block for block in flow.blocks if block.start <= at < block.end)
    work = [(first, at + 1, frozenset(effects[at].writes))]
    while work:
        block, start, registers_held = work.pop()
        holding = set(registers_held)
        for index, effect in enumerate(effects[start : block.end], start):
            taken = holding.intersection(r for r in effect.reads if isinstance(r, Reg))
            if not taken:
                if id(effect) in chosen:
                    holding |= set(effect.writes)
                elif not effect.preserves:
                    holding -= set(effect.writes)
                continue
            if effect.instr.opcode == "bra":
                if (passed := choice(flow, effects, index)) is None:
                    return None
                chosen |= passed.effects
                holding |= passed.registers
                continue
            if not _computes(effect):
                if id(effect) not in stores or taken & _decides(effect):
                    return None
                found.add(stores[id(effect)])
            elif effect.instr.guard is not None and effect.instr.guard[0] in taken:
                return None
            exchanged |= effect.instr.opcode in EXCHANGES or effect.instr.opcode in COMPUTES
            holding |= set(effect.writes)
        for successor in block.successors:
            if successor != EXIT and not holding <= held[successor]:
                held[successor] |= holding
                work.append((flow.blocks[successor], flow.blocks[successor].start, held[successor]))
    return Reach(frozenset(found), exchanged)


class Meetings:
    """Of a kernel, behind which loads warps meet."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._joined = {s for block in flow.blocks for s in block.successors if s != block.index + 1}

    def behind(self, at: int) -> bool:
        """Whether the lanes that execute the instruction `at` go straight on to arrive at a barrier of the CTA."""
        blocks, instrs = self._flow.blocks, self._flow.kernel.instrs
        (block,) = (block for block in blocks if block.start <= at < block.end)
        while not any(_meets(instr) for instr in instrs[at + 1 : block.end]):
            following = block.index + 1
            if block.successors != (following,) or following in self._joined:
                return False
            block, at = blocks[following], block.end - 1
        return True


def _meets(instr: Instr) -> bool:
    return instr.opcode in BARRIERS and is_aligned(instr) and instr.guard is None


def _computes(effect: Effect) -> bool:
    return effect.entry is not None and (effect.inlined or effect.instr.opcode in COMPUTES)


def _decides(effect: Effect) -> set[Reg]:
    """The registers of an instruction's guard and addresses."""
    operands = [o for o in effect.sources if isinstance(o, Address)]
    guard = effect.instr.guard
    found = {r for operand in operands for r in registers(operand) if isinstance(r, Reg)}
    return found if guard is None else found | {guard[0]}
