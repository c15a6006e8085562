"""The skeleton of a kernel: the instructions that decide control flow and what warps request of the machine.

The time of a launch depends on control flow, synchronisation and the shapes of operations. A computed value is kept
only if one of these depends on it. All other instructions become segments, which take time and compute nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import MappingProxyType

from ..chip import LANES
from ..engine.effects import Effect, effects, registers
from ..isa.registry import Handler
from ..machine.launch.launch import Launch
from ..ptx.flow import BasicBlock, Flow, predecessors, reachable
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Kernel, Operand, Reg
from .accesses import Load, Site
from .carried import carried
from .chips import Chip, reading
from .early_waits import with_early_waits
from .lane_addresses import LINE_BYTES, LaneAddresses
from .operations import (
    ACCESS,
    AWAIT_LOAD,
    OUTCOME,
    PASS,
    SEGMENT,
    SPIN,
    is_global_store,
    operation,
    waits_at_first_use,
)
from .origins import Origin, Origins
from .outcomes import Recording
from .polls import without_polls
from .registers import Registers, estimated
from .schedule import Between, Scheduler
from .segment import FLOATS, Loading, Segment, addressed_by, is_global_atomic, is_global_load, site_of, touched
from .spans import Span, spans
from .spins import repeats

PREDICATED = 8
"""The maximum length of a skipped block that ptxas is assumed to predicate instead of branching around it."""
PREDICATED_SIDE = 16
"""The maximum length of each side of a branch with two that ptxas is assumed to predicate. It does so with guarded
loads of ThunderKittens of 13 PTX instructions (four of them moves and branches), and loads all before it stores one."""
LOADS = frozenset({Kind.LOAD, Kind.ATOMIC})
NO_REDUCTIONS = frozenset({"exch", "cas", "acquire", "acq_rel"})
"""The modifiers of `atom` that `red` does not have."""
MATRICES = frozenset({Kind.TENSOR_LOAD, Kind.MATRIX_LOAD, Kind.WARP_MMA})


@dataclass(frozen=True)
class Skeleton:
    """A kernel that `Program` runs with `operations.find`, and its segments by number.

    polls: the branches that repeat a poll of global memory.
    decided: floating-point comparisons that decide a branch. recording: executes a cluster to record their outcomes;
    without these they are taken to be false.
    figures: the names of the chip's figures that the segments depend on.
    registers: returns the registers of a thread.
    sites: the ordinary loads and atomics whose requests it records, by their index, instead of segments. Empty: it has
    segments. stores: by their index, the parameters that the addresses of stores of warps to global memory follow from.
    spans: returns the spans of the addresses of both in a launch.
    """

    kernel: Kernel
    segments: tuple[Segment, ...]
    decided: tuple[Instr, ...]
    recording: Recording
    polls: tuple[Instr, ...]
    figures: frozenset[str]
    registers: Callable[[], Registers]
    sites: Mapping[int, Site]
    stores: Mapping[int, Origin]
    spans: Callable[[Launch], Mapping[int, Span]]


class Analysis:
    """The properties of a kernel that its skeletons share: they depend neither on the chip nor on a launch.

    variables: host addresses of the module's variables.
    """

    def __init__(self, kernel: Kernel, variables: Mapping[str, int]) -> None:
        kernel, found, self.polls = without_polls(kernel, variables)
        kernel, found = _changed(with_early_waits(kernel, found), kernel, found, variables)
        kernel, found = _changed(_with_reductions(kernel, found), kernel, found, variables)
        self.lanes = LaneAddresses(found)
        self.kernel, self.found = _changed(_with_named_stores(kernel, found, self.lanes), kernel, found, variables)
        self.variables, self.origins, self.sliced = variables, Origins(self.found), _Slice(self.found)


def skeleton(of: Analysis, chip: Chip, loads: Mapping[int, Load] | None = MappingProxyType({})) -> Skeleton:
    """Reduce a kernel to its skeleton.

    loads: its ordinary loads in a launch, by index. None: make a skeleton that records the requests of its loads of
    global memory, if it has any.
    """
    kernel, found, lanes, origins, sliced = of.kernel, of.found, of.lanes, of.origins, of.sliced
    sites = {} if loads is not None else _sites(found, lanes, origins, sliced.keep)
    keep, addressed, guarded = sliced.with_addresses(sites)
    operations = {i: made for i in keep if (made := operation(found[i].instr)) is not None}
    alone = {
        id(kernel.instrs[i]) for i, made in operations.items() if made.delays and not waits_at_first_use(found[i].instr)
    }
    flow = Flow(kernel, lambda instr: id(instr) in alone)
    recording_chip, figures = reading(chip)
    loading = Loading(lanes, origins, {id(found[i]): load for i, load in (loads or {}).items()})
    before: Mapping[int, Between] = {}
    after: Mapping[int, Between] = {}
    if not sites:
        before, after = _listed(flow, found, operations.keys(), alone, recording_chip, loading)
    passed = _passed(_regions(flow, alone, operations.keys()), sites) if sites else {}
    recording = Recording(kernel, sliced.compared, of.variables)
    instrs: list[Instr] = []
    segments: list[Segment] = []
    moved: dict[int, int] = {}

    def spend(between: Between) -> None:
        for part in between:
            if isinstance(part, Segment):
                opcode, numbers = SEGMENT, [len(segments)]
                segments.append(part)
            else:
                opcode, numbers = AWAIT_LOAD, [part.line] if part.carried is None else [part.line, part.carried]
            instrs.append(Instr(opcode, (), (*map(Imm, numbers),), None, part.line, f"{opcode} {numbers}"))

    def leave(i: int) -> None:
        effect, instr = found[i], kernel.instrs[i]
        if i in passed:
            instrs.append(Instr(PASS, (), (*map(Imm, passed[i]),), None, instr.line, f"{PASS} {passed[i]}"))
        if i in sites:
            address = (addressed_by(instr),) if i in addressed else ()
            guard = instr.guard if i in guarded else None
            instrs.append(Instr(ACCESS, (), (Imm(i), *address), guard, instr.line, f"{ACCESS} {i}"))
        if i in operations:
            kept = operations[i].kept(instr, i in sliced.hinted)
            spins = instr.kind is Kind.MBARRIER_WAIT and repeats(kernel, i, lambda at: found[at].writes)
            if is_global_store(instr):
                values = instr.operands[:2] if i in sliced.map_stores else ()
                sectors, whole = touched(instr, lanes)
                apart = LANES * LINE_BYTES if lanes.scattered(addressed_by(instr)) else sectors
                kept = replace(kept, operands=(*map(Imm, (i, sectors, whole, apart)), *values))
            instrs.append(replace(kept, opcode=SPIN) if spins else kept)
            if instr.kind in MATRICES:
                instrs.extend(_zeros(instr, [r for r in effect.writes if r in sliced.needed]))
        elif i in sliced.cut:
            instrs.extend(_outcomes(recording, i) if i in recording.compared else _zeros(instr, effect.writes))
        elif i in keep:
            instrs.append(instr)

    starts = {block.start for block in flow.blocks}
    for i in range(len(kernel.instrs)):
        if i in starts:
            moved[i] = len(instrs)
        spend(before.get(i, ()))
        leave(i)
        spend(after.get(i, ()))
    end = len(instrs)
    labels = {name: moved.get(at, end) for name, at in kernel.labels.items()}
    left = replace(kernel, instrs=tuple(instrs), labels=labels, locations=())
    decided = tuple(kernel.instrs[i] for i in recording.compared)
    names = frozenset(figures)
    stores = {i: origins.of(addressed_by(e.instr)) for i, e in enumerate(found) if is_global_store(e.instr)}
    spanned = partial(_spans, found, sliced, {*sites, *stores})
    registers_of = partial(estimated, kernel, found, flow)
    return Skeleton(left, tuple(segments), decided, recording, of.polls, names, registers_of, sites, stores, spanned)


def _sites(found: Sequence[Effect], lanes: LaneAddresses, origins: Origins, performed: Set[int]) -> dict[int, Site]:
    """Return the loads and atomics of global memory, by index, but for atomics that are performed."""
    return {
        i: site_of(e.instr, lanes, origins)
        for i, e in enumerate(found)
        if is_global_load(e.instr, lanes) or (is_global_atomic(e.instr, lanes) and i not in performed)
    }


def _spans(found: Sequence[Effect], sliced: _Slice, sites: Collection[int], launch: Launch) -> Mapping[int, Span]:
    """Return the spans of the addresses of loads and stores in a launch."""
    addresses = {i: addressed_by(found[i].instr) for i in sites}
    behind = sliced.behind(chain.from_iterable(map(registers, addresses.values())))
    of = spans([found[i] for i in sorted(behind)], launch)
    return {i: of(address) for i, address in addresses.items()}


def _with_reductions(kernel: Kernel, found: Sequence[Effect]) -> Kernel:
    """Return a kernel with `red` for each `atom` outside shared memory whose result nothing reads, as ptxas has it.

    The skeleton executes an `atom` of shared memory if another warp reads what it wrote.
    """
    read = {register for effect in found for register in effect.reads}

    def reduced(effect: Effect, instr: Instr) -> Instr:
        unread = instr.kind is Kind.ATOMIC and _space(instr) != "shared" and read.isdisjoint(effect.writes)
        if not unread or not NO_REDUCTIONS.isdisjoint(instr.modifiers):
            return instr
        return replace(instr, opcode="red", operands=instr.operands[1:])

    return replace(kernel, instrs=tuple(map(reduced, found, kernel.instrs)))


def _passed(regions: Iterable[_Region], sites: Iterable[int]) -> dict[int, list[int]]:
    """Return the loads that warps come to before an instruction, executed or not, by the instruction's index."""
    passed: dict[int, list[int]] = {}
    for region in regions:
        for i in (i for i in sites if i in region.whole):
            passed.setdefault(region.place(i), []).append(i)
    return passed


