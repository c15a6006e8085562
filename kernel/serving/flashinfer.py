"""FlashInfer's call for decode over DeepSeek-V4's caches, on kernel.serving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch

from kernel.checks import UNBOUNDED, check_rank, check_shape, check_tensor, plain, whole
from kernel.errors import ArgumentError
from kernel.layouts import QUANTISED
from kernel.problem import Layout
from kernel.serving.caches import HEAD_DIM, IndexedCache
from kernel.serving.host import attention
from kernel.tensors import Attention

WINDOW = 128  # first columns of sparse_indices
PACKED = (torch.uint8, torch.int8)
#: Layouts of packed keys in the window cache and in the other, by kv_cache_format.
FORMATS: Mapping[str, tuple[Layout, Layout]] = {
    "fp8": ("v4", "v4"),
    "fp8_dsv41": ("v41_page_scales", "v41_page_scales"),
    "fp8_dsv41_fp4_ca": ("v41_page_scales", "v41_fp4_page_scales"),
    "fp8_dsv41_inline": ("v41", "v41"),
    "fp8_dsv41_inline_fp4_ca": ("v41", "v41_fp4"),
}
#: Names of the arguments of `attention`, and their names here.
NAMES = {
    "caches": "the layout of swa_kv_cache and compressed_kv_cache",
    "q": "query",
    "main.pages": "swa_kv_cache",
    "extra.pages": "compressed_kv_cache",
    "main.indices": "sparse_indices",
    "extra.indices": "sparse_indices",
    "extra.lens": "sparse_topk_lens",
    "sink": "sinks",
    "scale": "bmm1_scale",
    "out.o": "out",
}
PACKED_NAMES = NAMES | {
    "main.lens": "swa_topk_lens",
    "extra.indices": "extra_sparse_indices",
    "extra.lens": "extra_sparse_topk_lens",
}


def trtllm_batch_decode_sparse_mla_dsv4(
    query: torch.Tensor,
    swa_kv_cache: torch.Tensor,
    workspace_buffer: torch.Tensor | None,
    sparse_indices: torch.Tensor | None = None,
    compressed_kv_cache: torch.Tensor | None = None,
    sparse_topk_lens: torch.Tensor | None = None,
    seq_lens: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    bmm1_scale: float | torch.Tensor = 1.0,
    bmm2_scale: float | torch.Tensor = 1.0,
    sinks: torch.Tensor | None = None,
    kv_layout: Literal["HND", "NHD"] = "HND",
    cum_seq_lens_q: torch.Tensor | None = None,
    max_q_len: int | None = None,
    enable_pdl: bool | None = None,
    swa_topk_lens: torch.Tensor | None = None,
    extra_sparse_indices: torch.Tensor | None = None,
    extra_sparse_topk_lens: torch.Tensor | None = None,
    backend: Literal["auto", "trtllm-gen", "sparse"] = "auto",
    hca_swa_indices: None = None,
    hca_compressed_block_tables: None = None,
    hca_seq_lens: None = None,
    hca_is_causal: Literal[True] = True,
    hca_use_persistent: Literal[False] = False,
    hca_sparse_indices_format: None = None,
    remapped_sparse_indices_buffer: torch.Tensor | None = None,
    sparse_indices_are_storage_offsets: bool | None = None,
    dsv4_inv_rope_cos_sin_cache: None = None,
    dsv4_output_scale: None = None,
    sparse_topk_lens_offset: int = 0,
    multi_ctas_kv_counter_buffer: torch.Tensor | None = None,
    *,
    kv_cache_format: str = "fp8",
) -> torch.Tensor:
    """Decode over a window cache and a cache of compressed keys in one softmax.

    query: [B, Q, H, 512] bf16 or e4m3, or [sum_q, H, 512] with cum_seq_lens_q [B + 1] int32 and max_q_len. Caches:
    [pages, 1, page, X] or [pages, page, X] ("HND"), [pages, page, 1, X] ("NHD"). Indices are page * page size + offset;
    others name no key. With sparse_indices_are_storage_offsets they count rows of X from the first page on, with gaps
    between pages. bmm1_scale: factor of the logits; a tensor is copied to the host, which a graph cannot capture.
    bmm2_scale: factor of the output. sinks: [H] fp32.

    Caches of 512 columns, bf16 or e4m3 (whose scale is in bmm1_scale and bmm2_scale): sparse_indices [sum_q, K] int32
    are 128 rows of the window cache, then rows of the other. sparse_topk_lens [sum_q] int32 plus
    sparse_topk_lens_offset is how many count, of which 128 are the window's. seq_lens: [B] int32, tokens of each
    sequence up to its last query: a token sees no more of its 128 entries than tokens up to it.
    Caches of bytes, with backend "sparse" or "auto": kv_cache_format is "fp8" (584 a key), "fp8_dsv41" (528) or
    "fp8_dsv41_fp4_ca" (528 and 288), whose scales follow the codes of all keys of a page, or "fp8_dsv41_inline" or
    "fp8_dsv41_inline_fp4_ca", whose scales follow their key, and whose rows of a page and between pages are indexed as
    storage offsets. sparse_indices [sum_q, K] are rows of the window cache, of which swa_topk_lens
    [sum_q] count; extra_sparse_indices and extra_sparse_topk_lens are the same of compressed_kv_cache. Lengths of None
    count all. seq_lens is not used.

    workspace_buffer, enable_pdl, remapped_sparse_indices_buffer and multi_ctas_kv_counter_buffer are not used. Returns
    out [B, Q, H, 512] or [sum_q, H, 512] bf16. Raises ValueError, also for what is not built: the backends "cute-dsl"
    and "cake", rotary embedding and quantisation of the output, and kv_cache_format="nvfp4".
    """
    if backend not in ("auto", "trtllm-gen", "sparse"):
        raise ArgumentError("backend", repr(backend), "'auto', 'trtllm-gen' or 'sparse'")
    check_queries(query, cum_seq_lens_q, max_q_len)
    window = paged("swa_kv_cache", swa_kv_cache, kv_layout)
    others = None if compressed_kv_cache is None else paged("compressed_kv_cache", compressed_kv_cache, kv_layout)
    scale = float(check_scalar("bmm1_scale", bmm1_scale, query))
    factor = check_scalar("bmm2_scale", bmm2_scale, query)
    packed = backend == "sparse" or (backend == "auto" and window.dtype in PACKED)
    of_extra = {"extra_sparse_indices": extra_sparse_indices, "extra_sparse_topk_lens": extra_sparse_topk_lens}
    of_columns = {"sparse_topk_lens": sparse_topk_lens, "sparse_topk_lens_offset": sparse_topk_lens_offset or None}
    unused: dict[str, object] = {
        "hca_swa_indices": hca_swa_indices,
        "hca_compressed_block_tables": hca_compressed_block_tables,
        "hca_seq_lens": hca_seq_lens,
        "hca_is_causal": None if hca_is_causal else False,
        "hca_use_persistent": hca_use_persistent or None,
        "hca_sparse_indices_format": hca_sparse_indices_format,
        "dsv4_inv_rope_cos_sin_cache": dsv4_inv_rope_cos_sin_cache,
        "dsv4_output_scale": dsv4_output_scale,
    }
    unused |= of_columns if packed else {"swa_topk_lens": swa_topk_lens} | of_extra
    check_unused(unused, f"with backend={backend!r} and caches of {window.dtype}")
    if packed:
        check_formats(window, others, kv_cache_format)
        check_unused({} if others is not None else of_extra, "without compressed_kv_cache")
    inline = packed and "inline" in kv_cache_format
    if sparse_indices_are_storage_offsets or inline:
        window = storage_rows("swa_kv_cache", window, inline)
        others = None if others is None else storage_rows("compressed_kv_cache", others, inline)
    varlen = cum_seq_lens_q is not None
    q = (query[:, None] if varlen else query).bfloat16()
    if packed:
        scales = [each.endswith("page_scales") for each in FORMATS[kv_cache_format]]
        main, extra = listed("main", window, sparse_indices, swa_topk_lens, q, scales[0]), None
        if others is not None:
            extra = listed("extra", others, extra_sparse_indices, extra_sparse_topk_lens, q, scales[1])
    else:
        lists = {
            "compressed_kv_cache": others,
            "sparse_indices": sparse_indices,
            "sparse_topk_lens": sparse_topk_lens,
            "seq_lens": seq_lens,
        }
        check_lists(lists, q)
        main, extra = by_columns(window, lists, sparse_topk_lens_offset, cum_seq_lens_q, q)
    buffers = None
    if out is not None:
        check_tensor("out", out, torch.bfloat16, query.dim(), "as query", query)
        check_shape("out", out, query.shape, "as query")
        buffers = Attention(out[:, None] if varlen else out, q.new_empty(q.shape[:3], dtype=torch.float32))
    try:
        found = attention(q, main, extra, scale=scale, sink=sinks, out=buffers).o
    except ArgumentError as error:
        raise error.renamed(PACKED_NAMES if packed else NAMES) from None
    if isinstance(factor, torch.Tensor) or factor != 1:
        found.mul_(factor)
    return found[:, 0] if varlen else found


batch_decode_sparse_mla_dsv4 = trtllm_batch_decode_sparse_mla_dsv4
"""The function under its other name in flashinfer.mla."""


def check_queries(query: torch.Tensor, cum_seq_lens_q: torch.Tensor | None, max_q_len: int | None) -> None:
    """Check dtype and shape of the queries."""
    varlen = cum_seq_lens_q is not None
    form = "[sum_q, H, 512] with cum_seq_lens_q" if varlen else "[B, Q, H, 512] without cum_seq_lens_q"
    check_rank("query", query, (3 if varlen else 4,), form)
    if query.dtype not in (torch.bfloat16, torch.float8_e4m3fn):
        raise ArgumentError("query.dtype", query.dtype, "bfloat16 or float8_e4m3fn")
    if query.shape[-1] != HEAD_DIM:
        raise ArgumentError("query.shape", tuple(query.shape), f"{HEAD_DIM} columns")
    if not varlen:
        return
    check_tensor("cum_seq_lens_q", cum_seq_lens_q, torch.int32, 1, "[B + 1]", query)
    if not isinstance(most := whole(max_q_len), int) or most < 1:
        raise ArgumentError("max_q_len", repr(max_q_len), "the most query tokens of a sequence, with cum_seq_lens_q")


def check_scalar(name: str, value: Any, query: torch.Tensor) -> float | torch.Tensor:
    """Return a finite number, or a tensor of one as a tensor without dimensions. Raises ArgumentError."""
    value = plain(value)
    if isinstance(value, torch.Tensor):
        devices = query.device, torch.device("cpu")
        if value.numel() == 1 and value.is_floating_point() and value.device in devices:
            return value.reshape(())
    elif isinstance(value, int | float) and math.isfinite(value):
        return value
    raise ArgumentError(name, repr(value), "a finite number, or a tensor of one on the device of query")


def check_lists(lists: Mapping[str, Any], q: torch.Tensor) -> None:
    """Check the arguments of caches without packed keys: all are given, and lists have a row for each query token."""
    for name in (name for name, value in lists.items() if value is None):
        raise ArgumentError(name, None, f"a tensor; {', '.join(lists)} go together")
    indices, lens, tokens = lists["sparse_indices"], lists["sparse_topk_lens"], q.shape[:2].numel()
    form = f"[sum_q, K] with K at least {WINDOW}"
    check_tensor("sparse_indices", indices, torch.int32, 2, form, q)
    check_shape("sparse_indices", indices, (tokens, max(indices.shape[1], WINDOW)), form)
    check_tensor("sparse_topk_lens", lens, torch.int32, 1, "[sum_q]", q)
    check_shape("sparse_topk_lens", lens, (tokens,), "[sum_q]")
    check_tensor("seq_lens", lists["seq_lens"], torch.int32, 1, "[B]", q)


def columns_counted(lens: torch.Tensor, offset: Any) -> torch.Tensor:
    """Return the number of columns of sparse_indices after the window's that count, for any sparse_topk_lens."""
    offset = whole(offset)
    if not (isinstance(offset, int) and abs(offset) <= UNBOUNDED):
        raise ArgumentError("sparse_topk_lens_offset", repr(offset), f"{-UNBOUNDED} to {UNBOUNDED}")
    return lens.clamp(0, UNBOUNDED - 1) + (offset - WINDOW)


