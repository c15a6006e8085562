"""The registers of a kernel: which are still needed, which are uniform, and their places in a warp's register file.

Liveness says whose values are still needed, at the ends of blocks and within them.

A uniform register is proved to hold the same value in all lanes that run together: every instruction that writes it
computes the same in all lanes, and no branch on a varying predicate lets some lanes write it and then meet others that
did not. Handlers get such registers as integers.

Only registers that outlive a segment have a place. A register is 32 lanes side by side: 128 bytes for b32 (b16 uses the
first 64), 256 for b64, 512 for b128 (low halves, then high halves). A predicate is one word of 32 bits. Registers that
live within one block share places with those of other blocks, which halves a warp's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..chip import LANES
from ..isa import special_registers
from ..isa.special_registers import changes, register_type
from ..native.builder import Slot
from ..native.memory_layout import address_of
from ..ptx.flow import BasicBlock, Flow, predecessors, reachable, solve
from ..ptx.kinds import Kind
from ..ptx.syntax import Imm, Instr, Operand, Reg, Special, Vector
from .effects import Effect, Source


class Liveness:
    """Sets of registers as bits of integers, by Hecht's backward iteration over blocks."""

    def __init__(self, flow: Flow, effects: Sequence[Effect]) -> None:
        self._number: dict[Reg, int] = {}
        self._names: list[Reg] = []
        self._effects = effects
        self._sets: dict[int, tuple[int, int]] = {}
        ends = [self._block(block.start, block.end) for block in flow.blocks]

        def at_start(block: int, live: int) -> int:
            used, defined = ends[block]
            return used | (live & ~defined)

        found = solve(predecessors(flow.ways), dict.fromkeys(flow.ways, 0), at_start, int.__or__, -1)
        self.live_out = [found[block.index] for block in flow.blocks]
        self.live_in = [at_start(block.index, found[block.index]) for block in flow.blocks]

    def reads(self, effect: Effect) -> int:
        """Return the set of the registers that an instruction reads."""
        return self._reads_and_writes(effect)[0]

    def writes(self, effect: Effect) -> int:
        """Return the set of the registers that an instruction writes."""
        return self._reads_and_writes(effect)[1]

    def _reads_and_writes(self, effect: Effect) -> tuple[int, int]:
        found = self._sets.get(id(effect))
        if found is None:
            found = self._sets[id(effect)] = self.bits(effect.reads), self.bits(effect.writes)
        return found

    def bit(self, register: Reg) -> int:
        """Return the set of this register alone."""
        number = self._number.get(register)
        if number is None:
            number = self._number[register] = len(self._names)
            self._names.append(register)
        return 1 << number

    def bits(self, registers: Iterable[object]) -> int:
        """Return the set of the registers among `registers`."""
        found = 0
        for register in registers:
            if isinstance(register, Reg):
                found |= self.bit(register)
        return found

    def members(self, bits: int) -> list[Reg]:
        """Return the registers of a set."""
        found = []
        while bits:
            low = bits & -bits
            found.append(self._names[low.bit_length() - 1])
            bits ^= low
        return found

    def before(self, effect: Effect, after: int) -> int:
        """Return the set live before an instruction, given the set live after it."""
        reads, writes = self._reads_and_writes(effect)
        return (after if effect.preserves else after & ~writes) | reads

    def unread_waits(self, flow: Flow) -> frozenset[int]:
        """Return the ids of the effects that ask for an mbarrier's phase and whose results nothing reads."""
        found = set[int]()
        for block in flow.blocks:
            after = self.live_out[block.index]
            for effect in reversed(self._effects[block.start : block.end]):
                if effect.instr.kind.asks_mbarrier and not self.writes(effect) & after:
                    found.add(id(effect))
                after = self.before(effect, after)
        return frozenset(found)

    def _block(self, start: int, end: int) -> tuple[int, int]:
        used = defined = 0
        for effect in self._effects[start:end]:
            reads, written = self._reads_and_writes(effect)
            used |= reads & ~defined
            if effect.preserves:
                used |= written & ~defined
            else:
                defined |= written
        return used, defined


_THREAD: Final = Special("%tid.x")
_LANE_BITS: Final = LANES.bit_length() - 1


def varying(flow: Flow, effects: Sequence[Effect], liveness: Liveness, row: bool = False) -> set[Reg]:
    """Return the registers that may differ between lanes; all others are uniform.

    row: a block is known to be one row of threads, so that %tid.x / 32 is uniform.
    """
    return _Analysis(flow, effects, liveness, _warp_numbers(effects) if row else set()).run()


