"""A wrong result is told by its worst row, by what its errors have in common, and by the KV tile that explains it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stages.case import Case, Compressed
from stages.expected import Outputs, reference
from stages.inputs import Inputs, draw
from stages.locate import located, row_named
from stages.metrics import Array
from stages.negative_controls import right

CASE = Case("none", 64, 300, 16, 20, 2)
LISTS = Case(
    "none", 512, 170, 96, 2, 1, None, True, False,
    lens=(150,), causal=True, window=128, compressed=Compressed((3000,), 4, topk=300), sinks=(0.5, -1.0),
)  # fmt: skip


def said(case: Case, tensor: str, change: Callable[[Inputs, Outputs], None]) -> str:
    inputs = draw(case, 1)
    want = reference(case, inputs)
    got = right(case, inputs)
    change(inputs, got)
    return "\n".join(located(case, inputs, got, want, tensor))


def test_a_row_has_all_its_names() -> None:
    assert row_named(CASE, 0) == "row 0: sequence 0, token 0, head 0, row tile 0"
    assert row_named(CASE, 320 + 16 * 9 + 3) == "row 467: sequence 1, token 9, head 3, row tile 1"
    assert row_named(LISTS, 96 + 70) == "row 166: sequence 0, token 1, head 70, row tile 1"


def test_a_constant_factor() -> None:
    def shrink(_: Inputs, got: Outputs) -> None:
        got["O"] *= 0.97

    assert "a constant factor: 0.97" in said(CASE, "O", shrink)


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
def test_a_tile_of_listed_keys_in_the_product_alone(times: int, text: str) -> None:
    """List entries 64 to 127, in the row of token 1, head 40: the first token's list has no entry that counts."""
    row = LISTS.heads + 40

    def spoil(inputs: Inputs, got: Outputs) -> None:
        assert inputs.compressed is not None and inputs.topk_indices is not None
        entries = inputs.topk_indices[0, 1, 64:128].long()
        keys = inputs.compressed[0, entries[(entries >= 0) & (entries < LISTS.blocks)]].double().numpy()
        s = 512**-0.5 * keys @ inputs.q[0, 1, 40].double().numpy()
        assert LISTS.sink is not None
        lse = np.logaddexp(reference(LISTS, inputs)["lse"][row], float(LISTS.sink[40]))
        part: Array = np.exp(s - lse) @ keys
        got["O"][row] += (times - 1) * part

    expected = f"as if P V of compressed KV tile 1 (list entries 64 to 127) were {text}"
    assert expected in said(LISTS, "O", spoil)
