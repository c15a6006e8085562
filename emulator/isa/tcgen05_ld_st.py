"""Transfers between registers and tensor memory: tcgen05.ld, .st and .wait."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..errors import Level, OutOfBounds, TensorMemoryError, UnknownInstruction
from ..leniency import Grade, Leniency
from ..machine.memory.tmem import GROUP, GROUPS
from ..machine.order.cells import Cells
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import matrix, same
from .registry import ALIGNED, Action, Modifiers, Timing, executes, never_communicates, performs

SYNC: Final = frozenset({"sync"})
B32: Final = frozenset({"b32"})
SHAPES: Final = frozenset({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"})
COUNTS: Final = frozenset(f"x{1 << i}" for i in range(8))
REGISTERS_A_REPEAT: Final = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}


@lru_cache(maxsize=256)
def fragment(shape: str, repeats: int, split: int = 0, packed: bool = False) -> tuple[np.ndarray, np.ndarray, int]:
    """Return (lane, column) of each register's cell relative to the address, intp[registers, 32], and the column span.

    PTX ISA 9.1, 9.7.16.2.3. split: the immHalfSplitoff of 16x32bx2.
    packed: two columns form one cell, of which this is the first (CuTe's copy traits of 16-bit elements).
    """
    width = 2 if packed else 1
    t = np.arange(32)[None, :]
    r = np.arange(REGISTERS_A_REPEAT[shape] * repeats)[:, None]
    match shape:
        case "32x32b":
            lane, column = t, r
        case "16x64b":
            lane, column = 8 * (t & 1) + (t >> 2), 2 * r + (t >> 1 & 1)
        case "16x128b":
            lane, column = 8 * (r & 1) + (t >> 2), 4 * (r >> 1) + (t & 3)
        case "16x256b":
            lane, column = 8 * (r >> 1 & 1) + (t >> 2), 8 * (r >> 2) + 2 * (t & 3) + (r & 1)
        case _:
            lane, column = t & 15, r
    column = column * width + split * (t >> 4)
    lanes, columns = (np.broadcast_to(places, (r.size, 32)).copy() for places in (lane, column))
    return lanes, columns, int(columns.max()) + width


@lru_cache(maxsize=1024)
def _two_pieces(repeats: int, split: int, packed: bool, column: int, group: int) -> Cells:
    """Return the shadow cells of a 16x32bx2."""
    _, columns, _ = fragment("16x32bx2", repeats, split, packed)
    columns = np.unique(column + np.stack([columns, columns + 1]) if packed else column + columns)
    return Cells((columns[:, None], np.array([[group]])), 0, columns.size, 1, starts=columns * GROUPS + group)


class Transfer:
    """The common part of tcgen05.ld and .st: shape, repeats, packing, and address checks.

    PTX requires one address for all lanes, whose lane lies in the warp's quarter. Programs that run on a B200 let each
    thread name its own lane (the first counts), omit the quarter, or name another one: the hardware uses the warp's own
    quarter anyway. Only level `pedantic` reports it.
    """

    def __init__(self, ins: Instr, packing: str) -> None:
        _, _, shape, count, packed, _ = Modifiers(ins).pick(SYNC, ALIGNED, SHAPES, COUNTS, {packing}, B32)
        if shape is None or count is None:
            raise UnknownInstruction(ins, "missing shape or repeat count")
        self.ins, self.shape, self.repeats, self.packed = ins, shape, int(count[1:]), packed is not None
        self.registers = REGISTERS_A_REPEAT[shape] * self.repeats
        if self.registers > 128:
            raise UnknownInstruction(ins, f".{shape}.{count}: {self.registers} registers")
        self.lanes = 32 if shape == "32x32b" else 16

    def place(self, warp: Warp, mask: Any, address: Any, split: int = 0) -> tuple[int, int, Any, Any]:
        """Return (first lane, first column, lanes, (columns, span)) of the cells, bounds-checked."""
        if mask is not None:
            raise TensorMemoryError(f"{self.ins.opcode}.sync.aligned, but some lanes are inactive", self.ins, warp)
        pedantic, at = warp.cta.launch.enforces(Leniency.TENSOR_ADDRESS), same(address, mask)
        if at is None:
            if same(address & np.uint32(0xFFFF), mask) is None:
                raise self._lanes_differ(warp, Level.FAULT)
            if pedantic:
                warp.cta.launch.report(self._lanes_differ(warp, Leniency.TENSOR_ADDRESS))
            at = int(address[0])
        lane, column = at >> 16, at & 0xFFFF
        low = 32 * (warp.index % 4)
        inside = low + lane % 32
        if inside % self.lanes:
            raise self._out_of_reach(warp, at, Level.FAULT)
        if lane != inside and pedantic:
            warp.cta.launch.report(self._out_of_reach(warp, at, Leniency.TENSOR_ADDRESS))
        lane = inside
        lanes, columns, span = fragment(self.shape, self.repeats, split, self.packed)
        warp.cta.tmem.check(column, span, self.ins, warp, self.ins.opcode)
        return lane, column, lanes, (columns, span)

    def _lanes_differ(self, warp: Warp, level: Grade) -> TensorMemoryError:
        what = f"{self.ins.opcode}.sync.aligned, but lanes name different addresses"
        return TensorMemoryError(what, self.ins, warp, level=level)

    def _out_of_reach(self, warp: Warp, at: int, level: Grade) -> OutOfBounds:
        low = 32 * (warp.index % 4)
        return OutOfBounds(
            f"{self.ins.opcode}.{self.shape} at lane {at >> 16} of tensor memory (address {at:#010x}); "
            f"warp {warp.index} reaches lanes {low} to {low + 31} only, in steps of {self.lanes}",
            self.ins,
            warp,
            level=level,
        )

    def region(self, warp: Warp, lane: int, column: int, span: int, split: int) -> Cells:
        """Return the shadow cells."""
        if self.shape == "16x32bx2":
            return _two_pieces(self.repeats, split, self.packed, column, lane // GROUP)
        return warp.cta.tmem.region(lane, self.lanes, column, span)


@executes("tcgen05.ld", dst=1, timing=Timing.TENSOR_MEMORY, communicates=never_communicates)
def _ld(ins: Instr) -> Action:
    transfer = Transfer(ins, "pack::16b")
    straight = transfer.shape == "32x32b" and not transfer.packed

    def run(warp: Warp, mask: Any, address: Any, split: int = 0) -> Any:
        lane, column, lanes, (columns, span) = transfer.place(warp, mask, address, split)
        tmem = warp.cta.tmem
        cells = transfer.region(warp, lane, column, span, split)
        tmem.shadow.read(cells, warp.loads.access(ins), warp.tensor_clock)
        if straight:
            values = tmem.cells[column : column + span, lane : lane + 32].copy()
        else:
            values = tmem.cells[column + columns, lane + lanes]
        if transfer.packed:
            values = values & np.uint32(0xFFFF) | tmem.cells[column + columns + 1, lane + lanes] << np.uint32(16)
        return values

    return run


@executes("tcgen05.st", timing=Timing.TENSOR_MEMORY, communicates=never_communicates)
def _st(ins: Instr) -> Action:
    transfer = Transfer(ins, "unpack::16b")

    def run(warp: Warp, mask: Any, address: Any, *rest: Any) -> None:
        split, source = (rest[0], rest[1]) if len(rest) == 2 else (0, rest[0])
        lane, column, lanes, (columns, span) = transfer.place(warp, mask, address, split)
        tmem = warp.cta.tmem
        cells = transfer.region(warp, lane, column, span, split)
        if warp.loads.issued:
            warp.complete_used_loads(ins)
        tmem.shadow.write(cells, warp.stores.access(ins), warp.tensor_clock)
        values = matrix(source)
        if transfer.packed:
            tmem.cells[column + columns, lane + lanes] = values & np.uint32(0xFFFF)
            tmem.cells[column + columns + 1, lane + lanes] = values >> np.uint32(16)
        elif transfer.shape == "32x32b":
            tmem.cells[column : column + span, lane : lane + 32] = values
        else:
            tmem.cells[column + columns, lane + lanes] = values

    return run


@performs("tcgen05.wait::ld", "tcgen05.wait::st", modifiers=(SYNC, ALIGNED), communicates=never_communicates)
def _wait(ins: Instr, warp: Warp, mask: Any) -> None:
    (warp.loads if ins.opcode.endswith("ld") else warp.stores).wait()