def _changed(
    new: Kernel, kernel: Kernel, found: Sequence[Effect], variables: Mapping[str, int]
) -> tuple[Kernel, Sequence[Effect]]:
    """Return a changed kernel with its effects; `kernel` with those that were `found` if it is the same."""
    return (kernel, found) if new == kernel else (new, effects(new, variables))


def _with_named_stores(kernel: Kernel, found: Sequence[Effect], lanes: LaneAddresses) -> Kernel:
    """Return a kernel whose stores to generic addresses name global memory, unless they are known to be in shared."""

    def named(effect: Effect, instr: Instr) -> Instr:
        if instr.kind is not Kind.STORE or _space(instr) != "generic" or lanes.in_shared(effect.instr.operands[0]):
            return instr
        return replace(instr, modifiers=("global", *instr.modifiers))

    return replace(kernel, instrs=tuple(map(named, found, kernel.instrs)))


def _listed(
    flow: Flow, found: Sequence[Effect], operations: Set[int], alone: Set[int], chip: Chip, loading: Loading
) -> tuple[Mapping[int, Between], Mapping[int, Between]]:
    """List schedules of a kernel's regions: (the costs before each instruction, those after it), by its index."""
    scheduler = Scheduler(found, {id(found[i]) for i in operations}, chip, loading)
    held = carried(flow, found, scheduler.carries)
    before: dict[int, Between] = {}
    after: dict[int, Between] = {}
    for region in _regions(flow, alone, operations):
        whole = region.whole
        inner = [i for i in whole if i not in region.branches and id(flow.kernel.instrs[i]) not in alone]
        others = {id(found[i]) for body in region.others for i in body}
        listed = scheduler.block([found[i] for i in inner], others, held.get(whole.start, {}))
        *parts, rest = _counted(listed, len(whole))
        for i, part in zip((i for i in inner if i in operations), parts, strict=True):
            before[region.place(i)] = [*before.get(region.place(i), ()), *part]
        if inner and found[inner[-1]].instr.kind.ends_block:
            before[inner[-1]] = rest
        else:
            after[whole.stop - 1] = rest
    return before, after


