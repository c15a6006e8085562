"""Tensor core MMA (tcgen05.mma): operands are checked against memory and queued on the tensor core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..chip import DEVICE, TMEM_LANES
from ..errors import UnknownInstruction
from ..machine.agents.tensorcore import (
    SHIFTED_COLUMNS,
    KStep,
    Shape,
    TensorThread,
    descriptor_error,
    participating_ctas,
    placement,
)
from ..machine.formats.descriptors import (
    CHUNK,
    KINDS,
    SCALE_BYTES,
    InstructionDescriptor,
    Kind,
    operand_chunks,
    operand_pattern,
)
from ..machine.formats.scales import QUARTER, Scales
from ..machine.formats.scales import columns as scale_columns
from ..machine.formats.zero_columns import ZeroColumns
from ..machine.memory.collectors import BUFFER_OF_A, Buffered, Operand
from ..machine.memory.tmem import GROUP, named, rectangle
from ..machine.order.access import Access
from ..machine.order.cells import Cells, pieces
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Address, Imm, Instr, Reg, Vector
from .lane_values import active_lanes, of_lane
from .registry import CTA_GROUP, Action, Modifiers, Publishes, executes, never_communicates
from .tcgen05_control import thread

USES: Final = ("discard", "lastuse", "fill", "use")
COLLECTORS_OF_A: Final = frozenset(f"collector::a::{use}" for use in USES)
COLLECTORS_OF_B: Final = frozenset(f"collector::b{buffer}::{use}" for buffer in range(4) for use in USES)
BLOCKS: Final = {"block16": 16, "block32": 32, "scale_vec::1X": 0, "scale_vec::2X": 0, "scale_vec::4X": 0}
"""Elements of K that share a scale factor; 0 if the modifier gives the number of factors instead."""
SCALED_INPUT: Final = ("kind::f16", "kind::tf32")
MASK_WORDS: Final = 4
NO_INTEGERS: Final = ("sm_103a",)
"""The targets without kind::i8."""


@dataclass(frozen=True)
class MmaOp:
    """One tcgen05.mma form. Its operands are d, a, b, instruction descriptor, then optional ones.

    block: elements of K that share a scale factor, 0 without scale factors. masked: some lanes are disabled.
    shifts: the rows of A move by one lane after the product. buffer, use: its collector buffer and what it does there.
    """

    kind: Kind
    ctas: int
    ws: bool
    block: int
    a_in_tmem: bool
    masked: bool
    shifts: bool
    buffer: str
    use: str

    @classmethod
    def of(cls, ins: Instr) -> MmaOp:
        """Check an instruction and return its form. Raises UnknownInstruction."""
        collectors = COLLECTORS_OF_B if "ws" in ins.modifiers else COLLECTORS_OF_A
        ws, group, name, scaled, vector, collector, shifts = Modifiers(ins).pick(
            {"ws"}, CTA_GROUP, set(KINDS), {"block_scale"}, BLOCKS, collectors, {"ashift"}
        )
        if name is None or group is None or len(ins.operands) < 5:
            raise UnknownInstruction(ins, "missing .kind or .cta_group, or too few operands")
        if name == "kind::i8" and DEVICE.target in NO_INTEGERS:
            raise UnknownInstruction(ins, f"kind::i8, which {DEVICE.target} does not have")
        block = _block(ins, KINDS[name], scaled is not None, vector)
        masked = isinstance(ins.operands[4], Vector)
        if ws and (block or masked or group == "cta_group::2"):
            raise UnknownInstruction(ins, ".ws with scale factors, disabled lanes or .cta_group::2")
        a_in_tmem = isinstance(ins.operands[1], Address)
        buffer, use = collector.split("::")[1:] if collector else ("b0" if ws else BUFFER_OF_A, "discard")
        if shifts and (ws or block or use in ("fill", "use") or not a_in_tmem):
            raise UnknownInstruction(
                ins, ".ashift with A in shared memory, scale factors, .ws, or a collector's fill or use"
            )
        op = cls(
            KINDS[name],
            2 if group == "cta_group::2" else 1,
            ws is not None,
            block,
            a_in_tmem,
            masked,
            shifts is not None,
            buffer,
            use,
        )
        op._check_operands(ins)
        return op

    def _check_operands(self, ins: Instr) -> None:
        rest = ins.operands[4:]
        if self.block:
            if len(rest) != 3 or not all(isinstance(x, Address) for x in rest[:2]):
                why = "operands other than d, a, b, descriptor, scale factors of a and of b, predicate"
                raise UnknownInstruction(ins, why)
            return
        words = MASK_WORDS * self.ctas
        if isinstance(rest[0], Vector) and len(rest[0].items) != words:
            raise UnknownInstruction(ins, f"{len(rest[0].items)} words of disabled lanes; allowed is {words}")
        last = rest[1 + self.masked :]
        if len(last) > 1 or (last and not isinstance(last[0], Reg | Imm if self.ws else Imm)):
            raise UnknownInstruction(ins, f"operands after the predicate: {', '.join(map(str, last))}")
        if last and not self.ws:
            scale = last[0].value if isinstance(last[0], Imm) else 0
            if self.kind.name not in SCALED_INPUT or not 0 <= scale <= 15:
                raise UnknownInstruction(ins, f"{self.kind.name} with scale-input-d {scale}; f16 and tf32 take 0 to 15")


def _block(ins: Instr, kind: Kind, scaled: bool, vector: str | None) -> int:
    """Return the elements of K per scale factor, 0 without scale factors."""
    if scaled != bool(kind.blocks):
        raise UnknownInstruction(ins, f".{kind.name} {'with' if scaled else 'without'} .block_scale")
    if not scaled:
        return 0
    block = kind.blocks[0] if vector is None else BLOCKS[vector] or kind.k // int(vector[-2])
    if block not in kind.blocks or (vector is None and len(kind.blocks) > 1):
        raise UnknownInstruction(ins, f".{kind.name} with .{vector}; it takes blocks of {kind.blocks}")
    return block


def _scales(ins: Instr, warp: Warp, op: MmaOp, idesc: int, a: int, b: int) -> Scales:
    """Return the location of a row's scale factors (PTX ISA 9.1, tables 43 and 44, the SFA and SFB ids)."""
    a_byte, b_byte, count = idesc >> 29 & 3, idesc >> 4 & 3, op.kind.k // op.block
    for name, byte in (("A", a_byte), ("B", b_byte)):
        if byte % count:
            why = f"id {byte} of the scale factors of {name} in instruction descriptor {idesc:#010x}: {count} a row"
            _check_queued(warp)
            raise descriptor_error(ins, warp, ValueError(why))
    return Scales(a & 0xFFFF, a_byte, b & 0xFFFF, b_byte)


