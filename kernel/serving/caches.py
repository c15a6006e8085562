"""Paged caches of keys as callers pass them, their checks, and the kernel's arguments for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kernel.checks import MAX_KEYS, UNBOUNDED, check_alignment, check_range, check_shape, check_tensor, whole
from kernel.errors import ArgumentError
from kernel.hardware import BF16_BYTES
from kernel.layouts import QUANTISED
from kernel.plan import Fill
from kernel.problem import ROPE_DIMS, CacheKind, Layout

HEAD_DIM = 512  # columns of V
QK_DIMS = tuple(HEAD_DIM + rope_dim for rope_dim in ROPE_DIMS)  # columns of Q and K
CODES = (torch.uint8, torch.int8, torch.float8_e4m3fn)  # dtypes of the bytes of quantised keys
ALL_KEYS = 2**31 - 1  # a window of all keys of any sequence

Values = dict[str, torch.Tensor | Fill | float | None]


@dataclass(frozen=True)
class IndexedCache:
    """A paged cache, and the keys of it that each token sees, by indices.

    pages: [P, N, 1, D] or [P, N, D], P pages of N keys, whose strides are multiples of 16 bytes: D = 512 or 576 bf16,
    as q has; or bytes of uint8, int8 or float8_e4m3fn in a layout of kernel.layouts, D = 584 (DeepSeek-V4), 528 or 288
    (V4.1) or 512 (e4m3 without scales) if q has 512 columns, and D = 656 (DeepSeek-V3.2) if it has 576. Keys of V4 lie
    together in their page. Two caches have one layout, or layouts of V4.1. A flat tensor of keys is S pages of one key.
    indices: [B, T, K] int32, page * N + offset of each key, in any order; one that occurs twice counts twice, and one
    outside 0 to P * N - 1 names no key and reads nothing. lens: how many indices count, [B] int32 for all tokens of a
    sequence or [B, T] for each; None: all K. The device clamps lengths to 0 to K. page_scales: a page of V4.1 holds the
    codes of all its keys, then their scales, as pages of V4 do in any case; False: scales follow the codes of their
    key.
    """

    pages: torch.Tensor
    indices: torch.Tensor
    lens: torch.Tensor | None = None
    page_scales: bool = False

    @property
    def tensors(self) -> tuple[torch.Tensor | None, ...]:
        """The tensors among the fields, three."""
        return self.pages, self.indices, self.lens

    @property
    def options(self) -> tuple[object, ...]:
        """The part of a plan's key that is no tensor."""
        return "indices", self.page_scales, type(self.page_scales)

    def of(self, pages: torch.Tensor, indices: torch.Tensor, lens: torch.Tensor | None) -> IndexedCache:
        """Return the same with other tensors."""
        return IndexedCache(pages, indices, lens, self.page_scales)

    @property
    def kind(self) -> CacheKind:
        """The kind of cache that the kernel is compiled for. Raises ArgumentError."""
        return CacheKind(layout_of(self.pages, self.page_scales), lens=self.lens is not None)

    @property
    def keys_per_token(self) -> int:
        """Keys that a token sees at most."""
        return self.indices.shape[2]

    def check(self, name: str, q: torch.Tensor) -> None:
        """Check dtypes, shapes and layouts against those of q [B, T, H, D]. Raises ArgumentError."""
        batch, tokens = q.shape[:2]
        check_pages(name, self.pages, q, self.page_scales)
        check_tensor(f"{name}.indices", self.indices, torch.int32, 3, "[B, T, K]", q)
        check_shape(f"{name}.indices", self.indices, (batch, tokens, self.indices.shape[2]), "[B, T, K]")
        if not 0 < self.indices.shape[2] <= MAX_KEYS:
            raise ArgumentError(f"{name}.indices.shape[2]", self.indices.shape[2], f"1 to {MAX_KEYS}")
        if self.lens is not None:
            rank = 2 if isinstance(self.lens, torch.Tensor) and self.lens.dim() == 2 else 1
            check_tensor(f"{name}.lens", self.lens, torch.int32, rank, "[B] or [B, T]", q)
            check_shape(f"{name}.lens", self.lens, (batch, tokens)[:rank], "[B] or [B, T]")

    def check_values(self, name: str, q: torch.Tensor) -> None:
        """Reject lengths outside 0 to K, and indices that count and are neither -1 nor a key. Raises ArgumentError."""
        counted = self.indices
        if self.lens is not None:
            check_range(f"{name}.lens", self.lens, 0, self.keys_per_token)
            lens = self.lens if self.lens.dim() == 2 else self.lens[:, None]
            number = torch.arange(self.keys_per_token, device=q.device)
            counted = counted[(number < lens[..., None]).expand_as(counted)]
        check_range(f"{name}.indices", counted, -1, self.pages.shape[0] * self.pages.shape[1] - 1)

    def values(self, name: str) -> Values:
        """Return the kernel's arguments of the cache."""
        values = page_values(name, self.pages, self.kind.layout) | {f"{name}_indices": self.indices}
        lens = self.lens
        if lens is None or lens.dim() == 1:
            return values | {f"{name}_lens": lens, f"{name}_lens_step": 1, f"{name}_lens_tokens": 1}
        (batch, tokens), step = lens.shape, lens.stride(0)
        run = lens.as_strided(((batch - 1) * step + tokens,), (1,))
        return values | {f"{name}_lens": run, f"{name}_lens_step": step, f"{name}_lens_tokens": tokens}


