"""List scheduling of basic blocks: the order of issue and the time between machine operations.

ptxas reorders instructions within a block. The model is a list schedule of what is left of the PTX: one instruction a
cycle and pipes of finite width. Instructions that the first operation needs have priority, then those on the longest
latency chain.
Operations (a copy, an MMA, a store to tensor memory, an arrival) keep their program order. They issue as soon as their
inputs are ready, while other instructions fill the latencies. They cut the schedule into segments.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from math import ceil, inf
from types import MappingProxyType
from typing import Final

from ..engine.effects import Effect
from ..isa.registry import Timing
from ..ptx.kinds import Kind
from ..ptx.syntax import Reg
from .carried import NONE, Held, is_fence
from .chips import Chip
from .operations import waits_at_first_use
from .origins import NOWHERE, Origin
from .segment import (
    BUSY_PIPES,
    FIXED_LATENCY,
    ISSUE,
    LONG_SCOREBOARD,
    LSU,
    MUFU,
    PIPES,
    SHORT_SCOREBOARD,
    SLICE,
    TMEM,
    Folding,
    LineCost,
    Loading,
    Segment,
    Slice,
    is_global_load,
    offsets,
)

NEVER: Final = 1 << 30
QUEUED: Final = frozenset({ISSUE, TMEM})
"""Pipes with a queue. TMEM accepts an instruction at any time and processes one after the other."""


@dataclass(frozen=True)
class AwaitedLoad:
    """A wait for a load.

    line: the PTX line of the load if it is an operation, else of the instruction that waits. carried: the PTX line of
    a load that an earlier block carries into this one.
    """

    line: int
    carried: int | None = None


@dataclass(slots=True)
class Node:
    """An instruction to schedule.

    after: predecessors, with the delay in cycles or None for the predecessor's latency.
    operation: True for an operation of the machine. orders: later accesses to memory come after it.
    load: the line of the load whose arrival this node is, if a warp waits for it at the first use.
    carried: a load that its block does not wait for, or the arrival of one.
    due: the first operation that needs this node.
    loaded, asked, wasted: the bytes of global memory that L2 sends, that lanes ask for, and the rest of the sectors.
    origin: the parameters that their address follows from. waits: the share of its executions that wait for L2.
    updates: cycles of L2 that an atomic takes all SMs.
    conflicts: the cycles that bank conflicts add.
    flops: of mma.sync.
    slack: the cycles by which its result may be late before anything waits for it.
    remote: its value comes from L2 or HBM.
    awaits: the reason of the stall before it, if it issues when a value arrives.
    """

    pipe: int
    width: float
    latency: float
    after: dict[int, float | None]
    operation: bool = False
    orders: bool = False
    load: int | None = None
    carried: bool = False
    line: int = 0
    rank: float = 0.0
    due: int = NEVER
    loaded: float = 0.0
    origin: Origin = NOWHERE
    waits: float = 0.0
    updates: float = 0.0
    wasted: float = 0.0
    asked: float = 0.0
    conflicts: float = 0.0
    flops: float = 0.0
    slack: float = 0.0
    remote: bool = False
    awaits: str = ""


class Producers:
    """The producers of each register: numbers of nodes and negated lines of loads.

    others: identities of the effects of second sides of branches, which do not replace what the first sides wrote.
    held, loaded: the loads of registers that the block has not written.
    """

    def __init__(self, others: Set[int], held: Held, loaded: Held) -> None:
        self.of: dict[Reg, frozenset[int]] = {}
        self._others, self._held, self._loaded = others, held, loaded

    def read(self, effect: Effect) -> frozenset[int]:
        """Return the producers of what an effect reads."""
        return NONE.union(*(self._one(r) for r in effect.reads if isinstance(r, Reg)))

    def _one(self, register: Reg) -> frozenset[int]:
        known = next((known for known in (self.of, self._held, self._loaded) if register in known), self.of)
        return known.get(register, NONE)

    def write(self, effect: Effect, producers: frozenset[int]) -> None:
        """Record the producers of the registers that an effect writes."""
        for register in effect.writes:
            earlier = self.of.get(register, NONE) if id(effect) in self._others else NONE
            self.of[register] = earlier | producers


Between = Sequence[Segment | AwaitedLoad]


class Scheduler:
    """A scheduler of a kernel's blocks, in program order. operations: identities of the effects that are operations."""

    def __init__(self, found: Sequence[Effect], operations: Set[int], chip: Chip, loading: Loading) -> None:
        self._operations, self._chip, self._lanes, self._loading = operations, chip, loading.lanes, loading
        self._offsets = offsets(found)
        self._loaded = {
            register: frozenset({-effect.instr.line})
            for effect in found
            if self._is_load(effect)
            for register in effect.writes
        }
        """Registers that hold loaded values: the negated lines of the loads."""
        self._issued: list[int] = []
        self._waited: list[int] = []
        """Loads that the next operation waits for, because a tcgen05.wait::ld preceded it."""

    def _is_load(self, effect: Effect) -> bool:
        """Return True if an effect is an operation that a warp waits for at the first use of its value."""
        return waits_at_first_use(effect.instr) and (id(effect) in self._operations)

    def block(
        self, effects: Sequence[Effect], others: Set[int] = frozenset(), held: Held = MappingProxyType({})
    ) -> list[Between]:
        """Return the segments and waits before each operation, and those after the last.

        A wait for a load directly precedes its first use. others: identities of the effects in the second
        sides of branches. A reader of their results also waits for the first side's result. held: the loads that
        earlier blocks carry into this one.
        """
        nodes, first = self._nodes(effects, others, held), effects[0].instr.line if effects else 0
        issued = _issue(nodes)
        needed = {before for node in nodes for before, cycles in node.after.items() if cycles is None}
        _give_slack(nodes, issued)
        _find_awaits(nodes, issued)
        for i, node in enumerate(nodes):
            if node.load is None:
                node.carried = node.carried and i not in needed
            else:
                issued[i], line = min((at, to.line) for at, to in zip(issued, nodes, strict=True) if i in to.after)
                node.line = line if node.carried else node.load
        between: list[Between] = []
        parts: list[Segment | AwaitedLoad] = []
        pending: list[tuple[float, Node]] = []
        start = end = 0.0
        awaits = BUSY_PIPES
        for i in sorted(range(len(nodes)), key=lambda i: (issued[i], nodes[i].load is None)):
            node, at = nodes[i], issued[i]
            if node.load is None and not node.operation:
                pending.append((at, node))
                waits = i not in needed and node.latency > SLICE and not node.carried
                done = at + (node.latency if waits else node.width)
                end, awaits = (done, _reason(node)) if done > end else (end, awaits)
                continue
            over = max((at + node.width for at, node in pending), default=start)
            parts += segments(pending, start, at if node.load is None else min(at, over), first, node.awaits)
            pending, start = [], at
            if node.load is not None:
                parts.append(AwaitedLoad(node.line, node.load if node.carried else None))
            else:
                between.append(parts)
                parts, start = [], at + 1
        parts += segments(pending, start, end, first, awaits)
        return [*between, parts]

    def carries(self, effect: Effect) -> bool:
        """Return True for a load of global memory that a warp need not wait for in its own block."""
        may_wait = is_global_load(effect.instr, self._lanes) and waits_at_first_use(effect.instr)
        return may_wait and id(effect) not in self._operations

    def _nodes(self, effects: Sequence[Effect], others: Set[int], held: Held) -> list[Node]:
        """Return a node for each instruction that ptxas does not fold away, with its predecessors."""
        nodes: list[Node] = []
        made = Producers(others, held, self._loaded)
        loads: dict[int, int] = {}
        arrivals: dict[int, int] = {}
        behind: dict[int, float | None] = {}
        """The last operation, and the memory accesses after it."""
        folding = Folding(effects, self._chip, self._loading, self._offsets)
        late = NONE.union(*held.values())

        def node(of: int) -> int:
            if of >= 0:
                return of
            if of not in arrivals:
                arrivals[of] = len(nodes)
                after = _last(nodes) if of in late else dict.fromkeys([loads[of]] if of in loads else [])
                nodes.append(Node(ISSUE, 0.0, 0.0, after, load=-of, carried=of in late))
            return arrivals[of]

        for effect in effects:
            instr, number = effect.instr, -effect.instr.line
            if instr.kind is Kind.TENSOR_LOAD_WAIT:
                self._waited += self._issued
                self._issued = []
                continue
            fenced = _fenced(effect, nodes, late)
            sources = fenced | made.read(effect) | (late & {number} if self.carries(effect) else NONE)
            if not fenced and folding.removes(effect):
                made.write(effect, sources)
                if loaded := frozenset(of for of in sources if of < 0 and of not in late):
                    self._loaded |= dict.fromkeys(effect.writes, loaded)
                continue
            after: dict[int, float | None] = {node(of): None for of in sources}
            operation = id(effect) in self._operations
            if not operation and (first := folding.vector(effect)) is not None:
                made.write(effect, made.of[first])
                continue
            if operation or fenced or instr.kind is Kind.EXIT:
                after = behind | after | dict.fromkeys(map(node, self._waited))
                self._waited = []
            accesses = not operation and _is_ordered(effect)
            if accesses:
                after |= _ordered_behind(effect, behind, nodes)
            *parts, cost = folding.costs(effect, operation)
            after = _chained(nodes, parts, after, instr.line)
            last = len(nodes)
            nodes.append(_node(effect, cost, after, operation, folding))
            nodes[last].carried, nodes[last].orders = self.carries(effect), operation or bool(fenced)
            if nodes[last].orders:
                behind = {last: 1.0}
            if accesses:
                behind[last] = 1.0
            is_load = self._is_load(effect)
            if is_load:
                loads[number] = last
                arrivals.pop(number, None)
            if instr.kind is Kind.TENSOR_LOAD:
                self._issued.append(number)
            made.write(effect, frozenset({number if is_load else last}))
        _rank(nodes)
        return nodes


