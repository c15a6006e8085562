"""Events of a recorded launch: executed instructions with their results, and asynchronous work that completed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..chip import TMEM_COLUMNS, TMEM_LANES
from ..machine.agents.tensorcore import CELLS, Product, participating_ctas
from ..machine.formats.descriptors import steps_chunks
from ..machine.topology import Cta, Warp
from .addresses import UNKNOWN, Writers, cells, shared_base

CHUNK = 16


@dataclass(slots=True, eq=False)
class Access:
    """The memory that the lanes of an instruction access.

    places: the first byte of each piece, int64[registers, pieces of a register, 32]. width: bytes of a piece. writers:
    who last wrote each byte that is read, int32[registers, pieces, 32, width]; None for a store. reads, stores: whether
    it does. before, after: of an atomic operation, the bytes in memory, uint8[registers, pieces, 32, width].
    """

    places: np.ndarray
    width: int
    reads: bool
    stores: bool
    writers: np.ndarray | None = None
    before: np.ndarray | None = None
    after: np.ndarray | None = None


@dataclass(slots=True, eq=False)
class Executed:
    """An instruction that lanes of a warp executed.

    values: of each register that it writes, None if nothing reads that. access: its own access of memory, if any.
    """

    number: int
    warp: Warp
    at: int
    lanes: int
    values: tuple[np.ndarray | None, ...]
    access: Access | None = None


@dataclass(slots=True, eq=False)
class Copied:
    """A copy that completed: pieces of `width` bytes from `sources` to `targets`, int64[n].

    issuer: its instruction. A source of UNKNOWN
    brought a fill. writers: who last wrote each source byte,
    int32[n, width]. before: who last wrote each target byte, for a reduction. old, values: the bytes at the targets
    before a reduction and after the copy, uint8[n, width].
    """

    number: int
    issuer: Executed
    targets: np.ndarray
    sources: np.ndarray
    width: int
    writers: np.ndarray
    before: np.ndarray | None
    old: np.ndarray | None
    values: np.ndarray
    order: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Sort the targets, to find them again."""
        self.order = np.argsort(self.targets, kind="stable")

    def piece(self, address: int) -> int | None:
        """Return the piece whose target holds a byte; the last one of several."""
        at = int(np.searchsorted(self.targets[self.order], address, side="right")) - 1
        if at < 0 or address >= self.targets[self.order[at]] + self.width:
            return None
        return int(self.order[at])


@dataclass(slots=True, eq=False)
class Operand:
    """A or B of a product of one CTA: values float32[rows, K], the place of each element, and its writers.

    places: the first byte, int64[rows, K]. writers: of that byte, int32[rows, K]. bits: of an element.
    """

    values: np.ndarray
    places: np.ndarray
    writers: np.ndarray
    bits: int
    kind: str


