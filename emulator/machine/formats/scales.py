"""Scale factors of a block-scaled tcgen05.mma in tensor memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .numbers import scale_table

QUARTER: Final = 32
CELL_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Scales:
    """The location of one step's scale factors: the columns of SFA and SFB, and the starting byte within a cell.

    Row r of A or B has its factors in lane r % 32 of column r // 32, one byte per block of K, with a copy in each
    quarter of the lanes (PTX ISA 9.1, 9.7.16.10.7). If N is laid over the lanes in two halves, each half of the
    quarters has the factors of its half of N.
    """

    a_column: int
    a_byte: int
    b_column: int
    b_byte: int


def columns(rows: int) -> int:
    """Return the number of tensor-memory columns that the factors of `rows` rows take."""
    return -(-rows // QUARTER)


def factors_of_a(cells: np.ndarray, rows: int, column: int, byte: int, count: int, kind: str) -> np.ndarray:
    """Return float64[rows, count] for the rows of A of one CTA. Raises ValueError if the quarters' copies differ."""
    return _factors(cells, range(4), rows, column, byte, count, kind, "A")


def factors_of_b(cells: np.ndarray, n: int, halves: int, column: int, byte: int, count: int, kind: str) -> np.ndarray:
    """Return float64[n, count] for the rows of B, split over `halves` of the lanes. Raises like `factors_of_a`."""
    per = 4 // halves
    parts = [
        _factors(cells, range(h * per, h * per + per), n // halves, column, byte, count, kind, "B")
        for h in range(halves)
    ]
    return np.concatenate(parts)


def _factors(
    cells: np.ndarray, quarters: range, rows: int, column: int, byte: int, count: int, kind: str, name: str
) -> np.ndarray:
    copies = [_codes(cells, q, rows, column)[:, byte : byte + count] for q in quarters]
    for quarter, copy in zip(quarters, copies, strict=True):
        if not np.array_equal(copy, copies[0]):
            row = int(np.flatnonzero((copy != copies[0]).any(1))[0])
            raise ValueError(
                f"the scale factor of row {row} of {name} (column {column + row // QUARTER}) is "
                f"{copies[0][row].tolist()} in lane {quarters[0] * QUARTER + row % QUARTER} and {copy[row].tolist()} "
                f"in lane {quarter * QUARTER + row % QUARTER}; the quarters of the lanes must hold the same"
            )
    return scale_table(kind).take(copies[0])


def _codes(cells: np.ndarray, quarter: int, rows: int, column: int) -> np.ndarray:
    block = cells[column : column + columns(rows), quarter * QUARTER : (quarter + 1) * QUARTER]
    return np.ascontiguousarray(block).reshape(-1, 1).view(np.uint8).reshape(-1, CELL_BYTES)[:rows]
