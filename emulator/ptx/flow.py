"""Basic blocks of a kernel: successors, dominators, the regions that divergent branches separate, and data flow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TypeVar

from ..errors import UnknownInstruction
from .kinds import Kind
from .syntax import Instr, Kernel, Symbol

State = TypeVar("State")
Node = TypeVar("Node", bound=Hashable)
Ways = Mapping[int, Sequence[int]]
"""The successors of each block by its number, in the order of the program. A successor without an entry is ignored."""


def solve(
    ways: Ways,
    entry: Mapping[int, State],
    transfer: Callable[[int, State], State],
    join: Callable[[State, State], State],
    direction: int = 1,
) -> dict[int, State]:
    """Iterate to the fixed point. Return the state before each block that is reachable from the blocks of `entry`.

    entry: initial states. transfer: returns the state after a block; it must not modify its argument.
    join: merges a known state with another one; repeated joins must reach a fixed point.
    direction: -1 for an analysis backward, whose `ways` are the `predecessors`: "before" a block then is at its end.
    The next block is the first in this direction.
    """
    found = dict(entry)
    work = [direction * node for node in entry]
    heapify(work)
    queued = set(entry)
    while work:
        node = direction * heappop(work)
        queued.remove(node)
        state = transfer(node, found[node])
        for following in ways[node]:
            if following not in ways:
                continue
            merged = join(found[following], state) if following in found else state
            if following in found and merged == found[following]:
                continue
            found[following] = merged
            if following not in queued:
                queued.add(following)
                heappush(work, direction * following)
    return found


def predecessors(ways: Ways) -> dict[int, list[int]]:
    """Return the predecessors of each block."""
    into: dict[int, list[int]] = {node: [] for node in ways}
    for node, successors in ways.items():
        for successor in successors:
            if successor in into:
                into[successor].append(node)
    return into


def dominators(ways: Ways, root: int, direction: int = 1) -> dict[int, int]:
    """Return the dominators of each block that is reachable from `root`, itself included, as bits (block + 1).

    direction: -1 if `ways` leads against the order of the program.
    """

    def including(node: int, strict: int) -> int:
        return strict | 1 << node + 1

    strict = solve(ways, {root: 0}, including, int.__and__, direction)
    return {node: including(node, bits) for node, bits in strict.items()}


def reachable(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Return all nodes that are reachable from `starts`, these included. `following` is asked once for each node."""
    work = list(starts)
    seen = set(work)
    while work:
        for node in following(work.pop()):
            if node not in seen:
                seen.add(node)
                work.append(node)
    return seen


EXIT = -1


@dataclass(frozen=True)
class BasicBlock:
    """Instructions start..end (end excluded) of the kernel.

    successors: indices of blocks, the target of a taken branch first.
    """

    index: int
    start: int
    end: int
    successors: tuple[int, ...]


class Flow:
    """The control-flow graph of a kernel. `EXIT` is the end of the thread."""

    def __init__(self, kernel: Kernel, starts_block: Callable[[Instr], bool]) -> None:
        self.kernel = kernel
        self.blocks = _blocks(kernel, starts_block)
        self.of_instr = {block.start: block.index for block in self.blocks}
        self.ways = {block.index: block.successors for block in self.blocks}

    def target(self, instr: Instr) -> int:
        """Return the block that a `bra` jumps to."""
        return _target(instr, self.kernel, self.of_instr)

    def block_with(self, at: int) -> BasicBlock:
        """Return the block of an instruction, given by its index."""
        return self.blocks[bisect_right(self.blocks, at, key=lambda block: block.start) - 1]

    def before_each(
        self,
        entry: State,
        follow: Callable[[State, int], State],
        join: Callable[[State, State], State],
        copy: Callable[[State], State] = lambda state: state,
    ) -> Iterator[tuple[int, State]]:
        """Yield each reachable instruction, by its index, with the state before it.

        entry: the state at the start of the kernel. follow: returns the state after an instruction. join: see
        `solve`. copy: copies a state, if `follow` modifies it.
        """

        def at_end(block: int, state: State) -> State:
            state = copy(state)
            for at in range(self.blocks[block].start, self.blocks[block].end):
                state = follow(state, at)
            return state

        for block, start in solve(self.ways, {0: entry}, at_end, join).items():
            state = copy(start)
            for at in range(self.blocks[block].start, self.blocks[block].end):
                yield at, state
                state = follow(state, at)

    @cached_property
    def leaves(self) -> frozenset[int]:
        """The blocks that do nothing but end the thread, and EXIT."""
        firsts = ((block.index, self.kernel.instrs[block.start]) for block in self.blocks)
        return frozenset({EXIT, *(at for at, first in firsts if first.kind is Kind.EXIT and first.guard is None)})

    @cached_property
    def continuing_successors(self) -> tuple[tuple[int, ...], ...]:
        """The successors of each block without those on which lanes end or trap while other lanes continue.

        The remaining lanes do not wait for lanes that end. A path to the end is kept if it is the only one left.
        """
        kept = [block.successors for block in self.blocks]
        left = self.leaves | {block.index for block in self.blocks if _stops(self.kernel, block.start, block.end)}
        separation = _Separation(kept, left)
        for block, successors in enumerate(kept):
            staying = tuple(s for s in successors if s not in left)
            if len(staying) == len(successors):
                staying = tuple(s for s in successors if not separation.until_the_end(s, block))
            if 0 < len(staying) < len(successors):
                kept[block] = staying
                if not _ends(staying[0], kept):
                    kept[block] = successors
        return tuple(kept)

    @cached_property
    def post_dominator(self) -> tuple[int, ...]:
        """The immediate post-dominator of each block, at which all its continuing lanes reconverge.

        It is EXIT if they reconverge only at the end.
        """
        return _post_dominators(self.continuing_successors)

    def divergent_region(self, block: BasicBlock) -> tuple[frozenset[int], frozenset[int]]:
        """Return (blocks that some lanes run, blocks where lanes meet) for a divergent branch at the end of `block`."""
        stop = self.post_dominator[block.index]
        sides = [self._reach(successor, stop) for successor in block.successors]
        joins = sides[0].intersection(*sides[1:]) if len(sides) > 1 else set[int]()
        return frozenset().union(*sides), frozenset(joins | {stop} - {EXIT})

    def _reach(self, start: int, stop: int) -> set[int]:
        outside = (stop, EXIT)

        def following(block: int) -> list[int]:
            return [s for s in self.blocks[block].successors if s not in outside]

        return reachable([start] if start not in outside else [], following)


