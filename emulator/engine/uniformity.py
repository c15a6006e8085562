"""Uniform registers, proved to hold the same value in all lanes that run together. Handlers get them as integers.

A register is uniform if every instruction that writes it computes the same in all lanes, and no branch on a varying
predicate lets some lanes write it and then meet others that did not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

from ..chip import LANES
from ..isa import special_registers
from ..ptx.dataflow import reachable
from ..ptx.flow import BasicBlock, Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Operand, Reg, Special
from .effects import Effect, Source
from .liveness import Liveness

_THREAD: Final = Special("%tid.x")
_LANE_BITS: Final = LANES.bit_length() - 1


def varying(flow: Flow, effects: Sequence[Effect], liveness: Liveness, row: bool = False) -> set[Reg]:
    """Return the registers that may differ between lanes; all others are uniform.

    row: a block is known to be one row of threads, so that %tid.x / 32 is uniform.
    """
    return _Analysis(flow, effects, liveness, _warp_numbers(effects) if row else set()).run()


def _warp_numbers(effects: Sequence[Effect]) -> set[int]:
    """Return the ids of effects that shift a copy of %tid.x so far right that the result is uniform."""
    writers = Counter(register for effect in effects for register in effect.writes)
    copies = {
        effect.writes[0]
        for effect in effects
        if effect.instr.kind is Kind.MOVE and effect.reads == (_THREAD,) and writers[effect.writes[0]] == 1
    }
    return {id(effect) for effect in effects if _shifted(effect.instr, copies)}


def _shifted(instr: Instr, threads: Container[Operand]) -> bool:
    match instr.kind, instr.operands:
        case Kind.SHIFT_RIGHT, (_, source, Imm(bits)):
            return source in threads and bits >= _LANE_BITS
    return False


class _Analysis:
    def __init__(self, flow: Flow, effects: Sequence[Effect], liveness: Liveness, warp_numbers: Container[int]) -> None:
        self._flow, self._effects, self._liveness, self._warp_numbers = flow, effects, liveness, warp_numbers
        self._varying: set[Source] = set()
        self._split: set[int] = set()
        self._users: dict[Reg, list[Effect]] = {}
        for effect in effects:
            for source in effect.reads:
                if isinstance(source, Reg):
                    self._users.setdefault(source, []).append(effect)
        self._block_of = {id(effects[b.end - 1]): b for b in flow.blocks}

    def run(self) -> set[Reg]:
        specials = {source for effect in self._effects for source in effect.reads if isinstance(source, Special)}
        self._varying |= {special for special in specials if special_registers.varies(special)}
        found = reachable([r for effect in self._effects for r in self._made_varying(effect)], self._from)
        return found

    def _from(self, register: Reg) -> list[Reg]:
        """Return the registers that vary because this one does."""
        self._varying.add(register)
        return [r for effect in self._users.get(register, ()) for r in self._made_varying(effect)]

    def _made_varying(self, effect: Effect) -> Sequence[Reg]:
        return self._branch(effect) if effect.entry is None else self._spread(effect)

    def _spread(self, effect: Effect) -> Sequence[Reg]:
        """Return the destinations that vary because of an instruction's operands or kind."""
        guard = effect.instr.guard
        if guard is not None and guard[0] in self._varying:
            return effect.writes
        if id(effect) in self._warp_numbers:
            return []
        return [
            register
            for register, deciders in effect.results
            if deciders is None or not self._varying.isdisjoint(deciders)
        ]

    def _branch(self, effect: Effect) -> list[Reg]:
        """Return the registers that a varying branch makes vary: written on its sides and live where they meet."""
        block = self._block_of[id(effect)]
        guard = effect.instr.guard
        if guard is None or guard[0] not in self._varying or block.index in self._split:
            return []
        self._split.add(block.index)
        if effect.instr.kind is not Kind.BRANCH:
            return []
        return self._separated(block)

    def _separated(self, block: BasicBlock) -> list[Reg]:
        region, joins = self._flow.divergent_region(block)
        written = 0
        for index in region:
            inside = self._flow.blocks[index]
            for effect in self._effects[inside.start : inside.end]:
                written |= self._liveness.writes(effect)
        met = 0
        for join in joins:
            met |= self._liveness.live_in[join]
        return self._liveness.members(written & met)