@lru_cache(maxsize=1024)
def _shape(op: MmaOp, idesc: int, d: int, disabled: tuple[int, ...], zeros: int) -> Shape:
    """Return the checked shape of a product.

    zeros: the zero-column mask descriptor of a .ws form. Raises ValueError.
    """
    decoded = InstructionDescriptor.decode(idesc, op.kind)
    low_lane = d >> 16
    where = placement(decoded.m, decoded.n, op.ctas, op.ws, low_lane)
    if op.block and op.ctas == 1 and decoded.m != TMEM_LANES:
        raise ValueError(f"M={decoded.m} with scale factors and .cta_group::1; allowed is M 128")
    if op.kind.container_bits == 8 and decoded.b_mn_major and decoded.n % (16 * op.ctas):
        raise ValueError(f"N={decoded.n} for a transposed B of 8 bits; allowed are steps of {16 * op.ctas}")
    if op.shifts and decoded.m not in (128, 256):
        raise ValueError(f"M={decoded.m} with .ashift; allowed is M 128, 256")
    columns = ZeroColumns.decode(zeros, decoded.m, decoded.n) if op.ws and zeros else None
    off = disabled if any(disabled) else ()
    return Shape(op.kind, decoded, where, d & 0xFFFF, low_lane, op.ctas, off, op.block, columns)