def by_columns(
    window: torch.Tensor, lists: Mapping[str, Any], offset: Any, cum_seq_lens_q: torch.Tensor | None, q: torch.Tensor
) -> tuple[IndexedCache, IndexedCache | None]:
    """Return both caches with their indices, of which the first WINDOW columns are the window's. lists: as checked."""
    shape, indices = q.shape[:2], lists["sparse_indices"]
    counted = columns_counted(lists["sparse_topk_lens"], offset).view(shape)
    seen = visible(lists["seq_lens"], cum_seq_lens_q, q).view(shape)
    first, *rest = (each.view(*shape, -1) for each in indices.tensor_split([WINDOW], 1))
    main = IndexedCache(window, first, seen.clamp(max=WINDOW))
    if indices.shape[1] == WINDOW:
        return main, None
    return main, IndexedCache(lists["compressed_kv_cache"], rest[0], counted)


def listed(
    cache: str, pages: torch.Tensor, indices: Any, lens: Any, q: torch.Tensor, page_scales: bool
) -> IndexedCache:
    """Return a packed cache, main or extra, with its own indices [sum_q, K], of which lens [sum_q] count."""
    tokens = q.shape[:2].numel()
    name, of_lens = PACKED_NAMES[f"{cache}.indices"], PACKED_NAMES[f"{cache}.lens"]
    check_tensor(name, indices, torch.int32, 2, "[sum_q, K]", q)
    check_shape(name, indices, (tokens, indices.shape[1]), "[sum_q, K]")
    if lens is not None:
        check_tensor(of_lens, lens, torch.int32, 1, "[sum_q]", q)
        check_shape(of_lens, lens, (tokens,), "[sum_q]")
        lens = lens.view(q.shape[:2])
    return IndexedCache(pages, indices.view(*q.shape[:2], indices.shape[1]), lens, page_scales)


