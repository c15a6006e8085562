"""A program that executes one instruction at a time and notifies an observer of each, and can be run again."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.arms import Exchanges
from ..engine.blocks import BLOCKED
from ..engine.divergence import lanes_of, rejoin
from ..engine.effects import Effect
from ..engine.taint import Choice, TaintTracker, choice
from ..errors import EmulatorError
from ..lowering import Lowered
from ..machine.compiled.accesses import AccessPatterns
from ..machine.launch.globalmem import host_bytes
from ..machine.launch.launch import Launch
from ..machine.order.completion import Agents, AsyncOperation
from ..machine.reports.suspects import SuspectLoad
from ..machine.topology import Cluster, Warp
from ..program import Program
from ..ptx.flow import EXIT
from ..ptx.syntax import Reg, Special

ALL = 0xFFFF_FFFF


class Observer:
    """Receiver of the notifications of a stepped launch, which ignores those that it does not override.

    Indices of instructions are those of the kernel's list.
    """

    def started(self, cluster: Cluster) -> None:
        """Receive a cluster whose warps are at the first instruction."""

    def before(self, warp: Warp, at: int) -> None:
        """Receive an instruction that a warp is about to execute, perhaps again after it waited."""

    def after(self, warp: Warp, at: int, lanes: int) -> None:
        """Receive an instruction that these lanes (bits) have executed; 0 if its guard is false in all."""

    def blocked(self, warp: Warp, at: int) -> None:
        """Receive a warp that has to wait at an instruction."""

    def issued(self, operation: AsyncOperation) -> None:
        """Receive asynchronous work of the instruction that is being executed."""

    def completing(self, operation: AsyncOperation) -> None:
        """Receive asynchronous work that is about to complete."""

    def completed(self, operation: AsyncOperation) -> None:
        """Receive asynchronous work that has completed."""


class ObservedAgents(Agents):
    """A cluster's asynchronous operations, with an observer."""

    def __init__(self, agents: Agents, observer: Observer) -> None:
        super().__init__(agents.completion, agents.random)
        self._observer = observer

    def issue(self, operation: AsyncOperation, held: bool = False) -> None:
        """Queue an operation, as `Agents` does."""
        self._observer.issued(operation)
        perform = operation.perform

        def observed() -> None:
            self._observer.completing(operation)
            perform()
            self._observer.completed(operation)

        operation.perform = observed
        super().issue(operation, held)


class SteppedProgram(Program):
    """A lowered kernel that runs one instruction at a time, with the results and the order of warps of `Program`."""

    def __init__(self, program: Program, observer: Observer) -> None:
        lowered: Lowered = program.lowered
        self.kernel, self.foreseen, self.lowered = lowered.kernel, False, lowered
        self._code = lowered.one_by_one()
        self._kept = AccessPatterns(len(lowered.accesses.instrs))
        self._observer = observer
        self._exchanges = Exchanges(self._code, lowered.effects)
        self._places = {id(effect.instr): at for at, effect in enumerate(lowered.effects)}

    @property
    def effects(self) -> Sequence[Effect]:
        """The effect of each instruction."""
        return self.lowered.effects

    def start(self, warps: Sequence[Any]) -> None:
        """Set warps at the kernel's first instruction."""
        super().start(warps)
        cluster = warps[0].cta.cluster
        cluster.agents = ObservedAgents(cluster.agents, self._observer)
        self._observer.started(cluster)

    def settle(self, warp: Any) -> bool:
        """Let lanes meet at exchanges that are in several places. Return False if the warp has ended."""
        return self._exchanges.settle(warp)

    def change_arm(self, warp: Any, turn: int) -> bool:
        """Let other lanes of a warp run that waits. Return False if there are none."""
        return self._exchanges.change_arm(warp, turn)

    def advance(self, warp: Any) -> None:
        """Run a warp until it waits, yields or ends."""
        observer = self._observer
        while self.settle(warp):
            at = warp.pc
            observer.before(warp, at)
            effect = self.effects[at]
            lanes = self.executing(warp, effect)
            following = self._execute(warp, effect, lanes)
            if following == BLOCKED:
                observer.blocked(warp, at)
                return
            warp.executed += 1
            observer.after(warp, at, lanes)
            warp.pc = rejoin(warp, following) if following == warp.meet else following
            if warp.taint is not None:
                self._judge_taint(warp)
            if warp.pc == EXIT:
                warp.done = True
                return
            if warp.yielded or warp.executed >= warp.until:
                return

    def executing(self, warp: Any, effect: Effect) -> int:
        """Return the lanes (bits) that execute an instruction: the active ones whose guard holds."""
        guard, bits = effect.instr.guard, int(warp.bits)
        if guard is None:
            return bits
        held = int(warp.registers.words[self._code.placement.slots[guard[0]].offset // 4])
        return bits & (held if guard[1] else ~held)

    def value(self, warp: Any, register: Reg | Special) -> np.ndarray | None:
        """Read a register in each lane, unsigned[32] (predicates bool); None if it has no place.

        A register whose value nothing reads has none.
        """
        slot = self._code.placement.slots.get(register)
        if slot is None:
            return None
        if slot.type == "pred":
            return lanes_of(int(warp.registers.words[slot.offset // 4]))
        row: np.ndarray = warp.registers.rows(slot.type)[slot.row]
        return row.copy()

    def live(self, warp: Any) -> set[Reg]:
        """Return the registers that are still needed where the warp's lanes continue."""
        found = 0
        for at in (warp.pc, *(at for at, _, _ in warp.stack)):
            found |= self._code.liveness.live_in[at] if at != EXIT else 0
        return set(self._code.liveness.members(found))

    def line_of(self, warp: Any) -> int:
        """Return the PTX line that a warp is at."""
        return self.kernel.instrs[warp.pc if warp.pc != EXIT else -1].line

    def _execute(self, warp: Any, effect: Effect, lanes: int) -> int:
        code, at = self._code, warp.pc
        function = code.functions[at] or code.write(at)
        try:
            if warp.taint is None:
                try:
                    return function(warp)
                except SuspectLoad:
                    warp.taint = TaintTracker(warp, code.placement.slots, warp.registers, self._choice)
            result = warp.taint.before(effect, lanes)
            following = function(warp)
            if following != BLOCKED:
                warp.taint.after(effect, lanes, result)
            return following
        except EmulatorError:
            raise
        except Exception as error:
            error.add_note(f"in {warp}, at PTX line {effect.instr.line}: {effect.instr.text}")
            raise

    def _choice(self, branch: Effect) -> Choice | None:
        return choice(self.lowered.code.flow, self.effects, self._places[id(branch.instr)])

    def _judge_taint(self, warp: Any) -> None:
        """End the tracking of a suspect value once no live register holds it."""
        if warp.pc == EXIT or not warp.taint.any_tainted(self.live(warp)):
            warp.taint.end()
            warp.taint = None


class Snapshot:
    """The bytes of a launch's known allocations. Memory that the launch does not know is not in it."""

    def __init__(self, launch: Launch) -> None:
        found = {(address, size) for address, size, _ in launch.allocations if size}
        self._saved = [(address, host_bytes(address, size).tobytes()) for address, size in sorted(found)]

    def restore(self) -> None:
        """Write back what has changed."""
        for address, saved in self._saved:
            if host_bytes(address, len(saved)).tobytes() != saved:
                ctypes.memmove(address, saved, len(saved))
