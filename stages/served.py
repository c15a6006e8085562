"""Inputs of cases with caches: pages of keys, indices and block tables, drawn and laid out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from stages.cache_layouts import LAYOUTS, Bf16
from stages.caches import NAMES, Paged
from stages.case import Case

NOTHING = (-1, -(2**31), 2**31 - 1)  # indices that name no key; the number of keys is another


@dataclass(frozen=True)
class CacheInputs:
    """A cache's inputs on the CPU.

    keys: [pages * size, head_dim] bf16, what the bytes of each key mean. rows: [pages * size, bytes] uint8, those
    bytes. indices: [batch, tokens, topk] int32. counts: [batch, tokens] int32, how many of them count. table: [batch,
    columns] int32, pages of each sequence, or None.
    """

    paged: Paged
    keys: torch.Tensor
    rows: torch.Tensor
    indices: torch.Tensor
    counts: torch.Tensor
    table: torch.Tensor | None = None

    def with_lists(self, indices: torch.Tensor, counts: torch.Tensor) -> CacheInputs:
        """Return the cache with other indices and counts."""
        return CacheInputs(self.paged, self.keys, self.rows, indices, counts, self.table)

    def counted(self) -> torch.Tensor:
        """Return which indices count and name a key, bool [batch, tokens, topk]."""
        counts = torch.arange(self.indices.shape[2]) < self.counts[..., None]
        return counts & (self.indices >= 0) & (self.indices < self.paged.keys)


def with_nan_codes(cache: CacheInputs) -> CacheInputs:
    """Return a cache whose odd keys have a code of NaN, each in another column; in FP4, which has none, a scale."""
    layout = LAYOUTS[cache.paged.layout]
    assert not isinstance(layout, Bf16)
    first, count = (
        (layout.codes // 2, layout.codes // layout.group) if "fp4" in cache.paged.layout else (0, layout.codes)
    )
    rows, odd = cache.rows.clone(), torch.arange(1, len(cache.rows), 2)
    rows[odd, first + odd * 97 % count] = torch.where(odd % 4 == 1, 0x7F, 0xFF).to(torch.uint8)
    return replace(cache, rows=rows)


def draw_caches(case: Case, q: torch.Tensor, size: float, generator: torch.Generator) -> tuple[CacheInputs, ...]:
    """Draw the caches of a case. q: [batch, tokens, heads, head_dim], for the order of ascending indices."""
    assert case.served is not None
    found: list[CacheInputs] = []
    for paged in case.served.caches:
        values = torch.randn(paged.keys, case.head_dim, generator=generator) * size
        if case.served.twice and found:
            shared = min(paged.keys, found[0].paged.keys) // 2
            values[:shared] = found[0].keys[:shared].float()
        rows, keys = LAYOUTS[paged.layout].encode(values, generator)
        if case.served.codes:
            layout = LAYOUTS[paged.layout]
            assert not isinstance(layout, Bf16)
            rows, keys = layout.every_code(paged.keys)
            listed = torch.full((1, case.tokens, paged.topk), -1, dtype=torch.int32)
            listed[0, :, 0] = torch.arange(case.tokens)
            found.append(CacheInputs(paged, keys, rows, listed, torch.full((1, case.tokens), paged.topk).int()))
            continue
        lists = _windows(case, paged, generator) if paged.window else _lists(case, paged, generator)
        cache = CacheInputs(paged, keys, rows, *lists)
        found.append(_ascending(cache, q) if case.served.ascending else cache)
    return tuple(found)


def _lists(case: Case, paged: Paged, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw unsorted indices with repeats, and with some that name no key.

    Of several tokens, the first has nothing in its second 64 indices. Of three or more, the last lists no key at all.
    """
    shape = (case.batch, case.tokens)
    indices = torch.randint(-1, paged.keys + 3, (*shape, paged.topk), generator=generator).int()
    by_token = indices.view(-1, paged.topk)
    nothing = torch.tensor((*NOTHING, paged.keys), dtype=torch.int32).repeat(paged.topk)[: paged.topk]
    if len(by_token) > 1:
        by_token[0, 64:128] = nothing[64:128]
    if len(by_token) > 2:
        by_token[-1] = nothing
    counts = torch.full(shape, paged.topk, dtype=torch.int32)
    if paged.lens is not None:
        given = torch.tensor(paged.lens, dtype=torch.int32)
        counts[:] = given[:, None] if len(given) == case.batch else given.view(shape)
    return indices, counts


