"""Warp-level matrices with opaque fragments (wmma), as nvcuda::wmma compiles to them.

PTX leaves open which lane holds which element (9.7.14.4). Here the lanes hold equal parts of a matrix in row-major
order, once more in further registers if the instruction has more than that takes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import UnknownInstruction
from ..machine.topology import Warp
from ..ptx.syntax import Instr, Vector
from .lane_values import lane_rows, of_lane
from .ld_st import BITS, MemoryOp, load, store
from .registry import ALIGNED, SHARED, Action, Modifiers, Timing, executes, never_communicates

SHAPES: Final = {
    "m16n16k16": (16, 16, 16), "m32n8k16": (32, 8, 16), "m8n32k16": (8, 32, 16), "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
}  # fmt: skip
NUMPY: Final = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16, "tf32": np.uint32,
    "u8": np.uint8, "s8": np.int8, "s32": np.int32,
}  # fmt: skip
_OF_16 = ("m16n16k16", "m32n8k16", "m8n32k16")
INPUTS: Final = {
    **dict.fromkeys(("f16", "bf16", "u8", "s8"), _OF_16), "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
}  # fmt: skip
"""Shapes by the type of A and B."""
RESULTS: Final = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
_CHUNK: Final = 16


def _rows_and_columns(which: str, shape: str) -> tuple[int, int]:
    m, n, k = SHAPES[shape]
    return {"a": (m, k), "b": (k, n)}.get(which, (m, n))


def _registers(operand: Any) -> int:
    return len(operand.items) if isinstance(operand, Vector) else 1


def _matrix(registers: Any, count: int, kind: str, size: tuple[int, int]) -> np.ndarray:
    """Return the matrix that `count` registers of all lanes hold."""
    width = np.dtype(np.uint64 if kind == "f64" else np.uint32)
    held = np.ascontiguousarray(lane_rows(registers, count, width)).view(NUMPY[kind])
    return held[:, : size[0] * size[1] // 32].reshape(size)


def _fragment(matrix: np.ndarray, count: int) -> np.ndarray:
    """Return the registers of all lanes that hold a matrix: unsigned[count, 32]."""
    width = np.uint64 if matrix.itemsize == 8 else np.uint32
    lanes = np.ascontiguousarray(matrix).reshape(32, -1).view(width)
    return np.ascontiguousarray(np.tile(lanes, (1, count // lanes.shape[1])).T)


def _values(matrix: np.ndarray, kind: str) -> np.ndarray:
    """Return the values of a matrix: float32, float64 or int64."""
    if kind == "bf16":
        return (matrix.astype(np.uint32) << 16).view(np.float32)
    if kind == "tf32":
        return (matrix & np.uint32(0xFFFF_E000)).view(np.float32)
    return matrix.astype(np.int64 if kind in ("u8", "s8", "s32") else np.float64 if kind == "f64" else np.float32)


class _Tile(MemoryOp):
    """The accesses of a matrix in memory: chunks of its rows, or of its columns if it is column-major."""

    def __init__(self, ins: Instr, registers: Any) -> None:
        which, _, _, order, shape, space, kind = Modifiers(ins).pick(
            {"a", "b", "c", "d"}, {"sync"}, ALIGNED, {"row", "col"}, SHAPES, SHARED | {"global"}, NUMPY
        )
        if not (which and order and shape and kind):
            raise UnknownInstruction(ins, "no matrix, layout, shape or type")
        if shape not in (INPUTS.get(kind, ()) if which in "ab" else (*_OF_16, "m16n16k8", "m8n8k4")):
            raise UnknownInstruction(ins, f".{shape} of .{kind}")
        self.ins, self.space, self.what = ins, (space or "generic").split("::")[0], f"{ins.opcode}.{which}"
        self.own_cta = space in ("shared", "shared::cta")
        self.signed = self.acquires = self.releases = False
        self.stores = ins.opcode == "wmma.store"
        self.kind, self.by_column, self.size = kind, order == "col", _rows_and_columns(which, shape)
        self.width = np.dtype(NUMPY[kind]).itemsize
        self.registers = _registers(registers)
        self.lines, self.across = self.size[::-1] if self.by_column else self.size
        self.bytes = min(_CHUNK, self.across * self.width)
        self.count = self.bytes // self.width
        owner = np.arange(self.lines * self.across).reshape(self.size) // (self.lines * self.across // 32)
        owner = (owner.T if self.by_column else owner).reshape(-1, self.count)
        self._lanes: np.ndarray = np.bitwise_or.reduce(BITS[owner], axis=1)

    def lanes(self, warp: Warp, part: Any) -> np.ndarray | None:
        """Return the lanes that hold each chunk, as bit masks."""
        return self._lanes if part is None else self._lanes[part]

    def addresses(self, address: Any, stride: Any) -> np.ndarray:
        """Return the addresses of the chunks. stride: elements from a line to the next, None if they are dense."""
        step = (self.across if stride is None else of_lane(stride, 0)) * self.width
        starts = of_lane(address, 0) + step * np.arange(self.lines)[:, None]
        return (starts + np.arange(0, self.across * self.width, self.bytes)).reshape(-1).astype(np.uint64)


@executes("wmma.load", dst=1, timing=Timing.MEMORY, communicates=never_communicates)
def _load(ins: Instr) -> Action:
    op = _Tile(ins, ins.operands[0])

    def run(warp: Warp, mask: Any, address: Any, stride: Any = None) -> Any:
        found = load(op, warp, op.addresses(address, stride)).view(NUMPY[op.kind]).reshape(op.lines, op.across)
        return _fragment(found.T if op.by_column else found, op.registers)

    return run


@executes("wmma.store", timing=Timing.MEMORY, communicates=never_communicates)
def _store(ins: Instr) -> Action:
    op = _Tile(ins, ins.operands[1])

    def run(warp: Warp, mask: Any, address: Any, registers: Any, stride: Any = None) -> None:
        matrix = _matrix(registers, op.registers, op.kind, op.size)
        chunks = np.ascontiguousarray(matrix.T if op.by_column else matrix).reshape(-1, op.count)
        store(op, warp, op.addresses(address, stride), chunks.view(f"u{op.width}"))

    return run


@executes("wmma.mma", dst=1, pure=True, communicates=never_communicates)
def _mma(ins: Instr) -> Action:
    """Compute D = A B + C, accumulated in float32, in float64, or exactly in integers."""
    satfinite = "satfinite" in ins.modifiers
    kinds = [m for m in ins.modifiers if m in NUMPY]
    to, of_a, of_b, of_c = (kinds[0], "f16", "f16", kinds[1]) if len(kinds) == 2 else (kinds + [""] * 4)[:4]
    _, _, left, right, shape, *_ = Modifiers(ins).pick(
        {"sync"}, ALIGNED, {"row", "col"}, {"row", "col"}, SHAPES, {"rn"}, {"satfinite"}, *({k} for k in kinds)
    )
    fits = (to == of_c == "s32") if of_a in ("u8", "s8") else {to, of_c} <= set(RESULTS.get(of_a, ()))
    if not (left and right and fits and of_a == of_b and shape in INPUTS[of_a]) or (satfinite and to != "s32"):
        raise UnknownInstruction(ins, f"wmma.mma of {'.'.join(ins.modifiers)}")
    m, n, k = SHAPES[shape]
    of_d, counts = _registers(ins.operands[0]), [_registers(operand) for operand in ins.operands[1:]]

    def run(warp: Warp, mask: Any, *operands: Any) -> Any:
        kinds, sizes = (of_a, of_b, of_c), ((m, k), (k, n), (m, n))
        parts = zip(operands, counts, kinds, sizes, strict=True)
        a, b, c = (_values(_matrix(given, count, kind, size), kind) for given, count, kind, size in parts)
        total = a @ b + c
        if satfinite:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return _fragment(total.astype(NUMPY[to]), of_d)

    return run
