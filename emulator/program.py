"""A kernel ready to run: its pure computation compiled, its handlers made, its blocks lowered when first reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from .chip import LANES
from .engine.blocks import ALL, BLOCKED, BlockFunction, BlockWriter, Wrong, active, executed, first
from .engine.early_uses import early_uses
from .engine.effects import Effect, Find, effects
from .engine.fetch import Fetcher
from .engine.liveness import Liveness
from .engine.load_store import load_store
from .engine.placement import Placement, RegisterFile, RegisterFiles
from .engine.reach import Meetings, Reach, reach
from .engine.segments import Chain, Segment, placed_registers, segments, within_one_block
from .engine.stored import Pointers, Stored, stored
from .engine.unfenced import unfenced
from .engine.uniformity import varying
from .engine.unwritten import unwritten
from .engine.watch import Choice, OneByOne, Watch, choice
from .errors import EmulatorError, TakingApart, UnknownInstruction
from .isa import catalog as _catalog  # noqa: F401 - fills the registry
from .isa import registry
from .isa.ld_st import MemoryOp, learning
from .isa.mbarrier import WAITS
from .isa.registry import Action, Handler, Lowering, takes
from .isa.special_registers import MEMORY, PARAMS, SHARED_SYMBOL
from .machine.compiled.accesses import CompiledAccesses, Learned
from .machine.convergence import refuse_apart
from .machine.launch.launch import Launch
from .machine.launch.source import naming
from .machine.reports.doubts import Doubted, Overwritten
from .native.builder import Builder
from .native.compile import StepLists, runner
from .native.load_store import LoadStoreStep
from .native.recorder import Step
from .ptx.flow import EXIT, Flow
from .ptx.syntax import Instr, Kernel, Reg, Sink, Special, TensorAddress


class Program:
    """A lowered kernel, for any number of launches. variables: host addresses of the module's variables by name.

    find: where instructions are looked up. Raises UnknownInstruction for whatever is not implemented, before anything
    runs.
    """

    def __init__(self, kernel: Kernel, variables: Mapping[str, int] | None = None, find: Find = registry.find) -> None:
        self.kernel = kernel
        self.foreseen = False
        with naming(kernel):
            self._lower_all(variables or {}, find)

    def _lower_all(self, variables: Mapping[str, int], find: Find) -> None:
        self._variables = frozenset(variables.values())
        self._effects = effects(self.kernel, variables, find)
        waits = {(effect.instr.line, effect.instr.text) for effect in self._effects if effect.blocking}
        self._flow = Flow(self.kernel, lambda instr: (instr.line, instr.text) in waits)
        self._liveness = liveness = Liveness(self._flow, self._effects)
        self._stored = stored(self._effects)
        row = (self.kernel.reqntid or (0, 0, 0))[1:] == (1, 1)
        self._varying = frozenset(varying(self._flow, self._effects, liveness, row))
        unread = liveness.unread(self._flow, WAITS)
        self._handlers = {
            id(e): _made(e, e.entry, id(e) not in unread) for e in self._effects if isinstance(e.entry, Handler)
        }
        fetcher = self._place(liveness)
        accesses = self._accesses(fetcher)
        chains = self._compile(liveness, accesses)
        self._early = early_uses(self._flow, self._effects)
        self._wrong: dict[int, list[Wrong]] = {}
        for found in (unwritten(self._flow, self._effects, liveness), unfenced(self._flow, self._effects)):
            for effect, what in found.items():
                self._wrong.setdefault(effect, []).append(what)
        self._write(BlockWriter, fetcher, chains)

    def _place(self, liveness: Liveness) -> Fetcher:
        """Cut the blocks into segments, and find a place for each register."""
        self._segments = segments(self._flow, self._effects, liveness)
        blocks = within_one_block(self._flow, self._effects, liveness)
        self._placement = Placement(placed_registers(self._segments, liveness), self._effects, blocks)
        return Fetcher(self._placement.slots, self._varying)

    def _write(self, writer: type[BlockWriter], fetcher: Fetcher, chains: Mapping[int, Chain]) -> None:
        """Prepare the functions of the blocks, each to be written when a warp comes there."""
        self._writer = writer(
            self._flow,
            fetcher,
            chains,
            runner(),
            self._handlers,
            self._early,
            self._wrong,
            self._segments,
            self._diverge,
        )
        self._functions: list[BlockFunction | None] = [None] * len(self._flow.blocks)
        self._counts = [block.end - block.start for block in self._flow.blocks]

    @cached_property
    def _stepwise(self) -> Steps:
        return Steps(self)

    @property
    def independent(self) -> bool:
        """Whether nothing that one cluster does can be seen by another before the launch ends, short of a race."""
        return not any(effect.entry is not None and effect.entry.meets(effect.instr) for effect in self._effects)

    @property
    def stored(self) -> Stored:
        """The offsets of the parameters that addresses of stores to global memory are computed from."""
        return self._stored

    def start(self, warps: Sequence[Any]) -> None:
        """Set warps at the kernel's first instruction, threads beyond the block's size inactive.

        warps: of one CTA after another, as many of each.
        """
        x, y, z = warps[0].cta.launch.block
        files = RegisterFiles(len(warps), self._file_bytes)
        for warp, file in zip(warps, files.of_warps, strict=True):
            warp.registers = file
            there = ALL >> LANES - min(LANES, x * y * z - LANES * warp.index)
            warp.pc, warp.stack, warp.meet, warp.ended, warp.leaves = 0, [], EXIT, ALL & ~there, self._flow.leaves
            self._resume(warp, there)
        each = len(warps) // len({warp.cta for warp in warps})
        for special in self._placement.specials:
            slot = self._placement.slots[special]
            rows = (files.rows64 if slot.type == "b64" else files.rows32)[:, slot.row]
            for at in range(0, len(warps), each):
                self._set_special(warps[at : at + each], special, rows[at : at + each])

    def advance(self, warp: Any) -> None:
        """Run a warp until it waits (`waiting`), yields (`yielded`) or ends (`done`)."""
        if warp.watch is not None and not self._stepwise.go_on(warp):
            return
        functions, counts = self._functions, self._counts
        pc = warp.pc
        try:
            while True:
                function = functions[pc] or self._lower(pc)
                following = function(warp)
                if following == BLOCKED:
                    return
                warp.executed += counts[pc]
                pc = following
                if pc == warp.meet:
                    pc = self._meet(warp, pc)
                    if pc == EXIT:
                        warp.done = True
                        return
                if warp.yielded or warp.executed >= warp.until:
                    return
        except Doubted as doubt:
            pc = self._stepwise.begin(warp, pc, doubt)
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
        self._stepwise.go_on(warp)  # only a doubt leads here, and what it finds was not raised while handling it

    def line_of(self, warp: Any) -> int:
        """The PTX line of the first instruction of the block that a warp is in."""
        flow = self._flow if warp.watch is None else self._stepwise._flow
        return self.kernel.instrs[flow.blocks[warp.pc].start if warp.pc != EXIT else -1].line

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

    def _accesses(self, fetcher: Fetcher) -> dict[int, LoadStoreStep]:
        """The loads and stores that are machine code, by the id of their effects; their handlers learn for it."""
        found: dict[int, LoadStoreStep] = {}
        self._compiled: list[tuple[Instr, str]] = []
        self._stores: dict[int, int] = {}
        self._reached: dict[tuple[int, bool], Reach | None] = {}
        for effect in self._effects:
            with TakingApart(effect.instr):
                step = load_store(effect, fetcher, len(found), self.kernel.global_cell)
            if step is not None:
                uniform = step.operation.uniform
                run = self._handlers[id(effect)]
                self._handlers[id(effect)] = learning(run, effect.instr, len(found), uniform)
                found[id(effect)] = step
                if step.operation.store:
                    self._stores[id(effect)] = len(self._compiled)
                self._compiled.append((effect.instr, MemoryOp(effect.instr).what))
        self._learned = Learned.nothing(len(found))
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

    def _set_special(self, warps: Sequence[Any], special: Special, rows: np.ndarray) -> None:
        """Put a special register into its row of each of the warps of a CTA."""
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
            found = launch.registry[CompiledAccesses] = CompiledAccesses(launch, self._compiled, self._learned)
            launch.registry[Overwritten] = Overwritten(self._reach)
        return found

    def _reach(self, load: Instr, met: bool) -> Reach | None:
        """The stores that the value of a load may come to, if it comes to nothing else; or that of another load which
        may have read the same before it, of which nothing is known any more. met: what wrote there then
        comes after all that the warp did before it last arrived at a barrier."""
        key = id(load), met
        if key not in self._reached:
            pointers, spaces = Pointers(self._effects, self._variables), {MemoryOp(load).space, "generic"}
            loads = [
                (at, pointers.of([effect]), effect.instr)
                for at, effect in enumerate(self._effects)
                if effect.instr.opcode == "ld" and MemoryOp(effect.instr).space in spaces
            ]
            (mine,) = (come_from for _, come_from, instr in loads if instr is load)
            alike = [
                at
                for at, come_from, instr in loads
                if _meet(mine, come_from) and (instr is load or not (met and self._meetings.behind(at)))
            ]
            ways = [reach(self._flow, self._effects, self._stores, at) for at in alike]
            known = [way for way in ways if way is not None]
            stores = frozenset[int]().union(*(way.stores for way in known))
            whole = Reach(stores, any(way.exchanged for way in known)) if len(known) == len(ways) else None
            self._reached[key] = whole
        return self._reached[key]

    @cached_property
    def _meetings(self) -> Meetings:
        return Meetings(self._flow)

    def _special_value(self, warp: Any, special: Special) -> Any:
        try:
            return warp.sreg(special.name)
        except KeyError:
            user = next(e.instr for e in self._effects if special in e.reads)
            raise UnknownInstruction(user, f"special register {special.name}") from None


class Steps(Program):
    """The same kernel with a block for each instruction, of the same number: for warps that are watched because of what
    they loaded."""

    def __init__(self, whole: Program) -> None:
        self.kernel, self._whole = whole.kernel, whole
        self._effects, self._varying, self._handlers = whole._effects, whole._varying, whole._handlers
        self._early, self._wrong = whole._early, whole._wrong
        self._places = {id(effect.instr): at for at, effect in enumerate(self._effects)}
        with naming(self.kernel):
            self._flow = Flow(self.kernel, lambda instr: True)
            self._liveness = Liveness(self._flow, self._effects)
            fetcher = self._place(self._liveness)
            self._write(OneByOne, fetcher, self._compile(self._liveness, {}))

    def begin(self, warp: Any, pc: int, doubt: Doubted) -> int:
        """Watch a warp from a load on that the function of block `pc` did not come past. Answers where it goes on."""
        whole, blocks, at = self._whole, self._whole._flow.blocks, self._places[id(doubt.instr)]
        block, done = blocks[pc], 0
        while not block.start <= at < block.end:  # of those that one function runs
            done = whole._counts[pc]
            inside = whole._writer.skipped(block)
            assert inside is not None
            block = blocks[inside.successors[0]]
            if inside.start <= at < inside.end:  # which some lanes skip, and wait behind it
                warp.stack.append((block.index, warp.bits, warp.meet))
                warp.meet = block.index
                self._resume(warp, _lanes_at(doubt))
                block = inside
            elif block.start <= at < block.end:  # counted when it began
                done -= block.end - block.start
        done += at - block.start
        warp.executed += done
        warp.watch = Watch(warp, self._placement.slots, warp.registers, self._choice)
        (warp.registers,) = RegisterFiles(1, self._file_bytes).of_warps
        self._copy(warp.watch.whole, whole, warp.registers, self)
        self._move(warp, lambda index: blocks[index].start, self._flow.leaves)
        return at

    def _choice(self, branch: Effect) -> Choice | None:
        """What a branch passes by, see `watch.choice`."""
        return choice(self._flow, self._effects, self._places[id(branch.instr)])

    def go_on(self, warp: Any) -> bool:
        """Run a watched warp until it waits, yields or ends, or until nothing is left to be watched; whether that."""
        watch = warp.watch
        of_instr = self._whole._flow.of_instr
        while True:
            effect = self._effects[warp.pc]
            taken = watch.lanes(effect)
            result = watch.before(effect, taken)
            following = (self._functions[warp.pc] or self._lower(warp.pc))(warp)
            if following == BLOCKED:
                return False
            watch.after(effect, taken, result)
            warp.executed += 1
            warp.pc = self._meet(warp, following) if following == warp.meet else following
            if warp.pc == EXIT:
                warp.done = True
                watch.end()
                return False
            if warp.pc in of_instr and not watch.holds_any(self._live(warp)):
                break
            if warp.yielded or warp.executed >= warp.until:
                return False
        self._copy(warp.registers, self, watch.whole, self._whole)
        self._move(warp, of_instr.__getitem__, self._whole._flow.leaves)
        warp.pc, warp.registers, warp.watch = of_instr[warp.pc], watch.whole, None
        watch.end()
        return True

    def _live(self, warp: Any) -> set[Reg]:
        """The registers that are wanted where its lanes go on."""
        found = 0
        for at in (warp.pc, *(at for at, _, _ in warp.stack)):
            found |= self._liveness.live_in[at] if at != EXIT else 0
        return set(self._liveness.members(found))

    def _move(self, warp: Any, place: Callable[[int], int], leaves: frozenset[int]) -> None:
        """Say by other numbers where its lanes wait for others."""

        def moved(index: int) -> int:
            return place(index) if index != EXIT else EXIT

        warp.stack = [(moved(at), bits, moved(meet)) for at, bits, meet in warp.stack]
        warp.meet, warp.leaves = moved(warp.meet), leaves

    def _copy(self, source: RegisterFile, of: Program, to: RegisterFile, its: Program) -> None:
        """Copy the registers that have a place in both files; the special ones, which stay, to a new file alone."""
        for register, slot in of._placement.slots.items():
            there = its._placement.slots.get(register)
            if there is not None and (isinstance(register, Reg) or its is self):
                if slot.type == "pred":
                    to.words[there.offset // 4] = source.words[slot.offset // 4]
                else:
                    to.rows(slot.type)[there.row] = source.rows(slot.type)[slot.row]


def _meet(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether addresses that come from these, parameters and variables, none if not known, may be of one memory."""
    return not one or not other or not one.isdisjoint(other)


