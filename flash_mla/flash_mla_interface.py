"""FlashMLA's calls: names, order of arguments, results and errors are those of its interface.

AssertionError and RuntimeError are raised where FlashMLA raises them. What it rejects and the kernel can do is
accepted: 1 to 128 heads, any number of indices, lengths of each token, bf16 caches, pages of any stride that is a
multiple of 16 bytes. What is not built is rejected by name: caches other than bf16, 584, 656, 528 and 288 bytes a key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

import kernel
from flash_mla.metadata import FlashMLASchedMeta, get_mla_metadata
from kernel.layouts import QUANTISED
from kernel.serving import IndexedCache, TableCache, attention, sparse_attention

__all__ = ["FlashMLASchedMeta", "flash_mla_sparse_fwd", "flash_mla_with_kvcache", "get_mla_metadata"]

D_V = 512
#: Names of kernel.serving's arguments, and their names here.
NAMES = {
    "main.pages": "k_cache",
    "main.indices": "indices",
    "main.lens": "topk_length",
    "main.table": "block_table",
    "main.seq_lens": "cache_seqlens",
    "main.page_scales": "page_scales",
    "extra.page_scales": "page_scales",
    "extra.pages": "extra_k_cache",
    "extra.indices": "extra_indices_in_kvcache",
    "extra.lens": "extra_topk_length",
    "out.o": "out",
    "sink": "attn_sink",
    "scale": "softmax_scale",
}


def flash_mla_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    block_table: torch.Tensor | None,
    cache_seqlens: torch.Tensor | None,
    head_dim_v: int,
    tile_scheduler_metadata: FlashMLASchedMeta,
    num_splits: None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    is_fp8_kvcache: bool | None = None,
    indices: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices_in_kvcache: torch.Tensor | None = None,
    topk_length: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
    enable_batch_invariant: bool = False,
    out: torch.Tensor | None = None,
    page_scales: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Decode: attention of each token over the keys that its indices list in one or two paged caches.

    q: [b, s_q, h_q, d] bf16, d = 512 or 576. k_cache, extra_k_cache: [pages, page, 1, d] bf16, or bytes: [pages, page,
    1, 584 or 528] for d = 512, [pages, page, 1, 656] for 576. Keys of 528 bytes may have an extra_k_cache of 288.
    indices, extra_indices_in_kvcache: [b, s_q, topk] int32, page * page size + offset; others name no key. topk_length,
    extra_topk_length: [b] or [b, s_q] int32, how many count. Without indices: the first cache_seqlens[b] keys of each
    sequence, by block_table [b, columns]; with s_q > 1 only causal. softmax_scale defaults to d^-0.5. is_fp8_kvcache
    defaults to what k_cache is: newer versions of FlashMLA have True as default, older ones False. attn_sink:
    [h_q] fp32. enable_batch_invariant: the bits of a request do not depend on the batch. out: [b, s_q, h_q, 512] bf16.
    page_scales: pages of 528 and 288 bytes a key hold the codes of all their keys, then their scales.

    Returns out [b, s_q, h_q, 512] bf16, and lse [b, h_q, s_q] fp32: natural logarithm, without the sink, +inf where no
    key is seen. Raises AssertionError or RuntimeError.
    """
    assert isinstance(tile_scheduler_metadata, FlashMLASchedMeta), "tile_scheduler_metadata is not a FlashMLASchedMeta"
    assert num_splits is None, "num_splits is not None"
    require(isinstance(k_cache, torch.Tensor), f"k_cache is {type(k_cache).__name__}; allowed: a torch.Tensor")
    quantised = k_cache.dtype != torch.bfloat16
    is_fp8_kvcache = quantised if is_fp8_kvcache is None else is_fp8_kvcache
    assert is_fp8_kvcache == quantised, f"is_fp8_kvcache is {is_fp8_kvcache}, and k_cache is {k_cache.dtype}"
    assert not (causal and indices is not None), "causal is True; with indices it must be False"
    require(head_dim_v == D_V, f"head_dim_v is {head_dim_v}; allowed: {D_V}")
    require((extra_k_cache is None) == (extra_indices_in_kvcache is None), "extra_k_cache and its indices go together")
    require(extra_k_cache is None or indices is not None, "extra_k_cache needs indices of k_cache")
    require(extra_topk_length is None or extra_k_cache is not None, "extra_topk_length needs extra_k_cache")
    fp4, fp8 = QUANTISED["v41_fp4"].bytes, QUANTISED["e4m3"].bytes
    require(not quantised or k_cache.shape[-1] != fp4, f"k_cache.shape[3] is {fp4}; allowed: in extra_k_cache alone")
    require(not quantised or k_cache.shape[-1] != fp8, f"k_cache.shape[3] is {fp8} bytes; allowed: keys with scales")
    require(q.dim() == 4, f"q.shape is {tuple(q.shape)}; allowed: [b, s_q, h_q, d]")
    with errors_of_flash_mla():
        main: IndexedCache | TableCache
        if indices is not None:
            main = IndexedCache(k_cache, unshared(indices), topk_length, page_scales)
        else:
            require(block_table is not None and cache_seqlens is not None, "block_table or cache_seqlens is None")
            require(causal or q.shape[1] == 1, "causal is False with several query tokens and no indices: not built")
            assert block_table is not None and cache_seqlens is not None
            main = TableCache(k_cache, block_table, cache_seqlens, page_scales=page_scales)
        extra = None
        if extra_k_cache is not None and extra_indices_in_kvcache is not None:
            listed = unshared(extra_indices_in_kvcache)
            extra = IndexedCache(extra_k_cache, listed, extra_topk_length, page_scales)
        found = attention(
            unshared(q),
            main,
            extra,
            scale=softmax_scale,
            sink=attn_sink,
            empty_lse=math.inf,
            batch_invariant=enable_batch_invariant,
            out=None if out is None else kernel.Attention(out, q.new_empty(q.shape[:3], dtype=torch.float32)),
        )
    tile_scheduler_metadata.use(
        FlashMLASchedMeta.Config(
            b=q.shape[0],
            s_q=q.shape[1],
            h_q=q.shape[2],
            page_block_size=k_cache.shape[1],
            h_k=1,
            causal=causal,
            is_fp8_kvcache=is_fp8_kvcache,
            topk=None if indices is None else indices.shape[-1],
            extra_page_block_size=None if extra_k_cache is None else extra_k_cache.shape[1],
            extra_topk=None if extra_indices_in_kvcache is None else extra_indices_in_kvcache.shape[-1],
        )
    )
    return found.o, found.lse.transpose(1, 2)