@dataclass(slots=True)
class Queued:
    """One queued tcgen05.mma. continues: it is a further K step of the product before it."""

    me: Access
    ctas: tuple[Cta, ...]
    shape: Shape
    accumulate: bool
    continues: bool
    step: KStep


def _keep(ins: Instr, warp: Warp, op: MmaOp, cta: Cta, shape: Shape, step: KStep) -> Buffered | None:
    """Execute the collector operation, and return the operand to keep or to compare at completion, if any.

    cta: the one that has the buffers. Raises CollectorError.
    """
    collectors = cta.collectors
    if op.use == "discard" and not collectors.valid:
        return None
    me = Buffered(ins, warp, op.buffer, _operand(op, shape, step))
    fault = collectors.issue(op.use, me)
    if fault is not None:
        _check_queued(warp)
        warp.cta.launch.report(fault)
    return None if fault is not None or op.use == "discard" else me


def _operand(op: MmaOp, shape: Shape, step: KStep) -> Operand:
    """Return the operand that the collector buffer of a form is for."""
    idesc, kind, lane = shape.idesc, op.kind.name, shape.low_lane
    if op.buffer == BUFFER_OF_A:
        kept = idesc.a.name, idesc.m, 0, lane, idesc.a_mn_major, idesc.negate_a, step.a_in_tmem, step.a, None
        return Operand("A", kind, *kept)
    kept_b = idesc.b.name, idesc.m, idesc.n, lane, idesc.b_mn_major, idesc.negate_b, False, step.b, shape.zeros
    return Operand("B", kind, *kept_b)


def _multiply(
    ins: Instr, driver: TensorThread, ctas: tuple[Cta, ...], shape: Shape, accumulate: bool, scale: int, step: KStep
) -> None:
    warp = driver.warp
    continues = accumulate and driver.open is not None and driver.open.has(shape)
    warp.unchecked.append(Queued(driver.access(ins), ctas, shape, accumulate, continues, step))
    driver.multiply(ins, shape, accumulate, scale, step)
    warp.cta.launch.stats.mma_flops += 2 * shape.idesc.m * shape.idesc.n * shape.kind.k


def _check_queued(warp: Warp) -> None:
    """Check and record the accesses of all consecutive queued tcgen05.mma at once.

    This is not observable: it happens before the warp does anything else, so no other access, wait or completion comes
    between. The K steps of a product are checked together. If that fails they are checked one by one, so that the first
    finding is that of the first faulty step.
    """
    left, warp.unchecked = warp.unchecked, []
    while left:
        count = 1
        while count < len(left) and left[count].continues and left[count].me.component == left[0].me.component:
            count += 1
        steps, left = left[:count], left[count:]
        if count == 1 or not _record_if_ordered(steps):
            for queued in steps:
                _check(queued)


def _check(queued: Queued) -> None:
    me, shape, step = queued.me, queued.shape, queued.step
    for cta in queued.ctas:
        _read_operand(cta, me, shape, step.b, shape.b_rows, shape.idesc.b_mn_major, "B")
        if step.a_in_tmem:
            _read_a_from_tmem(cta, me, shape, step.a)
        else:
            _read_operand(cta, me, shape, step.a, shape.where.rows, shape.idesc.a_mn_major, "A")
        if step.scales is not None:
            _read_scales(cta, me, shape, step.scales)
        if not queued.continues:
            _record_accumulator(cta, me, shape, queued.accumulate)


def _record_if_ordered(steps: list[Queued]) -> bool:
    """Return True if all operand reads of a product's steps are ordered.

    Then they are recorded, and so is the accumulator access.
    """
    first = steps[0]
    shape, accesses = first.shape, [queued.me for queued in steps]
    a, b = tuple([queued.step.a for queued in steps]), tuple([queued.step.b for queued in steps])
    if shape.block or any(queued.step.a_in_tmem != first.step.a_in_tmem for queued in steps):
        return False
    for cta in first.ctas:
        if not _record_operands_if_ordered(cta, accesses, b, shape.b_rows, shape.kind, shape.idesc.b_mn_major):
            return False
        if first.step.a_in_tmem:
            if not _record_columns_if_ordered(cta, accesses, a, shape):
                return False
        elif not _record_operands_if_ordered(cta, accesses, a, shape.where.rows, shape.kind, shape.idesc.a_mn_major):
            return False
        if not first.continues:
            _record_accumulator(cta, first.me, shape, first.accumulate)
    return True


