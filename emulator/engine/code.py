"""The code of a kernel's blocks: places of registers, machine code, and one Python function per block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

from ..errors import Decoding
from ..isa.registry import Lowering
from ..native.builder import Builder
from ..native.code import Step
from ..native.compile import StepLists, runner
from ..native.load_store import LoadStoreStep
from ..ptx.flow import Flow
from ..ptx.syntax import Reg
from .blocks import BlockFunction, BlockWriter, Instructions
from .effects import Effect
from .fetch import Fetcher
from .registers import Liveness, Placement
from .segments import Chain, Segment, placed_registers, segments, within_one_block


@dataclass(frozen=True)
class Layout:
    """Blocks of a kernel cut into segments, and the place of each register that outlives one."""

    flow: Flow
    liveness: Liveness
    segments: Sequence[Sequence[Segment]]
    placement: Placement
    fetcher: Fetcher

    @classmethod
    def of(cls, flow: Flow, liveness: Liveness, effects: Sequence[Effect], varying: Set[Reg]) -> Layout:
        """Lay out the blocks of `flow`. varying: the registers that may differ between lanes."""
        cut = segments(flow, effects, liveness)
        blocks = within_one_block(flow, effects, liveness)
        placement = Placement(placed_registers(cut, liveness), effects, blocks)
        return cls(flow, liveness, cut, placement, Fetcher(placement.slots, frozenset(varying)))


class Code:
    """The functions of a kernel's blocks. Each is written when a warp first reaches its block.

    accesses: loads and stores that are machine code, by the id of their effects.
    """

    def __init__(
        self,
        layout: Layout,
        instructions: Instructions,
        accesses: Mapping[int, LoadStoreStep],
        writer: Callable[..., BlockWriter] = BlockWriter,
    ) -> None:
        self.flow, self.liveness, self.placement = layout.flow, layout.liveness, layout.placement
        self.file_bytes = layout.placement.bytes
        """The size of a warp's register file. Scratch rows lie behind the registers."""
        chains = self._compile(layout, accesses)
        self.writer = writer(layout.flow, layout.fetcher, layout.segments, chains, runner(), instructions)
        self.counts = [block.end - block.start for block in layout.flow.blocks]
        self.starts = [block.start for block in layout.flow.blocks]
        """The number of instructions of each block, and the index of its first one."""
        self.functions: list[BlockFunction | None] = [None] * len(layout.flow.blocks)

    def write(self, block: int) -> BlockFunction:
        """Write the function of a block."""
        made = self.functions[block] = self.writer.function(self.flow.blocks[block])
        return made

    def _compile(self, layout: Layout, accesses: Mapping[int, LoadStoreStep]) -> dict[int, Chain]:
        """Compile all chains. Return them by the id of their first effect."""
        chains = [chain for block in layout.segments for chain in _chains(block, accesses)]
        lists = [[s for segment in chain for s in self._steps(segment, accesses)] for chain in chains]
        self._lists = StepLists(lists)
        found = {}
        for i, (chain, steps) in enumerate(zip(chains, lists, strict=True)):
            effects = [s.effects[0] for s in chain if id(s.effects[0]) in accesses]
            places = [at for at, step in enumerate(steps) if isinstance(step, LoadStoreStep)]
            stops = tuple(
                (e, self._lists.address(i, at), self._lists.address(i, at + 1))
                for e, at in zip(effects, places, strict=True)
            )
            found[id(chain[0].effects[0])] = Chain(self._lists.address(i), len(chain), stops)
        return found

    def _steps(self, segment: Segment, accesses: Mapping[int, LoadStoreStep]) -> Sequence[Step | LoadStoreStep]:
        access = accesses.get(id(segment.effects[0]))
        if access is not None:
            return [access]
        builder = lowered(segment, self.placement)
        steps = builder.finish(self.liveness.members(segment.live))
        self.file_bytes = max(self.file_bytes, self.placement.bytes + builder.code.placed(self.placement.bytes))
        return steps


def _chains(block: Sequence[Segment], accesses: Mapping[int, LoadStoreStep]) -> list[list[Segment]]:
    """Return the longest runs of segments of a block that are machine code throughout."""
    found: list[list[Segment]] = []
    for together, run in groupby(block, lambda s: s.inlined or id(s.effects[0]) in accesses):
        found += [list(run)] if together else []
    return found


def lowered(segment: Segment, placement: Placement) -> Builder:
    """Lower a segment of inlined instructions. The caller finishes the builder."""
    builder = Builder(placement.slots)
    for effect in segment.effects:
        assert isinstance(effect.entry, Lowering)
        builder.set_guard(effect.instr.guard)
        with Decoding(effect.instr):
            effect.entry.lower(builder, effect.instr)
    return builder