def _windows(case: Case, paged: Paged, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw a block table of shuffled pages, and return the indices of each token's window that it stands for.

    Columns past the end of a sequence hold pages that do not exist, and so does the first column of the last sequence
    of several. One of them is so large that the number of its first key wraps around to 0 in 32 bits. Of a sequence
    that is longer than the table, the keys behind the table are not there.
    """
    assert paged.lens is not None and paged.window is not None and len(paged.lens) == case.batch
    columns = paged.columns
    table = torch.randperm(paged.pages, generator=generator)[: case.batch * columns].int().view(case.batch, columns)
    wraps = (-(-(2**32) // paged.size),) if paged.size > 2 else ()
    nothing = torch.tensor((-1, paged.pages, *NOTHING[1:], *wraps), dtype=torch.int32)
    missing = nothing[(torch.arange(case.batch)[:, None] + torch.arange(columns)) % len(nothing)]
    unused = torch.arange(columns) >= -(-torch.tensor(paged.lens)[:, None] // paged.size)
    unused[case.batch - 1, 0] |= case.batch > 1
    table = table.where(~unused, missing)
    indices = torch.full((case.batch, case.tokens, paged.listed), -1, dtype=torch.int32)
    counts = torch.zeros(case.batch, case.tokens, dtype=torch.int32)
    for b, t in ((b, t) for b in range(case.batch) for t in range(case.tokens)):
        end = max(paged.lens[b] - case.tokens + t + 1, 0)
        seen = torch.arange(max(end - paged.window, 0), end)
        seen = seen[seen < columns * paged.size]
        page = table[b, seen // paged.size].long()
        listed = (page * paged.size + seen % paged.size).where((page >= 0) & (page < paged.pages), -1)
        indices[b, t, : len(seen)] = listed.int()
        counts[b, t] = len(seen)
    return indices, counts, table


def _ascending(cache: CacheInputs, q: torch.Tensor) -> CacheInputs:
    """Sort the indices of each token by the score of head 0; those that name no key come last."""
    scores = torch.einsum("btd,sd->bts", q[:, :, 0].float(), cache.keys.float())
    named = (cache.indices >= 0) & (cache.indices < cache.paged.keys)
    listed = scores.gather(2, cache.indices.long().clamp(0, cache.paged.keys - 1)).where(named, torch.inf)
    return cache.with_lists(cache.indices.gather(2, listed.argsort(2)), cache.counts)


def placed_caches(caches: tuple[CacheInputs, ...], poison: float) -> dict[str, torch.Tensor]:
    """Return the tensors of a call for its caches. Bytes that no token may read are poisoned.

    Lengths of 0 and of all indices are those that the device clamps to them.
    """
    placed = {}
    for name, cache in zip(NAMES, caches, strict=False):
        paged = cache.paged
        seen = torch.zeros(paged.keys, dtype=torch.bool)
        seen[cache.indices[cache.counted()].long()] = True
        placed[name] = LAYOUTS[paged.layout].pages(cache.rows, seen, paged.size, paged.gap, poison)
        if cache.table is not None:
            placed[f"{name}_table"] = cache.table
        else:
            placed[f"{name}_indices"] = cache.indices
        if paged.lens is not None:
            shape = cache.counts.shape if len(paged.lens) == cache.counts.numel() else (-1,)
            lens = torch.tensor(paged.lens, dtype=torch.int32).view(shape)
            placed[f"{name}_lens"] = lens if paged.window else out_of_range(lens, paged.topk)
    return placed


def out_of_range(lens: torch.Tensor, topk: int) -> torch.Tensor:
    """Return lengths that the device clamps to `lens`: the least integer in place of 0, the largest for `topk`."""
    limits = torch.iinfo(lens.dtype)
    return lens.where(lens != 0, limits.min).where(lens != topk, limits.max)
