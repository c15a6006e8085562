"""Basic blocks of a kernel: successors, post-dominators and what each branch can keep apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import UnknownInstruction
from .syntax import Instr, Kernel, Symbol

EXIT = -1
LEAVES = frozenset({"ret", "exit"})
ENDS = LEAVES | {"bra"}


@dataclass(frozen=True)
class BasicBlock:
    """Instructions start..end (end excluded) of the kernel; successors by index, the taken one first."""

    index: int
    start: int
    end: int
    successors: tuple[int, ...]


class Flow:
    """The control-flow graph of a kernel. `EXIT` stands for the end of the thread."""

    def __init__(self, kernel: Kernel, starts_block: Callable[[Instr], bool]) -> None:
        self.kernel = kernel
        self.blocks = _blocks(kernel, starts_block)
        self.of_instr = {block.start: block.index for block in self.blocks}

    def target(self, instr: Instr) -> int:
        """The block that a `bra` jumps to."""
        return _target(instr, self.kernel, self.of_instr)

    @cached_property
    def leaves(self) -> frozenset[int]:
        """Where a thread does nothing but end."""
        ending = (block.index for block in self.blocks if _only_ends(self.kernel.instrs[block.start]))
        return frozenset({EXIT, *ending})

    @cached_property
    def goes_on(self) -> tuple[tuple[int, ...], ...]:
        """The successors of each block without those where some lanes end, or stop the kernel, while the others go on:
        nobody waits for them. A way to the end is kept where it is the last."""
        kept = [block.successors for block in self.blocks]
        left = self.leaves | {block.index for block in self.blocks if _stops(self.kernel, block.start, block.end)}
        for block, successors in enumerate(kept):
            others = tuple(s for s in successors if s not in left)
            if 0 < len(others) < len(successors):
                kept[block] = others
                if not _ends(others[0], kept):
                    kept[block] = successors
        return tuple(kept)

    @cached_property
    def post_dominator(self) -> tuple[int, ...]:
        """Where all lanes that go on after each block meet at the earliest, EXIT where they meet only at the end: the
        immediate post-dominator."""
        return _post_dominators(self.goes_on)

    def apart(self, block: BasicBlock) -> tuple[frozenset[int], frozenset[int]]:
        """What a divergent branch at the end of `block` separates: (blocks run by some lanes, blocks where
        lanes meet again)."""
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
    return instr.opcode in LEAVES and instr.guard is None


def _stops(kernel: Kernel, start: int, end: int) -> bool:
    """Whether no lane comes past these instructions: the kernel stops itself there, as behind a failed assertion."""
    return any(instr.opcode == "trap" and instr.guard is None for instr in kernel.instrs[start:end])


def _ends(start: int, successors: Sequence[Sequence[int]]) -> bool:
    """Whether a way leads from a block to the end."""
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
        raise UnknownInstruction(instr, "a branch to something that is not a label of the kernel")
    at = kernel.labels[label.name]
    return of_instr[at] if at < len(kernel.instrs) else EXIT


def _blocks(kernel: Kernel, starts_block: Callable[[Instr], bool]) -> tuple[BasicBlock, ...]:
    instrs = kernel.instrs
    leaders = {0, *kernel.labels.values()}
    for i, instr in enumerate(instrs):
        if instr.opcode in ENDS:
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
    if last.opcode in ENDS:
        return (EXIT,) if last.guard is None else (EXIT, fall)
    return (fall,)


def _post_dominators(ways: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Cooper, Harvey and Kennedy's iteration on the reversed graph."""
    successors = dict(enumerate(ways))
    order = _reverse_post_order(successors)
    rank = {node: i for i, node in enumerate(order)}
    found: dict[int, int] = {EXIT: EXIT}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [s for s in successors[node] if s in found]
            meet = known[0]
            for other in known[1:]:
                meet = _meet(meet, other, found, rank)
            if found.get(node) != meet:
                found[node] = meet
                changed = True
    return tuple(found.get(index, EXIT) for index in successors)


def _meet(a: int, b: int, found: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = found[a]
        while rank[b] > rank[a]:
            b = found[b]
    return a


def _reverse_post_order(successors: dict[int, tuple[int, ...]]) -> list[int]:
    """Of the reversed graph, from EXIT. Blocks that cannot reach EXIT (endless loops) are left out."""
    predecessors: dict[int, list[int]] = {EXIT: []}
    for node in successors:
        predecessors[node] = []
    for node, following in successors.items():
        for successor in following:
            predecessors[successor].append(node)
    order: list[int] = []
    seen = {EXIT}
    work = [(EXIT, iter(predecessors[EXIT]))]
    while work:
        node, rest = work[-1]
        for predecessor in rest:
            if predecessor not in seen:
                seen.add(predecessor)
                work.append((predecessor, iter(predecessors[predecessor])))
                break
        else:
            order.append(node)
            work.pop()
    return order[::-1]
