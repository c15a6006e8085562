"""Diagnosis of a wrong result: its worst row, patterns common to the errors, and a KV tile that explains them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stages.caches import NAMES
from stages.calls import callers
from stages.case import Case
from stages.expected import Masks, Outputs, keys_of
from stages.inputs import Inputs
from stages.metrics import Array

Rows = NDArray[np.intp]

ONE_SIDED = 0.9  # share of rows on one side of the reference from which the error is a bias, not noise
REMAINDER = 0.1  # largest part of an error that an explanation may leave unexplained
COLUMNS = 16  # columns of the head dim that are examined together
FACTORS = {
    float(np.log2(np.e)): "log2(e), as of a logarithm to base 2 in place of the natural one",
    float(np.log(2.0)): "ln 2, as of a logarithm that is converted from base 2 twice",
}


def describe_errors(case: Case, inputs: Inputs, got: Outputs, want: Outputs, tensor: str) -> Iterator[str]:
    """Describe the errors of one tensor in sentences. For O they name the KV tile that explains the worst row."""
    x, y = (each[tensor] if each[tensor].ndim == 2 else each[tensor][:, None] for each in (got, want))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(x == y, 0.0, x - y)  # equal infinities
    size = np.linalg.norm(np.where(np.isfinite(error), error, np.inf), axis=1)
    row = int(np.argmax(size))
    yield f"{tensor} is worst in {describe_row(case, row)}"
    if not np.isfinite(error).all():
        lost = np.flatnonzero(~np.isfinite(error).all(axis=1))
        yield f"  {tensor} is not finite, or the reference is not, in {describe_rows(case, lost)}"
        return
    yield from (f"  {each}" for each in _patterns(case, x, y, error, size))
    if tensor == "O":
        yield from (f"  {each}" for each in _of_kv_tiles(case, inputs, error[row], y[row], row))


def describe_row(case: Case, row: int) -> str:
    """Describe a row of the flattened outputs [batch, tokens, heads] by its sequence, token, head and row tile."""
    names = ", ".join(f"{name} {int(number)}" for name, number in coordinates(case, np.array(row)).items())
    return f"row {row}: {names}"


def coordinates(case: Case, rows: Rows) -> dict[str, Rows]:
    """Return sequence, token, head and row tile of rows of the flattened outputs."""
    sequence, in_sequence = np.divmod(rows, case.tokens * case.heads)
    token, head = np.divmod(in_sequence, case.heads)
    tile = (head if case.by_token else in_sequence) // callers[-1].tiles(case).rows
    return {"sequence": sequence, "token": token, "head": head, "row tile": tile}


def describe_rows(case: Case, rows: Rows) -> str:
    """Describe a set of rows: their number, their range or the first few, and the coordinates that they share."""
    every = case.batch * case.tokens * case.heads
    if len(rows) == every:
        return "every row"
    shared = {
        name: numbers[0]
        for name, numbers in coordinates(case, rows).items()
        if len(set(numbers)) == 1 and len(set(coordinates(case, np.arange(every))[name])) > 1
    }
    whole = len(rows) == rows[-1] - rows[0] + 1
    which = f"{rows[0]} to {rows[-1]}" if whole else f"the first {', '.join(map(str, rows[:4]))}"
    all_of = f", all of {', '.join(f'{name} {number}' for name, number in shared.items())}" if shared else ""
    return f"{len(rows)} rows, {which}{all_of}"


def _patterns(case: Case, x: Array, y: Array, error: Array, size: Array) -> Iterator[str]:
    """Describe patterns: a constant factor, rows all too low or too high, few rows, few columns."""
    rows = np.flatnonzero(size > REMAINDER * size.max())
    if len(rows) < len(size):
        yield f"errors a tenth as large or more: {describe_rows(case, rows)}"
    yield from _on_one_side(x, y, error)
    if x.shape[1] > COLUMNS:
        by_block = np.linalg.norm(error.reshape(len(error), -1, COLUMNS), axis=(0, 2))
        blocks = np.flatnonzero(by_block > REMAINDER * by_block.max())
        if len(blocks) <= len(by_block) // 2:
            yield f"only columns {', '.join(f'{COLUMNS * b} to {COLUMNS * b + COLUMNS - 1}' for b in blocks)}"


def _on_one_side(x: Array, y: Array, error: Array) -> Iterator[str]:
    """Describe a constant factor of all rows, or rows (statistics: values) that are nearly all too low or too high."""
    x, y, error = (each[np.isfinite(y).all(axis=1)] for each in (x, y, error))
    squares = np.sum(y * y, axis=1)
    factors = np.sum(x * y, axis=1)[squares > 0] / squares[squares > 0]
    if len(factors) < 2:
        return
    factor, offset = float(np.median(factors)), float(np.median(error)) if x.shape[1] == 1 else 0.0
    left = np.linalg.norm(x - factor * y)
    if left < REMAINDER * np.linalg.norm(error) and left < np.linalg.norm(error - offset):
        known = next((f", {name}" for value, name in FACTORS.items() if abs(factor / value - 1) < 1e-3), "")
        yield f"a constant factor: {factor:.4g} times the reference{known}"
        return
    sides, middle = factors - 1, abs(factor - 1)
    if x.shape[1] == 1:
        sides, middle = error[:, 0], float(np.median(np.abs(error)))
    for share, side in ((np.mean(sides < 0), "low"), (np.mean(sides > 0), "high")):
        if share >= ONE_SIDED:
            yield f"{share:.0%} of the rows are too {side}, by {middle:.2g} in the median"


def _of_kv_tiles(case: Case, inputs: Inputs, error: Array, want: Array, row: int) -> Iterator[str]:
    """Name the KV tile whose omission or double counting explains the error of a row."""
    worst = float(np.linalg.norm(error))
    explained = min(
        ((float(np.linalg.norm(error - made)), name) for made, name in _tile_errors(case, inputs, want, row)),
        default=(worst, ""),
    )
    if explained[0] < REMAINDER * worst:
        yield explained[1]


def _tile_errors(case: Case, inputs: Inputs, want: Array, row: int) -> Iterator[tuple[Array, str]]:
    """Yield the error of a row if a KV tile were omitted or counted twice, with a description, for each tile."""
    sequence, token, head = np.unravel_index(row, (case.batch, case.tokens, case.heads))
    keys, values, tiles = _keys_of(case, inputs, int(sequence), int(token))
    if len(keys) == 0:
        return
    scale = case.head_dim**-0.5 if case.scale is None else case.scale
    s = scale * keys @ inputs.q[sequence, token, head].double().numpy()
    sink = -np.inf if case.sink is None else float(case.sink[head])
    if sink == np.inf:
        return
    p = np.exp(s - max(s.max(), sink))
    total = p.sum() + np.exp(sink - max(s.max(), sink))
    for name in dict.fromkeys(tiles):
        inside = np.array([tile == name for tile in tiles])
        part, weight = p[inside] @ values[inside] / total, p[inside].sum() / total
        yield -part, f"as if P V of {name} were left out"
        yield part, f"as if P V of {name} were counted twice"
        if weight < 1:
            yield (want - part) / (1 - weight) - want, f"as if {name} were not seen at all"


def _keys_of(case: Case, inputs: Inputs, sequence: int, token: int) -> tuple[Array, Array, list[str]]:
    """Return the keys and values that a token sees, and the name of the KV tile of each."""
    n, masks = callers[-1].tiles(case).keys, Masks.of(case)
    entry = "indices" if case.served is not None else "blocks" if inputs.topk_indices is None else "top-k entries"
    if case.served is not None:
        kinds = [(f"{name} KV tile", entry) for name in NAMES]
    else:
        kinds = [("KV tile", "keys"), ("compressed KV tile", entry)]
    tiles = [
        f"{kind} {j // n} ({what} {j // n * n} to {j // n * n + n - 1})"
        for (kind, what), found in zip(kinds, masks.places(case, inputs, sequence, token), strict=False)
        for j in found.tolist()
    ]
    return *keys_of(case, inputs, sequence, token, masks), tiles
