"""The float64 reference of the kernel: docs/explanation/attention.md, branch by branch.

Inputs are the bf16 values that the kernel gets, and everything is computed in float64. So differences from the kernel
are the kernel's errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

NEG_INF = -torch.inf


@dataclass(frozen=True)
class Partial:
    """The results of one branch: u [B, T, H, D] not normalized, lse and m [B, T, H] in natural logarithms, float64.

    A row that sees no key has u = 0, lse = m = -inf.
    """

    u: torch.Tensor
    lse: torch.Tensor
    m: torch.Tensor

    @property
    def o(self) -> torch.Tensor:
        """The normalized output [B, T, H, D]: u exp(m - lse), 0 for rows that see no key."""
        return self.u * weights(self.m, self.lse)[..., None]


@dataclass(frozen=True)
class Output:
    """The results of merged branches: o [B, T, H, D], lse [B, T, H] without the sink, float64."""

    o: torch.Tensor
    lse: torch.Tensor


def weights(x: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return exp(x - reference), and 0 where x is -inf, whatever the reference."""
    return torch.where(x == NEG_INF, torch.zeros_like(x), torch.exp(x - reference))


# Masks of visible keys, bool [B, T, S].


def dense_mask(batch: int, tokens: int, keys: int) -> torch.Tensor:
    """Mask with every key visible (D1, D2)."""
    return torch.ones(batch, tokens, keys, dtype=torch.bool)


def length_mask(tokens: int, keys: int, swa_lens: torch.Tensor) -> torch.Tensor:
    """Mask of the keys j < swa_lens[b] of sequence b (D3)."""
    visible = torch.arange(keys)[None, :] < swa_lens[:, None]
    return visible[:, None, :].expand(-1, tokens, -1)


def causal_mask(tokens: int, keys: int, swa_lens: torch.Tensor, window: int | None) -> torch.Tensor:
    """Mask of the keys max(0, p - W + 1) to p for query t at p = swa_lens[b] - T + t; window=None is unbounded (D4)."""
    p = swa_lens[:, None, None] - tokens + torch.arange(tokens)[None, :, None]
    j = torch.arange(keys)[None, None, :]
    visible = j <= p
    return visible if window is None else visible & (j > p - window)


def compressed_mask(positions: torch.Tensor, blocks: int, ratio: int) -> torch.Tensor:
    """Mask of the compressed blocks j < floor((t + 1) / ratio) for each position t of positions [B, T] (HCA)."""
    return torch.arange(blocks)[None, None, :] < ((positions + 1) // ratio)[..., None]


# One branch.


def branch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    visible: torch.Tensor | None = None,
) -> Partial:
    """Compute attention of q [B, T, H, D] over k, v [B, S, D] with visible [B, T, S] (every key if None).

    v=None means V = K; scale defaults to D^-0.5. Invisible keys may be NaN or Inf: they are not read.
    """
    batch, tokens = q.shape[:2]
    if visible is None:
        visible = dense_mask(batch, tokens, k.shape[1])
    keys = [[visible[b, t].nonzero()[:, 0] for t in range(tokens)] for b in range(batch)]
    return _over_keys(q, k, k if v is None else v, scale, keys)


def selection(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None = None,
    *,
    topk_indices: torch.Tensor,
    topk_lens: torch.Tensor | None = None,
    scale: float | None = None,
) -> Partial:
    """Compute attention over the keys of topk_indices [B, T, K], in any order (CSA).

    Indices outside 0 to S - 1 and from number topk_lens[b, t] on name no key. An index that occurs twice counts twice.
    """
    batch, tokens, topk = topk_indices.shape
    lens = torch.full((batch, tokens), topk) if topk_lens is None else topk_lens
    keys = [[_named(topk_indices[b, t], int(lens[b, t]), k.shape[1]) for t in range(tokens)] for b in range(batch)]
    return _over_keys(q, k, k if v is None else v, scale, keys)


def _named(indices: torch.Tensor, length: int, keys: int) -> torch.Tensor:
    counted = indices[:length].long()
    return counted[(counted >= 0) & (counted < keys)]


def _over_keys(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, keys: list[list[torch.Tensor]]
) -> Partial:
    """Compute one softmax per query token and head over the token's keys, keys[b][t]."""
    q = q.double()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    u = q.new_zeros(*q.shape[:3], v.shape[-1])
    lse = torch.full(q.shape[:3], NEG_INF, dtype=torch.float64)
    m = lse.clone()
    for b, tokens in enumerate(keys):
        for t, seen in enumerate(tokens):
            if len(seen) == 0:
                continue
            k_seen = k[b, seen].double()
            s = scale * q[b, t] @ k_seen.T
            m[b, t] = s.amax(dim=-1)
            p = torch.exp(s - m[b, t][:, None])
            u[b, t] = p @ (k_seen if v is k else v[b, seen].double())
            lse[b, t] = m[b, t] + torch.log(p.sum(dim=-1))
    return Partial(u, lse, m)


# Several branches and a sink.


def merge(branches: Sequence[Partial], sink: torch.Tensor | None = None) -> Output:
    """Merge branches over different keys, weighted by their lse, with sink [H] in the denominator only.

    sink=None or -inf is plain attention, +inf gives 0. A row that sees no key in any branch has o = 0.
    """
    lses = torch.stack([x.lse for x in branches])
    sinks = torch.full_like(lses[0], NEG_INF) if sink is None else sink.double().expand_as(lses[0])
    top = torch.maximum(lses.amax(dim=0), sinks)
    w = weights(lses, top)
    kept = torch.where(sinks == torch.inf, torch.inf, weights(sinks, top))
    visible = w.sum(dim=0)
    total = visible + kept
    mixed = (w[..., None] * torch.stack([x.o for x in branches])).sum(dim=0)
    o = torch.where((visible > 0)[..., None], mixed / total[..., None], torch.zeros_like(mixed))
    return Output(o, torch.logsumexp(lses, dim=0))


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    visible: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
) -> Output:
    """Compute attention of one branch and a sink: O = (U / l) sigmoid(lse - sink)."""
    return merge([branch(q, k, v, scale=scale, visible=visible)], sink)