def _warp_numbers(effects: Sequence[Effect]) -> set[int]:
    """Return the ids of effects that shift a copy of %tid.x so far right that the result is uniform."""
    writers = Counter(register for effect in effects for register in effect.writes)
    copies = {
        effect.writes[0]
        for effect in effects
        if effect.instr.kind is Kind.MOVE and effect.reads == (_THREAD,) and writers[effect.writes[0]] == 1
    }
    return {id(effect) for effect in effects if _shifted(effect.instr, copies)}


def _shifted(instr: Instr, threads: Container[Operand]) -> bool:
    match instr.kind, instr.operands:
        case Kind.SHIFT_RIGHT, (_, source, Imm(bits)):
            return source in threads and bits >= _LANE_BITS
    return False


class _Analysis:
    def __init__(self, flow: Flow, effects: Sequence[Effect], liveness: Liveness, warp_numbers: Container[int]) -> None:
        self._flow, self._effects, self._liveness, self._warp_numbers = flow, effects, liveness, warp_numbers
        self._varying: set[Source] = set()
        self._split: set[int] = set()
        self._users: dict[Reg, list[Effect]] = {}
        for effect in effects:
            for source in effect.reads:
                if isinstance(source, Reg):
                    self._users.setdefault(source, []).append(effect)
        self._block_of = {id(effects[b.end - 1]): b for b in flow.blocks}

    def run(self) -> set[Reg]:
        specials = {source for effect in self._effects for source in effect.reads if isinstance(source, Special)}
        self._varying |= {special for special in specials if special_registers.varies(special)}
        found = reachable([r for effect in self._effects for r in self._made_varying(effect)], self._from)
        return found

    def _from(self, register: Reg) -> list[Reg]:
        """Return the registers that vary because this one does."""
        self._varying.add(register)
        return [r for effect in self._users.get(register, ()) for r in self._made_varying(effect)]

    def _made_varying(self, effect: Effect) -> Sequence[Reg]:
        return self._branch(effect) if effect.entry is None else self._spread(effect)

    def _spread(self, effect: Effect) -> Sequence[Reg]:
        """Return the destinations that vary because of an instruction's operands or kind."""
        guard = effect.instr.guard
        if guard is not None and guard[0] in self._varying:
            return effect.writes
        if id(effect) in self._warp_numbers:
            return []
        return [
            register
            for register, deciders in effect.results
            if deciders is None or not self._varying.isdisjoint(deciders)
        ]

    def _branch(self, effect: Effect) -> list[Reg]:
        """Return the registers that a varying branch makes vary: written on its sides and live where they meet."""
        block = self._block_of[id(effect)]
        guard = effect.instr.guard
        if guard is None or guard[0] not in self._varying or block.index in self._split:
            return []
        self._split.add(block.index)
        if effect.instr.kind is not Kind.BRANCH:
            return []
        return self._separated(block)

    def _separated(self, block: BasicBlock) -> list[Reg]:
        region, joins = self._flow.divergent_region(block)
        written = 0
        for index in region:
            inside = self._flow.blocks[index]
            for effect in self._effects[inside.start : inside.end]:
                written |= self._liveness.writes(effect)
        met = 0
        for join in joins:
            met |= self._liveness.live_in[join]
        return self._liveness.members(written & met)


ROW = 128
UNSET = 0x7FBADBAD
"""Each word of the registers of a warp that starts."""
_BYTES = {"pred": 4, "b8": ROW, "b16": ROW, "b32": ROW, "b64": 2 * ROW, "b128": 4 * ROW}