def _record_operands_if_ordered(
    cta: Cta, accesses: list[Access], descriptors: tuple[int, ...], rows: int, kind: Kind, mn_major: bool
) -> bool:
    smem = cta.smem
    try:
        cells = _all_operand_cells(descriptors, rows, kind, mn_major, smem.shift, smem.size)
    except ValueError:
        return False
    clock, pattern = accesses[0].warp.clock, operand_pattern(descriptors[0])
    return cells is not None and smem.shadow.prove(cells, accesses, clock, pattern)


def _record_columns_if_ordered(cta: Cta, accesses: list[Access], addresses: tuple[int, ...], shape: Shape) -> bool:
    """Do the same for A in tensor memory, where the steps' columns are consecutive."""
    count, first, tmem = shape.kind.k_bytes // 4, addresses[0] & 0xFFFF, cta.tmem
    columns, start = count * len(addresses), shape.low_lane << 16 | first
    if addresses != tuple(range(start, start + columns, count)):
        return False
    cells = rectangle(first, columns, shape.where.groups, len(addresses))
    clock = accesses[0].warp.tensor_clock
    return tmem.owns(first, columns) and tmem.shadow.prove(cells, accesses, clock)


def _shift_a(ins: Instr, driver: TensorThread, ctas: tuple[Cta, ...], column: int) -> None:
    """Shift A after the product (.ashift), as NVIDIA's example 1cta_mma_a_from_tmem.py shows for a B200."""
    for cta in ctas:
        region = cta.tmem.region(0, TMEM_LANES, column, SHIFTED_COLUMNS)
        cta.tmem.shadow.write(region, driver.access(ins), driver.warp.tensor_clock)
    driver.shift(ins, ctas, column)


def _record_accumulator(cta: Cta, me: Access, shape: Shape, accumulate: bool) -> None:
    where, clock = shape.where, me.warp.tensor_clock
    cta.tmem.check(shape.column, where.columns, me.instr, me.warp, f"the accumulator of {me.what}")
    region = rectangle(shape.column, where.columns, where.groups)
    if accumulate:
        cta.tmem.shadow.read(region, me, clock)
    cta.tmem.shadow.write(region, me, clock)


