"""Places of registers in a warp's register file. Only registers that outlive a segment have one.

A register is 32 lanes side by side: 128 bytes for b32 (b16 uses the first 64), 256 for b64, 512 for b128 (low halves,
then high halves). A predicate is one word of 32 bits. Registers that live within one block share places with those of
other blocks, which halves a warp's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..isa.special_registers import changes, register_type
from ..native.builder import Slot
from ..native.memory_layout import address_of
from ..ptx.dataflow import reachable
from ..ptx.syntax import Reg, Special, Vector
from .effects import Effect

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
