"""FlashInfer's call for decode over DeepSeek-V4's caches, on kernel.serving."""

from __future__ import annotations

from typing import Literal

import torch

from kernel.errors import ArgumentError
from kernel.serving.caches import HEAD_DIM, IndexedCache
from kernel.serving.host import attention
from kernel.tensors import Attention

WINDOW = 128  # first columns of sparse_indices
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
    swa_topk_lens: None = None,
    extra_sparse_indices: None = None,
    extra_sparse_topk_lens: None = None,
    backend: Literal["auto", "trtllm-gen"] = "auto",
    hca_swa_indices: None = None,
    hca_compressed_block_tables: None = None,
    hca_seq_lens: None = None,
    hca_is_causal: Literal[True] = True,
    hca_use_persistent: Literal[False] = False,
    hca_sparse_indices_format: None = None,
) -> torch.Tensor:
    """Decode over a window cache and a cache of compressed keys, both bf16, in one softmax.

    query: [B, Q, H, 512] bf16, or [sum_q, H, 512] with cum_seq_lens_q [B + 1] int32 and max_q_len. swa_kv_cache,
    compressed_kv_cache: bf16, [pages, 1, page, 512] or [pages, page, 512] ("HND"), [pages, page, 1, 512] ("NHD").
    sparse_indices: [sum_q, K] int32, 128 rows of the window cache, then rows of the other: page * page size + offset.
    Others name no key. sparse_topk_lens: [sum_q] int32, how many count, of which 128 are the window's. seq_lens: [B]
    int32, tokens of each sequence up to its last query: a token sees no more of its 128 entries than tokens up to it.
    bmm1_scale: factor of the logits; a tensor is copied to the host, which a graph cannot capture. bmm2_scale: factor
    of the output. sinks: [H] fp32. workspace_buffer and enable_pdl are not used.

    Returns out [B, Q, H, 512] or [sum_q, H, 512] bf16. Raises ValueError, also for what is not built: FP8 queries and
    caches with one scale a tensor, and the backends "cute-dsl" and "sparse", whose arguments come after enable_pdl.
    """
    if backend not in ("auto", "trtllm-gen"):
        raise ArgumentError("backend", repr(backend), "'auto' or 'trtllm-gen'")
    others = {
        "swa_topk_lens": swa_topk_lens,
        "extra_sparse_indices": extra_sparse_indices,
        "extra_sparse_topk_lens": extra_sparse_topk_lens,
        "hca_swa_indices": hca_swa_indices,
        "hca_compressed_block_tables": hca_compressed_block_tables,
        "hca_seq_lens": hca_seq_lens,
        "hca_is_causal": None if hca_is_causal else False,
        "hca_use_persistent": hca_use_persistent or None,
        "hca_sparse_indices_format": hca_sparse_indices_format,
    }
    for name, value in others.items():
        if value is not None:
            raise ArgumentError(name, "given", f"not with backend={backend!r}")
    if sparse_topk_lens is None or compressed_kv_cache is None or seq_lens is None or sparse_indices is None:
        needed = "compressed_kv_cache, sparse_topk_lens, seq_lens and sparse_indices"
        raise ValueError(f"one of {needed} is None; all are needed")
    check_queries(query, cum_seq_lens_q, max_q_len)
    tokens = query.shape[:-2].numel()
    check_lists(sparse_indices, sparse_topk_lens, tokens)
    varlen = cum_seq_lens_q is not None
    q = query[:, None] if varlen else query
    shape = q.shape[:2]
    seen = visible(seq_lens, shape[1], cum_seq_lens_q, tokens).clamp(max=WINDOW).view(shape)
    pages = paged("swa_kv_cache", swa_kv_cache, kv_layout), paged("compressed_kv_cache", compressed_kv_cache, kv_layout)
    listed = [each.view(*shape, -1) for each in sparse_indices.tensor_split([WINDOW], 1)]
    main = IndexedCache(pages[0], listed[0], seen)
    extra = None
    if sparse_indices.shape[1] > WINDOW:
        extra = IndexedCache(pages[1], listed[1], (sparse_topk_lens - WINDOW).view(shape))
    buffers = None
    if out is not None:
        buffers = Attention(out[:, None] if varlen else out, q.new_empty(q.shape[:3], dtype=torch.float32))
    try:
        found = attention(q, main, extra, scale=float(bmm1_scale), sink=sinks, out=buffers).o
    except ArgumentError as error:
        raise error.renamed(NAMES) from None
    if isinstance(bmm2_scale, torch.Tensor) or bmm2_scale != 1.0:
        found.mul_(bmm2_scale)
    return found[:, 0] if varlen else found


def check_queries(query: torch.Tensor, cum_seq_lens_q: torch.Tensor | None, max_q_len: int | None) -> None:
    """Check dtype and shape of the queries."""
    varlen = cum_seq_lens_q is not None
    if query.dim() != (3 if varlen else 4):
        form = "[sum_q, H, 512] with cum_seq_lens_q" if varlen else "[B, Q, H, 512] without cum_seq_lens_q"
        raise ArgumentError("query.shape", tuple(query.shape), form)
    if query.dtype != torch.bfloat16:
        raise ArgumentError("query.dtype", query.dtype, "bfloat16; FP8 is not built")
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


def paged(name: str, cache: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the pages of a cache as [pages, page, 512]."""
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
