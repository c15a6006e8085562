"""Where a register may be used before the asynchronous load that writes it was waited for: tcgen05.ld, then a use, with
no tcgen05.wait::ld on some path between.

That such a path was taken is known when it runs: the warp has the load outstanding. A copy is no use: NVIDIA's compiler
puts the moves that pair registers between the load and the wait. What is copied is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..ptx.flow import EXIT, Flow
from ..ptx.syntax import Instr, Reg
from .effects import Effect

LOAD = "tcgen05.ld"
WAIT = "tcgen05.wait::ld"
EarlyUse = tuple[Instr, str]
"""A load that may be outstanding, and the register of it, or copy of such, that is used."""
_Late = dict[Reg, frozenset[int]]
"""Registers that loads may still have to write, or copies of such: the loads, as indices of effects."""


def early_uses(flow: Flow, effects: Sequence[Effect]) -> dict[int, list[EarlyUse]]:
    """The uses of each instruction that makes some, by the id of its effect."""
    found: dict[int, list[EarlyUse]] = {}
    if not any(effect.instr.opcode == LOAD for effect in effects):
        return found
    at_start: list[_Late] = [{} for _ in flow.blocks]
    work = list(flow.blocks)
    while work:
        block = work.pop()
        late = dict(at_start[block.index])
        for at in range(block.start, block.end):
            _follow(late, at, effects[at])
        for successor in block.successors:
            if successor != EXIT and _join(at_start[successor], late):
                work.append(flow.blocks[successor])
    for block in flow.blocks:
        late = dict(at_start[block.index])
        for at in range(block.start, block.end):
            if uses := [(effects[load].instr, name) for load, name in _uses(late, effects[at], effects)]:
                found[id(effects[at])] = uses
            _follow(late, at, effects[at])
    return found


def _join(into: _Late, late: _Late) -> bool:
    """Add what a path leads to; whether that is more than was known."""
    grown = False
    for register, loads in late.items():
        known = into.get(register, frozenset())
        if not loads <= known:
            into[register] = known | loads
            grown = True
    return grown


def _copies(effect: Effect) -> bool:
    return effect.instr.opcode == "mov"


def _follow(late: _Late, at: int, effect: Effect) -> None:
    """What is late after an instruction, given what is before it."""
    opcode = effect.instr.opcode
    if opcode == WAIT and not effect.preserves:
        late.clear()
    elif opcode == LOAD:
        late |= dict.fromkeys(effect.writes, frozenset((at,)))
    elif late:
        copied = frozenset[int]()
        if _copies(effect):
            copied = copied.union(*(late[r] for r in effect.reads if isinstance(r, Reg) and r in late))
        for register in effect.writes:
            kept = late.pop(register, frozenset()) if effect.preserves else frozenset()
            if kept or copied:
                late[register] = kept | copied


def _uses(late: _Late, effect: Effect, effects: Sequence[Effect]) -> Iterator[tuple[int, str]]:
    """The loads and registers that an instruction uses: it reads them, or writes over what a load may yet write."""
    if not late:
        return
    for register in () if _copies(effect) else effect.reads:
        if isinstance(register, Reg):
            yield from ((load, register.name) for load in late.get(register, ()))
    for register in () if effect.instr.opcode == LOAD else effect.writes:
        yield from ((load, register.name) for load in late.get(register, ()) if register in effects[load].writes)


def first_uses(effects: Sequence[Effect], early: Mapping[int, Sequence[EarlyUse]]) -> dict[int, tuple[Instr, str]]:
    """Of each load that one of the `effects` may use early, by the load's id, the first that does, and the register."""
    found: dict[int, tuple[Instr, str]] = {}
    for effect in effects:
        for load, name in early.get(id(effect), ()):
            found.setdefault(id(load), (effect.instr, name))
    return found
