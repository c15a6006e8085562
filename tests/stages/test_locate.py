"""Diagnosis of wrong results: the worst row, patterns of the errors, and the KV tile that explains them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stages.case import Case, Compressed
from stages.expected import Outputs, reference
from stages.inputs import Inputs, draw
from stages.locate import describe_errors, describe_row
from stages.metrics import Array
from stages.negative_controls import right

CASE = Case("none", 64, 300, 16, 20, 2)
TOPK = Case(
    "none", 512, 170, 96, 2, 1, None, True, False,
    lens=(150,), causal=True, window=128, compressed=Compressed((3000,), 4, topk=300), sinks=(0.5, -1.0),
)  # fmt: skip


def said(case: Case, tensor: str, change: Callable[[Inputs, Outputs], None]) -> str:
    inputs = draw(case, 1)
    want = reference(case, inputs)
    got = right(case, inputs)
    change(inputs, got)
    return "\n".join(describe_errors(case, inputs, got, want, tensor))


def test_a_row_has_all_its_names() -> None:
    assert describe_row(CASE, 0) == "row 0: sequence 0, token 0, head 0, row tile 0"
    assert describe_row(CASE, 320 + 16 * 9 + 3) == "row 467: sequence 1, token 9, head 3, row tile 1"
    assert describe_row(TOPK, 96 + 70) == "row 166: sequence 0, token 1, head 70, row tile 1"


@pytest.mark.parametrize(
    ("case", "tensor", "factor", "text"),
    [(CASE, "O", 0.97, "0.97 times the reference"), (TOPK, "lse", 1.442695, "1.443 times the reference, log2(e)")],
)
def test_a_constant_factor(case: Case, tensor: str, factor: float, text: str) -> None:
    def scale(_: Inputs, got: Outputs) -> None:
        got[tensor] *= factor

    assert f"a constant factor: {text}" in said(case, tensor, scale)


def test_an_offset_is_no_factor() -> None:
    def add(_: Inputs, got: Outputs) -> None:
        got["lse"] += 0.001

    assert said(CASE, "lse", add).endswith("100% of the rows are too high, by 0.001 in the median")


def test_rows_that_are_all_low() -> None:
    def shrink(_: Inputs, got: Outputs) -> None:
        got["U"] *= 1 - np.random.default_rng(0).uniform(0.01, 0.03, (len(got["U"]), 1))

    assert "100% of the rows are too low, by 0.02" in said(CASE, "U", shrink)


def test_one_row_tile() -> None:
    def spoil(_: Inputs, got: Outputs) -> None:
        got["O"][128:256] *= -1

    text = said(CASE, "O", spoil)
    assert "row tile 1" in text.splitlines()[0]
    assert "128 rows, 128 to 255, all of sequence 0, row tile 1" in text


def test_a_few_columns() -> None:
    def swap(_: Inputs, got: Outputs) -> None:
        got["O"][:, 16:32], got["O"][:, 32:48] = got["O"][:, 32:48].copy(), got["O"][:, 16:32].copy()

    assert "only columns 16 to 31, 32 to 47" in said(CASE, "O", swap)


def test_a_row_that_is_not_finite() -> None:
    def lose(_: Inputs, got: Outputs) -> None:
        got["lse"][[5, 7]] = np.nan

    assert "lse is not finite, or the reference is not, in 2 rows, the first 5, 7" in said(CASE, "lse", lose)


def test_a_kv_tile_that_is_not_seen() -> None:
    def forget(inputs: Inputs, got: Outputs) -> None:
        seen = CASE.visible.clone()
        seen[..., 128:256] = False
        got |= right(CASE, inputs, seen)

    assert "as if KV tile 1 (keys 128 to 255) were not seen at all" in said(CASE, "O", forget)


@pytest.mark.parametrize(("times", "text"), [(0, "left out"), (2, "counted twice")])
def test_a_tile_of_topk_keys_in_the_product_alone(times: int, text: str) -> None:
    """Top-k entries 64 to 127, in the row of token 1, head 40; the top-k length of the first token is 0."""
    row = TOPK.heads + 40

    def spoil(inputs: Inputs, got: Outputs) -> None:
        assert inputs.compressed is not None and inputs.topk_indices is not None
        entries = inputs.topk_indices[0, 1, 64:128].long()
        keys = inputs.compressed[0, entries[(entries >= 0) & (entries < TOPK.blocks)]].double().numpy()
        s = 512**-0.5 * keys @ inputs.q[0, 1, 40].double().numpy()
        assert TOPK.sink is not None
        lse = np.logaddexp(reference(TOPK, inputs)["lse"][row], float(TOPK.sink[40]))
        part: Array = np.exp(s - lse) @ keys
        got["O"][row] += (times - 1) * part

    expected = f"as if P V of compressed KV tile 1 (top-k entries 64 to 127) were {text}"
    assert expected in said(TOPK, "O", spoil)
