"""Taint tracking of a warp that loaded a suspect value: which registers hold it, or a value computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from ..errors import Fault, place
from ..isa.ld_st import MemoryOp
from ..isa.warp_matrices import Rows
from ..leniency import Leniency
from ..machine.convergence import receiving_lanes
from ..machine.reports.suspects import LoadedPart
from ..native.builder import Slot
from ..ptx.flow import EXIT, BasicBlock, Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Instr, Reg, Special, Vector
from .blocks import BlockWriter
from .effects import Effect, registers

STORES: Final[Mapping[Kind, Callable[[Instr], MemoryOp]]] = {Kind.STORE: MemoryOp, Kind.MATRIX_STORE: Rows}
Taint = tuple[int, Fault]
"""Tainted lanes, as bits, and the fault to report if the value is used."""


@dataclass(frozen=True)
class Choice:
    """The instructions that a branch skips, if it acts like selp: ids of their effects, registers they write."""

    effects: frozenset[int]
    registers: frozenset[Reg]


def choice(flow: Flow, effects: Sequence[Effect], at: int) -> Choice | None:
    """Return the code that the branch `at` skips if it only computes values within each lane, without a loop."""
    block = flow.block_with(at)
    region, _ = flow.divergent_region(block)
    if flow.post_dominator[block.index] == EXIT or block.index in region:
        return None
    passed = list[Effect]()
    for inside in (flow.blocks[index] for index in region):
        own = effects[inside.start : inside.end]
        others = (e for e in own if e.instr.kind is not Kind.BRANCH and (not e.inlined or e.crosses_lanes))
        if any(successor <= inside.index for successor in inside.successors) or any(others):
            return None
        passed += own
    return Choice(frozenset(map(id, passed)), frozenset(register for effect in passed for register in effect.writes))


class OneByOne(BlockWriter):
    """Writes one function for each instruction; no block is part of another's."""

    def skipped(self, block: BasicBlock) -> None:
        """Return None."""

    def _arms(self, *_: Any) -> list[str]:
        """Return nothing: `arms.Exchanges` brings the lanes of an exchange together."""
        return []