@dataclass(frozen=True)
class TableCache:
    """A paged cache, and a window of each sequence's newest keys, whose pages are in a block table.

    pages, page_scales: as of IndexedCache. table: [B, M] int32, the page of keys N * j to N * j + N - 1 of a sequence
    in column j; a page outside 0 to P - 1 is empty. seq_lens: [B] int32, tokens of each sequence up to its last query,
    so that query t is token p = seq_lens[b] - T + t. window: query t sees keys p - window + 1 to p; None is unbounded.
    """

    pages: torch.Tensor
    table: torch.Tensor
    seq_lens: torch.Tensor
    window: int | None = None
    page_scales: bool = False

    @property
    def tensors(self) -> tuple[torch.Tensor | None, ...]:
        """The tensors among the fields, three."""
        return self.pages, self.table, self.seq_lens

    @property
    def options(self) -> tuple[object, ...]:
        """The part of a plan's key that is no tensor."""
        return "table", self.window, type(self.window), self.page_scales, type(self.page_scales)

    def of(self, pages: torch.Tensor, table: torch.Tensor, seq_lens: torch.Tensor) -> TableCache:
        """Return the same with other tensors."""
        return TableCache(pages, table, seq_lens, self.window, self.page_scales)

    @property
    def kind(self) -> CacheKind:
        """The kind of cache that the kernel is compiled for. Raises ArgumentError."""
        return CacheKind(layout_of(self.pages, self.page_scales), table=True, lens=True)

    @property
    def keys_per_token(self) -> int:
        """Keys that a token sees at most."""
        held = self.table.shape[1] * self.pages.shape[1]
        return held if self.window is None else min(held, whole(self.window))

    def check(self, name: str, q: torch.Tensor) -> None:
        """Check dtypes, shapes and layouts against those of q [B, T, H, D]. Raises ArgumentError."""
        batch = q.shape[0]
        check_pages(name, self.pages, q, self.page_scales)
        check_tensor(f"{name}.table", self.table, torch.int32, 2, "[B, M]", q)
        check_shape(f"{name}.table", self.table, (batch, self.table.shape[1]), "[B, M]")
        most = MAX_KEYS // self.pages.shape[1]
        if not 0 < self.table.shape[1] <= most:
            raise ArgumentError(f"{name}.table.shape[1]", self.table.shape[1], f"1 to {most}")
        check_tensor(f"{name}.seq_lens", self.seq_lens, torch.int32, 1, "[B]", q)
        check_shape(f"{name}.seq_lens", self.seq_lens, (batch,), "[B]")
        if self.window is not None and not (isinstance(whole(self.window), int) and 0 < self.window <= UNBOUNDED):
            raise ArgumentError(f"{name}.window", self.window, f"None or 1 to {UNBOUNDED}")

    def check_values(self, name: str, q: torch.Tensor) -> None:
        """Reject lengths beyond the table, and pages of seen keys that do not exist. Raises ArgumentError."""
        tokens, size, columns = q.shape[1], self.pages.shape[1], self.table.shape[1]
        check_range(f"{name}.seq_lens", self.seq_lens, 0, columns * size)
        first = (self.seq_lens.long() - tokens - (self.window or ALL_KEYS) + 1).clamp(min=0)
        number = torch.arange(columns, device=q.device)
        seen = (number >= (first // size)[:, None]) & (number * size < self.seq_lens[:, None])
        check_range(f"{name}.table", self.table[seen], 0, self.pages.shape[0] - 1)

    def values(self, name: str) -> Values:
        """Return the kernel's arguments of the cache."""
        values: Values = {f"{name}_table": self.table, f"{name}_lens": self.seq_lens}
        values["window"] = ALL_KEYS if self.window is None else whole(self.window)
        lens = {f"{name}_lens_step": 1, f"{name}_lens_tokens": 1}
        return page_values(name, self.pages, self.kind.layout) | values | lens


def layout_of(pages: torch.Tensor, page_scales: bool) -> Layout:
    """Return the layout of the keys in a cache whose pages were checked, by dtype and bytes of a key.

    page_scales: of layouts with these bytes, the one whose scales follow the codes of all keys of a page.
    """
    if pages.dtype == torch.bfloat16:
        return "bf16"
    found = [name for name, each in QUANTISED.items() if each.bytes == pages.shape[-1]]
    return next((name for name in found if bool(QUANTISED[name].page_scale_bytes) == page_scales), found[0])


def check_pages(cache: str, pages: Any, q: torch.Tensor, page_scales: Any) -> None:
    """Check the pages of a cache. Raises ArgumentError."""
    name = f"{cache}.pages"
    form, rank = "[P, N, 1, D] or [P, N, D]", 3
    columns = q.shape[-1]
    of_bytes = {each.bytes: each for each in QUANTISED.values() if each.columns == columns}
    bytes_allowed = f"{' or '.join(map(str, of_bytes))} bytes"
    if isinstance(pages, torch.Tensor):
        rank = 4 if pages.dim() == 4 else 3
        if pages.dtype not in (torch.bfloat16, *CODES):
            allowed = f"bfloat16, or {', '.join(map(str, CODES))} for {bytes_allowed}"
            raise ArgumentError(f"{name}.dtype", pages.dtype, allowed)
    quantised = isinstance(pages, torch.Tensor) and pages.dtype in CODES
    check_tensor(name, pages, pages.dtype if quantised else torch.bfloat16, rank, form, q)
    if pages.shape[-1] not in (of_bytes if quantised else (columns,)) or pages.shape[2:-1] not in ((), (1,)):
        allowed = f"{form} with {columns} bf16 or {bytes_allowed} for {columns} columns of q; no other is built"
        raise ArgumentError(f"{name}.shape", tuple(pages.shape), allowed)
    if pages.numel() == 0:
        raise ArgumentError(f"{name}.shape", tuple(pages.shape), f"{form} with at least one key")
    size, row = pages.shape[1], pages.stride(1)
    check_page_scales(f"{cache}.page_scales", page_scales, pages)
    layout = QUANTISED.get(layout_of(pages, page_scales))
    together = layout is not None and layout.page_scale_bytes > 0
    if together and size > 1 and row != pages.shape[-1]:
        allowed = f"{pages.shape[-1]}: keys of a page lie together, then their scales"
        raise ArgumentError(f"{name}.stride(1)", row, allowed)
    check_alignment(name, pages[:, 0] if together else pages)
    if size * row * pages.element_size() > MAX_KEYS:
        raise ArgumentError(f"{name}.shape[1]", size, "a page of less than 2^31 bytes")
    if pages.shape[0] * size > MAX_KEYS:
        raise ArgumentError(f"{name}.shape[0] * {name}.shape[1]", pages.shape[0] * size, f"at most {MAX_KEYS}")


def check_page_scales(name: str, page_scales: Any, pages: torch.Tensor) -> None:
    """Check where the scales of a page are said to be. Raises ArgumentError."""
    if page_scales is not False and page_scales is not True:
        raise ArgumentError(name, repr(page_scales), "True or False")
    layout = QUANTISED.get(layout_of(pages, page_scales))
    if page_scales and (layout is None or not layout.page_scale_bytes):
        of_key = f"{pages.shape[-1]} {'bf16' if layout is None else 'bytes'} a key"
        raise ArgumentError(name, page_scales, f"False for {of_key}; True for 528 or 288 bytes, and 584")


def page_values(name: str, pages: torch.Tensor, layout: Layout) -> Values:
    """Return the kernel's arguments of a cache's pages: the pages, keys of a page, bytes from a key to the next."""
    count, size = pages.shape[:2]
    row = (pages.stride(1) if size > 1 else pages.shape[-1]) * pages.element_size()
    if layout != "bf16":
        pages = pages if pages.dtype == torch.uint8 else pages.view(torch.uint8)
        row = QUANTISED[layout].key_bytes if QUANTISED[layout].page_scale_bytes else row
    pages = pages if pages.dim() == 4 else pages.unsqueeze(2)
    return {name: pages, f"{name}_keys": count * size, f"{name}_page": size, f"{name}_row": row}


def flat_values(name: str, kv: torch.Tensor, indices: torch.Tensor, lens: torch.Tensor | None) -> Values:
    """Return the kernel's arguments of a flat tensor of S keys, as S pages of one. lens: [T] or None.

    kv and indices are [S, D] and [T, K], or [S, 1, D] and [T, 1, K].
    """
    tokens = len(indices)
    kv, indices = (each if each.dim() == 3 else each.unsqueeze(1) for each in (kv, indices))
    pages = kv if len(kv) else Fill((1, 1, kv.shape[2]), kv.dtype, 0)  # no index names its key
    values: Values = {name: pages, f"{name}_keys": len(kv), f"{name}_page": 1, f"{name}_row": kv.shape[2] * BF16_BYTES}
    values |= {f"{name}_indices": indices, f"{name}_lens": lens}
    return values | {f"{name}_lens_step": tokens, f"{name}_lens_tokens": tokens}
