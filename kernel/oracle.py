"""A second statement of the mathematics, apart from `reference`: one softmax over [window | compressed | sink].

It lists each row's keys one by one and knows neither branches nor merging, so that the two can be held against each
other. Slow, for small shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

#: The key vectors and value vectors that row (b, t) sees: two lists of [D] tensors.
Keys = Callable[[int, int], Iterable[tuple[Tensor, Tensor]]]


def attention(q: Tensor, keys: Keys, sink: Tensor | None = None, scale: float | None = None) -> tuple[Tensor, Tensor]:
    """Output [B,T,H,D] and lse [B,T,H] (without the sink) of q [B,T,H,D], in float64."""
    batch, queries, heads, head_dim = q.shape
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    o = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full(q.shape[:3], -math.inf, dtype=torch.float64)
    for b in range(batch):
        for t in range(queries):
            pairs = list(keys(b, t))
            for h in range(heads):
                logits = [scale * float(q[b, t, h].double() @ key.double()) for key, _ in pairs]
                extra = [] if sink is None else [float(sink[h])]
                weights = _softmax([*logits, *extra])
                for (_, value), weight in zip(pairs, weights, strict=False):
                    o[b, t, h] += weight * value.double()
                lse[b, t, h] = _log_sum_exp(logits)
    return o, lse


def window_keys(k: Tensor, v: Tensor, length: int, t: int, queries: int, window: int | None) -> Iterable[tuple]:
    """The pairs of one sequence's k, v [S,D] that query t of `queries` sees in a buffer that holds `length` keys."""
    position = length - queries + t
    for j in range(position + 1):
        if window is None or j > position - window:
            yield k[j], v[j]


def listed_keys(kv: Tensor, indices: Iterable[int]) -> Iterable[tuple]:
    """The pairs of kv [S_c,D] at `indices`, in their order and as often as listed; -1 is none."""
    for j in indices:
        if j >= 0:
            yield kv[j], kv[j]


def _log_sum_exp(logits: list[float]) -> float:
    top = max(logits, default=-math.inf)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(x - top) for x in logits))


def _softmax(logits: list[float]) -> list[float]:
    top = max(logits, default=-math.inf)
    if top == -math.inf:
        return [0.0] * len(logits)
    if top == math.inf:
        return [0.0 if x < top else 1.0 / logits.count(top) for x in logits]
    total = math.fsum(math.exp(x - top) for x in logits)
    return [math.exp(x - top) / total for x in logits]
