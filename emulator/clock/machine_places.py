"""The places of a kernel's operations and branches in its machine code, and of costs in its PTX."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from typing import Final

from ..ptx.dataflow import dominators, predecessors, reachable
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..sass import MachineBlock, MachineKernel, MachineTiming
from .operations import waits_at_first_use

OPERATIONS: Final = frozenset({MachineTiming.MACHINE, MachineTiming.LOAD, MachineTiming.STORE})
"""The machine instructions that operations of the PTX become."""
MOST: Final = 0.5
"""The share of a block of machine code that decides where it is charged."""
Place = tuple[int, bool]
"""A place in a kernel: before (True) or after an instruction, by its index."""


def machine_ways(blocks: Sequence[MachineBlock]) -> dict[int, list[int]]:
    """Return the successors of each block of machine code."""
    at = {label: number for number, block in enumerate(blocks) for label in block.labels}
    ways: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        last = block.instrs[-1]
        ways[number] = [at[last.target]] if last.timing is MachineTiming.BRANCH and last.target in at else []
        if (last.guarded or last.timing is not MachineTiming.BRANCH) and number + 1 < len(blocks):
            ways[number].append(number + 1)
    return ways


def loop_depths(blocks: Sequence[MachineBlock]) -> list[int]:
    """Return in how many loops each block of machine code is."""
    ways = machine_ways(blocks)
    over, into = dominators(ways, 0), predecessors(ways)
    loops: dict[int, set[int]] = {}
    for number, successors in ways.items():
        for first in successors:
            if over.get(number, 0) >> first + 1 & 1:  # a jump back to a block that is always passed before
                before = into | {first: []}
                loops.setdefault(first, {first}).update(reachable([number], before.__getitem__))
    return [sum(number in loop for loop in loops.values()) for number in range(len(blocks))]


class Places:
    """The operations and branches of PTX in machine code.

    flow: of the kernel. operations: indices of the instructions that are operations.
    """

    def __init__(self, flow: Flow, operations: Set[int], code: MachineKernel) -> None:
        self._flow, self._instrs, self._blocks = flow, flow.kernel.instrs, code.blocks
        self._into = predecessors(flow.ways)
        self._block_of = {i: block.index for block in flow.blocks for i in range(block.start, block.end)}
        self._anchors: dict[tuple[int, int], int] = {}
        self._over = dominators(flow.ways, 0)
        of_line = {instr.line: self._block_of[i] for i, instr in enumerate(self._instrs)}
        self._made = [Counter(of_line[i.line] for i in block.instrs if i.line in of_line) for block in code.blocks]
        """By block of machine code: the number of its instructions that were made of each block of PTX."""
        self._repeats: set[tuple[int, int]] = set()
        self.retries: set[int] = set()
        """The blocks of machine code that repeat what has failed in another block. They are not charged."""
        self._find_operations(operations)
        self._find_products()
        self._find_branches()

    def anchor(self, block: int, at: int) -> int | None:
        """Return the index of the PTX operation or branch that a machine instruction is, or None."""
        return self._anchors.get((block, at))

    def repeats(self, block: int, at: int) -> bool:
        """Return True for a further machine instruction of an operation, which runs only if the first has failed."""
        return (block, at) in self._repeats

    def load(self, block: int, at: int) -> int | None:
        """Return the PTX line of a load that is waited for at its first use, if a machine instruction is one."""
        index = self._anchors.get((block, at))
        found = None if index is None else self._instrs[index]
        return found.line if found is not None and waits_at_first_use(found) else None

    def before(self, index: int, number: int) -> Place:
        """Return where to charge what precedes an operation or branch in a block of machine code.

        ptxas has no branch around what it predicates. If most of the block was made of PTX that runs on either side of
        a branch, the costs go before that branch.
        """
        place = self._first_branch(index)
        block = self._block_of[place]
        while len(self._into[block]) == 1:
            (other,) = self._into[block]
            if len(self._flow.blocks[other].successors) > 1:
                if self._share(number, block) >= MOST:
                    break
                place = self._flow.blocks[other].end - 1
            block = other
        return place, True

    def after(self, index: int, number: int) -> Place:
        """Return where to charge what follows the last operation of a block of machine code."""
        place, _ = self.before(index, number)
        return (index, False) if place == index else (place, True)

    def of_block(self, number: int) -> Place:
        """Return where to charge a block of machine code without an operation or branch: where most of it was made."""
        made = self._made[number]
        block = self._flow.blocks[made.most_common(1)[0][0] if made else 0]
        last = block.end - 1
        return self.before(last, number) if self._instrs[last].kind.ends_block else self.after(last, number)

    def _share(self, number: int, block: int) -> float:
        """Return the share of a block of machine code that was made of PTX that runs only if a block of PTX has run."""
        made = self._made[number]
        under = sum(count for other, count in made.items() if self._over.get(other, 0) >> block + 1 & 1)
        return under / max(made.total(), 1)

    def _first_branch(self, index: int) -> int:
        """Return the branch that a jump belongs to: `@p bra A; bra B` is one branch."""
        number = self._block_of[index]
        block = self._flow.blocks[number]
        instr = self._instrs[index]
        if instr.kind.ends_block and instr.guard is None and block.end - block.start == 1 and block.successors:
            into = self._into[number]
            if len(into) == 1 and len(self._flow.blocks[into[0]].successors) > 1:
                return self._flow.blocks[into[0]].end - 1
        return index

    def _find_operations(self, operations: Set[int]) -> None:
        indices: defaultdict[int, list[int]] = defaultdict(list)
        for i in sorted(operations):
            indices[self._instrs[i].line].append(i)
        machine: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        plain: dict[int, tuple[int, int]] = {}
        for number, block in enumerate(self._blocks):
            for at, instr in enumerate(block.instrs):
                if instr.line not in indices:
                    continue
                if instr.timing in OPERATIONS:
                    machine[instr.line][number].append(at)
                else:
                    plain[instr.line] = number, at
        for line, ops in indices.items():
            copies = {number: ats for number, ats in machine[line].items() if not self._retries(number)}
            if copies:
                self.retries |= set(machine[line]) - set(copies)
            else:
                copies = machine[line]
            for number, ats in copies.items():
                self._anchors |= {(number, at): op for at, op in zip(ats, ops, strict=False)}
                self._repeats |= {(number, at) for at in ats[len(ops) :]}
            if not machine[line] and line in plain:
                self._anchors[plain[line]] = ops[-1]

    def _retries(self, number: int) -> bool:
        """Return True for a block of machine code that runs again until it succeeds."""
        block = self._blocks[number]
        return block.instrs[-1].target in block.labels

    def _find_products(self) -> None:
        """Find the products of warp groups in their order: ptxas writes no lines for them."""
        asked = [i for i, instr in enumerate(self._instrs) if instr.kind is Kind.GROUP_MMA]
        made = [
            (number, at)
            for number, block in enumerate(self._blocks)
            for at, instr in enumerate(block.instrs)
            if instr.timing is MachineTiming.WARPGROUP_MMA
        ]
        if len(asked) == len(made):
            self._anchors |= dict(zip(made, asked, strict=True))

    def _find_branches(self) -> None:
        indices = {instr.line: i for i, instr in reversed([*enumerate(self._instrs)]) if instr.kind.ends_block}
        for number, block in enumerate(self._blocks):
            last = block.instrs[-1]
            spins = self._retries(number) and any((number, at) in self._anchors for at in range(len(block.instrs)))
            if last.timing is MachineTiming.BRANCH and last.line in indices and not spins:
                self._anchors[number, len(block.instrs) - 1] = indices[last.line]