def _counted(listed: Sequence[Between], instructions: int) -> Sequence[Between]:
    """Give the first segment of a region's schedule the number of the region's instructions."""
    for at, between in enumerate(listed):
        for i, part in enumerate(between):
            if isinstance(part, Segment):
                counted = [*between[:i], replace(part, instructions=instructions), *between[i + 1 :]]
                return [*listed[:at], counted, *listed[at + 1 :]]
    return listed


@dataclass(frozen=True)
class _Region:
    """Instructions that are scheduled together.

    skips: by the index of a branch, the instructions that it may skip. others: the second sides of branches with two.
    """

    whole: range
    skips: Mapping[int, range]
    others: Sequence[range]

    @property
    def branches(self) -> Set[int]:
        """The branches that ptxas removes: those that skip, and the ends of first sides."""
        return {*self.skips, *(other.start - 1 for other in self.others)}

    def place(self, operation: int) -> int:
        """Return the place of the instructions before an operation: before a branch that may skip it."""
        return next((branch for branch, body in self.skips.items() if operation in body), operation)


def _regions(flow: Flow, alone: Set[int], operations: Set[int]) -> Iterator[_Region]:
    """Yield runs of blocks that ptxas would merge."""
    blocks, instrs = flow.blocks, flow.kernel.instrs
    into = predecessors(flow.ways)

    def is_new(block: BasicBlock, *before: int) -> bool:
        return id(instrs[block.start]) in alone or sorted(into[block.index]) != [*before]

    first = 0
    while first < len(blocks):
        skips: dict[int, range] = {}
        others: list[range] = []
        last = first
        while last + 1 < len(blocks):
            here, body, *rest = blocks[last : last + 3]
            if here.successors == (last + 1,) and not is_new(body, last):
                last += 1
                continue
            if (other := _other_side(blocks, last, instrs, operations)) and not (
                is_new(body, last) or is_new(rest[0], last) or is_new(blocks[last + 3], last + 1, last + 2)
            ):
                skips[here.end - 1] = range(body.start, other.stop)
                others.append(other)
                last += 3
                continue
            is_short = body.end - body.start <= PREDICATED and body.successors == (last + 2,)
            if not rest or here.successors != (last + 2, last + 1) or not is_short or is_new(body, last):
                break
            if is_new(rest[0], last, last + 1) or instrs[body.end - 1].kind.ends_block:
                break
            skips[here.end - 1] = range(body.start, body.end)
            last += 2
        yield _Region(range(blocks[first].start, blocks[last].end), skips, others)
        first = last + 1


