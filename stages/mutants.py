"""Deliberately wrong outputs: the checks are checked by refusing every one of them.

Each is a right output (the reference, rounded as the kernel rounds it) with one thing wrong, of the kind that
a broken kernel gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from stages.case import Case, Inputs, Outputs, reference
from stages.metrics import METRICS, Array

TILE = 128  # keys of a KV tile
SUB_TILE = 16  # columns of a sub-tile, and keys of one step of the tensor core

Edit = Callable[[Array], Array]


@dataclass(frozen=True)
class Mutant:
    """A name, and how its output is made from a case's inputs and its right output."""

    name: str
    make: Callable[[Inputs, Outputs], Outputs]

    def __str__(self) -> str:
        return self.name


def right(inputs: Inputs) -> Outputs:
    """What a perfect kernel gives: the reference with O rounded to bf16 and the partials to fp32."""
    types = {"O": torch.bfloat16, "U": torch.float32, "lse": torch.float32, "m": torch.float32}
    return {name: _rounded(array, types[name]) for name, array in reference(inputs).items()}


def mutants(case: Case) -> tuple[Mutant, ...]:
    """Every mutant that differs from the right output for this case's shape."""
    return (*_edits(), *_rereads(case))


def _edits() -> Iterator[Mutant]:
    for tensor, metrics in METRICS.items():
        edits = EDITS | (EDITS_OF_ROWS if len(metrics) > 2 else EDITS_OF_STATISTICS)
        for name, edit in edits.items():
            yield Mutant(f"{tensor}: {name}", _editing(tensor, edit))


def _editing(tensor: str, edit: Edit) -> Callable[[Inputs, Outputs], Outputs]:
    return lambda _, outputs: outputs | {tensor: edit(outputs[tensor].copy())}


def _rereads(case: Case) -> Iterator[Mutant]:
    """The kernel reading other keys than it should."""
    last = (case.keys - 1) // TILE * TILE
    yield _rereading("the last 16 keys dropped", torch.arange(case.keys - SUB_TILE))
    yield Mutant("a key past the end let in", lambda inputs, _: right(_with_zero_key(inputs)))
    if last:
        yield _rereading("the last KV tile dropped", torch.arange(last))
        yield _rereading("the first KV tile read for every tile", torch.arange(case.keys) % TILE)


def _rereading(name: str, keys: torch.Tensor) -> Mutant:
    return Mutant(name, lambda inputs, _: right(Inputs(inputs.q, inputs.k[:, keys], inputs.v[:, keys])))


def _with_zero_key(inputs: Inputs) -> Inputs:
    """One key more, all zeros: what TMA fills in past the end of a tensor."""
    zero = inputs.k.new_zeros(1, 1, inputs.k.shape[2])
    return Inputs(inputs.q, torch.cat([inputs.k, zero], 1), torch.cat([inputs.v, zero], 1))


def _rounded(array: Array, dtype: torch.dtype) -> Array:
    return torch.from_numpy(array).to(dtype).double().numpy()


def _zero_row(x: Array) -> Array:
    x[-1] = 0
    return x


def _swap_rows(x: Array) -> Array:
    x[[0, 1]] = x[[1, 0]]
    return x


def _swap_sub_tiles(x: Array) -> Array:
    rows, first, second = slice(TILE), slice(SUB_TILE), slice(SUB_TILE, 2 * SUB_TILE)
    x[rows, first], x[rows, second] = x[rows, second].copy(), x[rows, first].copy()
    return x


def _lose_element(x: Array) -> Array:
    x.flat[-1] = np.nan
    return x


def _lose_row(x: Array) -> Array:
    x[0] = np.nan
    return x


def _negate_row(x: Array) -> Array:
    x[1] = -x[1]
    return x


EDITS: dict[str, Edit] = {
    "scaled by 2": lambda x: x * 2,
    "scaled by 1.01": lambda x: x * 1.01,
    "one row zeroed": _zero_row,
    "two rows swapped": _swap_rows,
    "one element unwritten": _lose_element,
    "one row NaN": _lose_row,
}
EDITS_OF_ROWS: dict[str, Edit] = {
    "a 128x16 sub-tile swapped": _swap_sub_tiles,
    "one row negated": _negate_row,
}
EDITS_OF_STATISTICS: dict[str, Edit] = {"in base 2": lambda x: x / np.log(2)}
