"""The schedule that ptxas made: what its machine code costs between a kernel's operations.

A warp issues in order: an instruction goes when the scoreboards that it waits for are released, its pipe is free and
the stall count of the one before has passed. Operations and branches of the PTX are found in the machine code by their
PTX lines. What precedes one in its block is charged before it, wherever its PTX stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

from ..chip import LANES
from ..engine.effects import Effect
from ..isa.registry import Timing
from ..ptx.dataflow import forward
from ..ptx.flow import Flow
from ..ptx.kinds import Kind
from ..sass import SCOREBOARDS, MachineInstr, MachineKernel, MachineTiming
from .chips import Chip
from .lane_addresses import LaneAddresses
from .machine_places import Place, Places, loop_depths, machine_ways
from .schedule import NOTHING, AwaitedLoad, Charges, Node, stretches
from .stretch import ALU, FMA, ISSUE, LSU, MUFU, PIPES, Folding, Stretch

READ_CYCLES: Final = 10
"""Cycles after which a store or copy has read its registers: 5 to 11 (cicuvc/nvidia-sass-document, lsu_mio_structure).
"""
OF_PTX: Final = frozenset({MachineTiming.LOAD, MachineTiming.STORE, MachineTiming.WARP_MMA})
"""Machine instructions whose cost follows from their PTX, where that is an access or a product too."""
GLOBAL: Final = frozenset({"LDG", "LD", "ATOM", "ATOMG"})
"""Loads that may go to global memory."""


Parts = list[Stretch | AwaitedLoad]
Loads = tuple[frozenset[int], ...]
"""The PTX lines of the loads under way that release each scoreboard."""


class MachineSchedule:
    """The cost of a kernel's machine code around its PTX instructions.

    flow: of the kernel. found: its effects. operations: indices of the effects that are operations of the machine.
    """

    def __init__(
        self, flow: Flow, found: Sequence[Effect], operations: Set[int], code: MachineKernel, chip: Chip
    ) -> None:
        self._blocks = code.blocks
        self._places = Places(flow, operations, code)
        self._costs = _Costs(found, operations, code, chip)

    def charges(self) -> Charges:
        """Return the costs. Of an operation that has several copies, the copy in the innermost loop counts."""
        found: dict[tuple[int, bool], dict[object, Parts]] = {}
        none: Loads = (NOTHING,) * SCOREBOARDS
        loads = forward(machine_ways(self._blocks), {0: none}, self._loads_after, _joined)
        depths = loop_depths(self._blocks)
        charged = set(range(len(self._blocks))) - self._places.retries
        for number in sorted(charged, key=lambda number: (depths[number], -number)):
            copy: dict[tuple[int, bool, object], Parts] = {}
            for place, anchor, parts in self._block(number, loads.get(number, none)):
                copy.setdefault((*place, anchor), []).extend(parts)
            for (index, before, anchor), parts in copy.items():
                found.setdefault((index, before), {})[anchor] = parts
        joined = {place: [part for parts in of.values() for part in parts] for place, of in found.items()}
        return Charges(
            {index: parts for (index, before), parts in joined.items() if before},
            {index: parts for (index, before), parts in joined.items() if not before},
        )

    def _loads_after(self, number: int, loads: Loads) -> Loads:
        held = list(loads)
        for at, instr in enumerate(self._blocks[number].instrs):
            for board in instr.waits:
                held[board] = NOTHING
            if instr.writes is not None and (line := self._places.load(number, at)) is not None:
                held[instr.writes] |= {line}
        return tuple(held)

    def _block(self, number: int, loads: Loads) -> Iterator[tuple[Place, object, Parts]]:
        """Yield what is charged to each anchor of a block: (where, the anchor, parts)."""
        instrs, places, held = self._blocks[number].instrs, self._places, list(loads)
        costs = self._costs
        free, released = [0.0] * len(PIPES), [0.0] * SCOREBOARDS
        pending: list[tuple[float, Node]] = []
        parts: Parts = []
        start = now = 0.0
        last: tuple[Place, object] | None = None
        for at, instr in enumerate(instrs):
            now = max(now, *(released[board] for board in instr.waits), 0.0)
            if arriving := sorted(frozenset().union(*(held[board] for board in instr.waits))):
                parts += [*stretches(pending, start, now, instr.line), *map(AwaitedLoad, arriving)]
                pending, start = [], now
            for board in instr.waits:
                held[board] = NOTHING
            node = (
                Node(ISSUE, 1.0, 1.0, {}, line=instr.line) if places.repeats(number, at) else costs.node(number, instr)
            )
            if node.pipe != ISSUE:
                now = max(now, free[node.pipe])
                free[node.pipe] = now + node.width
            anchor = places.anchor(number, at)
            done = now + (node.latency if anchor is None else 0.0)
            if instr.writes is not None:
                released[instr.writes] = max(released[instr.writes], done)
                if (line := places.load(number, at)) is not None:
                    held[instr.writes] |= {line}
            if instr.reads is not None:
                released[instr.reads] = max(released[instr.reads], now + READ_CYCLES)
            after = now + max(instr.stall, 1)
            if anchor is None:
                pending.append((now, node))
            elif instr.timing is MachineTiming.BRANCH:
                pending.append((now, node))
                yield places.before(anchor, number), anchor, [*parts, *stretches(pending, start, after, instr.line)]
                parts, pending, start, last = [], [], after, None
            else:
                yield places.before(anchor, number), anchor, [*parts, *stretches(pending, start, now, instr.line)]
                parts, pending, start, last = [], [], now + 1, (places.after(anchor, number), ("after", anchor))
            now = after
        if pending or parts:
            place, charged = last or (places.of_block(number), ("block", number))
            yield place, charged, [*parts, *stretches(pending, start, now, instrs[-1].line)]


def _joined(one: Loads, other: Loads) -> Loads:
    return tuple(a | b for a, b in zip(one, other, strict=True))


class _Costs:
    """The pipe, width and latency of machine instructions."""

    def __init__(self, found: Sequence[Effect], operations: Set[int], code: MachineKernel, chip: Chip) -> None:
        self._chip, self._folding = chip, Folding(found, chip, LaneAddresses(found))
        self._effects: dict[int, Effect] = {}
        """The effect of each line whose cost depends on its PTX: accesses to memory and products of warps."""
        for i, effect in enumerate(found):
            timing = None if effect.entry is None else effect.entry.timing
            if i not in operations and (timing is Timing.MEMORY or effect.instr.kind is Kind.WARP_MMA):
                self._effects[effect.instr.line] = effect
        self._pieces = Counter(
            (number, instr.line)
            for number, block in enumerate(code.blocks)
            for instr in block.instrs
            if instr.timing in OF_PTX
        )
        """The number of machine instructions that a block has for a line of PTX."""

    def node(self, number: int, instr: MachineInstr) -> Node:
        """Return the cost of an instruction of a block."""
        effect = self._effects.get(instr.line)
        if effect is not None and instr.timing in OF_PTX:
            return self._of_ptx(effect, instr, self._pieces[number, instr.line])
        pipe, width, latency = self._cost(instr)
        return Node(pipe, width, latency, {}, line=instr.line)

    def _of_ptx(self, effect: Effect, instr: MachineInstr, pieces: int) -> Node:
        """Return a part of the cost of a memory access or of a product."""
        folding = self._folding
        pipe, width, latency = folding.cost(effect, operation=False)
        loaded, wasted = folding.loaded(effect)
        conflicts = folding.conflicts(effect, width) / pieces
        node = Node(pipe, width / pieces, latency, {}, line=instr.line, loaded=loaded / pieces, wasted=wasted / pieces)
        return replace(node, conflicts=conflicts, flops=folding.flops(effect) / pieces)

    def _cost(self, instr: MachineInstr) -> tuple[int, float, float]:
        chip = self._chip
        match instr.timing:
            case MachineTiming.FMA:
                return FMA, chip.fma_cycles, chip.fma_latency
            case MachineTiming.PACKED:
                return FMA, chip.packed_cycles, chip.fma_latency
            case MachineTiming.ALU:
                return ALU, chip.alu_cycles, chip.alu_latency
            case MachineTiming.CONVERT:
                return ALU, chip.convert_cycles, chip.alu_latency
            case MachineTiming.MUFU:
                return MUFU, chip.mufu_cycles, chip.mufu_latency + chip.mufu_cycles
            case MachineTiming.LOAD | MachineTiming.STORE:
                cycles = max(LANES * instr.lane_bytes / chip.smem_bytes_per_cycle, 1.0)
                return LSU, cycles, chip.global_latency if instr.opcode in GLOBAL else chip.shared_latency
        if instr.opcode == "SHFL":
            return LSU, 1.0, chip.shared_latency
        return ISSUE, 1.0, chip.alu_latency if instr.writes is None else chip.shared_latency