def _other_side(blocks: Sequence[BasicBlock], at: int, instrs: Sequence[Instr], operations: Set[int]) -> range | None:
    """Return the second side of the branch that ends a block, if both are short, meet, and have no operations."""
    if at + 3 >= len(blocks) or blocks[at].successors != (at + 2, at + 1):
        return None
    sides = blocks[at + 1 : at + 3]
    if any(side.successors != (at + 3,) or side.end - side.start > PREDICATED_SIDE for side in sides):
        return None
    if not operations.isdisjoint(range(sides[0].start, sides[1].end)):
        return None
    if instrs[sides[0].end - 1].kind is not Kind.BRANCH or instrs[sides[1].end - 1].kind.ends_block:
        return None
    return range(sides[1].start, sides[1].end)


def _zeros(instr: Instr, written: Sequence[Reg]) -> Iterator[Instr]:
    """Yield moves of zero to the registers that a data instruction writes."""
    for n, register in enumerate(written):
        yield Instr("mov", (register.type,), (register, Imm(0)), None, instr.line, f"{instr.text} {n}")


def _outcomes(recording: Recording, i: int) -> Iterator[Instr]:
    """Yield instructions that give each predicate of a comparison of data its recorded value."""
    for register in recording.compared[i]:
        number = recording.number(i, register)
        yield Instr(OUTCOME, (), (register, Imm(number)), None, recording.kernel.instrs[i].line, f"{OUTCOME} {number}")


