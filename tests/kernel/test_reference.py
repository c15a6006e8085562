"""The float64 reference against the oracle, which states the same mathematics another way."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel import oracle, reference

SINKS = (-math.inf, -80.0, 0.0, 0.7, 80.0, math.inf)
INFINITY = math.inf


def close(x: torch.Tensor, y: torch.Tensor) -> None:
    torch.testing.assert_close(x, y, rtol=1e-11, atol=1e-11)


def normal(seed: int, *shape: int, size: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * size).bfloat16()


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    queries=st.integers(1, 4),
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=2),
    window=st.sampled_from([None, 1, 3, 128]),
    ratio=st.sampled_from([0, 2, 4]),
    sink=st.sampled_from(SINKS),
    size=st.sampled_from([1.0, 100.0]),
)
def test_merged_branches_equal_one_softmax(seed, queries, lengths, window, ratio, sink, size) -> None:
    """SWA and all visible compressed blocks, merged with a sink."""
    batch, heads, head_dim, keys, blocks = len(lengths), 2, 4, 9, 3
    q = normal(seed, batch, queries, heads, head_dim, size=size)
    swa, cmp = normal(seed + 1, batch, keys, head_dim), normal(seed + 2, batch, blocks, head_dim)
    lens = torch.tensor(lengths)
    sinks = torch.tensor([sink, 0.5])
    position = reference.positions(lens, queries)
    seen = reference.within_window(lens, queries, keys, window)
    parts = [reference.branch(q, swa, None, seen)]
    if ratio:
        parts.append(reference.branch(q, cmp, None, reference.visible_blocks(position, blocks, ratio)))

    def row_keys(b: int, t: int):
        yield from oracle.window_keys(swa[b], swa[b], lengths[b], t, queries, window)
        if ratio:
            visible = max(0, int(position[b, t]) + 1) // ratio
            yield from oracle.listed_keys(cmp[b], range(min(blocks, visible)))

    o, lse = reference.merge(parts, sinks)
    want_o, want_lse = oracle.attention(q, row_keys, sinks)
    close(o, want_o)
    close(lse, want_lse)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    indices=st.lists(st.integers(-1, 4), min_size=5, max_size=5),
    length=st.integers(0, 5),
)
def test_selection_sees_what_a_gather_sees(seed, indices, length) -> None:
    """Unsorted, repeated and absent indices, cut off at topk_lens."""
    q, kv = normal(seed, 1, 1, 2, 4), normal(seed + 1, 1, 5, 4)
    counts = reference.selected_blocks(torch.tensor([[indices]]), torch.tensor([[length]]), 5)
    o, lse = reference.merge([reference.branch(q, kv, None, counts)])
    want_o, want_lse = oracle.attention(q, lambda b, t: oracle.listed_keys(kv[b], indices[:length]))
    close(o, want_o)
    close(lse, want_lse)


def test_one_branch_is_torch_attention() -> None:
    """A third statement: torch's own attention in float64."""
    q, k, v = normal(1, 1, 3, 2, 8), normal(2, 1, 5, 8), normal(3, 1, 5, 8)
    got = reference.branch(q, k, v, torch.ones(1, 3, 5, dtype=torch.bool))
    heads = [x.double()[:, None] for x in (k, v)]
    want = torch.nn.functional.scaled_dot_product_attention(q.double().transpose(1, 2), *heads)
    close(got.o, want.transpose(1, 2))


def test_empty_row_is_zero_and_never_nan() -> None:
    part = reference.branch(normal(1, 1, 1, 2, 4), normal(2, 1, 3, 4), None, torch.zeros(1, 1, 3))
    assert (part.u == 0).all() and (part.o == 0).all()
    assert (part.lse == -INFINITY).all() and (part.m == -INFINITY).all()
    for sink in SINKS:
        o, lse = reference.merge([part], torch.full((2,), sink))
        assert (o == 0).all() and (lse == -INFINITY).all()


def test_no_keys_at_all() -> None:
    part = reference.branch(normal(1, 1, 1, 2, 4), normal(2, 1, 0, 4), None, torch.zeros(1, 1, 0))
    assert (part.u == 0).all() and (part.lse == -INFINITY).all()


def test_poison_past_the_length_is_not_read() -> None:
    q, k = normal(1, 2, 1, 2, 4), normal(2, 2, 5, 4)
    seen = reference.within_length(torch.tensor([3, 0]), 1, 5)
    clean = reference.branch(q, k, None, seen)
    k[0, 3:], k[1] = math.nan, INFINITY
    poisoned = reference.branch(q, k, None, seen)
    assert torch.equal(clean.u, poisoned.u) and torch.equal(clean.lse, poisoned.lse)


def test_sink_alone_is_a_sigmoid() -> None:
    """One branch and a sink: O = (U/l) sigmoid(lse - sink)."""
    q, k = normal(1, 1, 2, 2, 4), normal(2, 1, 5, 4)
    part = reference.branch(q, k, None, torch.ones(1, 2, 5))
    sink = torch.tensor([0.3, -2.0])
    o, _ = reference.merge([part], sink)
    close(o, part.o * torch.sigmoid(part.lse - sink)[..., None])


def test_large_logits_do_not_overflow() -> None:
    q, k = normal(1, 1, 1, 1, 4, size=1e4), normal(2, 1, 5, 4)
    part = reference.branch(q, k, None, torch.ones(1, 1, 5), scale=1.0)
    for sink in SINKS:
        o, lse = reference.merge([part, part], torch.tensor([sink]))
        assert o.isfinite().all() and lse.isfinite().all()
