"""Wrong ways of reading caches, each of which the comparison must reject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from stages.cache_layouts import LAYOUTS, Bf16
from stages.caches import Paged
from stages.case import Case
from stages.served import CacheInputs

Change = Callable[[CacheInputs], CacheInputs]
WITHOUT_SCALES = "bf16", "e4m3"


def cache_controls(case: Case, paged: Paged) -> dict[str, Change]:
    """Return the changes of one cache by name. Peaked scores hide single keys, so there only whole tiles change."""
    block_n, last = case.kv_tile, paged.keys - 1
    tiles: dict[str, Change] = {
        "left out": lambda cache: _listing(cache, torch.full_like(cache.indices, -1)),
        "the first KV tile read for every tile": lambda cache: _listing(
            cache, cache.indices[..., torch.arange(cache.indices.shape[2]) % block_n]
        ),
    }
    if paged.size & (paged.size - 1):
        tiles["pages of a power of two of keys"] = lambda cache: _listing(cache, _by_power_of_two(cache))
    tiles |= _misread(case, paged)
    if case.peak > 1:
        return tiles
    return tiles | {
        "one index past the length used": lambda cache: replace(cache, counts=cache.counts + 1),
        "the last index dropped": lambda cache: replace(cache, counts=_effective(cache) - 1),
        "an index past the last key read as that key": lambda cache: _listing(cache, cache.indices.clamp(max=last)),
        "a negative index read as key 0": lambda cache: _listing(cache, cache.indices.clamp(min=0)),
        "a repeated index counted once": lambda cache: _listing(cache, _without_repeats(cache.indices)),
        "no lengths": lambda cache: replace(cache, counts=torch.full_like(cache.counts, cache.indices.shape[2])),
    }


def _misread(case: Case, paged: Paged) -> dict[str, Change]:
    """Return the changes of a cache whose keys have scales, or rotary columns behind those of V."""
    end = case.value_dim
    found: dict[str, Change] = {}
    if end < case.head_dim:
        found |= {
            "no rotary columns": lambda cache: _with_rotary(cache, end, torch.zeros_like(cache.keys[:, end:])),
            "rotary columns of the key before": lambda cache: _with_rotary(cache, end, cache.keys[:, end:].roll(1, 0)),
        }
    if paged.layout not in WITHOUT_SCALES:
        found |= {
            "scales of the next columns": lambda cache: _with_scales(cache, lambda x: x.roll(1, 1)),
            "scales of the next key": lambda cache: _with_scales(cache, lambda x: x.roll(1, 0)),
        }
    if paged.layout == "v32":
        found |= {
            "scales truncated to powers of two": lambda cache: _with_scales(cache, lambda x: 2 ** x.log2().floor()),
            "scales rounded to bf16": lambda cache: _with_scales(cache, lambda x: x.bfloat16().float()),
        }
    elif paged.layout not in WITHOUT_SCALES:
        found["the last scale one step larger"] = lambda cache: _with_scales(cache, _last_larger)
    if paged.layout.startswith("v41_fp4"):
        found["both columns of a byte exchanged"] = lambda cache: replace(
            cache, keys=cache.keys.view(len(cache.keys), -1, 2).flip(2).flatten(1)
        )
    return found


def _last_larger(scales: torch.Tensor) -> torch.Tensor:
    return torch.cat([scales[:, :-1], scales[:, -1:] + 1], 1)


def _with_rotary(cache: CacheInputs, end: int, rotary: torch.Tensor) -> CacheInputs:
    return replace(cache, keys=torch.cat([cache.keys[:, :end], rotary], 1))


def _with_scales(cache: CacheInputs, change: Callable[[torch.Tensor], torch.Tensor]) -> CacheInputs:
    layout = LAYOUTS[cache.paged.layout]
    assert not isinstance(layout, Bf16)
    codes, scales, others = layout.parts(cache.rows)
    return replace(cache, keys=layout.meant(codes, change(scales), others)[1])


def _listing(cache: CacheInputs, indices: torch.Tensor) -> CacheInputs:
    return replace(cache, indices=indices)


def _effective(cache: CacheInputs) -> torch.Tensor:
    """Return the number of indices up to the last one that counts and names a key."""
    places = torch.arange(1, cache.indices.shape[2] + 1)
    return (cache.counted() * places).amax(2).int()


def _by_power_of_two(cache: CacheInputs) -> torch.Tensor:
    """Return the keys that a kernel would read if it divided by the power of two below the page size."""
    power = 1 << cache.paged.size.bit_length() - 1
    read = cache.indices // power * cache.paged.size + cache.indices % power
    return torch.where(cache.indices < 0, cache.indices, read).clamp(max=cache.paged.keys - 1)


def _without_repeats(indices: torch.Tensor) -> torch.Tensor:
    again = (indices[..., None] == indices[..., None, :]).tril(-1).any(-1)
    return torch.where(again, -1, indices)


def _scored_with_main(main: CacheInputs, extra: CacheInputs) -> CacheInputs:
    return replace(extra, keys=main.keys[torch.arange(len(extra.keys)) % len(main.keys)])


def _with_lengths_of_main(main: CacheInputs, extra: CacheInputs) -> CacheInputs:
    return replace(extra, counts=main.counts.clone())


def _counted_once(main: CacheInputs, extra: CacheInputs) -> CacheInputs:
    """Drop keys of the second cache that are listed in the first, too; the same index is the same key."""
    shared = min(len(main.keys), len(extra.keys)) // 2
    both = (extra.indices[..., None] == main.indices.where(main.counted(), -1)[..., None, :]).any(-1)
    return _listing(extra, extra.indices.where(~both | (extra.indices >= shared), -1))


PAIR_CONTROLS: dict[str, Callable[[CacheInputs, CacheInputs], CacheInputs]] = {
    "the second cache's keys read from the first": _scored_with_main,
    "the first cache's lengths used for the second": _with_lengths_of_main,
    "keys of both counted once": _counted_once,
}