def _chained(
    nodes: list[Node], parts: Sequence[tuple[int, float, float]], after: dict[int, float | None], line: int
) -> dict[int, float | None]:
    """Add nodes of machine instructions that need one another; return the predecessors of the next one."""
    for part in parts:
        nodes.append(Node(*part, after, line=line))
        after = {len(nodes) - 1: None}
    return after


def _node(
    effect: Effect,
    cost: tuple[int, float, float],
    after: dict[int, float | None],
    operation: bool,
    folding: Folding,
) -> Node:
    """Return the node of an instruction that remains, or of the last of its machine instructions."""
    node = Node(*cost, after, operation, line=effect.instr.line)
    node.loaded, node.wasted = folding.loaded(effect)
    if node.loaded:
        node.origin, node.waits, node.updates = folding.origin(effect), folding.waits(effect), folding.updates(effect)
    if is_global_load(effect.instr, folding.lanes):
        node.asked = folding.asked(effect)
    node.flops = folding.flops(effect)
    if not operation:
        node.remote, node.conflicts = folding.is_remote(effect), folding.conflicts(effect, node.width)
    return node


def _rank(nodes: Sequence[Node]) -> None:
    """Set the priority of nodes: the first operation that needs them and the longest latency chain behind them."""
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        node.rank += node.latency
        node.due = min(node.due, i) if node.operation else node.due
        for before in node.after:
            nodes[before].rank = max(nodes[before].rank, node.rank)
            nodes[before].due = min(nodes[before].due, node.due)


