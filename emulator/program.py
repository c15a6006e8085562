"""A kernel ready to run: its pure computation compiled, its handlers made, its blocks lowered when first reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from .chip import LANES
from .engine.blocks import ALL, BLOCKED, BlockFunction, BlockWriter, Wrong, active, executed, first
from .engine.early_uses import early_uses
from .engine.effects import Effect, Find, effects
from .engine.fetch import Fetcher
from .engine.liveness import Liveness
from .engine.load_store import load_store
from .engine.placement import Placement, RegisterFile
from .engine.segments import Chain, Segment, placed_registers, segments
from .engine.stored import stored_parameters
from .engine.unfenced import unfenced
from .engine.uniformity import varying
from .engine.unwritten import unwritten
from .errors import EmulatorError, TakingApart, UnknownInstruction
from .isa import catalog as _catalog  # noqa: F401 - fills the registry
from .isa import registry
from .isa.ld_st import MemoryOp, learning
from .isa.registry import Action, Handler, Lowering, takes
from .isa.special_registers import MEMORY, PARAMS, SHARED_SYMBOL
from .machine.compiled_accesses import CompiledAccesses
from .machine.launch import Launch
from .machine.source import naming
from .native.builder import Builder
from .native.compile import StepLists, runner
from .native.load_store import LoadStoreStep
from .native.recorder import Step
from .ptx.flow import EXIT, Flow
from .ptx.syntax import Instr, Kernel, Special, TensorAddress


class Program:
    """A lowered kernel, for any number of launches. variables: host addresses of the module's variables by name.

    find: where instructions are looked up. Raises UnknownInstruction for whatever is not implemented, before anything
    runs.
    """

    def __init__(self, kernel: Kernel, variables: Mapping[str, int] | None = None, find: Find = registry.find) -> None:
        self.kernel = kernel
        with naming(kernel):
            self._lower_all(variables or {}, find)

    def _lower_all(self, variables: Mapping[str, int], find: Find) -> None:
        kernel = self.kernel
        self._effects = effects(kernel, variables, find)
        waits = {(effect.instr.line, effect.instr.text) for effect in self._effects if effect.blocking}
        self._flow = Flow(kernel, lambda instr: (instr.line, instr.text) in waits)
        liveness = Liveness(self._flow, self._effects)
        self._stored_parameters = stored_parameters(self._effects)
        self._segments = segments(self._flow, self._effects, liveness)
        self._placement = Placement(placed_registers(self._segments, liveness), self._effects)
        fetcher = Fetcher(self._placement.slots, frozenset(varying(self._flow, self._effects, liveness)))
        handlers = {id(e): _made(e, e.entry) for e in self._effects if isinstance(e.entry, Handler)}
        accesses = self._accesses(fetcher, handlers)
        chains = self._compile(liveness, accesses)
        early = early_uses(self._flow, self._effects)
        wrong: dict[int, list[Wrong]] = {}
        for found in (unwritten(self._flow, self._effects, liveness), unfenced(self._flow, self._effects)):
            for effect, what in found.items():
                wrong.setdefault(effect, []).append(what)
        self._writer = BlockWriter(
            self._flow, fetcher, chains, runner(), handlers, early, wrong, self._segments, self._diverge
        )
        self._functions: list[BlockFunction | None] = [None] * len(self._flow.blocks)
        self._counts = [block.end - block.start for block in self._flow.blocks]

    @property
    def independent(self) -> bool:
        """Whether nothing that one cluster does can be seen by another before the launch ends, short of a race."""
        return not any(effect.entry is not None and effect.entry.meets(effect.instr) for effect in self._effects)

    @property
    def stored_parameters(self) -> frozenset[int]:
        """The offsets of the parameters that addresses of stores to global memory are computed from."""
        return self._stored_parameters

    def start(self, warp: Any) -> None:
        """Set a warp at the kernel's first instruction, its threads beyond the block's size inactive."""
        warp.registers = RegisterFile(self._file_bytes)
        for special in self._placement.specials:
            self._set_special(warp, special)
        x, y, z = warp.cta.launch.block
        threads = min(LANES, x * y * z - LANES * warp.index)
        there = ALL >> (LANES - threads)
        warp.pc, warp.stack, warp.meet, warp.ended, warp.leaves = 0, [], EXIT, ALL & ~there, self._flow.leaves
        self._resume(warp, there)

    def advance(self, warp: Any) -> None:
        """Run a warp until it waits (`waiting`), yields (`yielded`) or ends (`done`)."""
        functions, counts = self._functions, self._counts
        pc = warp.pc
        try:
            while True:
                function = functions[pc] or self._lower(pc)
                following = function(warp)
                if following == BLOCKED:
                    return
                warp.executed += counts[pc]
                if warp.budget is not None:
                    warp.budget -= counts[pc]
                pc = following
                if pc == warp.meet:
                    pc = self._meet(warp, pc)
                    if pc == EXIT:
                        warp.done = True
                        return
                if warp.yielded or (warp.budget is not None and warp.budget <= 0):
                    return
        except EmulatorError:
            raise
        except Exception as error:
            error.add_note(f"in {warp}, in the block from {self._describe(pc)}")
            if (instr := executed(error)) is None:
                raise
            with TakingApart(instr):
                raise
        finally:
            warp.pc = pc

    def line_of(self, pc: int) -> int:
        """The PTX line of a block's first instruction."""
        return self.kernel.instrs[self._flow.blocks[pc].start].line if pc != EXIT else self.kernel.instrs[-1].line

    def _describe(self, pc: int) -> str:
        instr = self.kernel.instrs[self._flow.blocks[pc].start]
        return f"PTX line {instr.line}: {instr.text}"

    def _resume(self, warp: Any, bits: int) -> None:
        warp.bits, warp.mask, warp.lane = bits, active(bits), first(bits)

    def _meet(self, warp: Any, pc: int) -> int:
        """The active lanes arrived where they would meet others, or ended: go on with the next ones that wait."""
        while pc == warp.meet:
            while warp.stack:
                pc, bits, warp.meet = warp.stack.pop()
                bits &= ~warp.ended
                if bits:
                    self._resume(warp, bits)
                    break
            else:
                return EXIT
        return pc

    def _diverge(self, warp: Any, taken: int, target: int, following: int, meet: int) -> int:
        """Some lanes branch: the others go first, all meet at the branch's post-dominator, but for those that end."""
        others = warp.bits & ~taken
        if following == EXIT:
            taken, others, target, following = others, taken, following, target
        if target in self._flow.leaves:
            warp.ended |= taken
            self._resume(warp, others)
            return following
        if following in self._flow.leaves:
            warp.ended |= others
            self._resume(warp, taken)
            return target
        if meet != EXIT:
            warp.stack.append((meet, warp.bits, warp.meet))
        warp.stack.append((target, taken, meet))
        warp.meet = meet
        self._resume(warp, others)
        return following

    def _lower(self, pc: int) -> BlockFunction:
        made = self._writer.function(self._flow.blocks[pc])
        self._functions[pc] = made
        return made

    def _accesses(self, fetcher: Fetcher, handlers: dict[int, Any]) -> dict[int, LoadStoreStep]:
        """The loads and stores that are machine code, by the id of their effects; their handlers learn for it."""
        found: dict[int, LoadStoreStep] = {}
        self._compiled: list[tuple[Instr, str]] = []
        for effect in self._effects:
            with TakingApart(effect.instr):
                step = load_store(effect, fetcher, len(found), self.kernel.global_cell)
            if step is not None:
                uniform = step.operation.uniform
                handlers[id(effect)] = learning(handlers[id(effect)], effect.instr, len(found), uniform)
                found[id(effect)] = step
                self._compiled.append((effect.instr, MemoryOp(effect.instr).what))
        return found

    def _compile(self, liveness: Liveness, accesses: Mapping[int, LoadStoreStep]) -> dict[int, Chain]:
        """All chains, by the id of their first effect. Scratch rows lie behind the registers."""
        self._file_bytes = self._placement.bytes
        chains = [chain for block in self._segments for chain in _chains(block, accesses)]
        lists = [[s for segment in chain for s in self._listed(segment, liveness, accesses)] for chain in chains]
        self._steps = StepLists(lists)
        found = {}
        for i, (chain, steps) in enumerate(zip(chains, lists, strict=True)):
            effects = [s.effects[0] for s in chain if id(s.effects[0]) in accesses]
            places = [at for at, step in enumerate(steps) if isinstance(step, LoadStoreStep)]
            stops = tuple(
                (e, self._steps.address(i, at), self._steps.address(i, at + 1))
                for e, at in zip(effects, places, strict=True)
            )
            found[id(chain[0].effects[0])] = Chain(self._steps.address(i), len(chain), stops)
        return found

    def _listed(
        self, segment: Segment, liveness: Liveness, accesses: Mapping[int, LoadStoreStep]
    ) -> Sequence[Step | LoadStoreStep]:
        """A segment as steps."""
        access = accesses.get(id(segment.effects[0]))
        if access is not None:
            return [access]
        builder = lowered(segment, self._placement)
        steps = builder.finish(liveness.members(segment.live))
        self._file_bytes = max(self._file_bytes, self._placement.bytes + builder.code.placed(self._placement.bytes))
        return steps

    def _set_special(self, warp: Any, special: Special) -> None:
        slot = self._placement.slots[special]
        rows = warp.registers.rows64 if slot.type == "b64" else warp.registers.rows32
        if special == PARAMS:
            rows[slot.row] = warp.cta.launch.params_address
        elif special == MEMORY:
            self._accesses_of(warp.cta.launch).start(warp, rows[slot.row])
        elif special.name.startswith(SHARED_SYMBOL):
            rows[slot.row] = warp.cta.window + int(special.name[len(SHARED_SYMBOL) :])
        else:
            rows[slot.row] = self._special_value(warp, special)

    def _accesses_of(self, launch: Launch) -> CompiledAccesses:
        found: CompiledAccesses | None = launch.registry.get(CompiledAccesses)
        if found is None:
            found = launch.registry[CompiledAccesses] = CompiledAccesses(launch, self._compiled)
        return found

    def _special_value(self, warp: Any, special: Special) -> Any:
        try:
            return warp.sreg(special.name)
        except KeyError:
            user = next(e.instr for e in self._effects if special in e.reads)
            raise UnknownInstruction(user, f"special register {special.name}") from None


def _chains(block: Sequence[Segment], accesses: Mapping[int, LoadStoreStep]) -> list[list[Segment]]:
    """The longest rows of segments of a block that are machine code throughout."""
    found: list[list[Segment]] = []
    for together, row in groupby(block, lambda s: s.inlined or id(s.effects[0]) in accesses):
        found += [list(row)] if together else []
    return found


def lowered(segment: Segment, placement: Placement) -> Builder:
    """A segment of inlined instructions, not yet finished."""
    builder = Builder(placement.slots)
    for effect in segment.effects:
        _inline(builder, effect)
    return builder


def _inline(builder: Builder, effect: Effect) -> None:
    assert isinstance(effect.entry, Lowering)
    builder.set_guard(effect.instr.guard)
    with TakingApart(effect.instr):
        effect.entry.lower(builder, effect.instr)


def _made(effect: Effect, handler: Handler) -> Action:
    """The action of an instruction, which takes the operands that are there."""
    instr = effect.instr
    with TakingApart(instr):
        action = handler.make(instr)
    given = 2 + sum(2 if isinstance(operand, TensorAddress) else 1 for operand in effect.sources)
    if not takes(action, given):
        raise UnknownInstruction(instr, f"{len(instr.operands)} operands")
    return action
