"""FlashMLA's calls: names, order of arguments, results and errors are those of its interface.

AssertionError and RuntimeError are raised where FlashMLA raises them. What it rejects and the kernel can do is
accepted: 1 to 128 heads, any number of indices, lengths of each token, bf16 caches, pages of any stride that is a
multiple of 16 bytes. What is not built is rejected by name: caches other than bf16, 584, 656, 528 and 288 bytes a key.
"""

from __future__ import annotations

import math
from typing import Any

import torch

import kernel
from flash_mla.checks import (
    D_V,
    asserts,
    check_extra,
    check_head_dim,
    check_keys,
    check_options,
    check_without_indices,
    errors_of_flash_mla,
)
from flash_mla.metadata import FlashMLASchedMeta, get_mla_metadata
from kernel.checks import check_rank, check_scale, check_shape, plain, whole
from kernel.plan import Plan, Plans
from kernel.serving import IndexedCache, TableCache, host, sparse_attention
from kernel.tracing import buffers, traced

__all__ = [
    "FlashMLASchedMeta",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_mla_sparse_fwd",
    "flash_mla_with_kvcache",
    "get_mla_metadata",
]


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
    if softmax_scale is not None and type(softmax_scale) is not float:
        softmax_scale = plain(softmax_scale)
    if traced(q):
        return traced_decode(
            q, k_cache, block_table, cache_seqlens, softmax_scale, indices, attn_sink, extra_k_cache,
            extra_indices_in_kvcache, topk_length, extra_topk_length, enable_batch_invariant, out, page_scales,
        )  # fmt: skip
    q, sparse = rows_apart(q), indices is not None
    listed, lens = (indices, topk_length) if sparse else (block_table, cache_seqlens)
    options = (
        head_dim_v, num_splits, softmax_scale, causal, is_fp8_kvcache, enable_batch_invariant, page_scales,
        sparse, sparse or topk_length is None,
    )  # fmt: skip
    tensors = (
        q, attn_sink, k_cache, listed, lens, extra_k_cache, extra_indices_in_kvcache, extra_topk_length,
        out, None, None, None,
    )  # fmt: skip
    call = tensors, topk_length, tile_scheduler_metadata, options
    plan = DECODE_PLANS.find(call, (*options, type(tile_scheduler_metadata)), tensors)
    tile_scheduler_metadata.check(plan.about)
    o, lse, _, _ = DECODE_PLANS.launch(plan, call, tensors)
    tile_scheduler_metadata.use(plan.about)
    return o, lse.mT


def decode_planned(
    tensors: tuple[Any, ...],
    topk_length: torch.Tensor | None,
    tile_scheduler_metadata: FlashMLASchedMeta,
    options: tuple[Any, ...],
) -> Plan:
    """Check a call of `flash_mla_with_kvcache`, and plan its launch. Raises AssertionError or RuntimeError."""
    q, attn_sink, k_cache, listed, lens, extra_k_cache, extra_indices, extra_topk_length, out = tensors[:9]
    head_dim_v, num_splits, softmax_scale, causal, is_fp8_kvcache, batch_invariant, page_scales, sparse, _ = options
    with errors_of_flash_mla():
        flags = {"causal": causal, "enable_batch_invariant": batch_invariant}
        check_options(tile_scheduler_metadata, num_splits, head_dim_v, **flags)
        check_rank("q", q, (4,), "[b, s_q, h_q, d]")
        check_keys("k_cache", k_cache)
        quantised = k_cache.dtype != torch.bfloat16
        is_fp8_kvcache = quantised if is_fp8_kvcache is None else is_fp8_kvcache
        allowed = f"{quantised} with a k_cache of {k_cache.dtype}"
        asserts(is_fp8_kvcache is quantised, "is_fp8_kvcache", is_fp8_kvcache, allowed)
        of_extra = {
            "extra_k_cache": extra_k_cache,
            "extra_indices_in_kvcache": extra_indices,
            "extra_topk_length": extra_topk_length,
        }
        main: IndexedCache | TableCache
        if sparse:
            asserts(not causal, "causal", causal, "False with indices")
            check_rank("indices", listed, (3,), "[b, s_q, topk]")
            main = IndexedCache(k_cache, listed, lens, page_scales)
        else:
            check_without_indices(topk_length=topk_length, **of_extra)
            assert listed is not None, "block_table is None; allowed: a tensor if indices is None"
            assert lens is not None, "cache_seqlens is None; allowed: a tensor if indices is None"
            if q.shape[1] > 1 and not causal:
                raise kernel.ArgumentError("causal", causal, "True with several query tokens and no indices")
            main = TableCache(k_cache, listed, lens, page_scales=page_scales)
        check_extra(**of_extra)
        extra = None
        if extra_k_cache is not None:
            extra = IndexedCache(extra_k_cache, extra_indices, extra_topk_length, page_scales)
        schedule = FlashMLASchedMeta.Config.of(q, main, extra, causal, is_fp8_kvcache, batch_invariant)
        tile_scheduler_metadata.check(schedule)
        buffers = None if out is None else kernel.Attention(out, q.new_empty(q.shape[:3], dtype=torch.float32))
        of_call = host.Options(softmax_scale, math.inf, batch_invariant=batch_invariant)
        return host.planned(q, main, extra, attn_sink, buffers, of_call, made=("lse",), about=schedule)


DECODE_PLANS = Plans(decode_planned)


