"""Copies from shared to tensor memory (tcgen05.cp), and tcgen05.shift, which moves rows by one lane.

tcgen05.cp can multicast rows over lanes and expand small floats to bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..chip import TMEM_LANES
from ..errors import UnknownInstruction, place
from ..machine.agents.tensorcore import SHIFTED_COLUMNS, descriptor_error, participating_ctas
from ..machine.formats.descriptors import MatrixDescriptor, operand_pattern
from ..machine.formats.numbers import HOLDER_SHIFT, unpacked
from ..machine.memory.tmem import GROUP, named
from ..machine.order.access import Access
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane
from .registry import CTA_GROUP, Action, Modifiers, Publishes, executes, never_communicates
from .tcgen05_control import thread

CHUNK: Final = 16
CELL_BYTES: Final = 4
QUARTER: Final = np.arange(32)
TARGETS: Final = {
    "128x256b": np.arange(128), "128x128b": np.arange(128), "4x256b": np.arange(4),
    "64x128b.warpx2::02_13": np.concatenate([np.arange(64)] * 2),
    "64x128b.warpx2::01_23": np.concatenate([QUARTER, QUARTER, 32 + QUARTER, 32 + QUARTER]),
    "32x128b.warpx4": np.concatenate([QUARTER] * 4),
}  # fmt: skip
"""The row that each lane receives; the four rows of 4x256b go to every 32nd lane (PTX ISA 9.1, 9.7.16.8.2)."""
SOURCES: Final = {"b6x16_p32": 6, "b4x16_p64": 4}


@dataclass(frozen=True)
class CopyShape:
    """The shape of a copy.

    rows_of_lanes: the row of each lane. chunks: 16-byte chunks per row.
    element_bits: bits of the elements that are expanded to bytes, else None.
    """

    rows_of_lanes: np.ndarray
    chunks: int
    element_bits: int | None

    @property
    def rows(self) -> int:
        """Rows in shared memory."""
        return int(self.rows_of_lanes.max()) + 1

    @property
    def columns(self) -> int:
        """Tensor memory columns."""
        return self.chunks * CHUNK // CELL_BYTES

    def lanes(self, first: int) -> np.ndarray:
        """Return the lanes that are written, starting at the address's lane."""
        return first + (32 if len(self.rows_of_lanes) < TMEM_LANES else 1) * np.arange(len(self.rows_of_lanes))


@executes("tcgen05.cp", publishes=Publishes.WORK, communicates=never_communicates)
def _cp(ins: Instr) -> Action:
    group, shape, multicast, holder, source = Modifiers(ins).pick(
        CTA_GROUP,
        {name.split(".")[0] for name in TARGETS},
        {name.split(".")[1] for name in TARGETS if "." in name},
        {"b8x16"},
        SOURCES,
    )
    name = ".".join(part for part in (shape, multicast) if part)
    if name not in TARGETS or (holder is None) != (source is None):
        raise UnknownInstruction(ins, f".{name}" + (f".{holder}.{source}" if holder or source else ""))
    copied = CopyShape(TARGETS[name], 2 if name.endswith("256b") else 1, SOURCES[source] if source else None)

    def run(warp: Warp, mask: Any, address: Any, descriptor: Any) -> None:
        for lane in active_lanes(mask):
            at, bits = named(of_lane(address, lane), ins, warp), of_lane(descriptor, lane)
            ctas = _taking_part(ins, warp, group)
            driver = thread(warp, lane)
            lanes = copied.lanes(at >> 16)
            if lanes[-1] >= TMEM_LANES:
                raise descriptor_error(ins, warp, ValueError(f"lane {at >> 16} in the address {at:#010x} of .{name}"))
            for cta in ctas:
                _check(copied, cta, driver.access(ins), at & 0xFFFF, lanes, bits)

            def perform(
                ctas: tuple[Cta, ...] = ctas, column: int = at & 0xFFFF, bits: int = bits, lanes: np.ndarray = lanes
            ) -> None:
                for cta in ctas:
                    values = _values(copied, cta.smem.chunks[_chunks(bits, copied.rows, copied.chunks)])
                    cta.tmem.cells[column : column + copied.columns, lanes] = values[copied.rows_of_lanes].T

            driver.other(ins, perform)
            driver.issued()

    return run


