"""torch's function transforms on the emulated device: vmap, compile, and flex_attention, which uses both."""

from collections.abc import Iterator

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from emulator.host.session import emulated_host


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    with emulated_host():
        yield


def test_vmap_stays_on_the_side_of_its_arguments() -> None:
    rows = torch.arange(4, device="cuda")
    lower = torch.vmap(torch.vmap(lambda i, j: i >= j, in_dims=(None, 0)), in_dims=(0, None))(rows, rows)
    assert lower.is_cuda
    assert lower.tolist() == [[i >= j for j in range(4)] for i in range(4)]
    made = torch.vmap(lambda row: row + torch.ones(3, device="cuda"))(torch.zeros(2, 3, device="cuda"))
    assert made.is_cuda and made.tolist() == [[1.0] * 3] * 2
    assert not torch.vmap(lambda row: row * 2)(torch.ones(2)).is_cuda


@pytest.mark.parametrize("how", ["called with it", "with options", "as a decorator"])
def test_compile_leaves_what_it_is_given(how: str) -> None:
    compiled = {
        "called with it": lambda what: torch.compile(what),
        "with options": lambda what: torch.compile(what, mode="max-autotune"),
        "as a decorator": lambda what: torch.compile(dynamic=True, fullgraph=True)(what),
    }[how]
    more = compiled(lambda x: x + torch.ones(3, device="cuda"))
    assert more(torch.ones(3, device="cuda")).tolist() == [2.0] * 3
    layer = torch.nn.Linear(3, 2, device="cuda")
    assert compiled(layer) is layer


def test_flex_attention_is_a_reference() -> None:
    q = torch.randn(1, 2, 16, 16, device="cuda")
    out = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf")))
    want = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert out.is_cuda
    torch.testing.assert_close(out, want)