def traced_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    block_table: torch.Tensor | None,
    cache_seqlens: torch.Tensor | None,
    softmax_scale: float | None,
    indices: torch.Tensor | None,
    attn_sink: torch.Tensor | None,
    extra_k_cache: torch.Tensor | None,
    extra_indices_in_kvcache: torch.Tensor | None,
    topk_length: torch.Tensor | None,
    extra_topk_length: torch.Tensor | None,
    enable_batch_invariant: bool,
    out: torch.Tensor | None,
    page_scales: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Make a call of `flash_mla_with_kvcache` by an operator, whose checks are those of kernel.serving."""
    main: IndexedCache | TableCache
    if indices is not None:
        main = IndexedCache(k_cache, indices, topk_length, page_scales)
    else:
        assert block_table is not None and cache_seqlens is not None, "block_table and cache_seqlens without indices"
        main = TableCache(k_cache, block_table, cache_seqlens, page_scales=page_scales)
    extra = None
    if extra_k_cache is not None and extra_indices_in_kvcache is not None:
        extra = IndexedCache(extra_k_cache, extra_indices_in_kvcache, extra_topk_length, page_scales)
    made = buffers(q, D_V)
    found = made if out is None else kernel.Attention(out, made.lse)
    options = host.Options(softmax_scale, math.inf, batch_invariant=enable_batch_invariant)
    host.traced_attention(q, main, extra, attn_sink, found, options)
    return found.o, found.lse.mT


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
    sm_scale = sm_scale if type(sm_scale) is float else plain(sm_scale)
    if traced(q):
        return traced_prefill(q, kv, indices, sm_scale, attn_sink, topk_length, indexer_topk, out)
    q = rows_apart(q)
    call = q, kv, indices, topk_length, attn_sink, out, sm_scale, d_v, indexer_topk
    tensors = (*call[:6], None, None, None)
    plan = PREFILL_PLANS.find(call, call[6:], tensors)
    o, lse, _, m = PREFILL_PLANS.launch(plan, call, tensors)
    if indexer_topk == 0:
        return o, m, lse
    listed = indices[:, 0, :indexer_topk]
    first = sparse_attention(q, kv[:, 0], listed, topk_length, scale=sm_scale, empty_lse=math.inf)
    return o, m, lse, first.lse


def prefill_planned(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    attn_sink: torch.Tensor | None,
    out: torch.Tensor | None,
    sm_scale: float,
    d_v: int,
    indexer_topk: int,
) -> Plan:
    """Check a call of `flash_mla_sparse_fwd`, and plan its launch. Raises RuntimeError."""
    with errors_of_flash_mla({"main.pages": "kv", "scale": "sm_scale"}):
        check_head_dim("d_v", d_v)
        check_scale(sm_scale)
        for name, tensor, form in (("q", q, "[s_q, h_q, d]"), ("kv", kv, "[s_kv, 1, d]")):
            check_rank(name, tensor, (3,), form)
        check_shape("kv", kv, (len(kv), 1, q.shape[2]), "[s_kv, 1, d]")
        check_rank("indices", indices, (3,), "[s_q, 1, topk]")
        check_shape("indices", indices, (len(q), 1, indices.shape[2]), "[s_q, 1, topk]")
        if not (isinstance(whole(indexer_topk), int) and 0 <= indexer_topk <= indices.shape[2]):
            raise kernel.ArgumentError("indexer_topk", repr(indexer_topk), f"0 to topk, {indices.shape[2]}")
        buffers = None
        if out is not None:
            lse, m = (q.new_empty(q.shape[:2], dtype=torch.float32) for _ in range(2))
            buffers = kernel.Attention(out, lse, m=m)
        options = host.Options(sm_scale, math.inf, maxima=True)
        return host.flat_planned(q, kv, indices, topk_length, attn_sink, buffers, options, made=("lse", "m"))


PREFILL_PLANS = Plans(prefill_planned)


def traced_prefill(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    sm_scale: float,
    attn_sink: torch.Tensor | None,
    topk_length: torch.Tensor | None,
    indexer_topk: int,
    out: torch.Tensor | None,
) -> tuple[torch.Tensor, ...]:
    """Make a call of `flash_mla_sparse_fwd` by an operator, whose checks are those of kernel.serving."""
    flat, listed, options = kv[:, 0], indices[:, 0], host.Options(sm_scale, math.inf, maxima=True)
    made = buffers(q, D_V, maxima=True)
    found = made if out is None else kernel.Attention(out, made.lse, m=made.m)
    host.traced_sparse(q, flat, listed, topk_length, attn_sink, found, options)
    assert found.m is not None
    if indexer_topk == 0:
        return found.o, found.m, found.lse
    first = host.traced_sparse(q, flat, listed[:, :indexer_topk], topk_length, None, None, options)
    return found.o, found.m, found.lse, first.lse


def rows_apart(q: Any) -> Any:
    """Return q, or a copy if rows share memory, as those of an expanded tensor do: tensor maps have no strides of 0."""
    return q.contiguous() if isinstance(q, torch.Tensor) and 0 in q.stride() else q


def flash_attn_varlen_func(*args: Any, **options: Any) -> None:
    """Raise NotImplementedError: dense attention with keys of each head is not built. Engines import the name."""
    raise NotImplementedError("flash_attn_varlen functions are not built; allowed: FlashMLA's own or torch's attention")


flash_attn_varlen_kvpacked_func = flash_attn_varlen_qkvpacked_func = flash_attn_varlen_func
