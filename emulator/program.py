"""Execution of a lowered kernel: warps run block by block, or instruction by instruction while values are tainted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .chip import ALL_LANES, LANES
from .engine.arms import Exchanges
from .engine.blocks import BLOCKED
from .engine.code import Code
from .engine.divergence import ArmsApart, rejoin, resume
from .engine.effects import Effect, Find
from .engine.registers import RegisterFile, RegisterFiles
from .engine.taint import Choice, TaintTracker, choice
from .errors import EmulatorError, UnknownInstruction
from .isa import registry
from .isa.special_registers import MEMORY, PARAMS, SHARED_SYMBOL
from .lowering import Lowered
from .machine.compiled.accesses import AccessPatterns, CompiledAccesses
from .machine.launch.launch import Launch
from .machine.order.strong import StrongOrder
from .machine.reports.suspects import PendingOverwrites, SuspectLoad
from .ptx.flow import EXIT
from .ptx.syntax import Instr, Kernel, Reg, Special


class Program:
    """A kernel that warps can run, for any number of launches. variables: host addresses of the module's variables.

    find: the lookup of instructions. Raises UnknownInstruction for anything that is not implemented, before anything
    runs.
    """

    def __init__(self, kernel: Kernel, variables: Mapping[str, int] | None = None, find: Find = registry.find) -> None:
        self.kernel = kernel
        self.foreseen = False
        self.lowered = Lowered(kernel, variables or {}, find)
        self._code = self.lowered.code
        self._kept = AccessPatterns(len(self.lowered.accesses.instrs))

    @cached_property
    def _stepwise(self) -> Stepwise:
        return Stepwise(self.lowered)

    @property
    def independent(self) -> bool:
        """True if no cluster can observe another one before the launch ends, except by a race."""
        return not any(e.entry is not None and e.entry.communicates(e.instr) for e in self.lowered.effects)

    @property
    def stored(self) -> frozenset[int]:
        """The parameters, by offset, that addresses of stores to global memory are computed from."""
        return self.lowered.stored

    def start(self, warps: Sequence[Any]) -> None:
        """Set warps at the kernel's first instruction, threads beyond the block's size inactive.

        warps: of one CTA after another, equally many of each.
        """
        launch = warps[0].cta.launch
        launch.reads_in_flight = self.lowered.reads_in_flight
        x, y, z = launch.block
        files = RegisterFiles(len(warps), self._code.file_bytes, self._code.placement.lasting)
        for warp, file in zip(warps, files.of_warps, strict=True):
            warp.registers = file
            there = ALL_LANES >> LANES - min(LANES, x * y * z - LANES * warp.index)
            warp.pc, warp.stack, warp.meet, warp.leaves = 0, [], EXIT, self._code.flow.leaves
            warp.passed = defaultdict(int)
            warp.ended = warp.absent = ALL_LANES & ~there
            resume(warp, there)
        each = len(warps) // len({warp.cta for warp in warps})
        placement = self._code.placement
        for special in placement.specials:
            slot = placement.slots[special]
            rows = (files.rows64 if slot.type == "b64" else files.rows32)[:, slot.row]
            for at in range(0, len(warps), each):
                self._set_special(warps[at : at + each], special, rows[at : at + each])

    def advance(self, warp: Any) -> None:
        """Run a warp until it waits (`waiting`), yields (`yielded`) or ends (`done`)."""
        if warp.taint is not None and not self._stepwise.go_on(warp):
            return
        code = self._code
        functions, counts, starts = code.functions, code.counts, code.starts
        pc = warp.pc
        try:
            while True:
                function = functions[pc] or code.write(pc)
                following = function(warp)
                if following == BLOCKED:
                    return
                warp.executed += counts[pc]
                warp.passed[starts[pc]] += 1
                pc = following
                if pc == warp.meet:
                    pc = rejoin(warp, pc)
                    if pc == EXIT:
                        warp.done = True
                        return
                if warp.yielded or warp.executed >= warp.until:
                    return
        except (SuspectLoad, ArmsApart) as reason:
            pc = self._stepwise.begin(warp, pc, reason.instr, reason.lanes)
        except EmulatorError:
            raise
        except Exception as error:
            instr = self.kernel.instrs[code.flow.blocks[pc].start]
            error.add_note(f"in {warp}, in the block from PTX line {instr.line}: {instr.text}")
            raise
        finally:
            warp.pc = pc
        self._stepwise.go_on(warp)  # outside the except clause, so errors are not chained to the reason

    def change_arm(self, warp: Any, turn: int) -> bool:
        """Let other lanes of a warp run that waits. Return False if there are none."""
        if warp.taint is None:
            first = self.lowered.effects[self._code.flow.blocks[warp.pc].start]
            warp.pc = self._stepwise.begin(warp, warp.pc, first.instr, warp.bits)
        return self._stepwise.exchanges.change_arm(warp, turn)

    def line_of(self, warp: Any) -> int:
        """Return the PTX line of the first instruction of the block that a warp is in."""
        code = self._code if warp.taint is None else self._stepwise.code
        return self.kernel.instrs[code.flow.blocks[warp.pc].start if warp.pc != EXIT else -1].line

    def _set_special(self, warps: Sequence[Any], special: Special, rows: np.ndarray) -> None:
        """Set the row of a special register for each of the warps of a CTA."""
        cta = warps[0].cta
        if special == PARAMS:
            rows[:] = cta.launch.params_address
        elif special == MEMORY:
            self._accesses_of(cta.launch).start(warps, rows)
        elif special.name.startswith(SHARED_SYMBOL):
            rows[:] = cta.window + int(special.name[len(SHARED_SYMBOL) :])
        elif special.name in cta.sregs:
            rows[:] = cta.sregs[special.name]
        else:
            for row, warp in zip(rows, warps, strict=True):
                row[:] = self._special_value(warp, special)

    def _accesses_of(self, launch: Launch) -> CompiledAccesses:
        found: CompiledAccesses | None = launch.registry.get(CompiledAccesses)
        if found is None:
            found = CompiledAccesses(launch, self.lowered.accesses.instrs, self._kept)
            launch.registry[CompiledAccesses] = found
            if self.lowered.retried is not None:
                launch.registry[StrongOrder] = StrongOrder(self.lowered.retried)
            launch.registry[PendingOverwrites] = PendingOverwrites(self.lowered.reach)
        return found

    def _special_value(self, warp: Any, special: Special) -> Any:
        try:
            return warp.sreg(special.name)
        except KeyError:
            user = next(e.instr for e in self.lowered.effects if special in e.reads)
            raise UnknownInstruction(user, f"special register {special.name}") from None


class Stepwise:
    """The same kernel with one block per instruction, for warps with tainted values."""

    def __init__(self, lowered: Lowered) -> None:
        self.code = lowered.one_by_one()
        self._whole, self._effects = lowered.code, lowered.effects
        self.exchanges = Exchanges(self.code, self._effects)
        self._places = {id(effect.instr): at for at, effect in enumerate(self._effects)}

    def begin(self, warp: Any, pc: int, instr: Instr, lanes: int) -> int:
        """Track a warp from an instruction that the function of block `pc` did not pass. Return where it continues.

        lanes: the lanes (bits) that came to it.
        """
        whole, blocks, at = self._whole, self._whole.flow.blocks, self._places[id(instr)]
        block, done = blocks[pc], 0
        while not block.start <= at < block.end:  # of the blocks that one function runs
            done = whole.counts[pc]
            inside = whole.writer.skipped(block)
            assert inside is not None
            block = blocks[inside.successors[0]]
            if inside.start <= at < inside.end:  # some lanes skip it and wait behind it
                warp.stack.append((block.index, warp.bits, warp.meet))
                warp.meet = block.index
                resume(warp, lanes)
                block = inside
            elif block.start <= at < block.end:  # it was counted when it began
                done -= block.end - block.start
        done += at - block.start
        warp.executed += done
        warp.passed[blocks[pc].start] += 1
        warp.taint = TaintTracker(warp, self.code.placement.slots, warp.registers, self._choice)
        (warp.registers,) = RegisterFiles(1, self.code.file_bytes).of_warps
        _copy(warp.taint.whole, whole, warp.registers, self.code, all_registers=True)
        self._move(warp, lambda index: blocks[index].start, self.code.flow.leaves)
        return at

    def _choice(self, branch: Effect) -> Choice | None:
        """Return the code that a branch skips, see `taint.choice`."""
        return choice(self.code.flow, self._effects, self._places[id(branch.instr)])

    def go_on(self, warp: Any) -> bool:
        """Run a tainted warp until it waits, yields or ends, or until no taint is left. Return whether none is left."""
        taint, code = warp.taint, self.code
        of_instr = self._whole.flow.of_instr
        while True:
            if not self.exchanges.settle(warp):
                taint.end()
                return False
            effect = self._effects[warp.pc]
            taken = taint.lanes(effect)
            result = taint.before(effect, taken)
            following = (code.functions[warp.pc] or code.write(warp.pc))(warp)
            if following == BLOCKED:
                return False
            taint.after(effect, taken, result)
            warp.executed += 1
            warp.passed[warp.pc] += 1
            warp.pc = rejoin(warp, following) if following == warp.meet else following
            if warp.pc == EXIT:
                warp.done = True
                taint.end()
                return False
            if self._may_end(warp) and not taint.any_tainted(self._live(warp)):
                break
            if warp.yielded or warp.executed >= warp.until:
                return False
        _copy(warp.registers, code, taint.whole, self._whole, all_registers=False)
        self._move(warp, of_instr.__getitem__, self._whole.flow.leaves)
        warp.pc, warp.registers, warp.taint = of_instr[warp.pc], taint.whole, None
        taint.end()
        return True

    def _may_end(self, warp: Any) -> bool:
        """Return whether the warp's lanes are where blocks begin, none of them ahead of others."""
        of_instr = self._whole.flow.of_instr
        return warp.pc in of_instr and not warp.ahead and all(at == EXIT or at in of_instr for at, _, _ in warp.stack)

    def _live(self, warp: Any) -> set[Reg]:
        """Return the registers that are live where the warp's lanes continue."""
        found = 0
        for at in (warp.pc, *(at for at, _, _ in warp.stack)):
            found |= self.code.liveness.live_in[at] if at != EXIT else 0
        return set(self.code.liveness.members(found))

    def _move(self, warp: Any, place: Callable[[int], int], leaves: frozenset[int]) -> None:
        """Renumber the blocks at which lanes wait."""

        def moved(index: int) -> int:
            return place(index) if index != EXIT else EXIT

        warp.stack = [(moved(at), bits, moved(meet)) for at, bits, meet in warp.stack]
        warp.meet, warp.leaves = moved(warp.meet), leaves


def _copy(source: RegisterFile, of: Code, to: RegisterFile, its: Code, all_registers: bool) -> None:
    """Copy the registers that have a place in both files. all_registers: special ones too, for a new file."""
    for register, slot in of.placement.slots.items():
        there = its.placement.slots.get(register)
        if there is not None and (isinstance(register, Reg) or all_registers):
            if slot.type == "pred":
                to.words[there.offset // 4] = source.words[slot.offset // 4]
            else:
                to.rows(slot.type)[there.row] = source.rows(slot.type)[slot.row]
