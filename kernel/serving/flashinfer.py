"""FlashInfer's call for decode over DeepSeek-V4's caches, on kernel.serving."""

from __future__ import annotations

from typing import Literal

import torch

from kernel.errors import ArgumentError
from kernel.layouts import QUANTISED
from kernel.serving.caches import HEAD_DIM, IndexedCache
from kernel.serving.host import attention
from kernel.tensors import Attention

WINDOW = 128  # first columns of sparse_indices
PACKED = (torch.uint8, torch.int8)
#: Bytes of a packed key in the window cache and in the other, by kv_cache_format.
FORMATS = {
    "fp8": (QUANTISED["v4"].bytes, QUANTISED["v4"].bytes),
    "fp8_dsv41": (QUANTISED["v41"].bytes, QUANTISED["v41"].bytes),
    "fp8_dsv41_fp4_ca": (QUANTISED["v41"].bytes, QUANTISED["v41_fp4"].bytes),
}
#: Names of the arguments of `attention`, and their names here.
NAMES = {
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
    kv_cache_format: Literal["fp8", "fp8_dsv41", "fp8_dsv41_fp4_ca"] = "fp8",
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
    "fp8_dsv41_fp4_ca" (528 and 288). sparse_indices [sum_q, K] are rows of the window cache, of which swa_topk_lens
    [sum_q] count; extra_sparse_indices and extra_sparse_topk_lens are the same of compressed_kv_cache. Lengths of None
    count all.

    workspace_buffer, enable_pdl, remapped_sparse_indices_buffer and multi_ctas_kv_counter_buffer are not used. Returns
    out [B, Q, H, 512] or [sum_q, H, 512] bf16. Raises ValueError, also for what is not built: the backends "cute-dsl"
    and "cake", rotary embedding and quantisation of the output, and kv_cache_format="nvfp4".
    """
    if backend not in ("auto", "trtllm-gen", "sparse"):
        raise ArgumentError("backend", repr(backend), "'auto', 'trtllm-gen' or 'sparse'")
    check_queries(query, cum_seq_lens_q, max_q_len)
    window = paged("swa_kv_cache", swa_kv_cache, kv_layout)
    others = None if compressed_kv_cache is None else paged("compressed_kv_cache", compressed_kv_cache, kv_layout)
    packed = backend == "sparse" or (backend == "auto" and window.dtype in PACKED)
    of_packed: dict[str, object] = {
        "swa_topk_lens": swa_topk_lens,
        "extra_sparse_indices": extra_sparse_indices,
        "extra_sparse_topk_lens": extra_sparse_topk_lens,
    }
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
    unused |= {"sparse_topk_lens": sparse_topk_lens} if packed else of_packed
    for name in (name for name, value in unused.items() if value is not None):
        raise ArgumentError(name, "given", f"not with backend={backend!r} and caches of {window.dtype}")
    if packed:
        check_formats(window, others, kv_cache_format)
    if sparse_indices_are_storage_offsets:
        window = storage_rows("swa_kv_cache", window)
        others = None if others is None else storage_rows("compressed_kv_cache", others)
    varlen = cum_seq_lens_q is not None
    q = (query[:, None] if varlen else query).bfloat16()
    shape = q.shape[:2]
    if packed:
        main = listed("sparse_indices", window, sparse_indices, swa_topk_lens, shape)
        extra = (
            None
            if others is None
            else listed("extra_sparse_indices", others, extra_sparse_indices, extra_sparse_topk_lens, shape)
        )
    else:
        if sparse_topk_lens is None or others is None or seq_lens is None or sparse_indices is None:
            needed = "compressed_kv_cache, sparse_topk_lens, seq_lens and sparse_indices"
            raise ValueError(f"one of {needed} is None; all are needed")
        check_lists(sparse_indices, sparse_topk_lens, shape.numel())
        seen = visible(seq_lens, shape[1], cum_seq_lens_q, shape.numel())
        main, extra = both(window, others, sparse_indices, seen, sparse_topk_lens + sparse_topk_lens_offset, shape)
    buffers = None
    if out is not None:
        buffers = Attention(out[:, None] if varlen else out, q.new_empty(q.shape[:3], dtype=torch.float32))
    try:
        found = attention(q, main, extra, scale=float(bmm1_scale), sink=sinks, out=buffers).o
    except ArgumentError as error:
        raise error.renamed(PACKED_NAMES if packed else NAMES) from None
    if isinstance(bmm2_scale, torch.Tensor) or bmm2_scale != 1.0:
        found.mul_(bmm2_scale)
    return found[:, 0] if varlen else found


batch_decode_sparse_mla_dsv4 = trtllm_batch_decode_sparse_mla_dsv4
"""The function under its other name in flashinfer.mla."""


def check_queries(query: torch.Tensor, cum_seq_lens_q: torch.Tensor | None, max_q_len: int | None) -> None:
    """Check dtype and shape of the queries."""
    varlen = cum_seq_lens_q is not None
    if query.dim() != (3 if varlen else 4):
        form = "[sum_q, H, 512] with cum_seq_lens_q" if varlen else "[B, Q, H, 512] without cum_seq_lens_q"
        raise ArgumentError("query.shape", tuple(query.shape), form)
    if query.dtype not in (torch.bfloat16, torch.float8_e4m3fn):
        raise ArgumentError("query.dtype", query.dtype, "bfloat16 or float8_e4m3fn")
    if query.shape[-1] != HEAD_DIM:
        raise ArgumentError("query.shape", tuple(query.shape), f"{HEAD_DIM} columns")
    if varlen and (max_q_len is None or max_q_len < 1):
        raise ArgumentError("max_q_len", max_q_len, "the most query tokens of a sequence, with cum_seq_lens_q")


def check_lists(indices: torch.Tensor, lens: torch.Tensor, tokens: int) -> None:
    """Check the shapes of sparse_indices and sparse_topk_lens."""
    if indices.dim() != 2 or len(indices) != tokens or indices.shape[1] < WINDOW:
        allowed = f"[{tokens}, K], with K at least {WINDOW}"
        raise ArgumentError("sparse_indices.shape", tuple(indices.shape), allowed)
    if lens.dtype != torch.int32 or lens.shape != (tokens,):
        raise ArgumentError("sparse_topk_lens", f"{lens.dtype} {tuple(lens.shape)}", f"int32 [{tokens}]")


def both(
    window: torch.Tensor,
    others: torch.Tensor,
    indices: torch.Tensor,
    seen: torch.Tensor,
    lens: torch.Tensor,
    shape: torch.Size,
) -> tuple[IndexedCache, IndexedCache | None]:
    """Return both caches with their indices, of which the first WINDOW columns are the window's.

    seen: [T] tokens of its sequence that each query token sees. lens: [T] how many columns count.
    """
    first, *rest = (each.view(*shape, -1) for each in indices.tensor_split([WINDOW], 1))
    main = IndexedCache(window, first, seen.clamp(max=WINDOW).view(shape))
    if indices.shape[1] == WINDOW:
        return main, None
    return main, IndexedCache(others, rest[0], (lens - WINDOW).view(shape))


def listed(
    name: str, pages: torch.Tensor, indices: torch.Tensor | None, lens: torch.Tensor | None, shape: torch.Size
) -> IndexedCache:
    """Return a packed cache with its own indices."""
    if indices is None or indices.dim() != 2 or len(indices) != shape.numel():
        given = None if indices is None else tuple(indices.shape)
        raise ArgumentError(f"{name}.shape", given, f"[{shape.numel()}, K]: the rows that each query token sees")
    return IndexedCache(pages, indices.view(*shape, -1), None if lens is None else lens.view(shape))


def check_formats(window: torch.Tensor, others: torch.Tensor | None, kv_cache_format: str) -> None:
    """Check the bytes of a key in packed caches."""
    if kv_cache_format not in FORMATS:
        raise ArgumentError("kv_cache_format", repr(kv_cache_format), " or ".join(map(repr, FORMATS)))
    caches = {"swa_kv_cache": window, "compressed_kv_cache": others}
    for (name, cache), size in zip(caches.items(), FORMATS[kv_cache_format], strict=True):
        if cache is not None and cache.shape[-1] != size:
            allowed = f"{size} bytes a key with kv_cache_format={kv_cache_format!r}"
            raise ArgumentError(f"{name}.shape", tuple(cache.shape), allowed)


def storage_rows(name: str, pages: torch.Tensor) -> torch.Tensor:
    """Return the rows of a cache from its first page to its last as pages of one row, gaps included."""
    columns, (page, row) = pages.shape[-1], pages.stride()[:2]
    if page % columns or row != columns:
        raise ArgumentError(f"{name}.stride()", pages.stride(), f"whole rows of {columns}: indices are storage offsets")
    count = (len(pages) - 1) * page // columns + pages.shape[1]
    return pages.as_strided((count, 1, columns), (columns, columns, 1))


def paged(name: str, cache: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the pages of a cache as [pages, page, X]."""
    if layout not in ("HND", "NHD"):
        raise ArgumentError("kv_layout", repr(layout), "'HND' or 'NHD'")
    if cache.dim() == 3 and layout == "HND":
        return cache
    heads = 1 if layout == "HND" else 2
    if cache.dim() != 4 or cache.shape[heads] != 1:
        form = "[pages, 1, page, 512] or [pages, page, 512]" if layout == "HND" else "[pages, page, 1, 512]"
        raise ArgumentError(f"{name}.shape", tuple(cache.shape), f"{form} with kv_layout={layout!r}")
    return cache.squeeze(heads)


def visible(
    seq_lens: torch.Tensor, query_tokens: int, cum_seq_lens_q: torch.Tensor | None, tokens: int
) -> torch.Tensor:
    """Return how many tokens of its sequence each query token sees, itself included, [tokens] int32. Nothing waits."""
    if seq_lens.dtype != torch.int32 or seq_lens.dim() != 1:
        raise ArgumentError("seq_lens", f"{seq_lens.dtype} {tuple(seq_lens.shape)}", "int32 [B]")
    number = torch.arange(tokens, dtype=torch.int32, device=seq_lens.device)
    if cum_seq_lens_q is None:
        if len(seq_lens) * query_tokens != tokens:
            raise ArgumentError("seq_lens.shape", tuple(seq_lens.shape), f"({tokens // max(query_tokens, 1)},)")
        sequence, ends = number // query_tokens, (number // query_tokens + 1) * query_tokens
    else:
        sequence = torch.searchsorted(cum_seq_lens_q, number, right=True).int() - 1
        ends = cum_seq_lens_q[sequence + 1]
    return (seq_lens[sequence] - ends + number + 1).int()
