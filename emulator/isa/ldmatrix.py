"""Matrix loads and stores of a warp: ldmatrix, stmatrix and movmatrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..errors import UnknownInstruction
from ..machine.formats.numbers import HOLDER_SHIFT, unpacked
from ..machine.memory.shared import WORD
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import matrix
from .ld_st import BITS, MemoryOp, active_addresses, load, store
from .modifiers import ALIGNED, SHARED, Modifiers
from .registry import Action, Timing, executes, never_communicates
from .tcgen05_cp import SOURCES

LANE: Final = np.arange(32)
HIGH: Final = LANE // 4
LOW: Final = LANE % 4
ROW_BYTES: Final = 16


@dataclass(frozen=True)
class Fragment:
    """The row, and the byte in the row, of each byte of the lanes' registers: int[registers, 4, 32].

    rows: the rows of one matrix.
    """

    rows: int
    registers: int
    row: np.ndarray
    byte: np.ndarray

    def lanes(self) -> np.ndarray:
        """Return the lanes of each word of a row as bit masks: uint32[rows, 4]."""
        words = np.zeros((self.rows, ROW_BYTES // WORD), np.uint32)
        np.bitwise_or.at(words, (self.row, self.byte // WORD), BITS)
        return words


def _m8n8(trans: bool) -> Fragment:
    """Return the fragment of 8x8 16-bit elements in one register.

    Lane i holds elements 2 (i % 4) and 2 (i % 4) + 1 of row i / 4, or of column i / 4 if transposed.
    """
    element, half = np.arange(4)[:, None] // 2, np.arange(4)[:, None] % 2
    fast = 2 * LOW + element
    row, column = (fast, HIGH + 0 * element) if trans else (HIGH + 0 * element, fast)
    return Fragment(8, 1, row[None], (2 * column + half)[None])


def _stored_trans() -> Fragment:
    """Return the fragment of stmatrix.m16n8: 8 rows of 16 bytes, transposed, as CuTe's SM100_U8x4_STSM_T defines it."""
    b = np.arange(4)[:, None]
    return Fragment(8, 1, (2 * LOW + b % 2)[None], (HIGH + 8 * (b // 2))[None])


def _loaded_trans() -> Fragment:
    """Return the fragment of ldmatrix.m16n16: 16 rows of 16 bytes, transposed, in two registers.

    Lane i holds rows 4 (i % 4) to 4 (i % 4) + 3 of column i / 4 in the first and of column 8 + i / 4 in the second.
    This is CuTe's SM100_U8x8_LDSM_T before it exchanges bytes between the two registers.
    """
    r, b = np.arange(2)[:, None, None], np.arange(4)[:, None]
    row = 4 * LOW + b + 0 * r
    return Fragment(16, 2, row, np.broadcast_to(HIGH + 8 * r, row.shape))


def _widened() -> Fragment:
    """Return the fragment of rows of 16 bytes with four lanes per row."""
    byte = 4 * LOW + np.arange(4)[:, None]
    return Fragment(8, 1, np.broadcast_to(HIGH, byte.shape)[None], byte[None])


class Rows(MemoryOp):
    """Rows of 16 bytes, one per address."""

    def __init__(self, ins: Instr) -> None:
        shapes, kinds = {"m8n8", "m8n16", "m16n8", "m16n16"}, {"b16", "b8", "b8x16"}
        _, _, shape, count, trans, space, kind, source = Modifiers(ins).pick(
            {"sync"}, ALIGNED, shapes, {"x1", "x2", "x4"}, {"trans"}, SHARED, kinds, SOURCES
        )
        self.element_bits = SOURCES[source] if source else 8
        if count is None:
            raise UnknownInstruction(ins, "missing .x1, .x2 or .x4")
        self.ins, self.space, self.own_cta = ins, "shared", space != "shared::cluster"
        self.matrices = int(count[1:])
        match ins.opcode, shape, kind, trans:
            case _, "m8n8", "b16", _ if source is None:
                self.fragment = _m8n8(trans is not None)
            case "stmatrix", "m16n8", "b8", "trans" if source is None:
                self.fragment = _stored_trans()
            case "ldmatrix", "m16n16", "b8" | "b8x16", "trans" if self.matrices < 4 and (kind == "b8x16") == bool(
                source
            ):
                self.fragment = _loaded_trans()
            case "ldmatrix", "m8n16", "b8x16", None if source:
                self.fragment = _widened()
            case _:
                raise UnknownInstruction(ins, f".{shape}.{count}{'.trans' if trans else ''}.{kind}")
        self.width, self.count, self.bytes = 1, ROW_BYTES, ROW_BYTES
        self._lanes = np.tile(self.fragment.lanes(), (self.matrices, 1))
        self.signed = self.strong = self.acquires = self.releases = False
        self.what = ins.opcode

    def lanes(self, warp: Warp, part: Any) -> np.ndarray | None:
        """Return the lanes that receive or provide each word of the rows, as bit masks: uint32[rows, 4]."""
        return self._lanes if part is None else self._lanes[part]

    def addresses(self, warp: Warp, address: Any) -> np.ndarray:
        """Return the row addresses, from the lanes that provide them."""
        return active_addresses(warp, None, address)[: self.fragment.rows * self.matrices]


@executes("ldmatrix", dst=1, timing=Timing.MEMORY, communicates=never_communicates)
def _ldmatrix(ins: Instr) -> Action:
    op = Rows(ins)
    where = op.fragment

    def run(warp: Warp, mask: Any, address: Any) -> Any:
        words = load(op, warp, op.addresses(warp, address)).view(np.uint8)
        if op.element_bits < 8:
            words = unpacked(words, op.element_bits) << np.uint8(HOLDER_SHIFT[op.element_bits])
        rows = words.reshape(op.matrices, where.rows, ROW_BYTES)
        taken = rows[:, where.row, where.byte].transpose(0, 1, 3, 2)
        return np.ascontiguousarray(taken).view(np.uint32).reshape(-1, 32)

    return run


@executes("stmatrix", timing=Timing.MEMORY, communicates=never_communicates)
def _stmatrix(ins: Instr) -> Action:
    op = Rows(ins)
    where = op.fragment

    def run(warp: Warp, mask: Any, address: Any, values: Any) -> None:
        given = np.ascontiguousarray(matrix(values)).view(np.uint8).reshape(op.matrices, where.registers, 32, 4)
        rows = np.empty((op.matrices, where.rows, ROW_BYTES), np.uint8)
        rows[:, where.row, where.byte] = given.transpose(0, 1, 3, 2)
        store(op, warp, op.addresses(warp, address), rows.reshape(-1, ROW_BYTES))

    return run


@executes("movmatrix", dst=1, pure=True, communicates=never_communicates)
def _movmatrix(ins: Instr) -> Action:
    """Transpose an 8x8 matrix of 16-bit elements held in one register per lane."""
    if ins.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise UnknownInstruction(ins, f"movmatrix.{'.'.join(ins.modifiers)}")

    def run(warp: Warp, mask: Any, value: Any) -> Any:
        halves = np.ascontiguousarray(matrix(value)).view(np.uint16).reshape(8, 8)
        return np.ascontiguousarray(halves.T).view(np.uint32).reshape(32)

    return run
