"""The float64 reference (branches, then a merge) against one softmax over the concatenation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel import oracle, reference

TOLERANCE = 1e-12
SINKS = [-math.inf, -80.0, 0.0, 80.0, math.inf]


@st.composite
def problems(draw: st.DrawFn) -> dict:
    """Shapes, lengths, window, selection and sinks of a small DSV4-like attention."""
    batch, tokens, heads = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    swa, blocks, most = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    ints = lambda lo, hi, n: draw(st.lists(st.integers(lo, hi), min_size=n, max_size=n))  # noqa: E731
    return {
        "shape": (batch, tokens, heads, draw(st.sampled_from([2, 4]))),
        "keys": (swa, blocks),
        "lens": torch.tensor(ints(0, swa, batch)),
        "window": draw(st.sampled_from([None, 1, 2, 4])),
        "ratio": draw(st.sampled_from([1, 4, 128])),
        "positions": torch.tensor(ints(0, 30, batch * tokens)).view(batch, tokens),
        "topk": torch.tensor(ints(-1, blocks - 1, batch * tokens * most)).view(batch, tokens, most),
        "topk_lens": torch.tensor(ints(0, most, batch * tokens)).view(batch, tokens),
        "sink": torch.tensor([draw(st.sampled_from(SINKS)) for _ in range(heads)]),
        "size": draw(st.sampled_from([0.1, 1.0, 100.0])),
        "seed": draw(st.integers(0, 2**31)),
        "branches": draw(st.sampled_from(["swa", "hca", "csa"])),
    }


@settings(max_examples=150)
@given(problems())
def test_merged_branches_equal_one_softmax(p: dict) -> None:
    batch, tokens, heads, d = p["shape"]
    swa, blocks = p["keys"]
    generator = torch.Generator().manual_seed(p["seed"])
    q, k, c = (
        p["size"] * torch.randn(n, generator=generator, dtype=torch.float64)
        for n in ((batch, tokens, heads, d), (batch, swa, d), (batch, blocks, d))
    )
    parts = [reference.branch(q, k, visible=reference.causal_mask(tokens, swa, p["lens"], p["window"]))]
    sources = [(k.numpy(), k.numpy(), oracle.swa_keys(p["lens"].tolist(), tokens, p["window"]))]
    if p["branches"] == "hca":
        visible = reference.compressed_mask(p["positions"], blocks, p["ratio"])
        parts.append(reference.branch(q, c, visible=visible))
        keys = oracle.compressed_keys(p["positions"].numpy(), p["ratio"])
        sources.append((c.numpy(), c.numpy(), lambda b, t: [j for j in keys(b, t) if j < blocks]))
    if p["branches"] == "csa":
        parts.append(reference.selection(q, c, topk_indices=p["topk"], topk_lens=p["topk_lens"]))
        sources.append((c.numpy(), c.numpy(), oracle.topk_keys(p["topk"].numpy(), p["topk_lens"].numpy(), blocks)))
    got = reference.merge(parts, p["sink"])
    o, lse = oracle.attention(q.numpy(), sources, d**-0.5, p["sink"].numpy())
    np.testing.assert_allclose(got.o.numpy(), o, rtol=TOLERANCE * 1e3, atol=TOLERANCE * p["size"])
    np.testing.assert_allclose(got.lse.numpy(), lse, rtol=TOLERANCE * 1e3, atol=TOLERANCE)


def test_empty_rows_are_exact() -> None:
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 5, 4)
    part = reference.branch(q, k, visible=torch.zeros(1, 2, 5, dtype=torch.bool))
    assert (part.u == 0).all() and (part.o == 0).all()
    assert (part.lse == -torch.inf).all() and (part.m == -torch.inf).all()


def test_poison_past_the_length_is_never_touched() -> None:
    q, k = torch.randn(2, 3, 1, 4), torch.randn(2, 6, 4)
    lens = torch.tensor([4, 0])
    poisoned = k.clone()
    poisoned[0, 4:], poisoned[1] = torch.nan, torch.inf
    visible = reference.length_mask(3, 6, lens)
    clean, dirty = (reference.branch(q, x, visible=visible) for x in (k, poisoned))
    assert torch.equal(clean.u, dirty.u) and torch.equal(clean.lse, dirty.lse)


@pytest.mark.parametrize("sink", SINKS)
def test_one_branch_and_sink_is_a_sigmoid(sink: float) -> None:
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 5, 4)
    part = reference.branch(q, k)
    got = reference.attention(q, k, sink=torch.full((3,), sink))
    expected = part.o * torch.sigmoid(part.lse - sink)[..., None]
    torch.testing.assert_close(got.o, expected, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(got.lse, part.lse)


def test_partials_alone_cannot_be_normalised_without_m() -> None:
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 5, 4)
    part = reference.branch(q, k)
    p = torch.softmax(0.5 * q.double() @ k.double().transpose(-1, -2)[:, None], dim=-1)
    torch.testing.assert_close(part.o, p @ k.double()[:, None])
    assert not torch.allclose(part.u * torch.exp(-part.lse)[..., None], part.o)
