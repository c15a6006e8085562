"""Memory as matrices in logical coordinates: shared memory through layouts, tensor memory, global tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..chip import TMEM_COLUMNS, TMEM_LANES
from ..machine.agents.boxes import Load
from ..machine.formats.cute_layouts import SPANS, Layout, Swizzle, flat, parse
from ..machine.formats.tensormap import swizzled_chunks
from ..machine.memory.shared import POISON
from ..machine.memory.tmem import GROUP
from ..machine.order.shadow import UNWRITTEN
from ..machine.topology import Cta
from ..ptx.syntax import Variable
from ..tensors import NamedTensor, element, is_float, numbers, place, shown, width_of
from .places import tensor_of_map

SHOWN_ROWS: Final = 16
SHOWN_COLUMNS: Final = 12


@dataclass(frozen=True)
class Matrix:
    """Numbers of a type in logical coordinates, at most two dimensions are shown at a time. written: where any exist.

    title: the line above it. first: the coordinates of the first row and column.
    """

    title: str
    values: np.ndarray
    written: np.ndarray
    kind: str
    first: tuple[int, int] = (0, 0)

    def lines(self, reference: np.ndarray | None = None, tolerance: float = 0.0, everything: bool = False) -> list[str]:
        """Return the matrix as text. reference: of equal shape; elements that differ by more are marked with `*`.

        Raises ValueError for a reference of another shape.
        """
        values, written = _two_dimensions(self.values), _two_dimensions(self.written)
        wrong = np.zeros(values.shape, bool)
        out = [self.title]
        if reference is not None:
            wrong = self._wrong(reference, tolerance).reshape(values.shape)
            out.append(self._compared(wrong, values, _two_dimensions(np.asarray(reference).reshape(self.values.shape))))
        rows, columns = _chosen(wrong, 0, SHOWN_ROWS, everything), _chosen(wrong, 1, SHOWN_COLUMNS, everything)
        cells = [[self._cell(values[r, c], written[r, c], wrong[r, c]) for c in columns] for r in rows]
        width = max([6, *(len(cell) for row in cells for cell in row)])
        out.append(" " * 7 + " ".join(f"{c + self.first[1]:>{width}}" for c in columns))
        out += [
            f"{r + self.first[0]:>6} " + " ".join(f"{cell:>{width}}" for cell in row)
            for r, row in zip(rows, cells, strict=True)
        ]
        left = values.shape[0] - len(rows), values.shape[1] - len(columns)
        if any(left):
            out.append(
                f"  {left[0]} more rows and {left[1]} more columns; --all shows them, --save FILE.npy keeps them"
            )
        return out

    def _wrong(self, reference: np.ndarray, tolerance: float) -> np.ndarray:
        expected = np.asarray(reference)
        if expected.size != self.values.size:
            raise ValueError(f"the reference has shape {expected.shape}; {self.title} has {self.values.shape}")
        expected = expected.reshape(self.values.shape).astype(np.float64)
        have = self.values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            same = (have == expected) | (np.abs(have - expected) <= tolerance) | (np.isnan(have) & np.isnan(expected))
        found: np.ndarray = ~same | ~self.written
        return found

    def _compared(self, wrong: np.ndarray, values: np.ndarray, expected: np.ndarray) -> str:
        if not wrong.any():
            return "  equal to the reference"
        r, c = (int(i) for i in np.argwhere(wrong)[0])
        at = r + self.first[0], c + self.first[1]
        return (
            f"  {int(wrong.sum())} of {wrong.size} elements differ (marked *), first at {at}: "
            f"{shown(values[r, c], self.kind)}, expected {shown(expected[r, c], self.kind)}"
        )

    def _cell(self, value: object, written: bool, wrong: bool) -> str:
        text = _short(value, self.kind) if written else "?"
        return text + "*" * bool(wrong)


def _short(value: object, kind: str) -> str:
    return f"{float(value):.5g}" if is_float(kind) else shown(value, kind)  # type: ignore[arg-type]


def _two_dimensions(values: np.ndarray) -> np.ndarray:
    if values.ndim < 2:
        return values.reshape(1, -1)
    return values.reshape(-1, values.shape[-1])


def _chosen(wrong: np.ndarray, axis: int, limit: int, everything: bool) -> list[int]:
    """Return the rows or columns to show: around the first that differs, if there are too many."""
    count = wrong.shape[axis]
    if everything or count <= limit:
        return list(range(count))
    hit = np.flatnonzero(wrong.any(1 - axis))
    start = min(max(int(hit[0]) - limit // 4, 0), count - limit) if hit.size else 0
    return list(range(start, start + limit))


def shared(cta: Cta, offset: int, size: int, kind: str, layout: Layout | None, span: int = 0) -> Matrix:
    """Return shared memory from a byte offset, by a layout of elements or in rows of 128 bytes.

    span: the swizzle of byte addresses (32, 64 or 128), 0 for none. Raises ValueError outside of shared memory.
    """
    width = width_of(kind)
    if layout is None:
        per_row = min(128, size) // width
        flat = np.arange(size // width)
        index: np.ndarray = flat.reshape(-1, per_row) if per_row and flat.size % per_row == 0 else flat
    else:
        index = layout.offsets()
    places = offset + index * width
    if span:
        if span not in SPANS:
            raise ValueError(f"swizzle {span}; allowed: {', '.join(map(str, SPANS))} bytes")
        places = SPANS[span].apply(places)
    if not places.size or places.min() < 0 or places.max() + width > cta.smem.size:
        raise ValueError(f"shared memory {offset:#x} to {int(places.max(initial=0)) + width:#x} of {cta.smem.size:#x}")
    shape = f" as {layout_text(layout)}" if layout is not None else ""
    title = f"shared memory of CTA {cta.name} from {offset:#x}, {kind}{shape}"
    return _matrix(title, cta, places, kind)


def array_views(cta: Cta, array: Variable) -> list[Matrix]:
    """Return an array of shared memory as the tensor that the source makes of it, a matrix for each of its stages.

    The modes (MMA, MMA_M, MMA_K, ...) of an operand of the tensor core are put together to rows and columns.
    """
    kind, swizzle, text = array.view.split(" ", 2)
    index = _stages(parse(text))
    places = array.offset + index * width_of(kind)
    if swizzle != "-":
        bits, base, shift = (int(number) for number in swizzle[2:-1].split(","))
        places = Swizzle(bits, base, shift).apply(places)
    if places.max() + width_of(kind) > cta.smem.size:
        raise ValueError(f"{array.name} ends at {int(places.max()) + width_of(kind):#x} of {cta.smem.size:#x} bytes")
    several = len(places) > 1
    return [
        _matrix(
            f"{array.name}{f'[{stage}]' * several} of CTA {cta.name} from {int(each.min()):#x}, {kind} as {text}"
            + (f", pointer {swizzle}" if swizzle != "-" else ""),
            cta,
            each,
            kind,
        )
        for stage, each in enumerate(places)
    ]


def _stages(layout: Layout) -> np.ndarray:
    """Return the element offsets of a layout: intp[stages, rows, columns]."""
    offsets, first = layout.offsets(), layout.modes[0]
    if offsets.ndim >= 4 and isinstance(first, tuple) and len(first) == 2:
        rows = math.prod(flat(first[0]))
        split = offsets.reshape(-1, rows, *offsets.shape[1:3], math.prod(offsets.shape[3:]))  # columns lie outside
        return split.transpose(4, 2, 1, 3, 0).reshape(split.shape[4], split.shape[2] * rows, -1)
    if offsets.ndim <= 2:
        return np.atleast_2d(offsets)[None]
    return np.moveaxis(offsets.reshape(*offsets.shape[:2], -1), 2, 0)


def layout_text(layout: Layout) -> str:
    """Return shape:stride of a layout."""
    return f"{layout.shape}:{layout.stride}".replace(" ", "")


def _matrix(title: str, cta: Cta, places: np.ndarray, kind: str) -> Matrix:
    """Return the elements at byte offsets. Poison of a float type counts as unwritten: a copy may be in flight."""
    width = width_of(kind)
    raw = np.ascontiguousarray(cta.smem.bytes[places[..., None] + np.arange(width)])
    written = cta.smem.shadow.writer[places >> cta.smem.shift] != UNWRITTEN
    if is_float(kind):
        written &= (raw != POISON).any(-1)
    return Matrix(title, numbers(raw.view(f"u{width}")[..., 0], kind).reshape(places.shape), written, kind)


def boxes(loads: Mapping[int, Load], cta: Cta, name: str, tensors: Mapping[str, NamedTensor]) -> Iterator[Matrix]:
    """Yield the boxes of a tensor that TMA copied to a CTA's shared memory, in the tensor's own coordinates.

    loads: the last load to each offset.
    """
    for offset in sorted(loads):
        load = loads[offset]
        if tensor_of_map(load.tensor, tensors) != name:
            continue
        known = tensors.get(name)
        width = load.tensor.width
        kind = known.kind if known is not None and known.width == width else f"u{8 * width}"
        each = load.size // len(load.boxes)
        for number, box in enumerate(load.boxes):
            at = offset + number * each
            chunks = swizzled_chunks(at, each, load.tensor.swizzle)
            places = (chunks[:, None] * 16 + np.arange(0, 16, width)).reshape(load.tensor.shape)
            here = "outside the tensor" if box is None else _named_box(box[0].low, tensors)
            title = f"{here}: shared memory of CTA {cta.name} at {at:#x}, {kind}, {load.tensor.swizzle}"
            yield _matrix(title, cta, places, kind)


def _named_box(address: int, tensors: Mapping[str, NamedTensor]) -> str:
    found = place(tensors, address)
    return f"box from {address:#x}" if found is None else f"box from {element(*found)}"


def tensor_memory(cta: Cta, columns: range, lanes: range, kind: str) -> Matrix:
    """Return tensor memory, lanes as rows. A column has as many elements of a type as 32 bits hold."""
    if "tmem" not in vars(cta):
        raise ValueError(f"CTA {cta.name} has not accessed tensor memory")
    if columns.stop > TMEM_COLUMNS or lanes.stop > TMEM_LANES:
        raise ValueError(f"columns to {columns.stop}, lanes to {lanes.stop}; there are {TMEM_COLUMNS} and {TMEM_LANES}")
    width = min(width_of(kind), 4)
    part = np.ascontiguousarray(cta.tmem.cells[columns.start : columns.stop, lanes.start : lanes.stop].T)
    written = cta.tmem.shadow.writer[columns.start : columns.stop].repeat(GROUP, 1)[:, lanes.start : lanes.stop].T
    values = numbers(part.view(f"u{width}"), kind)
    title = f"tensor memory of CTA {cta.name}, columns {columns.start} to {columns.stop - 1}, {kind}; rows are lanes"
    first = lanes.start, columns.start * (4 // width)
    return Matrix(title, values, (written != UNWRITTEN).repeat(4 // width, 1), kind, first)


def global_tensor(tensor: NamedTensor, index: tuple[int | slice, ...]) -> Matrix:
    """Return a part of a tensor of the launching program."""
    values = tensor.values()[index]
    text = ", ".join(_index_text(part) for part in index)
    return Matrix(
        f"{tensor.name}[{text}] in global memory, {tensor.kind}", values, np.ones(values.shape, bool), tensor.kind
    )


def _index_text(part: int | slice) -> str:
    if isinstance(part, int):
        return str(part)
    return f"{'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"