class _Slice:
    """A backward slice: the kept instructions, and the data instructions whose results are replaced by zero.

    needed: the registers that the kept instructions read.
    """

    def __init__(self, found: Sequence[Effect]) -> None:
        self._found = found
        self._writers: dict[Reg, list[int]] = {}
        for i, effect in enumerate(found):
            for register in effect.writes:
                self._writers.setdefault(register, []).append(i)
        self.keep: set[int] = set()
        self.cut: set[int] = set()
        self.map_stores = self._map_stores()
        self.hinted: set[int] = set()
        """Operations whose hints follow from the launch, and from loads that are kept anyway."""
        self._take(i for i, e in enumerate(found) if e.instr.kind.ends_block or _is_always_kept(e))
        while stores := self._stores():
            self._take(stores)
        hints = self._hints()
        self.needed = {r for i in self.keep for r in self._needed(i)} | hints

    @property
    def compared(self) -> dict[int, tuple[Reg, ...]]:
        """The comparisons of data that something depends on, each with the predicates that it writes."""
        return {i: self._found[i].writes for i in sorted(self.cut) if self._found[i].instr.kind is Kind.COMPARE}

    def _hints(self) -> set[Reg]:
        """Keep what the hints of operations depend on; return their registers."""
        hints: set[Reg] = set()
        for i in sorted(self.keep):
            instr = self._found[i].instr
            made = operation(instr)
            if made is None or not (operands := made.hints(instr)):
                continue
            wanted = {r for operand in operands for r in registers(operand) if isinstance(r, Reg)}
            behind = self.behind(wanted)
            if all(at in self.keep or self._is_plain(at) for at in behind):
                self.keep |= behind
                self.hinted.add(i)
                hints |= wanted
        return hints

    def with_addresses(self, loads: Iterable[int]) -> tuple[set[int], set[int], set[int]]:
        """Return (instructions to keep, loads with a known address, loads with a known guard).

        An address or a guard is known if it follows from the launch. The instructions that it depends on are kept, too.
        """
        keep, known = set(self.keep), (set[int](), set[int]())
        for i in loads:
            instr = self._found[i].instr
            guard = () if instr.guard is None else (instr.guard[0],)
            wanted: tuple[Iterable[Operand], ...] = registers(addressed_by(instr)), guard
            for found, operands in zip(known, wanted, strict=True):
                behind = self.behind(operands)
                if all(at in keep or self._is_plain(at) for at in behind):
                    keep |= behind
                    found.add(i)
        return keep, *known

    def behind(self, wanted: Iterable[Operand]) -> set[int]:
        """Return the instructions that the values of registers follow from."""
        return reachable(self._writing(wanted), lambda at: self._writing(self._needed(at)))

    def _writing(self, wanted: Iterable[Operand]) -> set[int]:
        return {i for r in wanted if isinstance(r, Reg) for i in self._writers.get(r, ())}

    def _is_plain(self, i: int) -> bool:
        """Return True for an instruction that computes from registers and parameters, and is no data."""
        effect = self._found[i]
        parameter = effect.instr.kind is Kind.LOAD and "param" in effect.instr.modifiers
        return parameter or not (self._is_cut(i) or effect.instr.kind in LOADS or operation(effect.instr) is not None)

    def _take(self, firsts: Iterable[int]) -> None:
        """Keep instructions and what they depend on, up to data."""

        def needed_by(i: int) -> Iterator[int]:
            for register in () if self._is_cut(i) else self._needed(i):
                yield from self._writers.get(register, ())

        taken = reachable(firsts, needed_by)
        self.cut |= {i for i in taken if self._is_cut(i)}
        self.keep |= taken - self.cut

    def _is_cut(self, i: int) -> bool:
        instr = self._found[i].instr
        return _is_data(self._found[i]) and (operation(instr) is None or instr.kind is Kind.ATOMIC)

    def _stores(self) -> list[int]:
        """Return stores and atomics that are not kept yet, of non-data values, to a space that a kept load reads."""
        kept = [self._found[i].instr for i in self.keep]
        spaces = {_space(instr) for instr in kept if instr.kind in LOADS} & {"shared", "local"}
        if any(instr.opcode.startswith("tensormap.") for instr in kept):
            spaces.add("shared")
        return [
            i
            for i, effect in enumerate(self._found)
            if effect.instr.kind in (Kind.STORE, Kind.ATOMIC)
            and i not in self.keep
            and _space(effect.instr) in spaces
            and not self._of_data(effect)
        ]

    def _map_stores(self) -> frozenset[int]:
        """Return the global stores that may write a tensor map which the kernel then changes in global memory.

        Their values are stored, unlike those of other stores to global memory.
        """
        if not any(e.instr.opcode == "tensormap.replace" and _space(e.instr) != "shared" for e in self._found):
            return frozenset()
        return frozenset(i for i, e in enumerate(self._found) if is_global_store(e.instr) and not self._of_data(e))

    def _needed(self, i: int) -> set[Reg]:
        """Return the registers that the skeleton's form of an instruction reads."""
        stored = self._found[i].instr.operands[:2] if i in self.map_stores else ()
        return _needed(self._found[i]) | {r for o in stored for r in registers(o) if isinstance(r, Reg)}

    def _of_data(self, effect: Effect) -> bool:
        def read(register: Reg) -> Iterator[Reg]:
            for i in self._writers.get(register, ()):
                yield from (r for r in self._found[i].reads if isinstance(r, Reg))

        stored = {r for operand in effect.instr.operands[1:] for r in registers(operand) if isinstance(r, Reg)}
        return any(_is_data(self._found[i]) for r in reachable(stored, read) for i in self._writers.get(r, ()))


