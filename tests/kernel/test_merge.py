"""Merging branches in torch equals one softmax over all their keys, for sinks and logits of any size."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

import kernel
from kernel import merge_outputs, reference

SINKS = (-math.inf, -80.0, 0.0, 80.0, math.inf)
B, T, H, D = 2, 3, 5, 64


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def rounded(part: reference.Partial) -> kernel.Attention:
    """Return the outputs of a perfect kernel."""
    return kernel.Attention(part.o.bfloat16(), part.lse.float(), part.u.float(), part.m.float())


def parts(visible: list[torch.Tensor], size: float = 1.0) -> tuple[list[reference.Partial], reference.Partial]:
    """Return a branch per mask [B, T, S], each with its own keys, and the softmax over all keys."""
    q = (normal(1, B, T, H, D) * size).bfloat16()
    keys = [normal(2 + i, B, mask.shape[2], D) for i, mask in enumerate(visible)]
    branches = [reference.branch(q, k, visible=mask) for k, mask in zip(keys, visible, strict=True)]
    return branches, reference.branch(q, torch.cat(keys, 1), visible=torch.cat(visible, 2))


def some(seed: int, keys: int) -> torch.Tensor:
    return torch.rand(B, T, keys, generator=torch.Generator().manual_seed(seed)) < 0.5


def holds(got: kernel.Attention, want: reference.Output, lse_error: float = 1e-6) -> None:
    assert got.o.isfinite().all() and (got.o.double() - want.o).abs().max() <= 0.01
    seen = want.lse.isfinite()
    assert torch.equal(got.lse.isfinite(), seen) and (got.lse[~seen] == -math.inf).all()
    assert ((got.lse.double() - want.lse)[seen].abs() <= lse_error).all()


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_equals_one_softmax(count: int, sink: float) -> None:
    branches, whole = parts([some(i, 7 + i) for i in range(count)])
    sinks = torch.full((H,), sink)
    got = kernel.merge([rounded(x) for x in branches], sinks)
    want = reference.merge([whole], sinks)
    holds(got, want)
    if sink == -math.inf:
        assert torch.equal(got.o, kernel.merge([rounded(x) for x in branches]).o)
    if sink == math.inf:
        assert (got.o == 0).all()


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("empty", [(0,), (1,), (0, 1)], ids=str)
def test_empty_branches(empty: tuple[int, ...], sink: float) -> None:
    masks = [torch.zeros(B, T, 8, dtype=torch.bool) if i in empty else some(i, 8) for i in range(2)]
    branches, whole = parts(masks)
    sinks = torch.full((H,), sink)
    got = kernel.merge([rounded(x) for x in branches], sinks)
    holds(got, reference.merge([whole], sinks))
    if len(empty) == 2:
        assert (got.o == 0).all() and (got.lse == -math.inf).all()


@pytest.mark.parametrize("sink", [-1e4, 0.0, 1e4])
def test_logits_of_ten_thousand(sink: float) -> None:
    branches, whole = parts([some(0, 8), some(1, 8)], size=3000.0)
    assert max(part.m.max() for part in branches) > 1e4
    sinks = torch.full((H,), sink)
    holds(kernel.merge([rounded(x) for x in branches], sinks), reference.merge([whole], sinks), lse_error=4e-3)


def test_the_maximum_may_lag_behind() -> None:
    """u and m are those of a lazily moved maximum: any common shift of both gives the same merge."""
    branches, whole = parts([some(0, 8), some(1, 9)])
    lag = 2.5
    moved = [reference.Partial(x.u * math.exp(lag), x.lse, x.m - lag) for x in branches]
    holds(kernel.merge([rounded(x) for x in moved]), reference.merge([whole]))


def test_refuses_what_is_no_partial() -> None:
    part = rounded(parts([some(0, 8)])[0][0])
    bad = {
        "branches": [],
        "branches[1].u or .m": [part, dataclasses.replace(part, u=None)],
        "branches[0].lse.shape": [dataclasses.replace(part, lse=part.lse[:1])],
        "branches[0].m.dtype": [dataclasses.replace(part, m=part.o[..., 0])],
    }
    for name, branches in bad.items():
        with pytest.raises(kernel.ArgumentError) as raised:
            kernel.merge(branches)
        assert raised.value.name == name
    with pytest.raises(kernel.ArgumentError, match=r"sink\.shape"):
        kernel.merge([part], torch.zeros(H + 1))


@pytest.mark.parametrize("empty", [-torch.inf, torch.inf])
@pytest.mark.parametrize("sink", [None, (0.5, -torch.inf, torch.inf)])
def test_outputs_of_ranks_are_one_attention(empty: float, sink: tuple[float, ...] | None) -> None:
    """Keys divided among three ranks, one of which has none of the second token's; the fourth token sees no key."""
    random = torch.Generator().manual_seed(5)
    logits, values = torch.randn(4, 3, 30, generator=random) * 20, torch.randn(30, 16, generator=random)
    logits[1, :, 10:20], logits[3] = -torch.inf, -torch.inf
    parts = []
    for keys in (slice(0, 10), slice(10, 20), slice(20, 30)):
        lse = torch.logsumexp(logits[..., keys], -1)
        o = (logits[..., keys] - lse[..., None]).exp().nan_to_num() @ values[keys]
        seen = lse > -torch.inf
        parts.append((torch.where(seen[..., None], o, torch.nan), torch.where(seen, lse, empty)))
    sinks = None if sink is None else torch.tensor(sink)
    found = merge_outputs(parts, sinks, empty_lse=empty)
    lse = torch.logsumexp(logits.double(), -1)
    bottom = lse if sinks is None else torch.logaddexp(lse, sinks.double())
    want = torch.exp(logits.double() - bottom[..., None]).nan_to_num() @ values.double()
    torch.testing.assert_close(found.o.double(), want, atol=2e-6, rtol=2e-5)
    torch.testing.assert_close(found.lse[:3].double(), lse[:3], atol=1e-5, rtol=1e-6)
    assert (found.lse[3] == empty).all() and not found.o[3].any()
