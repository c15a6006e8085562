"""A case's inputs from a seed, and what stands where nothing may be read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from stages.case import TILE, Case, Compressed

#: V is drawn at half the size of Q and K: the bound on every element of O is partly absolute (1e-3), and what
#: bf16 P alone costs must fit. Over 4,000 seeds of a numpy model of hd=64 n=128 the worst element came to
#: 0.60 of the bound, and to 1.11 of it at full size. Rows of which two or three keys have weight have nothing to
#: average: their V is smaller still, for half a bf16 step of P is 2^-9 of it.
V_SCALE, V_SCALE_OF_FEW = 0.5, 0.125

RISE = 6.5  # what a trend adds to the logits of a tile: past the 8 ln 2 = 5.5 from which O is rescaled
PAST_THE_LAST = 3  # numbers past the last compressed key that lists name too
FALL = 2.0  # of such tiles the fourth still counts, at exp(-6) of the first


@dataclass(frozen=True)
class Poison:
    """Values where nothing may be read, of K (and V where V is K) and of V."""

    k: float
    v: float


#: NaN spreads from wherever it is added or multiplied; but a logit that is NaN may pass for one of no weight, as it
#: does through a maximum. A large key outweighs all others for half of the rows.
POISONS = (Poison(torch.nan, torch.inf), Poison(2.0**60, torch.nan))


@dataclass(frozen=True)
class Inputs:
    """bf16 CPU tensors: q [batch, tokens, heads, head_dim], k and v [batch, keys, head_dim]; no v: V is K.

    compressed [batch, blocks, head_dim]. topk_indices [batch, tokens, topk] and topk_lens [batch, tokens], int32: the
    top-k indices of each token, and how many of them count.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor | None
    compressed: torch.Tensor | None = None
    topk_indices: torch.Tensor | None = None
    topk_lens: torch.Tensor | None = None


def draw(case: Case, seed: int) -> Inputs:
    """Draw normal Q, K and V from a seed, rounded to bf16: the same on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    q = normal(case.batch, case.tokens, case.heads, case.head_dim)
    k, v = (normal(case.batch, case.keys, case.head_dim) for _ in range(2))
    if case.scale is not None:
        q *= case.head_dim**-0.5 / case.scale
    if case.trend:
        after = 0 if case.compressed is None else _tiles(case, case.blocks).max() + 1
        _follow(case, q, k, _tiles(case, case.keys) - _tiles(case, case.keys).max() - after)
    q *= case.peak
    size = V_SCALE_OF_FEW if case.causal or case.peak > 1 else V_SCALE
    if not case.shared_kv:
        return Inputs(q.bfloat16(), k.bfloat16(), (v * size).bfloat16())
    window = Inputs((q / size).bfloat16(), (k * size).bfloat16(), None)
    if case.compressed is None:
        return window
    compressed = normal(case.batch, case.blocks, case.head_dim)
    if case.compressed.topk is not None:
        lists = _lists(case, case.compressed, case.compressed.topk, generator)
        return replace(window, compressed=(compressed * size).bfloat16(), **lists)
    if case.trend:
        _follow(case, q, compressed, _tiles(case, case.blocks) - _tiles(case, case.blocks).max())
    return replace(window, compressed=(compressed * size).bfloat16())


def _lists(case: Case, compressed: Compressed, topk: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw top-k indices out of order, with repeats, -1 and numbers past the last key in them.

    Of several tokens the first has no index that counts, of three and more the last has only such as name no key; the
    second's count whole, and so do those of a token alone. The others' are cut short, and what stands past their length
    are keys like any other.
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
    """Return the KV tile of each key."""
    return torch.arange(keys) // case.config.block_n


def _follow(case: Case, q: torch.Tensor, k: torch.Tensor, tile: torch.Tensor) -> None:
    """Make the maxima of the rows move with the KV tiles, by way of the head dim's first element.

    Growing, those of a warp's rows move at every tile, but those of the last quarter stay below what moves them.
    """
    if case.trend == "constant":
        k[:] = k[:, torch.arange(k.shape[1]) % TILE]
        return
    q[..., 0] = q.shape[-1] ** 0.5
    if case.trend == "growing":
        q[..., -(q.shape[2] // 4) :, 0] /= 8
    k[..., 0] = RISE * tile if case.trend == "growing" else -FALL * (tile - tile[0])


def poisoned(case: Case, kv: torch.Tensor, poison: float) -> torch.Tensor:
    """Return `kv` with `poison` past every sequence's length, and in whole tiles that no query sees."""
    lens = torch.tensor(case.lens or (case.keys,) * case.batch)
    seen = case.visible.any(1)
    tiles = torch.nn.functional.pad(seen, (0, -case.keys % TILE)).reshape(case.batch, -1, TILE).any(2)
    alive = tiles.repeat_interleave(TILE, 1)[:, : case.keys] & (torch.arange(case.keys) < lens[:, None])
    return _filled(kv, alive, poison)


def poisoned_compressed(case: Case, inputs: Inputs, poison: float) -> torch.Tensor | None:
    """Return the compressed keys with `poison` in the rows that no token sees or names."""
    if inputs.compressed is None:
        return None
    if inputs.topk_indices is None or inputs.topk_lens is None:
        return _filled(inputs.compressed, case.visible_blocks.any(1), poison)
    counts = torch.arange(inputs.topk_indices.shape[2]) < inputs.topk_lens[..., None]
    rows = torch.arange(case.blocks)[:, None, None]
    return _filled(inputs.compressed, ((inputs.topk_indices[:, None] == rows) & counts[:, None]).any(3).any(2), poison)


def _filled(kv: torch.Tensor, alive: torch.Tensor, poison: float) -> torch.Tensor:
    return torch.where(alive[..., None], kv, torch.tensor(poison).to(kv.dtype))
