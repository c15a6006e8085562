"""Warp-level matrix multiplication in registers (mma.sync), as kernels for earlier GPUs use it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import UnknownInstruction
from ..machine.formats.descriptors import BF16, E4M3, E5M2, F16, S8, TF32, U8, ElementType
from ..machine.formats.numbers import from_columns, packed_halves, unpacked_halves
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import lane_rows, matrix
from .modifiers import ALIGNED, Modifiers
from .registry import Action, executes, never_communicates

HIGH: Final = np.arange(32) // 4
LOW: Final = np.arange(32) % 4
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