def check_unused(given: Mapping[str, object], why: str) -> None:
    """Check that arguments that a call would ignore are None."""
    for name in (name for name, value in given.items() if value is not None):
        raise ArgumentError(name, "given", f"not {why}")


def check_formats(window: torch.Tensor, others: torch.Tensor | None, kv_cache_format: str) -> None:
    """Check the bytes of a key in packed caches."""
    if kv_cache_format not in tuple(FORMATS):
        raise ArgumentError("kv_cache_format", repr(kv_cache_format), " or ".join(map(repr, FORMATS)))
    caches = {"swa_kv_cache": window, "compressed_kv_cache": others}
    for (name, cache), layout in zip(caches.items(), FORMATS[kv_cache_format], strict=True):
        size = QUANTISED[layout].bytes
        if cache is not None and cache.shape[-1] != size:
            allowed = f"{size} bytes a key with kv_cache_format={kv_cache_format!r}"
            raise ArgumentError(f"{name}.shape", tuple(cache.shape), allowed)


def storage_rows(name: str, pages: torch.Tensor, gaps: bool) -> torch.Tensor:
    """Return the rows of a cache from its first page to its last as pages of one row, those between pages included.

    gaps: rows may have gaps between them, too.
    """
    if pages.numel() == 0:
        return pages  # which is rejected with all checks of pages
    columns, (page, row) = pages.shape[-1], pages.stride()[:2]
    row = row if pages.shape[1] > 1 else page if gaps else columns
    if row <= 0 or page <= 0 or page % row or (row != columns and not gaps):
        raise ArgumentError(f"{name}.stride()", pages.stride(), f"whole rows of {columns}: indices are storage offsets")
    count = (len(pages) - 1) * page // row + pages.shape[1]
    return pages.as_strided((count, 1, columns), (row, row, 1))


