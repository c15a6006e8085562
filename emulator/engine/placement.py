"""Where each register lives in a warp's register file: only those that outlive a segment need a place.

A register is 32 lanes side by side: 128 bytes for b32 (b16 uses the first 64), 256 for b64, 512 for b128 (low halves,
then high halves); a predicate is one word of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..isa.special_registers import changes, register_type
from ..native.builder import Slot
from ..native.memory_layout import address_of
from ..ptx.syntax import Reg, Special, Vector
from .effects import Effect

ROW = 128
_BYTES = {"pred": 4, "b8": ROW, "b16": ROW, "b32": ROW, "b64": 2 * ROW, "b128": 4 * ROW}


class Placement:
    """Slots of registers and special registers, and the size of the file in bytes."""

    def __init__(self, wanted: Iterable[Reg], effects: Sequence[Effect]) -> None:
        self.slots: dict[Reg | Special, Slot] = {}
        left = dict.fromkeys(wanted)
        ordered = [*_in_vectors(effects, left), *left]
        seen: dict[Reg, None] = dict.fromkeys(ordered)
        specials = {s for e in effects for s in e.reads if isinstance(s, Special) and not changes(s)}
        self.specials = tuple(sorted(specials, key=lambda s: s.name))
        self.bytes = 0
        for type_name in ("pred", "b8", "b16", "b32", "b64", "b128"):
            self._align(max(_BYTES[type_name], ROW))
            for register in seen:
                if register.type == type_name:
                    self._place(register, type_name)
            for special in self.specials:
                if register_type(special) == type_name:
                    self._place(special, type_name)
        self._align(4 * ROW)

    def _align(self, to: int) -> None:
        self.bytes = -(-self.bytes // to) * to

    def _place(self, register: Reg | Special, type_name: str) -> None:
        size = _BYTES[type_name]
        self.slots[register] = Slot(type_name, self.bytes, self.bytes // size)
        self.bytes += size


def _in_vectors(effects: Sequence[Effect], wanted: dict[Reg, None]) -> list[Reg]:
    """Registers that handlers take together, so that they lie together."""
    found: dict[Reg, None] = {}
    for effect in effects:
        if not effect.inlined:
            for operand in effect.instr.operands:
                if isinstance(operand, Vector):
                    found |= {item: None for item in operand.items if isinstance(item, Reg) and item in wanted}
    return list(found)


@dataclass(slots=True, eq=False)
class RegisterFile:
    """The registers of one warp, seen as rows of each width and as numbers of each. `base` is its address."""

    base: int
    halves: memoryview
    words: memoryview
    longs: memoryview
    rows16: np.ndarray
    rows32: np.ndarray
    rows64: np.ndarray
    rows128: np.ndarray

    def rows(self, type_name: str) -> np.ndarray:
        """The rows of registers of a type."""
        found: np.ndarray = getattr(self, f"rows{max(int(type_name[1:]), 16)}")
        return found


def register_files(count: int, size: int) -> list[RegisterFile]:
    """So many files of at least `size` bytes, side by side: views are made of all at once, and cut."""
    size = -(-size // (4 * ROW)) * 4 * ROW
    memory = np.full(count * size // 4 + ROW, 0x7FBADBAD, np.uint32)
    address = address_of(memory)
    start = -address % (4 * ROW) // 4
    words = memory[start : start + count * size // 4]
    halves, longs = words.view(np.uint16), words.view(np.uint64)
    rows = zip(
        halves.reshape(count, -1, 64)[:, :, :32],
        words.reshape(count, -1, 32),
        longs.reshape(count, -1, 32),
        longs.reshape(count, -1, 2, 32),
        strict=True,
    )
    numbers = [(memoryview(a), a.size // count) for a in (halves, words, longs)]  # type: ignore[arg-type]
    found = []
    for i, each in enumerate(rows):
        two, four, eight = (memory[i * n : (i + 1) * n] for memory, n in numbers)
        found.append(RegisterFile(address + 4 * start + i * size, two, four, eight, *each))
    return found
