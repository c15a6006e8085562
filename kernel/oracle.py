"""One softmax over the concatenation [SWA keys | compressed keys | sink], independent of kernel.reference.

No branches, no merge, no running maximum: scalar loops over rows, `math.fsum`, and logits shifted by the row's maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Keys = Callable[[int, int], Sequence[int]]  # (b, t) -> numbers of the keys that a query sees, with repeats


def attention(
    q: np.ndarray,
    sources: Sequence[tuple[np.ndarray, np.ndarray, Keys]],
    scale: float,
    sink: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute o [B, T, H, D] and lse [B, T, H] (without the sink) of q over sources of (k, v, keys)."""
    o = np.zeros(q.shape)
    lse = np.full(q.shape[:3], -math.inf)
    for b, t, h in np.ndindex(*q.shape[:3]):
        values, logits = [], []
        for k, v, keys in sources:
            for j in keys(b, t):
                logits.append(scale * math.fsum(float(x) * float(y) for x, y in zip(q[b, t, h], k[b, j], strict=True)))
                values.append(v[b, j].astype(float))
        if not logits:
            continue
        extra = -math.inf if sink is None else float(sink[h])
        top = max(logits)
        lse[b, t, h] = top + math.log(math.fsum(math.exp(s - top) for s in logits))
        if extra == math.inf:
            continue
        top = max(top, extra)
        e = [math.exp(s - top) for s in logits]
        o[b, t, h] = np.stack(values).T @ np.array(e) / (math.fsum(e) + math.exp(extra - top))
    return o, lse


def swa_keys(swa_lens: Sequence[int], tokens: int, window: int | None) -> Keys:
    """Keys of the sliding window: j <= p and j > p - window, for p = swa_lens[b] - tokens + t."""

    def keys(b: int, t: int) -> Sequence[int]:
        p = swa_lens[b] - tokens + t
        return range(0 if window is None else max(0, p - window + 1), p + 1)

    return keys


def compressed_keys(positions: np.ndarray, ratio: int) -> Keys:
    """Blocks that end at or before a query: (j + 1) * ratio <= t + 1."""

    def keys(b: int, t: int) -> Sequence[int]:
        j = 0
        while (j + 1) * ratio <= positions[b, t] + 1:
            j += 1
        return range(j)

    return keys


def topk_keys(topk_indices: np.ndarray, topk_lens: np.ndarray, blocks: int) -> Keys:
    """Keys of the first topk_lens[b, t] indices that are in range of `blocks` keys, with repeats."""

    def keys(b: int, t: int) -> Sequence[int]:
        return [int(j) for i, j in enumerate(topk_indices[b, t]) if i < topk_lens[b, t] and 0 <= j < blocks]

    return keys
