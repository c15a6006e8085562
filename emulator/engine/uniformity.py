"""Which registers hold the same value in all lanes that run together, by proof: they reach handlers as integers.

A register is uniform if every instruction that writes it computes the same in all lanes, and no branch on a varying
predicate lets some lanes write it and then meet others that did not.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulator.engine.effects import SHARED_SYMBOL, Effect, Source
from emulator.engine.liveness import Liveness
from emulator.isa.lanes import is_broadcast
from emulator.isa.moves import PARAMS
from emulator.ptx.flow import BasicBlock, Flow
from emulator.ptx.syntax import Dual, Instr, Reg, Special

_VARYING = ("%tid", "%laneid", "%lanemask")
_OTHER_SPACES = ("global", "shared", "param", "const")
_ALWAYS_UNIFORM = frozenset({"vote.sync", "redux.sync", "activemask"})


def varying_special(name: str) -> bool:
    """Whether a special register may differ between the lanes of a warp."""
    return name.startswith(_VARYING)


def varying(flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> set[Reg]:
    """The registers that may differ between lanes; all others are uniform."""
    return _Analysis(flow, effects, liveness).run()


def _may_be_local(load: Instr) -> bool:
    """Whether equal addresses may stand for the different local memories of the lanes."""
    return "local" in load.modifiers or not any(m.startswith(_OTHER_SPACES) for m in load.modifiers)


class _Analysis:
    def __init__(self, flow: Flow, effects: Sequence[Effect], liveness: Liveness) -> None:
        self._flow, self._effects, self._liveness = flow, effects, liveness
        self._varying: set[Reg] = set()
        self._split: set[int] = set()
        self._users: dict[Reg, list[Effect]] = {}
        for effect in effects:
            for source in effect.reads:
                if isinstance(source, Reg):
                    self._users.setdefault(source, []).append(effect)
        self._block_of = {id(effects[b.end - 1]): b for b in flow.blocks}

    def run(self) -> set[Reg]:
        work = list(self._effects)
        while work:
            effect = work.pop()
            changed = self._branch(effect) if effect.entry is None else self._spread(effect)
            for register in changed:
                if register not in self._varying:
                    self._varying.add(register)
                    work.extend(self._users.get(register, ()))
        return self._varying

    def _differs(self, source: Source) -> bool:
        if isinstance(source, Special):
            return source != PARAMS and not source.name.startswith(SHARED_SYMBOL) and varying_special(source.name)
        return source in self._varying

    def _spread(self, effect: Effect) -> tuple[Reg, ...]:
        """The destinations that vary because of what the instruction reads or is."""
        opcode = effect.instr.opcode
        guarded = effect.instr.guard is not None and self._differs(effect.instr.guard[0])
        if opcode in _ALWAYS_UNIFORM and not guarded:
            return ()
        if opcode == "elect.sync" and not guarded:
            to = effect.instr.operands[0]
            return effect.writes[1:] if isinstance(to, Dual) else ()
        if opcode == "shfl.sync" and not guarded and is_broadcast(effect.instr):
            lane = effect.instr.operands[2]
            if not (isinstance(lane, Reg) and self._differs(lane)):
                return ()
        assert effect.entry is not None
        if opcode == "ld" and _may_be_local(effect.instr):
            return effect.writes
        if not effect.entry.uniform or any(self._differs(source) for source in effect.reads):
            return effect.writes
        return ()

    def _branch(self, effect: Effect) -> list[Reg]:
        """What a branch on a varying predicate makes vary: what its sides write and is live where they meet."""
        block = self._block_of[id(effect)]
        guard = effect.instr.guard
        if guard is None or not self._differs(guard[0]) or block.index in self._split:
            return []
        self._split.add(block.index)
        if effect.instr.opcode != "bra":
            return []
        return self._separated(block)

    def _separated(self, block: BasicBlock) -> list[Reg]:
        region, joins = self._flow.apart(block)
        written = 0
        for index in region:
            inside = self._flow.blocks[index]
            for effect in self._effects[inside.start : inside.end]:
                written |= self._liveness.writes(effect)
        met = 0
        for join in joins:
            met |= self._liveness.live_in[join]
        return self._liveness.members(written & met)