class Placement:
    """Slots of registers and special registers, and the size of the file in bytes.

    lasting: the bytes at the beginning of the file that hold registers of more than one block.
    blocks: the block of each register that lives within one block only. Registers of different blocks share places:
    they are dead where a block begins and lanes may wait, and within it they are written before they are read.
    """

    def __init__(self, wanted: Iterable[Reg], effects: Sequence[Effect], blocks: Mapping[Reg, int]) -> None:
        self.slots: dict[Reg | Special, Slot] = {}
        left = dict.fromkeys(wanted)
        specials = {s for e in effects for s in e.reads if isinstance(s, Special) and not changes(s)}
        self.specials = tuple(sorted(specials, key=lambda s: s.name))
        everywhere: list[Reg | Special] = []
        within: dict[int, list[Reg | Special]] = {}
        vectors = _vectors(effects)
        blocks = _whole_vectors(blocks, vectors)
        together = (register for vector in vectors for register in vector if register in left)
        for register in dict.fromkeys([*together, *left]):
            at = blocks.get(register)
            (everywhere if at is None else within.setdefault(at, [])).append(register)
        self.bytes = 0
        self._place_all([*everywhere, *self.specials])
        start = end = self.lasting = self.bytes
        for registers in within.values():
            self.bytes = start
            self._place_all(registers)
            end = max(end, self.bytes)
        self.bytes = end

    def _place_all(self, registers: Sequence[Reg | Special]) -> None:
        for type_name in ("pred", "b8", "b16", "b32", "b64", "b128"):
            self._align(max(_BYTES[type_name], ROW))
            for register in registers:
                if type_name == (register.type if isinstance(register, Reg) else register_type(register)):
                    self._place(register, type_name)
        self._align(4 * ROW)

    def _align(self, to: int) -> None:
        self.bytes = -(-self.bytes // to) * to

    def _place(self, register: Reg | Special, type_name: str) -> None:
        size = _BYTES[type_name]
        self.slots[register] = Slot(type_name, self.bytes, self.bytes // size)
        self.bytes += size


def _vectors(effects: Sequence[Effect]) -> list[list[Reg]]:
    """Return the registers of each vector that handlers take, to be placed side by side."""
    operands = [operand for effect in effects if not effect.inlined for operand in effect.instr.operands]
    return [[item for item in o.items if isinstance(item, Reg)] for o in operands if isinstance(o, Vector)]


def _whole_vectors(blocks: Mapping[Reg, int], vectors: Sequence[Sequence[Reg]]) -> dict[Reg, int]:
    """Return the blocks without registers of a vector that does not lie in one block.

    That excludes the registers of every vector that shares a register with such a vector.
    """
    beside: dict[Reg, set[Reg]] = {}
    for vector in vectors:
        for register in vector:
            beside.setdefault(register, set()).update(vector)
    mixed = [register for vector in vectors if len({*map(blocks.get, vector)}) > 1 for register in vector]
    outside = reachable(mixed, beside.__getitem__)
    return {register: block for register, block in blocks.items() if register not in outside}


@dataclass(slots=True, eq=False)
class RegisterFile:
    """The registers of one warp, as rows and as numbers of each width. `base`: its address."""

    base: int
    halves: memoryview
    words: memoryview
    longs: memoryview
    rows16: np.ndarray
    rows32: np.ndarray
    rows64: np.ndarray
    rows128: np.ndarray

    def rows(self, type_name: str) -> np.ndarray:
        """Return the rows of registers of a type."""
        found: np.ndarray = getattr(self, f"rows{max(int(type_name[1:]), 16)}")
        return found


class RegisterFiles:
    """Register files of at least `size` bytes, side by side, so that array views are made once for all.

    unset: the bytes at the beginning of each file to fill with UNSET; None for all.
    rows16, rows32, rows64, rows128: the rows of all files, the file first. of_warps: each file.
    """

    def __init__(self, count: int, size: int, unset: int | None = None) -> None:
        size = -(-size // (4 * ROW)) * 4 * ROW
        memory = np.empty(count * size // 4 + ROW, np.uint32)
        address = address_of(memory)
        start = -address % (4 * ROW) // 4
        words = memory[start : start + count * size // 4]
        words.reshape(count, -1)[:, : None if unset is None else unset // 4] = UNSET
        halves, longs = words.view(np.uint16), words.view(np.uint64)
        self.rows16 = halves.reshape(count, -1, 64)[:, :, :32]
        self.rows32 = words.reshape(count, -1, 32)
        self.rows64 = longs.reshape(count, -1, 32)
        self.rows128 = longs.reshape(count, -1, 2, 32)
        numbers = [(memoryview(a), a.size // count) for a in (halves, words, longs)]  # type: ignore[arg-type]
        self.of_warps: list[RegisterFile] = []
        for i, rows in enumerate(zip(self.rows16, self.rows32, self.rows64, self.rows128, strict=True)):
            two, four, eight = (a[i * n : (i + 1) * n] for a, n in numbers)
            self.of_warps.append(RegisterFile(address + 4 * start + i * size, two, four, eight, *rows))