def _is_always_kept(effect: Effect) -> bool:
    """Return True for an operation of the machine. Accesses to memory are kept only if something depends on them."""
    instr = effect.instr
    accesses = (*LOADS, Kind.STORE)
    return is_global_store(instr) or (operation(instr) is not None and instr.kind not in accesses)


def _is_data(effect: Effect) -> bool:
    """Return True if an instruction's result is data: floating-point arithmetic or moved matrices."""
    instr = effect.instr
    if instr.kind in MATRICES and effect.writes:
        return True
    if instr.kind in (Kind.LOAD, Kind.STORE, Kind.MOVE) or instr.kind.ends_block:
        return False
    if isinstance(effect.entry, Handler) and operation(instr) is not None and instr.kind is not Kind.ATOMIC:
        return False
    return not FLOATS.isdisjoint(instr.modifiers)


def _needed(effect: Effect) -> set[Reg]:
    """Return the registers that the skeleton's form of an instruction reads."""
    instr = effect.instr
    guard = set() if instr.guard is None else {instr.guard[0]}
    if (made := operation(instr)) is not None:
        return guard | {r for o in made.kept(instr).operands[made.dst :] for r in registers(o) if isinstance(r, Reg)}
    return guard | {r for r in effect.reads if isinstance(r, Reg)}


def _space(instr: Instr) -> str:
    spaces = ("shared", "local", "global", "param", "const")
    return next((s for m in instr.modifiers for s in spaces if m.startswith(s)), "generic")
