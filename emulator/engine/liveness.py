"""Liveness: the registers whose values are still needed, at the ends of blocks and within them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ptx.dataflow import predecessors, solve
from ..ptx.flow import Flow
from ..ptx.syntax import Reg
from .effects import Effect


class Liveness:
    """Sets of registers as bits of integers, by Hecht's backward iteration over blocks."""

    def __init__(self, flow: Flow, effects: Sequence[Effect]) -> None:
        self._number: dict[Reg, int] = {}
        self._names: list[Reg] = []
        self._effects = effects
        self._sets: dict[int, tuple[int, int]] = {}
        ends = [self._block(block.start, block.end) for block in flow.blocks]

        def at_start(block: int, live: int) -> int:
            used, defined = ends[block]
            return used | (live & ~defined)

        found = solve(predecessors(flow.ways), dict.fromkeys(flow.ways, 0), at_start, int.__or__, -1)
        self.live_out = [found[block.index] for block in flow.blocks]
        self.live_in = [at_start(block.index, found[block.index]) for block in flow.blocks]

    def reads(self, effect: Effect) -> int:
        """Return the set of the registers that an instruction reads."""
        return self._reads_and_writes(effect)[0]

    def writes(self, effect: Effect) -> int:
        """Return the set of the registers that an instruction writes."""
        return self._reads_and_writes(effect)[1]

    def _reads_and_writes(self, effect: Effect) -> tuple[int, int]:
        found = self._sets.get(id(effect))
        if found is None:
            found = self._sets[id(effect)] = self.bits(effect.reads), self.bits(effect.writes)
        return found

    def bit(self, register: Reg) -> int:
        """Return the set of this register alone."""
        number = self._number.get(register)
        if number is None:
            number = self._number[register] = len(self._names)
            self._names.append(register)
        return 1 << number

    def bits(self, registers: Iterable[object]) -> int:
        """Return the set of the registers among `registers`."""
        found = 0
        for register in registers:
            if isinstance(register, Reg):
                found |= self.bit(register)
        return found

    def members(self, bits: int) -> list[Reg]:
        """Return the registers of a set."""
        found = []
        while bits:
            low = bits & -bits
            found.append(self._names[low.bit_length() - 1])
            bits ^= low
        return found

    def before(self, effect: Effect, after: int) -> int:
        """Return the set live before an instruction, given the set live after it."""
        reads, writes = self._reads_and_writes(effect)
        return (after if effect.preserves else after & ~writes) | reads

    def unread_waits(self, flow: Flow) -> frozenset[int]:
        """Return the ids of the effects that ask for an mbarrier's phase and whose results nothing reads."""
        found = set[int]()
        for block in flow.blocks:
            after = self.live_out[block.index]
            for effect in reversed(self._effects[block.start : block.end]):
                if effect.instr.kind.asks_mbarrier and not self.writes(effect) & after:
                    found.add(id(effect))
                after = self.before(effect, after)
        return frozenset(found)

    def _block(self, start: int, end: int) -> tuple[int, int]:
        used = defined = 0
        for effect in self._effects[start:end]:
            reads, written = self._reads_and_writes(effect)
            used |= reads & ~defined
            if effect.preserves:
                used |= written & ~defined
            else:
                defined |= written
        return used, defined