def _read_scales(cta: Cta, me: Access, shape: Shape, scales: Scales) -> None:
    """Record the reads of scale factors. If the last column holds few rows, its upper lanes are not read."""
    where, shadow, clock = shape.where, cta.tmem.shadow, me.warp.tensor_clock
    for name, column, rows in (("A", scales.a_column, where.rows), ("B", scales.b_column, where.n // where.split)):
        count = scale_columns(rows)
        cta.tmem.check(column, count, me.instr, me.warp, f"the scale factors of {name} of {me.what}")
        full = count - (0 < rows % QUARTER <= GROUP)
        if full:
            shadow.read(rectangle(column, full, slice(None)), me, clock)
        if full < count:
            shadow.read(rectangle(column + full, 1, slice(None, None, QUARTER // GROUP)), me, clock)


def _read_a_from_tmem(cta: Cta, me: Access, shape: Shape, address: int) -> None:
    column, columns = address & 0xFFFF, shape.kind.k_bytes // 4
    if address >> 16 != shape.low_lane:
        why = f"operand A at lane {address >> 16} of tensor memory, the accumulator at lane {shape.low_lane}"
        raise descriptor_error(me.instr, me.warp, ValueError(why))
    cta.tmem.check(column, columns, me.instr, me.warp, f"operand A of {me.what}")
    cta.tmem.shadow.read(rectangle(column, columns, shape.where.groups), me, me.warp.tensor_clock)


@lru_cache(maxsize=4096)
def _operand_cells(bits: int, rows: int, kind: Kind, mn_major: bool, shift: int, limit: int) -> Cells:
    chunks = operand_chunks(bits, rows, kind, mn_major)
    low, high = int(chunks.min()) * CHUNK, int(chunks.max()) * CHUNK + CHUNK
    if high > limit:
        raise ValueError(
            f"matrix descriptor {bits:#018x} addresses bytes {low:#x} to {high - 1:#x} of a window of {limit:#x}"
        )
    per = CHUNK >> shift
    return pieces(chunks * per, per)


@lru_cache(maxsize=512)
def _all_operand_cells(
    descriptors: tuple[int, ...], rows: int, kind: Kind, mn_major: bool, shift: int, limit: int
) -> Cells | None:
    """Return the cells of an operand over several K steps, None if their swizzles differ. Raises ValueError."""
    if len({operand_pattern(bits) for bits in descriptors}) > 1:
        return None
    for bits in descriptors:
        _operand_cells(bits, rows, kind, mn_major, shift, limit)
    chunks = np.stack([operand_chunks(bits, rows, kind, mn_major) for bits in descriptors])
    per = CHUNK >> shift
    return pieces(chunks * per, per, len(descriptors))


def _read_operand(cta: Cta, me: Access, shape: Shape, bits: int, rows: int, mn_major: bool, name: str) -> None:
    smem = cta.smem
    try:
        cells = _operand_cells(bits, rows, shape.kind, mn_major, smem.shift, smem.size)
    except ValueError as why:
        raise descriptor_error(me.instr, me.warp, ValueError(f"operand {name}: {why}")) from None
    smem.shadow.read(cells, me, me.warp.clock, operand_pattern(bits))


@executes("tcgen05.mma", publishes=Publishes.WORK, communicates=never_communicates, flush=_check_queued)
def _mma(ins: Instr) -> Action:
    op = MmaOp.of(ins)
    before = 1 if op.masked else 2 if op.block else 0
    last = len(ins.operands) > 5 + before
    shapes: dict[tuple[Any, ...], Shape] = {}

    def shape_of(*given: Any) -> Shape:
        found = shapes.get(given)
        if found is None:
            found = shapes[given] = _shape(op, *given)
        return found

    disabled: dict[Any, tuple[int, ...]] = {}

    def lanes_off(words: Any, lane: int) -> tuple[int, ...]:
        """Return the words of disabled lanes. Uniform words are ints, which are cached."""
        try:
            return disabled[words]
        except (KeyError, TypeError) as uneven:
            off = tuple([of_lane(x, lane) & 0xFFFF_FFFF for x in words])
            if isinstance(uneven, KeyError):
                disabled[words] = off
            return off

    def run(warp: Warp, mask: Any, d: Any, a: Any, b: Any, idesc: Any, *rest: Any) -> None:
        for lane in active_lanes(mask):
            off = lanes_off(rest[0], lane) if op.masked else ()
            bits = of_lane(idesc, lane)
            scales = _scales(ins, warp, op, bits, *(of_lane(x, lane) for x in rest[:2])) if op.block else None
            extra = of_lane(rest[-1], lane) if last else 0
            try:
                ctas = participating_ctas(warp.cta, op.ctas)
                at = named(of_lane(d, lane), ins, warp)
                shape = shape_of(bits & ~SCALE_BYTES if op.block else bits, at, off, extra)
            except ValueError as why:
                _check_queued(warp)
                raise descriptor_error(ins, warp, why) from None
            a_at = named(of_lane(a, lane), ins, warp) if op.a_in_tmem else of_lane(a, lane)
            step = KStep(a_at, of_lane(b, lane), op.a_in_tmem, scales)
            step.kept = _keep(ins, warp, op, ctas[0], shape, step)
            accumulate = bool(of_lane(rest[before], lane))
            driver = thread(warp, lane)
            _multiply(ins, driver, ctas, shape, accumulate, 0 if op.ws else extra, step)
            if op.shifts:
                _check_queued(warp)
                _shift_a(ins, driver, ctas, step.a & 0xFFFF)
            driver.issued()

    return run
