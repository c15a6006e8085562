"""Inputs of a case, drawn from a seed, and the poison in places that the kernel must not read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from stages.case import TILE, Case, Compressed
from stages.served import CacheInputs, draw_caches

#: V is drawn at half the size of Q and K. The bound on an element of O is partly absolute (1e-3), and the rounding of
#: P to bf16 alone must fit into it: over 4,000 seeds of a numpy model of hd=64 n=128, the worst element reached 0.60
#: of the bound at this size, and 1.11 at full size. In rows with few keys of weight, rounding errors do not average out
#: (half a bf16 step of P is 2^-9 of the element), so their V is smaller still. Where maxima grow, those are the keys of
#: the last KV tile.
V_SCALE, V_SCALE_FEW_KEYS = 0.5, 0.125

RISE = 6.5  # a growing trend adds this to the logits per tile; O is rescaled from 8 ln 2 = 5.5 on
FALL = 2.0  # a falling trend subtracts this per tile; the fourth tile still counts, with exp(-6) of the first
PAST_THE_LAST = 3  # top-k indices go up to this far past the last compressed key


@dataclass(frozen=True)
class Poison:
    """Values of keys that the kernel must not read: in K (and in V if V is K), and in V."""

    k: float
    v: float


#: NaN spreads through sums and products, but a maximum drops it, so a NaN logit may pass for one without weight. The
#: second poison is a large key, which outweighs all others in half of the rows.
POISONS = (Poison(torch.nan, torch.inf), Poison(2.0**60, torch.nan))


@dataclass(frozen=True)
class Inputs:
    """bf16 CPU tensors: q [batch, tokens, heads, head_dim], k and v [batch, keys, head_dim].

    v is None if V is K. compressed: [batch, blocks, head_dim]. topk_indices, int32 [batch, tokens, topk]: compressed
    keys of each token. topk_lens, int32 [batch, tokens]: how many of them count. caches: those of kernel.serving.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None
    compressed: torch.Tensor | None = None
    topk_indices: torch.Tensor | None = None
    topk_lens: torch.Tensor | None = None
    caches: tuple[CacheInputs, ...] = ()


def draw(case: Case, seed: int) -> Inputs:
    """Draw normal Q, K and V from a seed, rounded to bf16. They are the same on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    q = normal(case.batch, case.tokens, case.heads, case.head_dim)
    k, v = (normal(case.batch, case.keys, case.head_dim) for _ in range(2))
    if case.scale is not None:
        q *= case.head_dim**-0.5 / case.scale
    if case.trend:
        after = 0 if case.compressed is None else _tiles(case, case.blocks).max() + 1
        _add_trend(case, q, k, _tiles(case, case.keys) - _tiles(case, case.keys).max() - after)
    q *= case.peak
    if case.served is not None:
        caches = draw_caches(case, q, V_SCALE_FEW_KEYS, generator)
        if case.served.codes:
            q.zero_()
        return Inputs((q / V_SCALE_FEW_KEYS).bfloat16(), k.bfloat16(), None, caches=caches)
    few_keys = case.causal or case.peak > 1 or case.trend == "growing"
    size = V_SCALE_FEW_KEYS if few_keys else V_SCALE
    if not case.shared_kv:
        return Inputs(q.bfloat16(), k.bfloat16(), (v * size).bfloat16())
    window = Inputs((q / size).bfloat16(), (k * size).bfloat16(), None)
    if case.compressed is None:
        return window
    compressed = normal(case.batch, case.blocks, case.head_dim)
    if case.compressed.topk is not None:
        topk: dict[str, Any] = _draw_topk(case, case.compressed, case.compressed.topk, generator)
        return replace(window, compressed=(compressed * size).bfloat16(), **topk)
    if case.trend:
        _add_trend(case, q, compressed, _tiles(case, case.blocks) - _tiles(case, case.blocks).max())
    return replace(window, compressed=(compressed * size).bfloat16())


def _draw_topk(case: Case, compressed: Compressed, topk: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw unsorted top-k indices with repeats, -1 and indices past the last key.

    A single token gets the full length. Of several tokens in all sequences together, the first gets length 0 and the
    second the full length. Of three or more, the last gets only indices that are out of range. The other lengths are
    random. Indices past the length are drawn like the others, and must be ignored.
    """
    shape = (case.batch, case.tokens)
    indices = torch.randint(-1, case.blocks + PAST_THE_LAST, (*shape, topk), generator=generator).int()
    lens = torch.randint(0, topk + 1, shape, generator=generator).int()
    by_token, counts = indices.view(-1, topk), lens.view(-1)
    if not compressed.first_key:
        by_token[by_token == 0] = -1
    counts[min(1, len(counts) - 1)] = topk
    if len(counts) > 1:
        counts[0] = 0
    if len(counts) > 2:
        by_token[-1, ::2], by_token[-1, 1::2], counts[-1] = -1, case.blocks, topk
    return {"topk_indices": indices, "topk_lens": lens if compressed.lens else torch.full_like(lens, topk)}


def _tiles(case: Case, keys: int) -> torch.Tensor:
    """Return the KV tile of each key. Inputs are the same on every chip."""
    return torch.arange(keys) // case.kv_tile


def _add_trend(case: Case, q: torch.Tensor, k: torch.Tensor, tile: torch.Tensor) -> None:
    """Make the row maxima follow the trend of the case from KV tile to KV tile, through element 0 of the head dim.

    Growing: the maxima grow by RISE per tile, past the threshold of a rescale, except in the last quarter of the heads.
    """
    if case.trend == "constant":
        k[:] = k[:, torch.arange(k.shape[1]) % TILE]
        return
    q[..., 0] = q.shape[-1] ** 0.5
    if case.trend == "growing":
        q[..., -(q.shape[2] // 4) :, 0] /= 8
    k[..., 0] = RISE * tile if case.trend == "growing" else -FALL * (tile - tile[0])


def poisoned(case: Case, kv: torch.Tensor, poison: float) -> torch.Tensor:
    """Return `kv` with `poison` past the length of every sequence, and in KV tiles that no query sees."""
    lens = torch.tensor(case.lens or (case.keys,) * case.batch)
    seen = case.visible.any(1)
    tiles = torch.nn.functional.pad(seen, (0, -case.keys % TILE)).reshape(case.batch, -1, TILE).any(2)
    alive = tiles.repeat_interleave(TILE, 1)[:, : case.keys] & (torch.arange(case.keys) < lens[:, None])
    return _filled(kv, alive, poison)


def poisoned_compressed(case: Case, inputs: Inputs, poison: float) -> torch.Tensor | None:
    """Return the compressed keys with `poison` in the rows that no token attends to."""
    if inputs.compressed is None:
        return None
    if inputs.topk_indices is None or inputs.topk_lens is None:
        return _filled(inputs.compressed, case.visible_blocks.any(1), poison)
    counts = torch.arange(inputs.topk_indices.shape[2]) < inputs.topk_lens[..., None]
    rows = torch.arange(case.blocks)[:, None, None]
    return _filled(inputs.compressed, ((inputs.topk_indices[:, None] == rows) & counts[:, None]).any(3).any(2), poison)


def _filled(kv: torch.Tensor, alive: torch.Tensor, poison: float) -> torch.Tensor:
    return torch.where(alive[..., None], kv, torch.tensor(poison).to(kv.dtype))
