"""Stretches of ordinary instructions: what their schedule on one sub-partition asks of its pipes, and how long it is.

ptxas reorders within a block, folds moves, makes one of two instructions in a row where the machine has one of three
operands, and tests the bits of a word eight at a time: so the cost of a stretch is that of a list schedule of what is
left of its PTX, longest chain of latencies first, one instruction a cycle, pipes of their widths.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..engine.effects import Effect
from ..ptx.syntax import Imm, Instr, Reg
from .chips import Chip

SLICE: Final = 16
"""Cycles of a schedule that are reserved at once: so finely warps of a sub-partition share its pipes. What takes longer
to give its result is waited for at the end of a stretch; what follows hides what takes less."""
FREE: Final = frozenset({"mov", "cvta", "ld.param at a constant", "not", "bar.warp.sync", "createpolicy", "fence"})
FLOATS: Final = frozenset({"f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2", "tf32"})
SPECIAL: Final = frozenset({"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div"})
FUSED: Final = frozenset({"fma", "add", "sub", "mul", "mad"})
MEMORY: Final = frozenset({"ld", "st", "atom", "red", "ldmatrix", "stmatrix"})
LOGIC: Final = frozenset({"and", "or", "xor"})
WORDS: Final = frozenset({"s32", "u32", "b32"})
BITS_A_TEST: Final = 8
MOST_OPERANDS: Final = 3
"""Of max and min."""
ISSUE, FMA, ALU, MUFU, LSU = range(5)
PIPES: Final = ("issue slots", "FMA", "ALU", "MUFU", "LSU")
WIDTHS: Final = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@dataclass(frozen=True, slots=True)
class Slice:
    """Up to SLICE cycles of a schedule: its length, and the cycles that it asks of each pipe it uses."""

    cycles: float
    demands: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Stretch:
    """A scheduled stretch. line: the first PTX line. demand: cycles by pipe."""

    line: int
    slices: tuple[Slice, ...]
    cycles: float
    demand: tuple[float, ...]


@dataclass(slots=True)
class _Node:
    pipe: int
    width: float
    latency: float
    after: list[int]
    rank: float = 0.0


def scheduled(effects: Sequence[Effect], chip: Chip) -> Stretch:
    """The schedule of instructions that run without interruption."""
    nodes = _nodes(effects, chip)
    issued = _issue(nodes)
    late = {i for i in _last(nodes) if nodes[i].latency > SLICE}
    ends = (at + (n.latency if i in late else n.width) for i, (at, n) in enumerate(zip(issued, nodes, strict=True)))
    end = max(ends, default=0.0)
    demand = [0.0] * len(PIPES)
    count = max(1, -(-int(end) // SLICE))
    parts = [[0.0] * len(PIPES) for _ in range(count)]
    for at, node in zip(issued, nodes, strict=True):
        part = parts[min(int(at) // SLICE, count - 1)]
        for pipe, cycles in {ISSUE: 1.0, node.pipe: node.width}.items():
            part[pipe] += cycles
            demand[pipe] += cycles
    slices = tuple(
        Slice(min(SLICE, end - SLICE * i), tuple((p, c) for p, c in enumerate(part) if c))
        for i, part in enumerate(parts)
        if end > SLICE * i
    )
    return Stretch(effects[0].instr.line if effects else 0, slices, end, tuple(demand))


def _last(nodes: Sequence[_Node]) -> set[int]:
    """The nodes whose results nothing within the stretch takes."""
    return set(range(len(nodes))) - {i for node in nodes for i in node.after}


def _nodes(effects: Sequence[Effect], chip: Chip) -> list[_Node]:
    """What ptxas leaves, with what each comes after."""
    nodes: list[_Node] = []
    made: dict[Reg, tuple[int, ...]] = {}
    uses = _uses(effects)
    joined: set[Reg] = set()
    tested: set[Reg] = set()
    tests = 0
    for effect in effects:
        sources = {i for r in effect.reads if isinstance(r, Reg) for i in made.get(r, ())}
        if _masks_a_bit(effect, uses):
            tested.update(effect.writes)
        tests += (is_test := effect.instr.opcode == "setp" and not tested.isdisjoint(effect.reads))
        folded = not tested.isdisjoint(effect.writes) or (is_test and tests % BITS_A_TEST != 1)
        if folded or effect.instr.opcode in FREE or _joins_next(effect, uses, joined, chip):
            for register in effect.writes:
                made[register] = tuple(sources)
            continue
        scales = effect.instr.opcode == "add" and not joined.isdisjoint(effect.reads)
        pipe, width, latency = _product(chip) if scales else cost(effect.instr, chip)
        nodes.append(_Node(pipe, width, latency, sorted(sources)))
        for register in effect.writes:
            made[register] = (len(nodes) - 1,)
    for node in reversed(nodes):
        node.rank += node.latency
        for before in node.after:
            nodes[before].rank = max(nodes[before].rank, node.rank)
    return nodes


def _uses(effects: Sequence[Effect]) -> dict[Reg, list[Instr]]:
    uses: dict[Reg, list[Instr]] = {}
    for effect in effects:
        for register in effect.reads:
            if isinstance(register, Reg):
                uses.setdefault(register, []).append(effect.instr)
    return uses


def _masks_a_bit(effect: Effect, uses: dict[Reg, list[Instr]]) -> bool:
    """Whether it takes one bit of a word for a comparison with zero: ptxas tests several at once (R2P)."""
    instr = effect.instr
    mask = instr.operands[-1] if instr.opcode == "and" else None
    if not isinstance(mask, Imm) or (mask.value & 0xFFFF_FFFF).bit_count() != 1:
        return False
    later = uses.get(effect.writes[0], ())
    return len(later) == 1 and later[0].opcode == "setp" and later[0].operands[-1] == Imm(0)


def _joins_next(effect: Effect, uses: dict[Reg, list[Instr]], joined: set[Reg], chip: Chip) -> bool:
    """Whether it is the first of two that become one of three operands. joined: results of such."""
    wanted = _seconds(effect.instr, chip)
    if not wanted or not joined.isdisjoint(effect.reads):
        return False
    (to,) = effect.writes
    later = uses.get(to, ())
    if len(later) != 1 or later[0].opcode not in wanted or len(later[0].operands) != MOST_OPERANDS:
        return False
    joined.add(to)
    return True


def _seconds(instr: Instr, chip: Chip) -> frozenset[str]:
    """With what an instruction may become one: FMNMX3 of two max or min, LOP3 of logic, IMAD of a shift and an add."""
    kinds = frozenset(instr.modifiers)
    if instr.opcode in ("max", "min"):
        three = chip.max_operands == MOST_OPERANDS and "f32" in kinds and len(instr.operands) == MOST_OPERANDS
        return frozenset({instr.opcode}) if three else frozenset()
    if kinds.isdisjoint(WORDS):
        return frozenset()
    if instr.opcode == "shl":
        return frozenset({"add"}) if isinstance(instr.operands[-1], Imm) else frozenset()
    return LOGIC if instr.opcode in LOGIC else frozenset()


def _product(chip: Chip) -> tuple[int, float, float]:
    """What a multiplication of integers costs."""
    return FMA, chip.packed_cycles, chip.fma_latency


def cost(instr: Instr, chip: Chip) -> tuple[int, float, float]:
    """(pipe, cycles of it, latency) of one instruction of a warp."""
    opcode, kinds = instr.opcode, set(instr.modifiers)
    if opcode in MEMORY:
        return _memory_cost(instr, chip)
    if opcode == "shfl.sync":
        return LSU, 1.0, chip.shared_latency
    if opcode in SPECIAL:
        return MUFU, chip.mufu_cycles, chip.mufu_latency + chip.mufu_cycles
    if opcode == "cvt":
        return ALU, chip.convert_cycles, chip.alu_latency
    if opcode in FUSED and kinds & FLOATS:
        wide = chip.packed_cycles if "f32x2" in kinds else chip.fma_cycles
        return FMA, wide, chip.fma_latency
    if opcode in ("mul", "mad"):
        return _product(chip)
    if opcode in ("bra", "ret", "exit"):
        return ISSUE, 1.0, chip.alu_latency
    wide = 2.0 if kinds & {"s64", "u64", "b64"} and opcode in ("add", "sub") else 1.0
    return ALU, wide * chip.alu_cycles, chip.alu_latency


def _memory_cost(instr: Instr, chip: Chip) -> tuple[int, float, float]:
    """Without bank conflicts, each lane another address; another CTA's shared memory is farther away, and narrower."""
    count = next((int(m[1:]) for m in instr.modifiers if m in ("v2", "v4", "v8", "x2", "x4")), 1)
    width = next((WIDTHS[m[1:]] for m in reversed(instr.modifiers) if m[1:] in WIDTHS and m[0] in "bsuf"), 4)
    width = 4 if "matrix" in instr.opcode else width
    peer = "shared::cluster" in instr.modifiers
    cycles = max(1.0, 32 * count * width / (chip.peer_bytes_per_cycle if peer else chip.smem_bytes_per_cycle))
    if instr.opcode in ("st", "red", "stmatrix"):
        return LSU, cycles, cycles
    if peer:
        return LSU, cycles, chip.peer_latency
    near = any(m.startswith(("shared", "local")) for m in instr.modifiers) or instr.opcode == "ldmatrix"
    return LSU, cycles, chip.shared_latency if near else chip.global_latency