def flash_mla_sparse_fwd(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    sm_scale: float,
    d_v: int = D_V,
    attn_sink: torch.Tensor | None = None,
    topk_length: torch.Tensor | None = None,
    indexer_topk: int = 0,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """Prefill: attention of each token over the keys that its indices list in a flat tensor.

    q: [s_q, h_q, d] bf16, d = 512 or 576. kv: [s_kv, 1, d] bf16. indices: [s_q, 1, topk] int32; outside 0 to s_kv - 1
    they name no key. topk_length: [s_q] int32. attn_sink: [h_q] fp32. out: [s_q, h_q, 512] bf16.

    Returns out, max_logits and lse [s_q, h_q] fp32, natural logarithms: where no key is seen max_logits is -inf and lse
    +inf. With indexer_topk also lse over the first indexer_topk indices, by a second launch. Raises RuntimeError.
    """
    require(d_v == D_V, f"d_v is {d_v}; allowed: {D_V}")
    require(kv.dim() == 3 and kv.shape[1] == 1, f"kv.shape is {tuple(kv.shape)}; allowed: [s_kv, 1, d]")
    heads = f"indices.shape is {tuple(indices.shape)}; allowed: [s_q, 1, topk]"
    require(indices.dim() == 3 and indices.shape[1] == 1, heads)
    lse = None if out is None else q.new_empty(q.shape[:2], dtype=torch.float32)
    results = None if out is None or lse is None else kernel.Attention(out, lse, m=torch.empty_like(lse))
    q, keys, listed = unshared(q), kv[:, 0], unshared(indices)[:, 0]
    with errors_of_flash_mla({"main.pages": "kv", "scale": "sm_scale"}):
        options = {"scale": sm_scale, "empty_lse": math.inf}
        found = sparse_attention(q, keys, listed, topk_length, sink=attn_sink, maxima=True, out=results, **options)  # type: ignore[arg-type]
        assert found.m is not None
        if indexer_topk == 0:
            return found.o, found.m, found.lse
        require(0 < indexer_topk <= listed.shape[1], f"indexer_topk is {indexer_topk}; allowed: 0 to topk")
        first = sparse_attention(q, keys, listed[:, :indexer_topk], topk_length, **options)  # type: ignore[arg-type]
        return found.o, found.m, found.lse, first.lse


def require(holds: bool, message: str) -> None:
    """Raise RuntimeError with a message unless a condition holds."""
    if not holds:
        raise RuntimeError(message)


def unshared(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor, or a copy if rows share memory, as those of an expanded tensor do."""
    if not isinstance(tensor, torch.Tensor) or 0 not in tensor.stride():
        return tensor
    return tensor.contiguous()


@contextmanager
def errors_of_flash_mla(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Raise what the kernel rejects as RuntimeError, with the names of arguments here.

    names: those that differ from NAMES.
    """
    try:
        yield
    except kernel.ArgumentError as error:
        raise RuntimeError(str(error.renamed({**NAMES, **(names or {})}))) from None
