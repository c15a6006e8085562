"""mma.sync: small matrices in the registers of a warp, as kernels for earlier GPUs use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from emulator.errors import UnknownInstruction
from emulator.isa.modifiers import ALIGNED, pick
from emulator.isa.registry import Run, executes
from emulator.isa.tensor import matrix
from emulator.machine.numbers import bf16_from
from emulator.ptx.syntax import Instr

if TYPE_CHECKING:
    from emulator.machine.warp import Warp

GROUP: Final = np.arange(32) // 4
PAIR: Final = 2 * (np.arange(32) % 4)
SHAPES: Final = {"m16n8k8": 8, "m16n8k16": 16}


def _halves(words: np.ndarray, kind: str) -> np.ndarray:
    """Registers uint32[n, 32] as float32[n, 2, 32], the low half first."""
    halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], 1).astype(np.uint16)
    return bf16_from(halves) if kind == "bf16" else halves.view(np.float16).astype(np.float32)


def a_matrix(registers: np.ndarray, k: int, kind: str) -> np.ndarray:
    """float32[16, k]: register i holds row group + 8 (i % 2), columns pair + 8 (i / 2) and the next."""
    out, values = np.empty((16, k), np.float32), _halves(registers, kind)
    for i, halves in enumerate(values):
        for e, half in enumerate(halves):
            out[GROUP + 8 * (i % 2), PAIR + e + 8 * (i // 2)] = half
    return out


def b_matrix(registers: np.ndarray, k: int, kind: str) -> np.ndarray:
    """float32[k, 8]: register i holds rows pair + 8 i and the next of column group."""
    out, values = np.empty((k, 8), np.float32), _halves(registers, kind)
    for i, halves in enumerate(values):
        for e, half in enumerate(halves):
            out[PAIR + e + 8 * i, GROUP] = half
    return out


ROWS: Final = np.stack([GROUP, GROUP, GROUP + 8, GROUP + 8])
COLUMNS: Final = np.stack([PAIR, PAIR + 1, PAIR, PAIR + 1])
"""Of the four values of C and D in each lane: PTX ISA 9.1, 9.7.14.5.8."""


@executes("mma", dst=1)
def _mma(ins: Instr) -> Run:
    """D = A B + C in float32, of f16 or bf16 operands."""
    kinds = ins.modifiers[-4:]
    _, _, shape, row, column, *_ = pick(
        ins, {"sync"}, ALIGNED, SHAPES, {"row"}, {"col"}, {"f32"}, {"f16", "bf16"}, {"f16", "bf16"}, {"f32"}
    )
    if shape is None or row is None or column is None or kinds not in {("f32", t, t, "f32") for t in ("f16", "bf16")}:
        raise UnknownInstruction(ins, f"mma.sync of {'.'.join(kinds)}; implemented is f16 or bf16 to f32")
    k, kind = SHAPES[shape], kinds[1]

    def run(warp: Warp, mask: Any, a: Any, b: Any, c: Any) -> Any:
        product = a_matrix(matrix(a), k, kind) @ b_matrix(matrix(b), k, kind)
        return (product[ROWS, COLUMNS] + matrix(c).view(np.float32)).view(np.uint32)

    return run