def _is_ordered(effect: Effect) -> bool:
    """Return True for an access to shared state in memory, which must not move across an operation."""
    in_memory = effect.entry is not None and effect.entry.timing is Timing.MEMORY
    return in_memory and {*effect.instr.modifiers}.isdisjoint({"nc", "param", "const", "local"})


def _ordered_behind(effect: Effect, behind: Iterable[int], nodes: Sequence[Node]) -> dict[int, float | None]:
    """Return the predecessors of an access to memory: operations, and what an acquire load waits for to arrive."""
    acquires = "acquire" in effect.instr.modifiers
    after: dict[int, float | None] = {i: None for i in behind if acquires and nodes[i].remote}
    return after | {i: 1.0 for i in behind if nodes[i].orders}


def _last(nodes: Sequence[Node]) -> dict[int, float | None]:
    """Return the predecessor of a carried load's arrival: no scheduler moves the use of a late value forward."""
    last = next((i for i in reversed(range(len(nodes))) if nodes[i].load is None), None)
    return {} if last is None else {last: 1.0}


def _fenced(effect: Effect, nodes: Sequence[Node], late: frozenset[int]) -> frozenset[int]:
    """Return the loads that a fence waits for: those of its block before it, and those that are carried into it."""
    return late.union(i for i, node in enumerate(nodes) if node.carried) if is_fence(effect) else NONE


