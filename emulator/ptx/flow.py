"""Basic blocks of a kernel: successors, dominators, and the regions that divergent branches separate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import UnknownInstruction
from .syntax import Instr, Kernel, Symbol

EXIT = -1
EXITS = frozenset({"ret", "exit"})
TERMINATORS = EXITS | {"bra"}


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

    def target(self, instr: Instr) -> int:
        """Return the block that a `bra` jumps to."""
        return _target(instr, self.kernel, self.of_instr)

    @cached_property
    def leaves(self) -> frozenset[int]:
        """The blocks that do nothing but end the thread, and EXIT."""
        ending = (block.index for block in self.blocks if _only_ends(self.kernel.instrs[block.start]))
        return frozenset({EXIT, *ending})

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
        """Return what a divergent branch at the end of `block` separates.

        These are (blocks run by some lanes, blocks where lanes meet again).
        """
        stop = self.post_dominator[block.index]
        sides = [self._reach(successor, stop) for successor in block.successors]
        region = frozenset().union(*sides)
        joins = sides[0].intersection(*sides[1:]) if len(sides) > 1 else frozenset()
        return region, joins | ({stop} if stop != EXIT else set())

    def _reach(self, start: int, stop: int) -> frozenset[int]:
        seen: set[int] = set()
        work = [start]
        while work:
            at = work.pop()
            if at in seen or at in (stop, EXIT):
                continue
            seen.add(at)
            work.extend(self.blocks[at].successors)
        return frozenset(seen)


def _only_ends(instr: Instr) -> bool:
    return instr.opcode in EXITS and instr.guard is None


def _stops(kernel: Kernel, start: int, end: int) -> bool:
    """Return True if no lane gets past these instructions because the kernel traps, as after a failed assertion."""
    return any(instr.opcode == "trap" and instr.guard is None for instr in kernel.instrs[start:end])


def _ends(start: int, successors: Sequence[Sequence[int]]) -> bool:
    """Return True if a path leads from a block to the end."""
    seen: set[int] = set()
    work = [start]
    while work:
        at = work.pop()
        if at == EXIT:
            return True
        if at not in seen:
            seen.add(at)
            work.extend(successors[at])
    return False


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
        if instr.opcode in TERMINATORS:
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
    if last.opcode == "bra":
        target = _target(last, kernel, of_instr)
        return (target,) if last.guard is None or target == fall else (target, fall)
    if last.opcode in TERMINATORS:
        return (EXIT,) if last.guard is None else (EXIT, fall)
    return (fall,)


class _Separation:
    """The paths on which lanes that take a branch never meet those that do not, except at the end."""

    def __init__(self, ways: Sequence[tuple[int, ...]], leaves: frozenset[int]) -> None:
        forward = dict(enumerate(ways))
        self._dominator, self._into = _dominators(0, forward), _reversed(forward)
        self._left: set[int] = set()
        """Blocks from which a path leads to a block that they do not dominate and that is not in `leaves`."""
        for block in self._dominator.keys() - {EXIT}:
            for following in set(forward[block]) - leaves:
                at = block
                while at not in (following, self._dominator[following]):
                    self._left.add(at)
                    at = self._dominator[at]

    def until_the_end(self, block: int, before: int) -> bool:
        """Return True if only lanes that come from `before` reach a block and its successors."""
        known = block in self._dominator and before in self._dominator
        if not known or block in self._left or self._dominates(block, before):
            return False
        return all(at == before or self._dominates(block, at) for at in self._into[block])

    def _dominates(self, one: int, other: int) -> bool:
        while other not in (one, 0) and other in self._dominator:
            other = self._dominator[other]
        return other == one


def _post_dominators(ways: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    found = _dominators(EXIT, _reversed(dict(enumerate(ways))))
    return tuple(found.get(index, EXIT) for index in range(len(ways)))


def _reversed(ways: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Return the predecessors of each block, and of EXIT."""
    into: dict[int, list[int]] = {EXIT: [], **{node: [] for node in ways}}
    for node, following in ways.items():
        for successor in following:
            into[successor].append(node)
    return into


def _dominators(root: int, ways: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the immediate dominator of each node that is reachable from the root (Cooper, Harvey and Kennedy)."""
    order = _reverse_post_order(root, ways)
    rank, into = {node: i for i, node in enumerate(order)}, _reversed({node: ways.get(node, ()) for node in order})
    found: dict[int, int] = {root: root}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [s for s in into[node] if s in found]
            meet = known[0]
            for other in known[1:]:
                meet = _meet(meet, other, found, rank)
            if found.get(node) != meet:
                found[node] = meet
                changed = True
    return found


def _meet(a: int, b: int, found: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = found[a]
        while rank[b] > rank[a]:
            b = found[b]
    return a


def _reverse_post_order(root: int, ways: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the nodes reachable from the root in reverse post-order."""
    order: list[int] = []
    seen = {root}
    work = [(root, iter(ways[root]))]
    while work:
        node, rest = work[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                work.append((following, iter(ways.get(following, ()))))
                break
        else:
            order.append(node)
            work.pop()
    return order[::-1]