def _stops(kernel: Kernel, start: int, end: int) -> bool:
    """Return True if no lane gets past these instructions because the kernel traps, as after a failed assertion."""
    return any(instr.kind is Kind.TRAP and instr.guard is None for instr in kernel.instrs[start:end])


def _ends(start: int, successors: Sequence[Sequence[int]]) -> bool:
    """Return True if a path leads from a block to the end."""
    return EXIT in reachable([start], lambda block: () if block == EXIT else successors[block])


def _target(instr: Instr, kernel: Kernel, of_instr: dict[int, int]) -> int:
    label = instr.operands[0] if instr.operands else None
    if not isinstance(label, Symbol) or label.name not in kernel.labels:
        raise UnknownInstruction(instr, "the target of the branch is not a label of the kernel")
    at = kernel.labels[label.name]
    return of_instr[at] if at < len(kernel.instrs) else EXIT


def _blocks(kernel: Kernel, starts_block: Callable[[Instr], bool]) -> tuple[BasicBlock, ...]:
    instrs = kernel.instrs
    leaders = {0, *kernel.labels.values()}
    for i, instr in enumerate(instrs):
        if instr.kind.ends_block:
            leaders.add(i + 1)
        if starts_block(instr):
            leaders.add(i)
    starts = sorted(i for i in leaders if i < len(instrs))
    of_instr = {start: index for index, start in enumerate(starts)}
    blocks = []
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(instrs)
        after = (EXIT,) if _stops(kernel, start, end) else _successors(kernel, end, of_instr)
        blocks.append(BasicBlock(index, start, end, after))
    return tuple(blocks)


def _successors(kernel: Kernel, end: int, of_instr: dict[int, int]) -> tuple[int, ...]:
    last = kernel.instrs[end - 1]
    fall = of_instr.get(end, EXIT)
    if last.kind is Kind.BRANCH:
        target = _target(last, kernel, of_instr)
        return (target,) if last.guard is None or target == fall else (target, fall)
    if last.kind is Kind.EXIT:
        return (EXIT,) if last.guard is None else (EXIT, fall)
    return (fall,)


class _Separation:
    """The paths on which lanes that take a branch never meet those that do not, except at the end."""

    def __init__(self, ways: Sequence[tuple[int, ...]], leaves: frozenset[int]) -> None:
        graph = dict(enumerate(ways))
        self._dominators, self._predecessors = dominators(graph, 0), predecessors(graph)
        self._left = 0
        """Blocks, as bits, from which a path leads to a block that they do not dominate and that is not in `leaves`."""
        for block, dominating in self._dominators.items():
            for following in set(graph[block]) - leaves:
                self._left |= dominating & ~self._dominators[following]

    def until_the_end(self, block: int, before: int) -> bool:
        """Return True if only lanes that come from `before` reach a block and its successors."""
        known = block in self._dominators and before in self._dominators
        if not known or self._left >> block + 1 & 1 or self._dominates(block, before):
            return False
        return all(at == before or self._dominates(block, at) for at in self._predecessors[block])

    def _dominates(self, one: int, other: int) -> bool:
        return bool(self._dominators.get(other, 1 << other + 1) >> one + 1 & 1)


def _post_dominators(ways: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the immediate post-dominator of each block, EXIT if it does not lead to the end."""
    found = dominators(predecessors({**dict(enumerate(ways)), EXIT: ()}), EXIT, -1)
    nodes = {bits: node for node, bits in found.items()}
    strict = (found.get(index, 0) & ~(1 << index + 1) for index in range(len(ways)))
    return tuple(nodes.get(bits, EXIT) for bits in strict)