def segments(
    pending: Sequence[tuple[float, Node]], start: float, end: float, line: int, awaits: str
) -> list[Segment | AwaitedLoad]:
    """Return the nodes that are issued from `start` to `end` as a segment; no segment if no time passes.

    line: the PTX line of a segment in which nothing is issued. awaits: the reason of a stall at its end.
    """
    if end <= start:
        return []
    first = pending[0][1].line if pending else line
    lines, waits = _line_costs(pending, start, end, first, awaits)
    demand = [0.0] * len(PIPES)
    count = ceil((end - start) / SLICE)
    parts = [[0.0] * len(PIPES) for _ in range(count)]
    over = [[0.0] * len(PIPES) for _ in range(count)]
    asked = sum(node.asked for _, node in pending)
    loaded, flops = [defaultdict[Origin, list[tuple[float, float, float]]](list) for _ in range(count)], 0.0
    whole = defaultdict[Origin, float](float)
    carried: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    slack, used = [inf] * count, [inf] * count
    for at, node in pending:
        i = min(int(at - start) // SLICE, count - 1)
        ends = min(start + SLICE * (i + 1), end)
        if node.pipe == LSU:
            slack[i] = min(slack[i], node.slack)
        if node.carried:
            carried[i].append((node.line, at + node.latency - ends))
        if node.loaded:
            loaded[i][node.origin].append((node.loaded, node.waits, node.updates))
            whole[node.origin] += node.loaded
            if not node.carried:
                used[i] = min(used[i], at + node.latency + node.slack - ends)
        flops += node.flops
        for pipe, cycles in {ISSUE: 1.0, node.pipe: node.width}.items():
            parts[i][pipe] += cycles
            over[i][pipe] = max(over[i][pipe], at + cycles - ends)
            demand[pipe] += cycles
    slices = tuple(
        Slice(
            min(SLICE, end - start - SLICE * i),
            tuple((p, c, o) for p, (c, o) in enumerate(zip(part, over[i], strict=True)) if c),
            tuple((origin, *_totals(some)) for origin, some in loaded[i].items()),
            0.0 if slack[i] == inf else slack[i],
            max(used[i], 0.0),
            tuple(_within(waits, start + SLICE * i, min(start + SLICE * (i + 1), end))),
            tuple(carried[i]),
        )
        for i, part in enumerate(parts)
    )
    return [Segment(first, slices, end - start, tuple(demand), tuple(whole.items()), flops, tuple(lines), asked=asked)]


def _totals(some: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    first, second, third = zip(*some, strict=True)
    return sum(first), sum(second), sum(third)


Waits = list[tuple[float, float, int]]
"""(start, end, PTX line) of each wait for a value from L2 or HBM."""


def _line_costs(
    pending: Sequence[tuple[float, Node]], start: float, end: float, line: int, awaits: str
) -> tuple[list[LineCost], Waits]:
    """Return (the costs of each instruction, the waits for global memory). The last one waits for the rest of the time.

    awaits: the reason of that wait.
    """
    costs: list[LineCost] = []
    waits: Waits = []

    def stalled(until: float, by: int, reason: str) -> float:
        """Return the cycles of a stall, none if it is a wait for global memory."""
        if reason == LONG_SCOREBOARD and until > start:
            waits.append((start, until, by))
        return 0.0 if reason == LONG_SCOREBOARD else max(until - start, 0.0)

    for at, node in pending:
        before = stalled(at, node.line, node.awaits)
        costs.append(LineCost(node.line, 1.0, before, node.awaits or BUSY_PIPES, node.conflicts, node.wasted))
        start, line = max(start, at) + 1, node.line
    if left := stalled(end, line, awaits):
        costs.append(LineCost(line, stalled=left, reason=awaits or BUSY_PIPES))
    return costs, waits


def _within(waits: Waits, start: float, end: float) -> Iterator[tuple[int, float, bool]]:
    """Yield (PTX line, cycles, whether it begins) of the waits between two times."""
    for begin, over, line in waits:
        if (cycles := min(over, end) - max(begin, start)) > 0:
            yield line, cycles, begin >= start


def _find_awaits(nodes: Sequence[Node], issued: Sequence[float]) -> None:
    """Set the reasons of stalls before the nodes that issue in the cycle in which a value arrives."""
    for i, node in enumerate(nodes):
        arrivals = [(issued[at] + nodes[at].latency, at) for at, cycles in node.after.items() if cycles is None]
        arrival, last = max(arrivals, default=(-1.0, i))
        node.awaits = _reason(nodes[last]) if arrival > issued[i] - 1 else ""


def _reason(node: Node) -> str:
    """Return the reason of a stall until a node's value is there."""
    if node.remote:
        return LONG_SCOREBOARD
    return SHORT_SCOREBOARD if node.pipe in (LSU, MUFU) else FIXED_LATENCY


def _give_slack(nodes: Sequence[Node], issued: Sequence[float]) -> None:
    """Set the slack of loads of shared memory: a warp issues what does not need them while the LSU is behind."""
    uses: dict[int, float] = {}
    for i, node in enumerate(nodes):
        for before, cycles in node.after.items():
            if cycles is None and nodes[before].pipe == LSU:
                uses[before] = min(uses.get(before, inf), issued[i])
    for i, at in uses.items():
        nodes[i].slack = max(at - issued[i] - nodes[i].latency, 0.0)


def _issue(nodes: Sequence[Node]) -> list[float]:
    """Return the cycle at which each node issues. The arrival of a load takes no issue slot."""
    missing = [len(node.after) for node in nodes]
    followers: list[list[tuple[int, float | None]]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for before, cycles in node.after.items():
            followers[before].append((i, cycles))
    ready_at = [0.0] * len(nodes)
    waiting = [(0.0, i) for i in range(len(nodes)) if not missing[i]]
    ready: list[list[tuple[int, float, int]]] = [[] for _ in range(TMEM + 1)]
    free = [0.0] * (TMEM + 1)
    issued = [0.0] * len(nodes)
    now = 0.0

    def issue(i: int) -> None:
        node = nodes[i]
        issued[i], done = now, now + node.latency
        if node.pipe != ISSUE:
            free[node.pipe] = max(free[node.pipe], now) + node.width
        if node.pipe == TMEM:
            done = free[TMEM] + node.latency
        for follower, cycles in followers[i]:
            ready_at[follower] = max(ready_at[follower], done if cycles is None else now + cycles)
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(waiting, (ready_at[follower], follower))

    while waiting or any(ready):
        while waiting and waiting[0][0] <= now:
            _, i = heapq.heappop(waiting)
            node = nodes[i]
            if node.load is not None:
                issue(i)
            else:
                heapq.heappush(ready[node.pipe], (node.due, -node.rank, i))
        pipes = [pipe for pipe, some in enumerate(ready) if some and (free[pipe] <= now or pipe in QUEUED)]
        if pipes:
            _, _, i = heapq.heappop(ready[min(pipes, key=lambda pipe: ready[pipe][0])])
            issue(i)
            now += 1
        else:
            nexts = [free[pipe] for pipe, some in enumerate(ready) if some] + [w[0] for w in waiting[:1]]
            now = max(now + 1, min(nexts, default=0.0))
    return issued
