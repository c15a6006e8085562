"""ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and the lanes of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from emulator.errors import UnknownInstruction
from emulator.isa.memory import Form, chosen, load, store
from emulator.isa.modifiers import ALIGNED, SHARED, pick
from emulator.isa.registry import Run, executes
from emulator.isa.tensor import matrix
from emulator.ptx.syntax import Instr

if TYPE_CHECKING:
    from emulator.machine.warp import Warp

ROW: Final = np.arange(32) // 4
PAIR: Final = np.arange(32) % 4 * 2
"""Lane i holds elements PAIR[i] and PAIR[i] + 1 of row ROW[i]: PTX ISA 9.1, 9.7.14.5.15."""


class Rows(Form):
    """Rows of eight 16-bit elements, one an address."""

    def __init__(self, ins: Instr) -> None:
        _, _, _, count, self.trans, space, _ = pick(
            ins, {"sync"}, ALIGNED, {"m8n8"}, {"x1", "x2", "x4"}, {"trans"}, SHARED, {"b16"}
        )
        if count is None:
            raise UnknownInstruction(ins, "no count")
        self.ins, self.space, self.own_cta = ins, "shared", space != "shared::cluster"
        self.matrices = int(count[1:])
        self.width, self.count, self.bytes = 2, 8, 16
        self.signed = self.strong = self.acquires = self.releases = False
        self.what = ins.opcode


@executes("ldmatrix", dst=1)
def _ldmatrix(ins: Instr) -> Run:
    form = Rows(ins)

    def run(warp: Warp, mask: Any, address: Any) -> Any:
        rows = load(form, warp, chosen(warp, None, address)[: 8 * form.matrices]).reshape(-1, 8, 8)
        low, high = (rows[:, PAIR + e, ROW] if form.trans else rows[:, ROW, PAIR + e] for e in (0, 1))
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)

    return run


@executes("stmatrix")
def _stmatrix(ins: Instr) -> Run:
    form = Rows(ins)

    def run(warp: Warp, mask: Any, address: Any, values: Any) -> None:
        words = matrix(values)
        rows = np.empty((form.matrices, 8, 8), np.uint16)
        for element, bits in ((0, words & np.uint32(0xFFFF)), (1, words >> np.uint32(16))):
            if form.trans:
                rows[:, PAIR + element, ROW] = bits
            else:
                rows[:, ROW, PAIR + element] = bits
        store(form, warp, chosen(warp, None, address)[: 8 * form.matrices], rows.reshape(-1, 8))

    return run
