"""The tensor core: matrix multiplications queued by single threads, completed in order when a commit needs them.

Consecutive steps of K into one accumulator are one product. They are grouped at issue, so the result's bits do not
depend on when they complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...chip import TMEM_COLUMNS, TMEM_LANES
from ...errors import DescriptorError, TensorMemoryError
from ...ptx.syntax import Instr
from ..formats.descriptors import InstructionDescriptor, Kind, operand_chunks, steps_chunks
from ..formats.numbers import from_columns, widen
from ..formats.scales import Scales, factors_of_a, factors_of_b
from ..formats.truncation import truncated_sum
from ..formats.zero_columns import ZeroColumns
from ..memory.collectors import BUFFER_OF_A, Buffered
from ..memory.tmem import GROUP
from ..order.access import Access, Issuer
from ..order.completion import AsyncOperation
from ..synchronisation.mbarrier import MBarrier, Party
from ..topology import Cta, Warp

CELLS = {"f32": np.float32, "s32": np.int32, "f16": np.uint32}
"""The numpy type by which the accumulator's cells are read, by D's type."""
INT32 = np.iinfo(np.int32)
HALF = 64
QUARTER = 32
SHIFTED_COLUMNS = 8
"""The columns that tcgen05.shift and .ashift move: 32 bytes of every lane, which is K of one tcgen05.mma."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The location of D[m, n] of one CTA in tensor memory: PTX ISA 9.1, the data path layouts of 9.7.16.10.5.

    rows: M of this CTA. columns: tensor-memory columns. split: the number of parts of N laid over the lanes.
    """

    rows: int
    n: int
    columns: int
    split: int
    groups: slice

    def of(self, cells: np.ndarray, column: int, low_lane: int = 0) -> np.ndarray:
        """Return a view of cells [512, 128] in the shape of `shaped`."""
        block = cells[column : column + self.columns]
        if self.split > 1:
            return block.reshape(self.columns, self.split, self.rows).transpose(1, 0, 2)
        if self.rows == TMEM_LANES:
            return block
        return block.reshape(self.n, 4, 32)[:, :, low_lane : low_lane + 16]

    def shaped(self, product: np.ndarray) -> np.ndarray:
        """Return a product [N, M] in the shape of `of`."""
        if self.split > 1:
            return product.reshape(self.split, self.columns, self.rows)
        return product if self.rows == TMEM_LANES else product.reshape(self.n, 4, 16)


def placement(m: int, n: int, ctas: int, ws: bool, low_lane: int) -> Placement:
    """Return the location of one CTA's accumulator. Raises ValueError for a shape that the tensor core lacks."""
    every = slice(0, TMEM_LANES // GROUP)
    step = 16 if ctas == 2 else 8
    lanes = (0, GROUP) if m == HALF and not ws else (0,)
    if low_lane not in lanes:
        raise ValueError(f"the accumulator at lane {low_lane} of tensor memory with M={m}; allowed is {lanes}")
    if ws:
        if m not in (32, 64, 128) or n not in (64, 128, 256):
            raise ValueError(f"M={m}, N={n} with .ws; allowed is M 32, 64, 128 and N 64, 128, 256")
        split = TMEM_LANES // m
        return Placement(m, n, n // split, split, every)
    if m not in ((64, 128) if ctas == 1 else (128, 256)) or not 0 < n <= 256 or n % step:
        allowed = "M 64, 128" if ctas == 1 else "M 128, 256"
        raise ValueError(
            f"M={m}, N={n} with .cta_group::{ctas}; allowed is {allowed} and N 8 to 256 in steps of {step}"
        )
    rows = m // ctas
    if ctas == 2 and rows == HALF:
        return Placement(rows, n, n // 2, 2, every)
    if rows == HALF:
        first = low_lane // GROUP
        return Placement(rows, n, n, 1, slice(first, None, 2))
    return Placement(rows, n, n, 1, every)


@dataclass(slots=True)
class KStep:
    """One tcgen05.mma: its operands' descriptors, or A's tensor-memory column, and its scale factors, if any."""

    a: int
    b: int
    a_in_tmem: bool
    scales: Scales | None = None
    kept: Buffered | None = None
    """The operand that it keeps in a collector buffer or reads from there."""


@dataclass(frozen=True)
class Shape:
    """Properties that the steps of one product share."""

    kind: Kind
    idesc: InstructionDescriptor
    where: Placement
    column: int
    low_lane: int
    ctas: int
    disabled: tuple[int, ...]
    block: int = 0
    """The number of elements of K that share a scale factor."""
    zeros: ZeroColumns | None = None

    @property
    def b_rows(self) -> int:
        """The rows of B that one CTA reads."""
        return self.idesc.n // self.ctas + (self.zeros.shift if self.zeros is not None else 0)


class Product:
    """D (+)= A B over several steps of K, performed as one operation."""

    def __init__(self, instr: Instr, warp: Warp, shape: Shape, accumulate: bool, scale: int, first: KStep) -> None:
        self.instr, self.warp, self.shape, self.accumulate, self.scale = instr, warp, shape, accumulate, scale
        self.steps = [first]

    def has(self, shape: Shape) -> bool:
        """Return whether its steps have this shape."""
        return self.shape is shape or self.shape == shape

    def perform(self) -> None:
        """Read the operands, multiply, write the accumulator."""
        shape = self.shape
        ctas = participating_ctas(self.warp.cta, shape.ctas)
        for step in self.steps:
            if step.kept is not None:
                step.kept.perform([self._elements(cta, step, step.kept.buffer == BUFFER_OF_A) for cta in ctas])
        b = [self.b_of(cta) for cta in ctas]
        right = b[0] if len(b) == 1 else np.concatenate(b)
        for cta in ctas:
            if shape.block:
                self._write(cta, *self._scaled_operands(cta, right, self.a_of(cta)))
            else:
                self._write(cta, right, self.a_of(cta))

    def _elements(self, cta: Cta, step: KStep, of_a: bool) -> np.ndarray:
        """Return a step's elements of A or of B: bytes, or words of columns if they are in tensor memory."""
        shape, idesc = self.shape, self.shape.idesc
        if of_a and step.a_in_tmem:
            return self._columns_of_a(cta, step).copy()
        where = (step.a, shape.where.rows) if of_a else (step.b, shape.b_rows)
        chunks = operand_chunks(*where, shape.kind, idesc.a_mn_major if of_a else idesc.b_mn_major)
        elements: np.ndarray = cta.smem.chunks[chunks].view(np.uint8)
        return elements

    def _scaled_operands(self, cta: Cta, b: np.ndarray, a: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return B [N, K] and A [K, M] times their scale factors, in float64, where no product overflows."""
        shape, where, cells = self.shape, self.shape.where, cta.tmem.cells
        count, kind = shape.kind.k // shape.block, shape.idesc.scale
        try:
            scales = [s.scales for s in self.steps if s.scales is not None]
            of_a = [factors_of_a(cells, where.rows, s.a_column, s.a_byte, count, kind) for s in scales]
            of_b = [factors_of_b(cells, where.n, where.split, s.b_column, s.b_byte, count, kind) for s in scales]
        except ValueError as why:
            raise TensorMemoryError(f"{self.instr.opcode}: {why}", self.instr, self.warp) from None
        wide_a, wide_b = (np.repeat(np.concatenate(f, 1), shape.block, 1) for f in (of_a, of_b))
        return b * wide_b, [part * wide_a.T for part in a]

    def b_of(self, cta: Cta) -> np.ndarray:
        """Return B of one CTA: float32[N of this CTA, K]."""
        shape, idesc = self.shape, self.shape.idesc
        descriptors = tuple(s.b for s in self.steps)
        b = _from_shared(cta, descriptors, shape.b_rows, shape.kind, idesc.b_mn_major, idesc.b)
        if shape.zeros is not None:
            b = shape.zeros.of(b)
        return -b if idesc.negate_b else b

    def a_of(self, cta: Cta) -> list[np.ndarray]:
        """Return A of one CTA, transposed: float32[K, M of this CTA], one for all of N or one for each part."""
        shape, idesc = self.shape, self.shape.idesc
        if self.steps[0].a_in_tmem:
            parts = self._a_from_tmem(cta)
        else:
            descriptors = tuple(s.a for s in self.steps)
            parts = [_from_shared(cta, descriptors, shape.where.rows, shape.kind, idesc.a_mn_major, idesc.a).T]
        return [-a for a in parts] if idesc.negate_a else parts

    def _a_from_tmem(self, cta: Cta) -> list[np.ndarray]:
        """Return A from tensor memory. Each part of the lanes with its own part of N has its own A, usually a copy."""
        shape, where = self.shape, self.shape.where
        steps = [self._columns_of_a(cta, step) for step in self.steps]
        words = steps[0] if len(steps) == 1 else np.concatenate(steps)
        parts = 1 if where.split == 1 or (words == words[:, :1]).all() else where.split
        return [from_columns(np.ascontiguousarray(words[:, part]), shape.idesc.a) for part in range(parts)]

    def _columns_of_a(self, cta: Cta, step: KStep) -> np.ndarray:
        """Return a step's words of A in tensor memory: uint32[columns, parts of the lanes, M]."""
        where, columns = self.shape.where, self.shape.kind.k_bytes // 4
        lane, column = step.a >> 16, step.a & 0xFFFF
        cells = cta.tmem.cells[column : column + columns]
        if where.split == 1 and where.rows == HALF:
            cells = cells.reshape(columns, 4, 32)[:, :, lane : lane + 16]
        return cells.reshape(columns, where.split, where.rows)

    def _write(self, cta: Cta, b: np.ndarray, a: list[np.ndarray]) -> None:
        shape = self.shape
        view = shape.where.of(cta.tmem.cells.view(CELLS[shape.idesc.d]), shape.column, shape.low_lane)
        before = self._scaled(_accumulator(view, shape.idesc.d)) if self.accumulate else None
        if cta.launch.numerics == "tc" and not shape.block and shape.idesc.d != "s32":
            result = shape.where.shaped(_truncated(b, a, before, shape))
        else:
            result = _product(b, a, shape)
            if before is not None and shape.idesc.d == "f32" and not any(shape.disabled):
                np.add(result, before, out=view)
                return
            if before is not None:
                result = result + before
        if shape.idesc.d == "s32":
            result = (result.clip(INT32.min, INT32.max) if shape.idesc.saturate else result).astype(np.int32)
        if shape.idesc.d == "f16":
            result = result.astype(np.float16).view(np.uint16).astype(np.uint32)
        if any(shape.disabled):
            result = np.where(self._disabled(cta), view, result)
        view[...] = result

    def _scaled(self, accumulator: np.ndarray) -> np.ndarray:
        return accumulator * accumulator.dtype.type(2.0**-self.scale) if self.scale else accumulator

    def _disabled(self, cta: Cta) -> np.ndarray:
        """Return a mask of the disabled lanes in the shape of `Placement.of`; the even CTA's bits come first."""
        words = np.array(self.shape.disabled, np.uint32).reshape(self.shape.ctas, -1)[cta.rank % self.shape.ctas]
        lanes = np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)
        where = self.shape.where
        return where.of(np.broadcast_to(lanes, (TMEM_COLUMNS, TMEM_LANES)), 0, self.shape.low_lane)


def _accumulator(view: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return view.astype(np.uint16).view(np.float16).astype(np.float32)
    return view


def _product(b: np.ndarray, a: list[np.ndarray], shape: Shape) -> np.ndarray:
    """Multiply B [N, K] by A [K, M], or each part of B by its own A, in the shape of `Placement.of`.

    The result is float32, or exact int64 for kind::i8.
    """
    where, exact = shape.where, shape.idesc.d == "s32"
    if exact:
        b, a = b.astype(np.float64), [part.astype(np.float64) for part in a]
    if where.split > 1:  # in the accumulator's layout, so that one pass adds both
        product = np.empty((where.columns, where.split, where.rows), b.dtype).transpose(1, 0, 2)
        parts = b.reshape(where.split, where.columns, -1)
        np.matmul(parts, a[0] if len(a) == 1 else np.stack(a), out=product)
    else:
        product = where.shaped(np.matmul(b, a[0]))
    return product.astype(np.int64 if exact else np.float32, copy=False)


def _truncated(b: np.ndarray, a: list[np.ndarray], before: np.ndarray | None, shape: Shape) -> np.ndarray:
    """Return B A plus the accumulator (in the shape of `Placement.of`) as [N, M], with the tensor core's rounding."""
    idesc, count = shape.idesc, len(a)
    c = [None] * count if before is None else np.split(before.reshape(shape.where.n, shape.where.rows), count)
    types, half = (idesc.b, idesc.a), idesc.d == "f16"
    parts = zip(np.split(b, count), a, c, strict=True)
    return np.concatenate([truncated_sum(n, m, types, d, shape.kind.k, half) for n, m, d in parts])


def _from_shared(
    cta: Cta, descriptors: tuple[int, ...], rows: int, kind: Kind, mn_major: bool, element: Any
) -> np.ndarray:
    """Return an operand as float32[rows, K of all steps]."""
    index = steps_chunks(descriptors, rows, kind, mn_major)
    values = widen(cta.smem.chunks[index], element)
    return values.T if mn_major else values


def participating_ctas(cta: Cta, ctas: int) -> tuple[Cta, ...]:
    """Return the CTA, or both of its CTA pair, the even rank first. Raises ValueError if there is no peer."""
    if ctas == 1:
        return (cta,)
    first = cta.rank & ~1
    if first + 1 >= len(cta.cluster.ctas):
        raise ValueError(f".cta_group::2 in {cta}, which has no peer in its cluster of {len(cta.cluster.ctas)}")
    return cta.cluster.ctas[first], cta.cluster.ctas[first + 1]


class TensorThread:
    """The tensor core's queue of one thread. Its component's time is the number of its commits."""

    def __init__(self, warp: Warp, lane: int) -> None:
        self.warp = warp
        history = warp.cta.cluster.history
        self.component = history.component(warp.cta.rank, warp.index, lane, "tensor")
        self.commits: list[tuple[Instr, tuple[MBarrier, ...]]] = []
        self.known_phases = history.clock()
        """The mbarrier phases that its completed commits know to be complete."""
        self.issued_at = 0
        self.queue: deque[AsyncOperation] = deque()
        self.open: Product | None = None

    def access(self, instr: Instr) -> Access:
        """Return an access of the next operation, complete with the next commit."""
        time = len(self.commits) + 1
        return Access(self.component, time, False, instr, self.warp, instr.opcode, (self.component,), self)

    def issued(self) -> None:
        """Order the warp's accesses so far before the operation."""
        self.issued_at = self.warp.time
        self.warp.tick()

    def multiply(self, instr: Instr, shape: Shape, accumulate: bool, scale: int, step: KStep) -> None:
        """Queue one checked tcgen05.mma."""
        open_product = self.open
        if (
            open_product is not None
            and accumulate
            and not scale
            and open_product.has(shape)
            and not shape.idesc.saturate
            and (open_product.steps[0].a_in_tmem == step.a_in_tmem)
        ):
            open_product.steps.append(step)
            return
        self.open = product = Product(instr, self.warp, shape, accumulate, scale, step)
        self._issue(AsyncOperation((), product.perform, self.queue, product), held=True)

    def other(self, instr: Instr, perform: Any) -> None:
        """Queue another checked operation."""
        self.open = None
        self._issue(AsyncOperation((), perform, self.queue))

    def shift(self, instr: Instr, ctas: Sequence[Cta], column: int) -> None:
        """Queue checked shifts: each lane gets the 32 bytes of the next lane; the last of every 32 keeps its own."""

        def perform() -> None:
            for cta in ctas:
                rows = cta.tmem.cells[column : column + SHIFTED_COLUMNS].reshape(SHIFTED_COLUMNS, -1, QUARTER)
                rows[..., :-1] = rows[..., 1:].copy()

        self.other(instr, perform)

    def _issue(self, operation: AsyncOperation, held: bool = False) -> None:
        self.warp.cta.cluster.agents.issue(operation, held)

    def commit(self, instr: Instr, barriers: tuple[MBarrier, ...]) -> None:
        """Execute tcgen05.commit: arrive on the barriers once everything that this thread queued is complete."""
        self.open = None
        # tcgen05.commit implies tcgen05.fence::before_thread_sync.
        if self.warp.after_sync is not None:
            self.warp.before_thread_sync()
        self.commits.append((instr, barriers))
        clock = self.warp.clock.compact()
        # The arrival releases the warp's accesses before the issue of the operations, and no later ones.
        clock.limit(self.warp.component, self.issued_at)
        clock.advance(self.component, len(self.commits))
        party = Party(instr, self.warp, "tcgen05.commit", (self.component, len(self.commits)))

        def perform() -> None:
            clock.merge(self.known_phases)
            for barrier in barriers:
                barrier.arrive(1, party, clock)
                self.known_phases.advance(barrier.over, barrier.phase)

        self.warp.cta.cluster.agents.issue(AsyncOperation(barriers, perform, self.queue))

    def missing(self, access: Access, me: Access) -> str:
        """Describe what must order `me` after `access`, for the report of a conflict."""
        if isinstance(me.via, TensorThread) and me.warp is self.warp and me.via is not self:
            return f"elect.sync: several lanes of {self.warp} issue tcgen05 work, and only one lane's own is in order"
        if access.time > len(self.commits):
            return (
                f"tcgen05.commit by {self.warp} after PTX line {access.instr.line}, "
                f"to an mbarrier that {me.warp} waits on"
            )
        instr, barriers = self.commits[access.time - 1]
        names = " and ".join(map(str, barriers))
        return (
            f"a wait of {me.warp} for the arrival of tcgen05.commit (PTX line {instr.line}) on {names}, "
            f"before PTX line {me.instr.line}"
        )


def descriptor_error(instr: Instr, warp: Issuer, why: ValueError) -> DescriptorError:
    """Return the fault for a descriptor that cannot be decoded."""
    return DescriptorError(f"{instr.opcode}: {why}", instr, warp)