def _taking_part(ins: Instr, warp: Warp, group: str | None) -> tuple[Cta, ...]:
    try:
        return participating_ctas(warp.cta, 2 if group == "cta_group::2" else 1)
    except ValueError as why:
        raise descriptor_error(ins, warp, why) from None


@lru_cache(maxsize=4096)
def _chunks(bits: int, rows: int, chunks: int) -> np.ndarray:
    return MatrixDescriptor.decode(bits).chunks(rows, chunks * CHUNK, False)


def _check(copied: CopyShape, cta: Cta, me: Access, column: int, lanes: np.ndarray, bits: int) -> None:
    """Check and record a copy.

    Copying unwritten memory is allowed: Gluon's pipelines do so ahead of an MMA that is then skipped. The reader of the
    copy is reported instead.
    """
    smem, tmem, clock = cta.smem, cta.tmem, me.warp.clock
    try:
        chunks = _chunks(bits, copied.rows, copied.chunks)
    except ValueError as why:
        raise descriptor_error(me.instr, me.warp, why) from None
    low, high = int(chunks.min()) * CHUNK, int(chunks.max() + 1) * CHUNK
    smem.check_span(low, high - low, me.instr, me.warp, f"the source of {me.what}")
    tmem.check(column, copied.columns, me.instr, me.warp, me.what)
    source, pattern, groups = smem.chunk_cells(chunks), operand_pattern(bits), np.unique(lanes // GROUP)
    proved = smem.shadow.prove(source, (me,), clock, pattern)
    unwritten = not proved and smem.shadow.unwritten(source)
    if not proved and not unwritten:
        smem.shadow.read(source, me, clock, pattern)
    tmem.shadow.write((slice(column, column + copied.columns), groups), me, me.warp.tensor_clock)
    if unwritten:
        window = smem.cta.window
        origin = f"{place(me.instr, me.warp)}\nfrom shared memory {window + low:#x} to {window + high - 1:#x}"
        tmem.leave_unwritten(column, copied.columns, groups, f"{origin}, which is not completely written")


def _values(copied: CopyShape, chunks: np.ndarray) -> np.ndarray:
    """Return the cells of each row: uint32[rows, columns]."""
    codes = chunks.view(np.uint8)
    if copied.element_bits is not None:
        codes = unpacked(codes, copied.element_bits) << np.uint8(HOLDER_SHIFT[copied.element_bits])
    return np.ascontiguousarray(codes).view(np.uint32)


@executes("tcgen05.shift", communicates=never_communicates)
def _shift(ins: Instr) -> Action:
    """Shift rows within each 32 lanes, as CuTeDSL's tcgen05_shift documents; PTX ISA 9.1, 9.7.16.9.3, says less."""
    group, down = Modifiers(ins).pick(CTA_GROUP, {"down"})
    if group is None or down is None:
        raise UnknownInstruction(ins, "missing .cta_group or .down")

    def run(warp: Warp, mask: Any, address: Any) -> None:
        for lane in active_lanes(mask):
            at = named(of_lane(address, lane), ins, warp)
            column = at & 0xFFFF
            if at >> 16:
                why = f"lane {at >> 16} in the address {at:#010x}: only a shift from lane 0 can be emulated"
                raise descriptor_error(ins, warp, ValueError(why))
            driver = thread(warp, lane)
            ctas = _taking_part(ins, warp, group)
            for cta in ctas:
                cta.tmem.check(column, SHIFTED_COLUMNS, ins, warp, ins.opcode)
                region = cta.tmem.region(0, TMEM_LANES, column, SHIFTED_COLUMNS)
                cta.tmem.shadow.read(region, driver.access(ins), warp.tensor_clock)
                cta.tmem.shadow.write(region, driver.access(ins), warp.tensor_clock)
            driver.shift(ins, ctas, column)
            driver.issued()

    return run
