"""Stretches of ordinary instructions: their use of a sub-partition's pipes, after what ptxas folds away.

ptxas removes moves, merges two instructions into one with three operands where the machine has it, and tests eight bits
of a word at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..chip import LANES
from ..engine.effects import Effect
from ..isa.tcgen05_ld_st import REGISTERS_A_REPEAT
from ..ptx.syntax import Imm, Instr, Reg
from .chips import Chip

SLICE: Final = 16
"""The cycles of a schedule that are reserved at once: the granularity at which warps share a sub-partition's pipes.

A longer latency is waited for at the end of a stretch; a shorter one is hidden by the next instructions.
"""
FREE: Final = frozenset({"mov", "cvta", "ld.param at a constant", "not", "bar.warp.sync", "createpolicy", "fence"})
FLOATS: Final = frozenset({"f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2", "tf32"})
SPECIAL: Final = frozenset({"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div"})
FUSED: Final = frozenset({"fma", "add", "sub", "mul", "mad"})
MEMORY: Final = frozenset({"ld", "st", "atom", "red", "ldmatrix", "stmatrix"})
LOGIC: Final = frozenset({"and", "or", "xor"})
WORDS: Final = frozenset({"s32", "u32", "b32"})
BITS_A_TEST: Final = 8
MOST_OPERANDS: Final = 3
"""The maximum operands of max and min."""
TENSOR_LOAD, TENSOR_STORE = "tcgen05.ld", "tcgen05.st"
ISSUE, FMA, ALU, MUFU, LSU, TMEM = range(6)
PIPES: Final = ("issue slots", "FMA", "ALU", "MUFU", "LSU")
"""TMEM, the path to tensor memory, is modelled by the timeline: stretches do not use it."""
WIDTHS: Final = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@dataclass(frozen=True, slots=True)
class Slice:
    """At most SLICE cycles of a schedule.

    demands: (pipe, cycles of use, how many of these may lie after the slice's end) for each pipe.
    """

    cycles: float
    demands: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Stretch:
    """A scheduled stretch. line: its first PTX line; demand: cycles of use by pipe."""

    line: int
    slices: tuple[Slice, ...]
    cycles: float
    demand: tuple[float, ...]


class Folding:
    """The instructions that ptxas folds into others. Ask for them in program order."""

    def __init__(self, effects: Sequence[Effect], chip: Chip) -> None:
        self._chip, self._uses = chip, _uses(effects)
        self._joined: set[Reg] = set()
        self._tested: set[Reg] = set()
        self._tests = 0

    def removes(self, effect: Effect) -> bool:
        """Return True if ptxas leaves nothing of an instruction."""
        if _masks_a_bit(effect, self._uses):
            self._tested.update(effect.writes)
        is_test = effect.instr.opcode == "setp" and not self._tested.isdisjoint(effect.reads)
        self._tests += is_test
        folded = not self._tested.isdisjoint(effect.writes) or (is_test and self._tests % BITS_A_TEST != 1)
        return folded or effect.instr.opcode in FREE or _joins_next(effect, self._uses, self._joined, self._chip)

    def cost(self, effect: Effect, operation: bool) -> tuple[int, float, float]:
        """Return (pipe, cycles of use, latency) of an instruction that remains."""
        if operation and effect.instr.opcode not in ("ld", TENSOR_LOAD, TENSOR_STORE):
            return ISSUE, 1.0, 1.0
        scales = effect.instr.opcode == "add" and not self._joined.isdisjoint(effect.reads)
        return _product(self._chip) if scales else cost(effect.instr, self._chip)


def _uses(effects: Sequence[Effect]) -> dict[Reg, list[Instr]]:
    uses: dict[Reg, list[Instr]] = {}
    for effect in effects:
        for register in effect.reads:
            if isinstance(register, Reg):
                uses.setdefault(register, []).append(effect.instr)
    return uses


def _masks_a_bit(effect: Effect, uses: dict[Reg, list[Instr]]) -> bool:
    """Return True if a bit of a word is masked only to compare it with zero: ptxas tests several bits at once (R2P)."""
    instr = effect.instr
    mask = instr.operands[-1] if instr.opcode == "and" else None
    if not isinstance(mask, Imm) or (mask.value & 0xFFFF_FFFF).bit_count() != 1:
        return False
    later = uses.get(effect.writes[0], ())
    return len(later) == 1 and later[0].opcode == "setp" and later[0].operands[-1] == Imm(0)


def _joins_next(effect: Effect, uses: dict[Reg, list[Instr]], joined: set[Reg], chip: Chip) -> bool:
    """Return True for the first of two instructions that ptxas merges into one with three operands.

    joined: the results of such first instructions.
    """
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
    """Return the opcodes that an instruction may merge with: FMNMX3 (max, min), LOP3 (logic), IMAD (shift and add)."""
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
    """Return the cost of an integer multiplication."""
    return FMA, chip.packed_cycles, chip.fma_latency


def cost(instr: Instr, chip: Chip) -> tuple[int, float, float]:
    """Return (pipe, cycles of use, latency) of one instruction of a warp."""
    opcode, kinds = instr.opcode, set(instr.modifiers)
    if opcode in (TENSOR_LOAD, TENSOR_STORE):
        return TMEM, transferred(instr) / chip.tmem_bytes_per_cycle, chip.tmem_latency
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
    """Return the cost of a memory access without bank conflicts, every lane at another address.

    An access to another CTA's shared memory has a longer latency and less bandwidth.
    """
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


def transferred(instr: Instr) -> int:
    """Return the bytes that a warp's tcgen05.ld or tcgen05.st transfers."""
    shape = next(m for m in instr.modifiers if m in REGISTERS_A_REPEAT)
    count = next(int(m[1:]) for m in instr.modifiers if m[0] == "x" and m[1:].isdecimal())
    return 4 * LANES * REGISTERS_A_REPEAT[shape] * count
