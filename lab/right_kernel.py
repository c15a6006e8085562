"""A right kernel in numpy: online softmax over KV tiles in fp32, P and O rounded to bf16, the maximum lagging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stages.case import Case
from stages.error_model import ROUNDS, STEP, TensorCore, rounded
from stages.expected import Outputs, Seen, seen
from stages.inputs import Inputs
from stages.metrics import Array

F32 = np.float32


def _unchanged(each: Seen) -> Seen:
    return each


@dataclass(frozen=True)
class RightKernel:
    """tile: keys of a KV tile. lag: how far, in powers of two, a logit may exceed the maximum before it moves.

    vote: rows whose maxima move together. core: how the tensor core adds. p_factor: factor of P, 1 in a right kernel.
    scale_factor: factor of the scale. change: what the kernel reads in place of the right keys and sinks. power: 2^x of
    exponents (row, key of a tile).
    """

    tile: int = 64
    lag: float = 8.0
    vote: int = 16
    core: TensorCore = ROUNDS
    p_factor: float = 1.0
    scale_factor: float = 1.0
    change: Callable[[Seen], Seen] = _unchanged
    power: Callable[[Array], Array] = np.exp2

    def outputs(self, case: Case, inputs: Inputs, want: Outputs) -> Outputs:
        """Return the outputs for a case. Rows that see no key are those of the reference."""
        got = {name: array.copy() for name, array in want.items()}
        scale = (case.head_dim**-0.5 if case.scale is None else case.scale) * self.scale_factor
        for each in seen(case, inputs):
            own = self.of_group(self.change(each), scale, exact=case.exact_maxima)
            for name in case.tensors:
                got[name][each.rows] = own[name]
        return got

    def of_group(self, each: Seen, scale: float, exact: bool) -> Outputs:
        """Return the outputs of query rows that see the same keys."""
        scale_log2 = F32(scale * np.log2(np.e))
        rows = len(each.q)
        largest = top = np.full(rows, -np.inf, F32)
        total = np.zeros(rows, F32)
        u: Array = np.zeros((rows, each.values.shape[1]), F32)
        for first in range(0, len(each.keys), self.tile):
            tile = slice(first, first + self.tile)
            s = self.added(each.q, each.keys[tile].T, np.zeros((rows, len(each.keys[tile])), F32))
            new = np.maximum(top, s.max(1))
            largest = np.maximum(largest, new)
            moved = (new - top) * scale_log2 > self.lag
            moved = np.repeat(np.logical_or.reduceat(moved, np.arange(0, rows, self.vote)), self.vote)[:rows]
            with np.errstate(invalid="ignore"):
                factor = np.where(moved, np.exp2((top - new) * scale_log2), F32(1)).astype(F32)
            top = np.where(moved, new, top)
            total, u = total * factor, u * factor[:, None]
            p = self.power(s * scale_log2 - (top * scale_log2)[:, None]).astype(F32)
            total = total + p.sum(1, dtype=F32)
            u = self.added(rounded(self.p_factor * p.astype(float)), each.values[tile], u)
        with np.errstate(over="ignore"):
            whole = total + np.exp2(each.sink.astype(F32) * F32(np.log2(np.e)) - top * scale_log2)
        o = rounded((u * (F32(1) / whole)[:, None]).astype(float))
        if exact:  # m is the largest logit, and U refers to it
            u = u * np.exp2((top - largest) * scale_log2)[:, None]
        maximum = largest if exact else top
        ln2 = F32(np.log(2))
        found = {
            "O": o,
            "U": u,
            "lse": np.log(total) + top * scale_log2 * ln2,
            "m": maximum * scale_log2 * ln2,
        }
        return {name: array.astype(float) for name, array in found.items()}

    def added(self, a: Array, b: Array, total: Array) -> Array:
        """Return total + a @ b in fp32, STEP products at a time, each sum rounded or truncated."""
        add = _truncated if self.core.truncation else _nearest
        for k in range(0, a.shape[1], STEP):
            total = add(a[:, k : k + STEP].astype(float), b[k : k + STEP], total.astype(float))
        return total


def _nearest(a: Array, b: Array, total: Array) -> Array:
    return (total + a @ b).astype(F32)


def _truncated(a: Array, b: Array, total: Array) -> Array:
    """Add as wgmma of an H200 does, bit by bit (docs/explanation/silicon.md)."""
    (_, of_a), (_, of_b), (_, of_total) = np.frexp(a), np.frexp(b), np.frexp(total)
    nothing = np.iinfo(np.int32).min // 4
    exponents = np.where(a == 0, nothing, of_a)[:, :, None] + np.where(b == 0, nothing, of_b) - 1
    largest = np.maximum(exponents.max(1), np.where(total == 0, nothing, of_total)) - 1
    unit = np.ldexp(1.0, np.maximum(largest, -200) - 25)
    exact = (np.trunc(a[:, :, None] * b / unit[:, None]).sum(1) + np.trunc(total / unit)) * unit
    nearest = exact.astype(F32)
    beyond = np.abs(nearest) > np.abs(exact)
    return np.where(beyond, np.nextafter(nearest, F32(0)), nearest)