class TaintTracker:
    """The taint of one warp. slots: the places of registers. choice: see `choice`.

    whole: the register file with which the warp continues when nothing is tainted any more.
    """

    def __init__(
        self, warp: Any, slots: Mapping[Reg | Special, Slot], whole: Any, choice: Callable[[Effect], Choice | None]
    ) -> None:
        self._warp, self._slots, self.whole, self._choice = warp, slots, whole, choice
        self._chosen: list[tuple[Choice, Taint]] = []
        """Skipped instructions that the warp is in because of a tainted branch, with the branch's taint."""
        self._tainted: dict[Reg, Taint] = {}
        self._kept: list[Fault] = []
        self._read: list[tuple[Fault, LoadedPart]] = []

    def keep(self, fault: Fault, part: LoadedPart) -> None:
        """Taint a part of the result of the load in progress."""
        self._kept.append(fault)
        self._read.append((fault, part))

    def unused(self) -> Sequence[Fault]:
        """Return the faults of the loads whose values were not used yet."""
        return self._kept

    def any_tainted(self, live: set[Reg]) -> bool:
        """Return whether one of the `live` registers is tainted or may become so."""
        return bool(self._chosen) or not self._tainted.keys().isdisjoint(live)

    def lanes(self, effect: Effect) -> int:
        """Return the lanes that execute an instruction."""
        guard, bits = effect.instr.guard, int(self._warp.bits)
        if guard is None:
            return bits
        held = self._predicate(guard[0])
        return bits & (held if guard[1] else ~held)

    def before(self, effect: Effect, taken: int) -> Taint | None:
        """Return the taint of an instruction's results, before its execution. Reports a use of a tainted value."""
        guard = effect.instr.guard
        self._chosen = [(chosen, by) for chosen, by in self._chosen if id(effect) in chosen.effects]
        if guard is not None and (decides := self._of(guard[0], self._warp.bits)):
            if effect.instr.kind is Kind.BRANCH and (passed := self._choice(effect)) is not None:
                self._choose(passed, decides)
            else:
                self._used(effect, decides)
            return None
        held = _joined(h for source in effect.reads if isinstance(source, Reg) and (h := self._of(source, taken)))
        if held is None:
            return None
        if not effect.pure:
            if self._stored(effect, taken) is None:
                self._used(effect, held)
            return None
        if effect.instr.kind is Kind.SELECT:
            return self._selected(effect, taken)
        if not effect.crosses_lanes:
            return held
        return (receiving_lanes(effect.instr, held[0]) & taken, held[1])

    def after(self, effect: Effect, taken: int, result: Taint | None) -> None:
        """Taint the results of an instruction that was executed, or the shared memory that it stored to."""
        if (op := self._stored(effect, taken)) is not None:
            self._record_stored(effect, op, taken)
        for register in effect.writes:
            left, before = self._tainted.pop(register, (0, None))
            found = [(left & ~taken, before), *((lanes & taken, f) for lanes, f in self._brought(effect, register))]
            found += [(result[0] & taken, result[1])] if result is not None else []
            found += [(by[0] & taken, by[1]) for _, by in self._chosen]
            if held := _joined((lanes, fault) for lanes, fault in found if lanes and fault is not None):
                self._tainted[register] = held
        self._read.clear()

    def _choose(self, passed: Choice, by: Taint) -> None:
        """Taint what a branch skips: its registers depend on the branch in all lanes."""
        self._chosen.append((passed, by))
        for register in passed.registers:
            held = _joined([*([self._tainted[register]] if register in self._tainted else []), by])
            assert held is not None
            self._tainted[register] = held

    def _stored(self, effect: Effect, taken: int) -> MemoryOp | None:
        """Return an ordinary store to the CTA's own shared memory at untainted addresses as such; None for others."""
        op = STORES[effect.instr.kind](effect.instr) if effect.instr.kind in STORES else None
        if op is None or not op.own_cta or op.strong:
            return None
        (address,) = (source for source in effect.sources if isinstance(source, Address))
        held = any(self._of(register, taken) for register in registers(address) if isinstance(register, Reg))
        return None if held else op

    def _record_stored(self, effect: Effect, op: MemoryOp, taken: int) -> None:
        """Taint the shared memory to which tainted registers are stored."""
        data = effect.sources[1]
        items = data.items if isinstance(data, Vector) else (data,)
        parts = [(i, *held) for i, r in enumerate(items) if isinstance(r, Reg) and (held := self._of(r, taken))]
        if parts and isinstance(op, Rows):  # the lanes' data is not traced through stmatrix
            held = _joined(part[1:] for part in parts)
            assert held is not None
            self._warp.cta.smem.taint_last_store([(0, *held)], op.bytes, op.bytes)
        elif parts:
            self._warp.cta.smem.taint_last_store(parts, op.bytes // len(items), op.bytes)

    def _brought(self, effect: Effect, register: Reg) -> Iterator[Taint]:
        for fault, part in self._read:
            (to,) = effect.destinations
            items = to.items if isinstance(to, Vector) else (to,)
            if part.registers is None or any(items[i] == register for i in part.registers):
                yield part.lanes, fault

    def end(self) -> None:
        """End the tracking. Unused suspect values are formal findings."""
        for fault in self._kept:
            fault.grade(Leniency.UNUSED_LOAD)
            self._warp.cta.launch.report(fault)

    def _of(self, register: Reg, lanes: int) -> Taint | None:
        held = self._tainted.get(register)
        return (held[0] & lanes, held[1]) if held is not None and held[0] & lanes else None

    def _predicate(self, register: Reg) -> int:
        return int(self._warp.registers.words[self._slots[register].offset // 4])

    def _selected(self, effect: Effect, taken: int) -> Taint | None:
        """Return the taint of the value that a predicate selects, in each lane."""
        one, other, by = effect.sources
        assert isinstance(by, Reg)
        first = self._predicate(by)
        chosen = ((one, first), (other, ~first), (by, ~0))
        return _joined(held for r, lanes in chosen if isinstance(r, Reg) and (held := self._of(r, taken & lanes)))

    def _used(self, effect: Effect, held: Taint) -> None:
        """Report the use of a tainted value where others may see it."""
        fault = held[1]
        if fault not in self._kept:
            return
        self._kept.remove(fault)
        self._warp.cta.launch.report(fault.followed(("flows into", place(effect.instr, self._warp))))


def _joined(held: Iterable[Taint]) -> Taint | None:
    """Return the union of the tainted lanes, with the first fault."""
    found = list(held)
    return (reduce(int.__or__, (lanes for lanes, _ in found)), found[0][1]) if found else None
