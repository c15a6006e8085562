"""Lowering of a kernel: analyses of its instructions, their handlers, and the code of its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from .engine.blocks import Instructions
from .engine.code import Code, Layout
from .engine.effects import Effect, Find, effects
from .engine.elected import Elections, Published
from .engine.fetch import load_stores
from .engine.in_flight import reads_in_flight
from .engine.reach import Reaches, is_strong, retried, stored
from .engine.registers import Liveness, varying
from .engine.static_faults import StaticFault, early_uses, unfenced, unwritten
from .engine.taint import OneByOne
from .errors import Decoding, UnknownInstruction
from .isa import catalog as _catalog  # noqa: F401 - fills the registry
from .isa import registry
from .isa.ld_st import recording
from .isa.registry import BLOCK, Action, Handler, accepts
from .machine.convergence import lane_bits, report_unconverged
from .machine.launch.source import locating_errors
from .ptx.flow import Flow
from .ptx.kinds import Kind
from .ptx.syntax import Instr, Kernel, Sink, TensorAddress

NOT_COUNTED: Final = frozenset({Kind.MBARRIER_WAIT, Kind.LOAD, Kind.STORE})
"""The instructions that `Stats.operations` leaves out: polls, and accesses that become machine code."""


class Lowered:
    """A kernel after lowering: everything that does not change from launch to launch.

    variables: host addresses of the module's variables by name. find: the lookup of instructions.
    Raises UnknownInstruction for anything that is not implemented.
    """

    def __init__(self, kernel: Kernel, variables: Mapping[str, int], find: Find = registry.find) -> None:
        self.kernel = kernel
        with locating_errors(kernel):
            self.effects = effects(kernel, variables, find)
            waits = {(e.instr.line, e.instr.text) for e in self.effects if e.blocking or is_strong(e.instr)}
            flow = Flow(kernel, lambda instr: (instr.line, instr.text) in waits)
            liveness = Liveness(flow, self.effects)
            row = (kernel.reqntid or (0, 0, 0))[1:] == (1, 1)
            self._varying = varying(flow, self.effects, liveness, row)
            self.stored = stored(self.effects)
            elections = Elections(flow, self.effects, self._varying)
            published = elections.published()
            layout = Layout.of(flow, liveness, self.effects, self._varying)
            self.accesses = load_stores(self.effects, layout.fetcher, kernel.global_cell, elections.overwriting())
            self.reach = Reaches(flow, self.effects, self.accesses.stores, variables.values())
            self.retried = retried(flow, self.effects)
            self.reads_in_flight = reads_in_flight(flow, self.effects)
            self._instructions = self._of_instructions(flow, liveness, published)
            self.code = Code(layout, self._instructions, self.accesses.steps)

    def _of_instructions(self, flow: Flow, liveness: Liveness, published: Mapping[int, Published]) -> Instructions:
        unread = liveness.unread_waits(flow)
        handlers = {id(e): _made(e, e.entry, id(e) not in unread) for e in self.effects if isinstance(e.entry, Handler)}
        for at, each in enumerate(self.effects):
            if each.entry is None or each.entry is not registry.HANDLERS.get(each.instr.opcode):
                continue  # machine code, or the clock's
            if (them := published.get(id(each))) is not None:
                handlers[id(each)] = _publishing(each, handlers[id(each)], them)
            if each.instr.kind not in NOT_COUNTED:
                handlers[id(each)] = _counted(each.instr.opcode, at, handlers[id(each)])
        for number, (effect, step) in enumerate(self.accesses.steps.items()):
            instr, _ = self.accesses.instrs[number]
            handlers[effect] = recording(handlers[effect], instr, number, step.operation.uniform)
        faults: dict[int, list[StaticFault]] = {}
        for found in (unwritten(flow, self.effects, liveness), unfenced(flow, self.effects)):
            for effect, what in found.items():
                faults.setdefault(effect, []).append(what)
        return Instructions(handlers, early_uses(flow, self.effects), faults)

    def one_by_one(self) -> Code:
        """Lower the kernel again with one block for each instruction, of the same number."""
        with locating_errors(self.kernel):
            flow = Flow(self.kernel, lambda instr: True)
            layout = Layout.of(flow, Liveness(flow, self.effects), self.effects, self._varying)
            return Code(layout, self._instructions, {}, OneByOne)


def _made(effect: Effect, handler: Handler, read: bool) -> Action:
    """Make the action of an instruction, with its actual operands. read: whether anything reads its result."""
    instr = effect.instr
    with Decoding(instr):
        action = handler.make(instr if read else replace(instr, operands=(Sink(), *instr.operands[1:])))
    given = 2 + sum(2 if isinstance(operand, TensorAddress) else 1 for operand in effect.sources)
    if not accepts(action, given):
        raise UnknownInstruction(instr, f"{len(instr.operands)} operands")
    return _aligned(instr, action) if "aligned" in instr.modifiers else action


def _counted(opcode: str, at: int, run: Action) -> Action:
    """Make the action of the instruction `at` a place in the kernel, which also counts how often warps execute it."""

    def count_and_run(warp: Any, mask: Any, *operands: Any) -> Any:
        result = run(warp, mask, *operands)
        if result is not BLOCK:
            stats = warp.cta.launch.stats
            stats.count_operation(opcode)
            stats.acted.add(at)
        return result

    return count_and_run


def _publishing(effect: Effect, run: Action, published: Published) -> Action:
    """Make the action of an instruction by which lanes publish accesses of others."""
    instr, entry = effect.instr, effect.entry
    assert isinstance(entry, Handler)
    flush = entry.flush

    def publish(warp: Any, mask: Any, *operands: Any) -> Any:
        lanes = lane_bits(mask) | warp.absent
        apart = published.by(lanes)
        if not apart or warp.lane_syncs:
            return run(warp, mask, *operands)
        if flush is not None:
            flush(warp)
        with warp.releasing_for_some(instr, apart, lanes):
            result = run(warp, mask, *operands)
            if flush is not None:
                flush(warp)
        return result

    return publish


def _aligned(instr: Instr, run: Action) -> Action:
    """Make the action of an instruction with .aligned: it checks that all lanes of the warp execute it together."""

    def check_and_run(warp: Any, mask: Any, *operands: Any) -> Any:
        if mask is not None:
            report_unconverged(instr, warp, mask, aligned=True)
        return run(warp, mask, *operands)

    return check_and_run
