"""Differences of an H200's FlashAttention from the emulator's under "tc", and their bound.

results/sample/silicon-h200/attention.csv lists every value of O that differs, for two heads of 256 queries and keys,
head dim 256 (FlashAttention-4 4.0.0b36 for sm_90, the same PTX on both sides). PTX allows the driver's compiler to
contract the product and the difference in P = 2^(S c - m c) to one fma, with one rounding. If that changes a 16-bit
P, O changes by at most |dP| |V| / (row sum), and by one ulp: any O may be rounded to the other side if its sum is
rounded differently.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from emulator.machine.formats.descriptors import BF16
from emulator.machine.formats.truncation import truncated_sum
from tests.emulator.one_instruction import over

SEEN = Path(__file__).parents[2] / "results" / "sample" / "silicon-h200" / "attention.csv"
KEYS, HEADS, DIM, TILE, K = 256, 2, 256, 80, 16
"""TILE: keys processed together, the last ones first. K: of one wgmma."""
SCALE = np.float32(DIM**-0.5 * np.log2(np.e))
CASES = [(mask, head) for mask in ("full", "causal") for head in range(HEADS)]


@cache
def inputs() -> list[np.ndarray]:
    """Return Q, K and V as float32[head, row, column], as the run drew them."""
    torch.manual_seed(0)
    drawn = [torch.randn(1, KEYS, HEADS, DIM, dtype=torch.bfloat16) for _ in range(3)]
    return [x[0].float().numpy().transpose(1, 0, 2) for x in drawn]


def rounded(x: np.ndarray) -> np.ndarray:
    """Round float32 to the nearest bf16, returned as float64."""
    return torch.from_numpy(x).bfloat16().double().numpy()


def ulp(x: np.ndarray) -> np.ndarray:
    """Return the ulp of a bf16."""
    return np.exp2(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-126))) - 7)


def exponents(logits: np.ndarray, maxima: np.ndarray, fused: bool) -> np.ndarray:
    """Return S c - m c, with the first product rounded separately or not."""
    subtracted = (SCALE * maxima).astype(np.float64)[:, None]
    products = np.float64(SCALE) * logits
    return ((products if fused else products.astype(np.float32)) - subtracted).astype(np.float32)


@cache
def softmax(mask: str, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Return P rounded to bf16 and |dP| of each row and key, relative to the row's final maximum, over its sum."""
    q, k, _ = (x[head] for x in inputs())
    logits = truncated_sum(k, q.T.copy(), (BF16, BF16), None, K, False).T
    if mask == "causal":
        logits = np.where(np.tri(KEYS, dtype=bool), logits, np.float32(-np.inf))
    p, change, factors = (np.zeros((KEYS, KEYS)) for _ in range(3))
    maxima = np.full(KEYS, -np.inf, np.float32)
    for first in reversed(range(0, KEYS, TILE)):
        keys = slice(first, first + TILE)
        maxima = np.maximum(maxima, logits[:, keys].max(1))
        finite = np.where(np.isfinite(maxima), maxima, np.float32(0))
        apart, fused = (exponents(logits[:, keys], finite, fused) for fused in (False, True))
        exact, other = (power(x) for x in (apart, fused))
        p[:, keys], change[:, keys] = rounded(exact), np.abs(rounded(exact) - rounded(other))
        factors[:, keys] = finite[:, None]
    factors = np.exp2(np.float64(SCALE) * (factors - maxima[:, None]))
    sums = (p * factors).sum(1, keepdims=True)
    return p * factors / sums, change * factors / sums


def power(x: np.ndarray) -> np.ndarray:
    """Return float32 ex2 with the bits of an H200."""
    return over("ex2.approx.ftz.f32 %r0, %r1;", r1=x.ravel())["r0"].view(np.float32).reshape(x.shape)


@cache
def differing(mask: str, head: int) -> tuple[np.ndarray, ...]:
    """Return rows and columns of the differing values of O, with the emulator's and the H200's values."""
    with SEEN.open() as file:
        found = [row for row in csv.DictReader(file) if (row["mask"], int(row["head"])) == (mask, head)]
    rows, columns = (np.array([int(row[name]) for row in found], np.int64) for name in ("row", "column"))
    bits = [np.array([int(row[name], 16) for row in found], np.uint32) << 16 for name in ("emulator", "h200")]
    return rows, columns, *(word.view(np.float32).astype(np.float64) for word in bits)


@pytest.mark.parametrize(("mask", "head"), CASES)
def test_values_that_differ_are_within_the_bound(mask: str, head: int) -> None:
    p, change = softmax(mask, head)
    v = inputs()[2][head].astype(np.float64)
    rows, columns, mine, theirs = differing(mask, head)
    assert np.all(np.abs((p @ v)[rows, columns] - mine) <= 2 * ulp(mine) + (change @ np.abs(v))[rows, columns])
    bound = (change @ np.abs(v))[rows, columns] + ulp(np.maximum(np.abs(mine), np.abs(theirs)))
    assert np.all(np.abs(mine - theirs) <= bound)


@pytest.mark.parametrize(("mask", "head"), CASES)
def test_rows_where_many_differ_are_those_where_a_p_does(mask: str, head: int) -> None:
    """Such a row has one differing P. In other rows at most one value differs, by one ulp."""
    _, change = softmax(mask, head)
    rows, _, mine, theirs = differing(mask, head)
    moved = np.flatnonzero(change.any(1))
    assert set(moved) <= set(rows)
    assert [int(np.count_nonzero(change[row])) for row in moved] == [1] * len(moved)
    elsewhere = ~np.isin(rows, moved)
    assert np.bincount(rows[elsewhere], minlength=1).max(initial=0) <= 1
    larger = np.maximum(np.abs(mine), np.abs(theirs))
    assert np.all(np.abs(mine - theirs)[elsewhere] <= ulp(larger[elsewhere]))
