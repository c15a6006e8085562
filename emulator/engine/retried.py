"""Loads in loops that their own value decides, such as those that wait for a flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..isa.ld_st import STRONG
from ..ptx.dataflow import predecessors, reachable
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..ptx.syntax import Instr, Reg
from .effects import Effect


def retried(flow: Flow, effects: Sequence[Effect]) -> frozenset[Any] | None:
    """Return the strong loads, by `Instr.place`, that are in such a loop.

    None if the kernel has no strong load besides these, and no strong store.
    """
    strong = [at for at, effect in enumerate(effects) if is_strong(effect.instr)]
    again = {at for at in strong if effects[at].instr.kind is Kind.LOAD and _decides_its_loop(flow, effects, at)}
    return frozenset(effects[at].instr.place for at in again) if len(again) < len(strong) else None


def is_strong(instr: Instr) -> bool:
    """Return whether an instruction is an ld or st with an order, or volatile."""
    return instr.kind in (Kind.LOAD, Kind.STORE) and not STRONG.isdisjoint(instr.modifiers)


def _decides_its_loop(flow: Flow, effects: Sequence[Effect], at: int) -> bool:
    block = flow.block_with(at)
    after = reachable(block.successors, lambda index: flow.ways.get(index, ()))
    before = reachable([block.index], predecessors(flow.ways).__getitem__)
    loop = [e for index in after & before for e in effects[flow.blocks[index].start : flow.blocks[index].end]]
    held: set[Reg] = set()
    if block.index in after:
        held.update(effects[at].writes)
    for _ in range(len(loop) if held else 0):
        more = {r for e in loop if not held.isdisjoint(r for r in e.reads if isinstance(r, Reg)) for r in e.writes}
        if more <= held:
            break
        held |= more
    return any(e.instr.kind is Kind.BRANCH and e.instr.guard is not None and e.instr.guard[0] in held for e in loop)
