"""What the kernel computes, in float64: one branch over the keys a query sees, the masks, the merge with a sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

F64 = torch.float64


@dataclass(frozen=True)
class Partial:
    """One branch's result: u [B,T,H,D] un-normalised, lse and m [B,T,H] natural logarithms, all float64.

    u = sum_j exp(s_j - m) v_j, lse = m + ln(sum_j exp(s_j - m)); an empty row has u = 0 and lse = m = -inf.
    u and lse alone cannot be normalised: m says what u was scaled by.
    """

    u: Tensor
    lse: Tensor
    m: Tensor

    @property
    def o(self) -> Tensor:
        """The normalised output u / l, [B,T,H,D]; 0 where the row is empty."""
        weight = torch.where(self.lse.isneginf(), 0.0, torch.exp(self.m - self.lse))
        return self.u * weight[..., None]


def branch(q: Tensor, k: Tensor, v: Tensor | None, seen: Tensor, scale: float | None = None) -> Partial:
    """Attention of q [B,T,H,D] over k, v [B,S,D] (v absent: V = K), all heads sharing the keys.

    seen [B,T,S] says how often a query sees a key: a boolean mask, or counts where a selection lists a key more
    than once. Keys that no query sees may hold anything, NaN included. scale defaults to D^-0.5.
    """
    q, k, v = q.to(F64), k.to(F64), (k if v is None else v).to(F64)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    read = (seen > 0).any(1)[..., None]
    k, v = torch.where(read, k, 0.0), torch.where(read, v, 0.0)
    s = torch.einsum("bthd,bsd->bths", q, k) * scale
    s = torch.where(seen[:, :, None] > 0, s, -torch.inf)
    m = s.amax(-1) if s.shape[-1] else s.new_full(s.shape[:-1], -torch.inf)
    p = torch.exp(s - torch.where(m.isneginf(), 0.0, m)[..., None]) * seen[:, :, None]
    return Partial(torch.einsum("bths,bsd->bthd", p, v), m + torch.log(p.sum(-1)), m)


def positions(swa_lens: Tensor, queries: int) -> Tensor:
    """Position [B,T] of each query in its window buffer: the last one sits on the last of swa_lens [B] keys."""
    return swa_lens[:, None].long() - queries + torch.arange(queries, device=swa_lens.device)


def within_length(swa_lens: Tensor, queries: int, keys: int) -> Tensor:
    """Mask [B,T,S] of the keys before swa_lens [B]."""
    key = torch.arange(keys, device=swa_lens.device)
    return (key < swa_lens[:, None])[:, None].expand(-1, queries, -1)


def within_window(swa_lens: Tensor, queries: int, keys: int, window: int | None = 128) -> Tensor:
    """Mask [B,T,S], causal and bottom-right aligned: keys max(0, p-window+1) to p of the query's position p.

    The window counts the query's own position; None leaves it unbounded.
    """
    key = torch.arange(keys, device=swa_lens.device)
    position = positions(swa_lens, queries)[..., None]
    causal = key <= position
    return causal if window is None else causal & (key > position - window)


def visible_blocks(position: Tensor, blocks: int, ratio: int) -> Tensor:
    """Mask [B,T,S_c] of the compressed blocks that end at or before a query: j < floor((position + 1) / ratio).

    position [B,T] is the query's place in its sequence, ratio the tokens a block stands for.
    """
    return torch.arange(blocks, device=position.device) < ((position + 1) // ratio)[..., None]


def selected_blocks(topk_indices: Tensor, topk_lens: Tensor, blocks: int) -> Tensor:
    """Counts [B,T,S_c] of a selection: the first topk_lens [B,T] of topk_indices [B,T,K], where -1 is no block.

    A block that is listed twice is seen twice, in the numerator and in the denominator, as a gather sees it.
    """
    slot = torch.arange(topk_indices.shape[-1], device=topk_indices.device)
    listed = (slot < topk_lens[..., None]) & (topk_indices >= 0)
    counts = torch.zeros(*topk_indices.shape[:2], blocks, dtype=torch.long, device=topk_indices.device)
    return counts.scatter_add(-1, topk_indices.clamp(min=0).long(), listed.long())


def merge(parts: Sequence[Partial], sink: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Branches over different keys as one attention: o [B,T,H,D] and lse [B,T,H], the latter without the sink.

    sink [H] is one logit more in each row's denominator, never scaled. Stable for any finite or infinite sink.
    """
    lse = torch.stack([part.lse for part in parts])
    logits = lse if sink is None else torch.cat([lse, sink.to(F64).expand_as(lse[:1])])
    top = logits.amax(0)
    weights = torch.exp(torch.where(logits == top, 0.0, logits - top))
    o = sum(weight[..., None] * part.o for weight, part in zip(weights, parts, strict=False))
    return o / weights.sum(0)[..., None], torch.logsumexp(lse, 0)
