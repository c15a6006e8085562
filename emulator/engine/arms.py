"""Shuffles, votes and barriers of diverged lanes, which meet by the member mask even at different instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chip import ALL_LANES, LANES
from ..errors import UnknownInstruction
from ..machine.convergence import diverged
from ..ptx.flow import EXIT
from ..ptx.syntax import Imm, Instr, Not, Operand, Reg, Special
from .code import Code
from .divergence import Arm, arms, change, lanes_of, rejoin, resume, take
from .effects import Effect


class Exchanges:
    """The exchanges of a kernel between lanes in several arms. code: with one block for each instruction."""

    def __init__(self, code: Code, effects: Sequence[Effect]) -> None:
        self._code, self._effects = code, effects

    def settle(self, warp: Any) -> bool:
        """Execute exchanges whose lanes are in several places, until the active lanes can execute their instruction.

        Return False if the warp has ended.
        """
        while warp.pc != EXIT and (warp.stack or warp.ahead) and not self._ready(warp):
            pass
        warp.done = warp.pc == EXIT
        return not warp.done

    def change_arm(self, warp: Any, turn: int) -> bool:
        """Let another arm of a warp run, because the active one waits. Return False if there is none.

        turn: the number of changes since a wait ended. Lanes that wait for others at the end of a branch run ahead of
        them only once every other arm had a turn.
        """
        every = arms(warp)
        free = [arm for arm in every[:0:-1] if arm.at != EXIT and not self._missing(warp, arm, every)[0]]
        inside = [arm for arm in free if not arm.waits]
        ahead = [arm for arm in free if arm.waits]
        chosen = (ahead if turn >= len(inside) else inside) or inside or ahead
        if chosen:
            change(warp, chosen[0])
        return bool(chosen)

    def _ready(self, warp: Any) -> bool:
        """Return whether the active lanes execute their instruction next.

        If not, all lanes of an exchange in several places have executed it, or another arm is active now.
        """
        if warp.bits | warp.ended == ALL_LANES:
            warp.ahead = 0
            return True
        every = arms(warp)
        missing, partners = self._missing(warp, every[0], every)
        if not missing:
            joined = [self._join(warp, arm) for arm in partners]
            if any(joined):
                return self._ready(warp)
            if partners:
                self._exchange(warp, [every[0], *partners])
            return not partners
        others = sorted(every[:0:-1], key=lambda arm: arm.waits)
        for arm in others:
            if arm.at != EXIT and not self._missing(warp, arm, every)[0]:
                change(warp, arm)
                return False
        effect, absent = self._effects[warp.pc], missing
        members = self._members(effect, warp, every[0])
        warp.cta.launch.report(diverged(effect.instr, warp, warp.bits, members, absent))
        return True

    def _members(self, effect: Effect, warp: Any, arm: Arm) -> int:
        """Return the lanes that an instruction needs: its mask's, or at a barrier all lanes if some are ahead."""
        instr, mask = effect.instr, effect.membermask
        if isinstance(mask, Imm) and instr.guard is None:
            return mask.value & ALL_LANES
        if (arm.waits or warp.ahead) and _is_barrier(instr):
            return ALL_LANES
        return 0

    def _missing(self, warp: Any, arm: Arm, every: Sequence[Arm]) -> tuple[int, list[Arm]]:
        """Return the lanes that an arm's instruction still waits for, and the other arms that are at it."""
        effect = self._effects[arm.at]
        missing = self._members(effect, warp, arm) & ~(arm.lanes | warp.ended)
        partners = []
        for other in every if missing else ():
            if other is arm or not other.lanes & missing:
                continue
            if other.at in warp.leaves:
                missing &= ~other.lanes
            elif not other.waits and (arm.at == other.at or self._meet(warp, arm, other)):
                missing &= ~other.lanes
                partners.append(other)
        return missing, partners

    def _meet(self, warp: Any, arm: Arm, other: Arm) -> bool:
        """Return whether lanes at two instructions meet there: both have the same qualifiers and the same member mask.

        Lanes that are ahead do not meet others at an instruction whose mask the compiler knows to be all lanes: an
        H100 executes it without waiting for the other arms, and these wait forever.
        """
        one, two = self._effects[arm.at], self._effects[other.at]
        if one.membermask is None or two.instr.guard is not None:
            return False
        if (arm.waits or warp.ahead & (arm.lanes | other.lanes)) and not {arm.at, other.at} <= self._code.writer.parted:
            return False
        mine, theirs = one.instr, two.instr
        return (mine.opcode, mine.modifiers, one.membermask) == (theirs.opcode, theirs.modifiers, two.membermask)

    def _join(self, warp: Any, arm: Arm) -> bool:
        """Merge the active lanes with an arm at the same instruction, if both reconverge at the same place."""
        if (arm.at, arm.meet) != (warp.pc, warp.meet):
            return False
        take(warp, arm)
        resume(warp, warp.bits | arm.lanes)
        warp.ahead &= ~warp.bits
        return True

    def _exchange(self, warp: Any, partners: Sequence[Arm]) -> None:
        """Execute one exchange whose lanes are at several instructions, in each of them with the operands of all."""
        everyone = sum(arm.lanes for arm in partners)
        given = self._operands(warp, partners)
        results, following = [], []
        active = warp.pc, warp.bits
        for arm in partners:
            effect = self._effects[arm.at]
            sources = [(_register(operand), operand) for operand in effect.sources[:-1]]
            touched = {*(r for r, _ in sources if r is not None), *effect.writes}
            before = {register: self._row(warp, register).copy() for register in touched}
            for (register, operand), value in zip(sources, given, strict=True):
                if register is not None:
                    self._put(warp, register, ~value if isinstance(operand, Not) else value, everyone)
                elif isinstance(operand, Imm) and (value[lanes_of(everyone)] != value[lanes_of(arm.lanes)][0]).any():
                    raise UnknownInstruction(
                        effect.instr, "not modelled: a constant here, another value in the other arm"
                    )
            warp.pc = arm.at
            resume(warp, everyone)
            following.append((self._code.functions[arm.at] or self._code.write(arm.at))(warp))
            results.append({register: self._row(warp, register).copy() for register in effect.writes})
            for register, row in before.items():
                self._put(warp, register, row, ALL_LANES)
        for arm, result in zip(partners, results, strict=True):
            for register, row in result.items():
                self._put(warp, register, row, arm.lanes)
        for arm, to in zip(partners[1:], following[1:], strict=True):
            assert arm.place is not None
            warp.stack[arm.place] = to, arm.lanes, arm.meet
        warp.executed += len(partners)
        resume(warp, active[1])
        warp.pc = rejoin(warp, following[0]) if following[0] == warp.meet else following[0]

    def _operands(self, warp: Any, partners: Sequence[Arm]) -> list[np.ndarray]:
        """Return each operand of an exchange except the mask. Each lane has the operand of its own arm."""
        found: list[np.ndarray] = []
        for arm in partners:
            for number, operand in enumerate(self._effects[arm.at].sources[:-1]):
                value = self._value(warp, operand)
                if number == len(found):
                    found.append(value.copy())
                np.copyto(found[number], value, where=lanes_of(arm.lanes), casting="unsafe")
        return found

    def _value(self, warp: Any, operand: Operand) -> np.ndarray:
        if isinstance(operand, Imm):
            return np.full(LANES, operand.value & 0xFFFF_FFFF, np.uint32)
        register = _register(operand)
        assert register is not None
        row = self._row(warp, register)
        return ~row if isinstance(operand, Not) else row

    def _row(self, warp: Any, register: Reg | Special) -> np.ndarray:
        slot = self._code.placement.slots.get(register)
        if slot is None:
            return np.zeros(LANES, np.uint32)  # nothing reads it
        if slot.type == "pred":
            return lanes_of(int(warp.registers.words[slot.offset // 4]))
        row: np.ndarray = warp.registers.rows(slot.type)[slot.row]
        return row

    def _put(self, warp: Any, register: Reg | Special, value: np.ndarray, lanes: int) -> None:
        slot = self._code.placement.slots.get(register)
        if slot is None:
            return
        if slot.type != "pred":
            np.copyto(warp.registers.rows(slot.type)[slot.row], value, where=lanes_of(lanes), casting="unsafe")
            return
        words, at = warp.registers.words, slot.offset // 4
        bits = int.from_bytes(np.packbits(value.astype(bool), bitorder="little").tobytes(), "little")
        words[at] = words[at] & ~lanes & ALL_LANES | bits & lanes


def _register(operand: Operand) -> Reg | Special | None:
    register = operand.reg if isinstance(operand, Not) else operand
    return register if isinstance(register, Reg | Special) else None


def _is_barrier(instr: Instr) -> bool:
    return instr.opcode.startswith(("bar.", "barrier.")) or "aligned" in instr.modifiers