def _lanes_at(doubt: Doubted) -> int:
    """The lanes that had come to the load, as the function of its blocks has them: those of its guard among them."""
    found, at = 0, doubt.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename.startswith("<PTX block"):
            local = at.tb_frame.f_locals
            found = local["bits"] if doubt.instr.guard is None else local["saved"][0]
        at = at.tb_next
    return found


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


def _made(effect: Effect, handler: Handler, read: bool) -> Action:
    """The action of an instruction, which takes the operands that are there. read: whether someone reads its result."""
    instr = effect.instr
    with TakingApart(instr):
        action = handler.make(instr if read else replace(instr, operands=(Sink(), *instr.operands[1:])))
    given = 2 + sum(2 if isinstance(operand, TensorAddress) else 1 for operand in effect.sources)
    if not takes(action, given):
        raise UnknownInstruction(instr, f"{len(instr.operands)} operands")
    return together(instr, action) if "aligned" in instr.modifiers else action


def together(instr: Instr, run: Action) -> Action:
    """The action of an instruction that all lanes of a warp execute together, and that asks so first."""

    def ask(warp: Any, mask: Any, *operands: Any) -> Any:
        if mask is not None:
            refuse_apart(instr, warp, mask, aligned=True)
        return run(warp, mask, *operands)

    return ask