def paged(name: str, cache: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the pages of a cache as [pages, page, X]."""
    if layout not in ("HND", "NHD"):
        raise ArgumentError("kv_layout", repr(layout), "'HND' or 'NHD'")
    heads = 1 if layout == "HND" else 2
    form = "[pages, 1, page, X] or [pages, page, X]" if layout == "HND" else "[pages, page, 1, X]"
    form += f" with kv_layout={layout!r}"
    check_rank(name, cache, (3, 4) if layout == "HND" else (4,), form)
    if cache.dim() == 3:
        return cache
    if cache.shape[heads] != 1:
        raise ArgumentError(f"{name}.shape", tuple(cache.shape), form)
    return cache.squeeze(heads)


def visible(seq_lens: torch.Tensor, cum_seq_lens_q: torch.Tensor | None, q: torch.Tensor) -> torch.Tensor:
    """Return the number of its sequence's tokens that each query token sees, itself included, [sum_q] int32.

    Nothing waits. Lengths may have any values. A query token that is of no sequence sees none.
    """
    batch, of_sequence, tokens = len(seq_lens), q.shape[1], q.shape[:2].numel()
    index = torch.arange(tokens, dtype=torch.int32, device=q.device)
    lens = seq_lens.clamp(0, UNBOUNDED)
    if cum_seq_lens_q is None:
        check_shape("seq_lens", seq_lens, q.shape[:1], "[B]")
        sequence = index // max(of_sequence, 1)
        return lens[sequence] + (index - (sequence + 1) * of_sequence + 1)
    check_shape("cum_seq_lens_q", cum_seq_lens_q, (batch + 1,), "[B + 1], with B of seq_lens")
    if batch == 0:
        return index.new_zeros(tokens)
    begins = cum_seq_lens_q.clamp(0, tokens)
    sequence = (torch.searchsorted(begins, index, right=True) - 1).clamp(0, batch - 1)
    ends = begins[sequence + 1]
    inside = (index >= begins[sequence]) & (index < ends)
    return torch.where(inside, lens[sequence] + (index - ends + 1), 0)
