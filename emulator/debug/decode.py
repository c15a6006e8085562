"""The memory that single instructions access, and the pieces that asynchronous copies move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..chip import LANES, RANK_SHIFT
from ..engine.divergence import lanes_of
from ..engine.effects import Effect
from ..isa.atomics import Atomic
from ..isa.cp_async import is_predicate
from ..isa.ld_st import MemoryOp
from ..isa.tcgen05_cp import TARGETS, CopyShape
from ..isa.tcgen05_ld_st import Transfer, fragment
from ..isa.warp_matrices import ROW_BYTES, Rows
from ..machine.agents.boxes import Load, Store
from ..machine.agents.tensorcore import participating_ctas
from ..machine.formats.descriptors import MatrixDescriptor
from ..machine.formats.tensormap import Box, TensorMap, swizzled_chunks
from ..machine.memory.shared import OFFSET_MASK
from ..machine.topology import Warp
from ..ptx.kinds import Kind
from ..ptx.syntax import Address, Imm, Not, Operand, Reg, Special, TensorAddress, Vector
from .addresses import UNKNOWN, cells, of_threads, shared_base
from .events import Access
from .stepping import SteppedProgram

CHUNK: Final = 16
Pieces = tuple[np.ndarray, np.ndarray, int]
"""Targets, sources (UNKNOWN for filled ones), int64[n], and the bytes of a piece."""


class Operands:
    """The values of operands of the instruction that a warp is about to execute."""

    def __init__(self, program: SteppedProgram, warp: Warp) -> None:
        self._program, self._warp = program, warp

    def lanes(self, operand: Operand) -> np.ndarray:
        """Return an operand in each lane, uint64[32]. A tensor address gives its map's address."""
        match operand:
            case Imm(value):
                return np.full(LANES, value & 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
            case Address(base, offset):
                limit = 0xFFFF_FFFF if isinstance(base, Reg) and base.type == "b32" else 0xFFFF_FFFF_FFFF_FFFF
                total = self.lanes(base) + np.uint64(offset & 0xFFFF_FFFF_FFFF_FFFF)
                return total & np.uint64(limit)
            case TensorAddress(address, _):
                return self.lanes(address)
            case Reg() | Special():
                held = self._program.value(self._warp, operand)
                if held is None and isinstance(operand, Special):
                    held = np.broadcast_to(np.asarray(self._warp.sreg(operand.name)), LANES)
                assert held is not None
                return held.astype(np.uint64)
            case Not(reg):
                return 1 - self.lanes(reg)
        raise TypeError(f"{operand} of PTX has no value in each lane")


def access(effect: Effect, warp: Warp, values: Operands) -> Access | None:
    """Return the memory that the lanes of an instruction access by themselves; None for other instructions."""
    decoder = _DECODERS.get(effect.instr.kind)
    return None if decoder is None else decoder(effect, warp, values)


def _of_lanes(op: MemoryOp, operand: Operand, warp: Warp, values: Operands) -> np.ndarray:
    return of_threads(warp, values.lanes(operand), op.space)


def _load_or_store(effect: Effect, warp: Warp, values: Operands) -> Access:
    op = MemoryOp(effect.instr)
    data = effect.sources[1:2] if op.stores else effect.destinations
    registers = len(data[0].items) if data and isinstance(data[0], Vector) else 1
    return Access(_elements(op, registers, effect, warp, values), op.width, not op.stores, op.stores)


def _atomic(effect: Effect, warp: Warp, values: Operands) -> Access:
    op = Atomic(effect.instr)
    return Access(_elements(op, op.registers, effect, warp, values), op.width, True, True)


def _elements(op: MemoryOp, registers: int, effect: Effect, warp: Warp, values: Operands) -> np.ndarray:
    """Return the places of the elements of each register, int64[registers, pieces, 32]."""
    places = _of_lanes(op, effect.sources[0], warp, values) + op.width * np.arange(op.count, dtype=np.int64)[:, None]
    return places.reshape(registers, -1, LANES)


def _rows(effect: Effect, warp: Warp, values: Operands) -> Access:
    """Return the bytes of ldmatrix or stmatrix, one piece for each byte of a register."""
    op, loads = Rows(effect.instr), effect.instr.kind is Kind.MATRIX_LOAD
    where, rows = op.fragment, _of_lanes(op, effect.sources[0], warp, values)
    rows = rows[: where.rows * op.matrices].reshape(op.matrices, where.rows)
    places = rows[:, where.row] + where.byte
    assert where.byte.max() < ROW_BYTES
    return Access(places.reshape(-1, 4, LANES), 1, loads, not loads)


def _tensor(effect: Effect, warp: Warp, values: Operands) -> Access:
    """Return the cells of tcgen05.ld or .st."""
    loads = effect.instr.kind is Kind.TENSOR_LOAD
    transfer = Transfer(effect.instr, "pack::16b" if loads else "unpack::16b")
    at = int(values.lanes(effect.sources[0])[0])
    constants = [o.value for o in effect.sources[1:] if isinstance(o, Imm)]
    lanes, columns, _ = fragment(transfer.shape, transfer.repeats, constants[0] if constants else 0, transfer.packed)
    lane, column = 32 * (warp.index % 4) + (at >> 16) % 32, at & 0xFFFF
    first = cells(warp.cta, column + columns, lane + lanes)[:, None]
    if transfer.packed:
        first = np.concatenate([first, cells(warp.cta, column + columns + 1, lane + lanes)[:, None]], 1)
    return Access(first, 2 if transfer.packed else 4, loads, not loads)


def _alloc(effect: Effect, warp: Warp, values: Operands) -> Access:
    """Return the word that receives the address of the allocated columns."""
    first = of_threads(warp, values.lanes(effect.sources[0]), "shared")
    return Access(first.reshape(1, 1, LANES), 4, False, True)


def _remote(effect: Effect, warp: Warp, values: Operands) -> Access:
    """Return the shared memory that st.async or red.async writes, as if it arrived at once."""
    kind = next(m for m in effect.instr.modifiers if m[1:].isdecimal() and m[0] in "bsuf")
    width, data = int(kind[1:]) // 8, effect.sources[1]
    count = len(data.items) if isinstance(data, Vector) else 1
    first = of_threads(warp, values.lanes(effect.sources[0]), "shared")
    places = first + width * np.arange(count, dtype=np.int64)[:, None]
    return Access(places.reshape(count, 1, LANES), width, effect.instr.kind is Kind.REMOTE_REDUCTION, True)


_DECODERS: Final[dict[Kind, Callable[[Effect, Any, Operands], Access]]] = {
    Kind.LOAD: _load_or_store, Kind.STORE: _load_or_store, Kind.ATOMIC: _atomic, Kind.REDUCTION: _atomic,
    Kind.MATRIX_LOAD: _rows, Kind.MATRIX_STORE: _rows, Kind.TENSOR_LOAD: _tensor, Kind.TENSOR_STORE: _tensor,
    Kind.TENSOR_ALLOCATION: _alloc, Kind.REMOTE_STORE: _remote, Kind.REMOTE_REDUCTION: _remote,
}  # fmt: skip


# copies --------------------------------------------------------------------------------------------------------------


def copies(effect: Effect, warp: Warp, lanes: int, values: Operands) -> list[list[Pieces]]:
    """Return the pieces of each copy that an instruction issues, in the order of their operations.

    Copies of boxes are not among them: their operations say what they are.
    """
    instr, active = effect.instr, np.flatnonzero(lanes_of(lanes)).tolist()
    if instr.kind is Kind.LANE_COPY:
        return [[_lane_copies(effect, warp, lanes, values)]]
    if instr.kind is Kind.TENSOR_COPY:
        return [_tensor_copy(effect, warp, lane, values) for lane in active]
    if instr.kind in (Kind.BULK_COPY, Kind.BULK_REDUCTION):
        return [[piece] for lane in active for piece in _bulk(effect, warp, lane, values)]
    return []


def _lane_copies(effect: Effect, warp: Warp, lanes: int, values: Operands) -> Pieces:
    """Return the pieces of cp.async, as wide as what every lane copies and fills allows."""
    target, source, size, *rest = effect.sources
    assert isinstance(size, Imm)
    sizes = np.full(LANES, size.value, np.uint64)
    if len(rest) > ("L2::cache_hint" in effect.instr.modifiers):
        given = values.lanes(rest[0])
        sizes = np.where(given != 0, 0, sizes) if is_predicate(rest[0]) else given
    here = lanes_of(lanes)
    width = int(np.gcd.reduce([size.value, *sizes[here].tolist()]))
    byte = np.arange(0, size.value, width, dtype=np.int64)
    to = of_threads(warp, values.lanes(target), "shared")[here, None] + byte
    of = of_threads(warp, values.lanes(source), "global")[here, None] + byte
    of = np.where(byte < sizes.astype(np.int64)[here, None], of, UNKNOWN)
    return to.reshape(-1), of.reshape(-1), width


def _bulk(effect: Effect, warp: Warp, lane: int, values: Operands) -> list[Pieces]:
    """Return one piece for each destination CTA."""
    instr = effect.instr
    target, source, size, *rest = (int(values.lanes(operand)[lane]) for operand in effect.sources)
    if "bulk_group" in instr.modifiers:  # to global memory
        return [_piece(target, _in_cta(warp, source), size)]
    if "global" in instr.modifiers:
        ranks = [target >> RANK_SHIFT & 0xFF]
        if "multicast::cluster" in instr.modifiers:
            ranks = [rank for rank in range(16) if rest[1] >> rank & 1]
        ctas = [warp.cta.cluster.ctas[rank] for rank in ranks]
        return [_piece(shared_base(cta) + (target & OFFSET_MASK), source, size) for cta in ctas]
    return [_piece(_in_cta(warp, target), _in_cta(warp, source), size)]


def _tensor_copy(effect: Effect, warp: Warp, lane: int, values: Operands) -> list[Pieces]:
    """Return the cells of tcgen05.cp. Elements that it expands to bytes come from nowhere."""
    modifiers = effect.instr.modifiers
    shape = next(name for name in TARGETS if set(name.split(".")) <= set(modifiers))
    copied = CopyShape(TARGETS[shape], 2 if "256b" in shape else 1, None)
    at, bits = (int(values.lanes(operand)[lane]) for operand in effect.sources[:2])
    chunks = MatrixDescriptor.decode(bits).chunks(copied.rows, copied.chunks * CHUNK, False).astype(np.int64)
    column = np.arange(copied.columns)[:, None]
    word = chunks[copied.rows_of_lanes][:, column[:, 0] // 4].T * CHUNK + column % 4 * 4
    lanes, found = copied.lanes(at >> 16 & 127)[None, :], []
    for cta in participating_ctas(warp.cta, 2 if "cta_group::2" in modifiers else 1):
        sources = np.full(word.shape, UNKNOWN, np.int64) if "b8x16" in modifiers else word + shared_base(cta)
        found.append((cells(cta, (at & 0xFFFF) + column, lanes).reshape(-1), sources.reshape(-1), 4))
    return found


def _in_cta(warp: Warp, address: int) -> int:
    return int(of_threads(warp, np.full(LANES, address, np.uint64), "shared")[0])


def _piece(target: int, source: int, size: int) -> Pieces:
    return np.array([target], np.int64), np.array([source], np.int64), size


def loaded(load: Load) -> Pieces:
    """Return the chunks of a TMA load. Padded and rounded ones, which are no plain copies, have no pieces."""
    tensor, cta = load.tensor, load.cta
    chunks = swizzled_chunks(load.offset, load.size, tensor.swizzle)
    sources = np.concatenate([_chunks_of(tensor, box) for box in load.boxes])
    if sources.size != chunks.size:  # padded
        sources = np.full(chunks.size, UNKNOWN, np.int64)
    return shared_base(cta) + chunks.astype(np.int64) * CHUNK, sources, CHUNK


def stored(store: Store) -> Pieces:
    """Return the chunks of a TMA store that lie in the tensor."""
    chunks = swizzled_chunks(store.offset, store.size, store.tensor.swizzle).astype(np.int64) * CHUNK
    targets = np.concatenate([_chunks_of(store.tensor, box) for box in store.boxes])
    inside = targets != UNKNOWN
    return targets[inside], shared_base(store.cta) + chunks[: targets.size][inside], CHUNK


def _chunks_of(tensor: TensorMap, box: Box) -> np.ndarray:
    """Return the global address of each 16-byte chunk of a box, UNKNOWN outside the tensor."""
    addresses = np.full(tensor.shape, UNKNOWN, np.int64)
    if box is not None:
        part, there = box
        inside = np.full(there.shape, part.low, np.int64)
        for axis, stride in enumerate(there.strides):
            shape = [1] * there.ndim
            shape[axis] = -1
            inside = inside + (np.arange(there.shape[axis], dtype=np.int64) * stride).reshape(shape)
        addresses[part.slices] = inside
    return addresses.reshape(-1)[:: CHUNK // tensor.width]
