"""Matrices in the registers of a warp: ldmatrix, stmatrix, movmatrix, and mma.sync, which earlier GPUs' kernels use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..errors import UnknownInstruction
from ..machine.formats.descriptors import BF16, E4M3, E5M2, F16, S8, TF32, U8, ElementType
from ..machine.formats.numbers import HOLDER_SHIFT, from_columns, packed_halves, unpacked, unpacked_halves
from ..machine.memory.shared import WORD
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import lane_rows, matrix
from .ld_st import BITS, MemoryOp, active_addresses, load, store
from .registry import ALIGNED, SHARED, Action, Modifiers, Timing, executes, never_communicates
from .tcgen05_cp import SOURCES

HIGH: Final = np.arange(32) // 4
LOW: Final = np.arange(32) % 4
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


ELEMENTS: Final = {"f16": F16, "bf16": BF16, "tf32": TF32, "e4m3": E4M3, "e5m2": E5M2, "u8": U8, "s8": S8}
SHAPES: Final = {"m16n8k4": 4, "m16n8k8": 8, "m16n8k16": 16, "m16n8k32": 32}
K_BITS: Final = (128, 256)
"""Bits along K of the two shapes of each element type."""
RESULTS: Final = {
    "f16": ("f32", "f16"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16"),
    "u8": ("s32",), "s8": ("s32",),
}  # fmt: skip
TOGETHER: Final = ({"e4m3", "e5m2"}, {"u8", "s8"})
"""Sets of element types that A and B may mix."""
OF_DOUBLES: Final = {"m8n8k4": (8, 4), "m16n8k4": (16, 4), "m16n8k8": (16, 8), "m16n8k16": (16, 16)}
"""M and K of the f64 shapes."""
ROWS: Final = np.stack([HIGH, HIGH, HIGH + 8, HIGH + 8])
COLUMNS: Final = np.stack([2 * LOW, 2 * LOW + 1, 2 * LOW, 2 * LOW + 1])
"""Columns of the four values of C and D in each lane, as ROWS are their rows (PTX ISA 9.1, 9.7.14.5.8)."""


def a_matrix(registers: np.ndarray, element: ElementType) -> np.ndarray:
    """Return A as float32[16, K]: register i holds neighbouring columns of row HIGH + 8 (i % 2), four lanes per row."""
    values = from_columns(registers, element).reshape(len(registers), -1, 32)
    count = values.shape[1]
    out = np.empty((16, len(registers) * count * 2), np.float32)
    for i, of_register in enumerate(values):
        for e, value in enumerate(of_register):
            out[HIGH + 8 * (i % 2), count * (LOW + 4 * (i // 2)) + e] = value
    return out


def b_matrix(registers: np.ndarray, element: ElementType) -> np.ndarray:
    """Return B as float32[K, 8]: register i holds neighbouring rows of column HIGH."""
    values = from_columns(registers, element).reshape(len(registers), -1, 32)
    count = values.shape[1]
    out = np.empty((len(registers) * count * 4, 8), np.float32)
    for i, of_register in enumerate(values):
        for e, value in enumerate(of_register):
            out[count * (LOW + 4 * i) + e, HIGH] = value
    return out


def accumulated(product: np.ndarray, registers: np.ndarray, kind: str, clamp: bool) -> np.ndarray:
    """Return A B + C as the registers of D: f32, f16 (two per register), or s32, wrapped or clamped."""
    taken = product[ROWS, COLUMNS]
    if kind == "f32":
        return (taken + registers.view(np.float32)).view(np.uint32)
    if kind == "s32":
        total = taken.astype(np.int64) + registers.view(np.int32)
        return (np.clip(total, -(1 << 31), (1 << 31) - 1) if clamp else total).astype(np.uint32)
    halves = (taken + unpacked_halves(registers).reshape(4, 32)).reshape(2, 2, 32)
    return packed_halves(halves[:, 0], halves[:, 1])


def _of_doubles(ins: Instr) -> Action:
    """Return the action of the f64 forms: one element per register, in the layout of the other types."""
    _, _, shape, *_ = Modifiers(ins).pick({"sync"}, ALIGNED, OF_DOUBLES, {"row"}, {"col"}, *[{"f64"}] * 4)
    if shape is None or ins.modifiers[3:5] != ("row", "col"):
        raise UnknownInstruction(ins, "mma.sync of f64")
    m, k = OF_DOUBLES[shape]
    of_a, of_b, of_d = m * k // 32, k // 4, m // 4
    rows = np.stack([HIGH + 8 * (i % (m // 8)) for i in range(of_a)])
    columns = np.stack([LOW + 4 * (i // (m // 8)) for i in range(of_a)])
    down = np.stack([LOW + 4 * i for i in range(of_b)])

    def run(warp: Warp, mask: Any, a: Any, b: Any, c: Any) -> Any:
        left, right = np.empty((m, k)), np.empty((k, 8))
        left[rows, columns], right[down, HIGH] = _doubles(a, of_a), _doubles(b, of_b)
        return ((left @ right)[ROWS[:of_d], COLUMNS[:of_d]] + _doubles(c, of_d)).view(np.uint64)

    return run


def _doubles(source: Any, count: int) -> np.ndarray:
    """Return a vector operand as float64[registers, 32]."""
    return np.ascontiguousarray(lane_rows(source, count, np.dtype(np.uint64)).T).view(np.float64)


@executes("mma", dst=1, pure=True, communicates=never_communicates)
def _mma(ins: Instr) -> Action:
    """Compute D = A B + C, accumulated in float32, in float64, or exactly in integers."""
    to, of_a, of_b, of_c = kinds = ins.modifiers[-4:]
    if to == "f64":
        return _of_doubles(ins)
    _, _, shape, _, _, clamp, *_ = Modifiers(ins).pick(
        {"sync"}, ALIGNED, SHAPES, {"row"}, {"col"}, {"satfinite"}, {to}, {of_a}, {of_b}, {of_c}
    )
    fits = to == of_c and to in RESULTS.get(of_a, ()) and (of_a == of_b or {of_a, of_b} in TOGETHER)
    ordered = ins.modifiers[3:5] == ("row", "col")
    if not fits or shape is None or not ordered or (clamp and to != "s32"):
        raise UnknownInstruction(ins, f"mma.sync of {'.'.join(kinds)}")
    if SHAPES[shape] * ELEMENTS[of_a].bits not in K_BITS:
        raise UnknownInstruction(ins, f".{shape} of .{of_a}")
    left, right = ELEMENTS[of_a], ELEMENTS[of_b]

    def run(warp: Warp, mask: Any, a: Any, b: Any, c: Any) -> Any:
        product = a_matrix(matrix(a), left) @ b_matrix(matrix(b), right)
        return accumulated(product, matrix(c), to, clamp is not None)

    return run