def _issue(nodes: Sequence[_Node]) -> list[float]:
    """The cycle at which each node is issued."""
    missing = [len(node.after) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for before in node.after:
            followers[before].append(i)
    ready_at = [0.0] * len(nodes)
    waiting = [(0.0, -node.rank, i) for i, node in enumerate(nodes) if not missing[i]]
    heapq.heapify(waiting)
    ready: list[tuple[float, int]] = []
    free = [0.0] * len(PIPES)
    issued = [0.0] * len(nodes)
    now = 0.0
    while waiting or ready:
        while waiting and waiting[0][0] <= now:
            _, rank, i = heapq.heappop(waiting)
            heapq.heappush(ready, (rank, i))
        held = []
        while ready and free[nodes[ready[0][1]].pipe] > now:
            held.append(heapq.heappop(ready))
        if ready:
            _, i = heapq.heappop(ready)
            node = nodes[i]
            issued[i] = now
            if node.pipe != ISSUE:
                free[node.pipe] = now + node.width
            for follower in followers[i]:
                ready_at[follower] = max(ready_at[follower], now + node.latency)
                missing[follower] -= 1
                if not missing[follower]:
                    heapq.heappush(waiting, (ready_at[follower], -nodes[follower].rank, follower))
            now += 1
        else:
            nexts = [free[nodes[i].pipe] for _, i in held] + [w[0] for w in waiting[:1]]
            now = max(now + 1, min(nexts)) if nexts else now + 1
        for entry in held:
            heapq.heappush(ready, entry)
    return issued