@dataclass(eq=False)
class Multiplied:
    """A product of one CTA that the tensor core completed.

    issuers: its instructions. a: one for all of N, or one for each part of it. before: who wrote the
    accumulator's cells, int32[N, M]; None if it starts from zero.
    """

    number: int
    issuers: list[Executed]
    product: Product
    cta: Cta
    a: list[Operand]
    b: Operand
    before: np.ndarray | None
    old: np.ndarray | None
    values: np.ndarray

    @cached_property
    def places(self) -> np.ndarray:
        """The first byte of the accumulator's cell of each element, int64[N, M]."""
        return accumulator(self.product, self.cta)

    def element(self, address: int) -> tuple[int, int] | None:
        """Return (n, m) of the accumulator's element in the cell that holds a byte."""
        hit = np.argwhere(self.places == address & ~3)
        return (int(hit[0][0]), int(hit[0][1])) if len(hit) else None

    def a_of(self, n: int) -> Operand:
        """Return A for a column of the result."""
        return self.a[n * len(self.a) // len(self.values)]


Event = Executed | Copied | Multiplied


def accumulator(product: Product, cta: Cta) -> np.ndarray:
    """Return the first byte of each cell of a product's accumulator, int64[N, M]."""
    shape = product.shape
    every = cells(cta, np.arange(TMEM_COLUMNS)[:, None], np.arange(TMEM_LANES)[None, :])
    found: np.ndarray = shape.where.of(every, shape.column, shape.low_lane).reshape(-1, shape.where.rows)
    return found.astype(np.int64)


def multiplied(product: Product, writers: Writers) -> list[Multiplied]:
    """Read the operands of a product for each of its CTAs, before it is performed."""
    shape, found = product.shape, []
    ctas = participating_ctas(product.warp.cta, shape.ctas)
    parts = [_of_shared(product, cta, "b", shape.b_rows, shape.idesc.b_mn_major, writers) for cta in ctas]
    values = np.concatenate([product.b_of(cta) for cta in ctas])
    right = Operand(
        values,
        np.concatenate([places for places, _ in parts])[: len(values)],
        np.concatenate([by for _, by in parts])[: len(values)],
        shape.idesc.b.bits,
        shape.idesc.b.name,
    )
    for cta in ctas:
        every = accumulator(product, cta)
        view = shape.where.of(cta.tmem.cells.view(CELLS[shape.idesc.d]), shape.column, shape.low_lane)
        before = writers.read(every, 1)[..., 0] if product.accumulate else None
        old = view.reshape(every.shape).astype(np.float64) if product.accumulate else None
        left = _left(product, cta, writers)
        found.append(Multiplied(UNKNOWN, [], product, cta, left, right, before, old, np.zeros(every.shape)))
    return found


def results(done: Multiplied) -> np.ndarray:
    """Return the accumulator's bits of a product that was performed, uint32[N, M]."""
    shape = done.product.shape
    view: np.ndarray = shape.where.of(done.cta.tmem.cells, shape.column, shape.low_lane)
    return view.reshape(done.values.shape).copy()


def _left(product: Product, cta: Cta, writers: Writers) -> list[Operand]:
    shape, values = product.shape, [part.T for part in product.a_of(cta)]
    kind = shape.idesc.a
    if not product.steps[0].a_in_tmem:
        places, by = _of_shared(product, cta, "a", shape.where.rows, shape.idesc.a_mn_major, writers)
        return [Operand(part, places, by, kind.bits, kind.name) for part in values]
    columns = shape.kind.k_bytes // 4
    each = shape.kind.k // columns
    steps = []
    for step in product.steps:
        lane, column = step.a >> 16, step.a & 0xFFFF
        found = cells(cta, np.arange(column, column + columns)[:, None], np.arange(TMEM_LANES)[None, :])
        if shape.where.split == 1 and shape.where.rows == 64:
            found = found.reshape(columns, 4, 32)[:, :, lane : lane + 16]
        steps.append(found.reshape(columns, shape.where.split, shape.where.rows))
    every = np.concatenate(steps)
    width = 4 // each if each <= 4 else 0
    out = []
    for number, part in enumerate(values):
        here = every[:, number if len(values) > 1 else 0].T.astype(np.int64)
        places = (here[..., None] + np.arange(each) * width).reshape(here.shape[0], -1)
        out.append(Operand(part, places, writers.read(places, 1)[..., 0], kind.bits, kind.name))
    return out


def _of_shared(
    product: Product, cta: Cta, name: str, rows: int, mn_major: bool, writers: Writers
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of an operand's elements in shared memory, int64[rows, K], and their writers."""
    kind = product.shape.kind
    descriptors = tuple(getattr(step, name) for step in product.steps)
    chunks = steps_chunks(descriptors, rows, kind, mn_major).astype(np.int64) * CHUNK
    each = CHUNK * 8 // kind.container_bits
    offsets = np.arange(each) * kind.container_bits // 8
    places = (chunks[..., None] + offsets).reshape(chunks.shape[0], -1) + shared_base(cta)
    places = places.T if mn_major else places
    return places, writers.read(places, 1)[..., 0]
