"""FlashInfer's call for decode over DeepSeek-V4's caches, against the reference over flat keys."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import emulator
from kernel import ArgumentError
from kernel.reference import selection
from kernel.serving.flashinfer import (
    WINDOW,
    batch_decode_sparse_mla_dsv4,
    trtllm_batch_decode_sparse_mla_dsv4,
)
from stages.cache_layouts import V4, V41, Layout, V41Fp4, V41Fp4PageScales, V41PageScales

HEADS, KEYS, BLOCKS = 8, 24, 14
SCALE = 512**-0.55
OF_PACKED = {"sparse_topk_lens": None, "compressed_kv_cache": None}


def arguments(tokens: int, layout: str = "HND", seed: int = 5) -> dict[str, Any]:
    """Return arguments for so many query tokens of two sequences in all, with keys of two caches."""
    random = torch.Generator().manual_seed(seed)
    swa, compressed = ((torch.randn(n, 512, generator=random) / 8).bfloat16() for n in (KEYS, BLOCKS))
    indices = torch.full((tokens, WINDOW + 8), -1, dtype=torch.int32)
    indices[:, :WINDOW] = torch.randint(0, KEYS, (tokens, WINDOW), generator=random)
    indices[:, WINDOW:] = torch.randint(-1, BLOCKS + 2, (tokens, 8), generator=random)
    form = (1, 6) if layout == "HND" else (6, 1)
    return {
        "query": (torch.randn(tokens, HEADS, 512, generator=random) * 4).bfloat16(),
        "swa_kv_cache": swa.view(-1, *form, 512),
        "workspace_buffer": None,
        "sparse_indices": indices,
        "compressed_kv_cache": compressed.view((-1, 1, 2, 512) if layout == "HND" else (-1, 2, 1, 512)),
        "sparse_topk_lens": WINDOW + torch.arange(tokens, dtype=torch.int32) % 9,
        "seq_lens": torch.tensor([3, 200], dtype=torch.int32),
        "bmm1_scale": SCALE,
        "sinks": torch.tensor([0.0, 4, -math.inf, -4, math.inf, -80, 1, 2]),
        "kv_layout": layout,
    }


def expected(given: dict[str, Any], seen: list[int]) -> torch.Tensor:
    """Return the output in float64. seen: tokens of its sequence that each query token sees."""
    kv = torch.cat([given["swa_kv_cache"].reshape(-1, 512), given["compressed_kv_cache"].reshape(-1, 512)])
    listed = given["sparse_indices"].clone()
    for t, count in enumerate(seen):
        listed[t, min(count, WINDOW) : WINDOW] = -1
        other = listed[t, WINDOW:]
        counts = (torch.arange(8) < given["sparse_topk_lens"][t] - WINDOW) & (other >= 0) & (other < BLOCKS)
        listed[t, WINDOW:] = torch.where(counts, other + KEYS, -1)
    q = given["query"].reshape(1, -1, HEADS, 512)
    partial = selection(q, kv[None], topk_indices=listed[None], scale=SCALE)
    return partial.o * (partial.lse - given["sinks"]).sigmoid()[..., None]


@pytest.mark.parametrize("layout", ["HND", "NHD"])
def test_dense_queries(layout: str) -> None:
    """Two tokens of two sequences. The first sequence has three tokens, so its first query sees two."""
    given = arguments(4, layout)
    given["query"] = given["query"].view(2, 2, HEADS, 512)
    out = torch.zeros(2, 2, HEADS, 512).bfloat16()
    with emulator.emulate():
        found = trtllm_batch_decode_sparse_mla_dsv4(**given, out=out, bmm2_scale=0.5)
    assert found is out
    want = expected(given, [2, 3, 199, 200]) / 2
    torch.testing.assert_close(out.view(1, 4, HEADS, 512).double(), want, atol=2e-3, rtol=2e-2)


@pytest.mark.long
def test_queries_of_different_lengths() -> None:
    """One token of the first sequence, and two of the second; scales in tensors; the window's entries alone."""
    given = arguments(3)
    given |= {"cum_seq_lens_q": torch.tensor([0, 1, 3], dtype=torch.int32), "max_q_len": 2}
    scales = {"bmm1_scale": torch.tensor([SCALE]), "bmm2_scale": torch.tensor([1.0])}
    alone = given | {"sparse_indices": given["sparse_indices"][:, :WINDOW]}
    with emulator.emulate():
        found = trtllm_batch_decode_sparse_mla_dsv4(**(given | scales))
        window = trtllm_batch_decode_sparse_mla_dsv4(**alone)
    assert found.shape == (3, HEADS, 512)
    torch.testing.assert_close(found[None].double(), expected(given, [3, 199, 200]), atol=2e-3, rtol=2e-2)
    given["sparse_topk_lens"][:] = WINDOW
    torch.testing.assert_close(window[None].double(), expected(given, [3, 199, 200]), atol=2e-3, rtol=2e-2)


def test_storage_offsets() -> None:
    """vLLM: both caches are slices of pools, indices count rows of the pool, and lengths leave out the window."""
    given = arguments(3) | {"cum_seq_lens_q": torch.tensor([0, 1, 3], dtype=torch.int32), "max_q_len": 2}
    pools = []
    for name, size in (("swa_kv_cache", 6), ("compressed_kv_cache", 2)):
        pages = given[name].view(-1, size, 512)
        pools.append(torch.full((len(pages), size + 3, 512), math.nan).bfloat16())
        pools[-1][:, :size] = pages
    indices = given["sparse_indices"]
    swa, others = indices.tensor_split([WINDOW], 1)
    outside = (others < 0) | (others >= BLOCKS)
    there = torch.where(outside, -1, others // 2 * 5 + others % 2)
    in_pools = {
        "swa_kv_cache": pools[0][:, :6],
        "compressed_kv_cache": pools[1][:, :2],
        "sparse_indices": torch.cat([swa // 6 * 9 + swa % 6, there], 1),
        "sparse_topk_lens": given["sparse_topk_lens"] - WINDOW,
    }
    options = {"sparse_indices_are_storage_offsets": True, "sparse_topk_lens_offset": WINDOW}
    with emulator.emulate():
        found = batch_decode_sparse_mla_dsv4(**(given | in_pools | options))
    torch.testing.assert_close(found[None].double(), expected(given, [3, 199, 200]), atol=2e-3, rtol=2e-2)


@pytest.mark.long
def test_caches_and_queries_in_fp8() -> None:
    """One scale of each tensor: those of queries and keys in bmm1_scale, that of values in bmm2_scale."""
    given = arguments(3) | {"cum_seq_lens_q": torch.tensor([0, 1, 3], dtype=torch.int32), "max_q_len": 2}
    coded = {name: given[name].to(torch.float8_e4m3fn) for name in ("query", "swa_kv_cache", "compressed_kv_cache")}
    with emulator.emulate():
        found = trtllm_batch_decode_sparse_mla_dsv4(**(given | coded), bmm2_scale=2.0)
    want = expected(given | {name: each.bfloat16() for name, each in coded.items()}, [3, 199, 200]) * 2
    torch.testing.assert_close(found[None].double(), want, atol=4e-3, rtol=2e-2)


@pytest.mark.parametrize(
    ("kv_cache_format", "layouts"),
    [
        pytest.param("fp8", (V4(), V4()), marks=pytest.mark.long),
        pytest.param("fp8_dsv41", (V41PageScales(), V41PageScales()), marks=pytest.mark.long),
        ("fp8_dsv41_fp4_ca", (V41PageScales(), V41Fp4PageScales())),
        pytest.param("fp8_dsv41_inline", (V41(), V41()), marks=pytest.mark.long),
        pytest.param("fp8_dsv41_inline_fp4_ca", (V41(), V41Fp4()), marks=pytest.mark.long),
    ],
)
def test_packed_caches(kv_cache_format: Any, layouts: tuple[Layout, Layout]) -> None:
    """Each cache has indices and lengths of its own."""
    random = torch.Generator().manual_seed(7)
    given = arguments(3)
    caches, keys = [], []
    for layout, size in zip(layouts, (6, 2), strict=True):
        rows, meant = layout.encode((torch.randn(4 * size, 512, generator=random) / 8).bfloat16(), random)
        caches.append(layout.pages(rows, torch.ones(4 * size, dtype=torch.bool), size, 0, math.nan).view(torch.uint8))
        keys.append(meant)
    indices = torch.randint(-1, 26, (3, 9), generator=random, dtype=torch.int32)
    extra = torch.randint(-1, 10, (3, 5), generator=random, dtype=torch.int32)
    lens, extra_lens = (torch.tensor(each, dtype=torch.int32) for each in ((9, 0, 4), (2, 5, 0)))
    with emulator.emulate():
        found = trtllm_batch_decode_sparse_mla_dsv4(
            given["query"][None],
            caches[0],
            None,
            indices,
            caches[1],
            sinks=given["sinks"],
            bmm1_scale=SCALE,
            kv_layout="NHD",
            swa_topk_lens=lens,
            extra_sparse_indices=extra,
            extra_sparse_topk_lens=extra_lens,
            kv_cache_format=kv_cache_format,
        )
    listed = [
        torch.where((torch.arange(each.shape[1]) < count[:, None]) & (each >= 0) & (each < len(kv)), each + first, -1)
        for each, count, kv, first in ((indices, lens, keys[0], 0), (extra, extra_lens, keys[1], len(keys[0])))
    ]
    partial = selection(
        given["query"][None], torch.cat(keys)[None], topk_indices=torch.cat(listed, 1)[None], scale=SCALE
    )
    want = partial.o * (partial.lse - given["sinks"]).sigmoid()[..., None]
    torch.testing.assert_close(found.double(), want, atol=2e-3, rtol=2e-2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"backend": "cute-dsl"}, r"^backend is 'cute-dsl'"),
        ({"swa_topk_lens": torch.zeros(3)}, r"^swa_topk_lens is given"),
        ({"hca_is_causal": False}, r"^hca_is_causal is given"),
        ({"seq_lens": None}, "^seq_lens is None"),
        ({"query": torch.zeros(1, 3, HEADS, 256).bfloat16()}, r"^query\.shape .* 512 columns"),
        ({"query": torch.zeros(1, 3, HEADS, 512).half()}, r"^query\.dtype .* float8_e4m3fn"),
        ({"dsv4_output_scale": torch.ones(1)}, r"^dsv4_output_scale is given"),
        ({"swa_kv_cache": torch.zeros(2, 6, 512).byte()}, r"^sparse_topk_lens is given; .* torch\.uint8"),
        ({"swa_kv_cache": torch.zeros(2, 6, 528).byte(), **OF_PACKED}, r"^swa_kv_cache\.shape .* 584 bytes a key"),
        ({"kv_cache_format": "nvfp4", "backend": "sparse", **OF_PACKED}, r"^kv_cache_format is 'nvfp4'"),
        ({"swa_kv_cache": torch.zeros(2, 6, 584).byte(), "sparse_indices": None, **OF_PACKED}, r"^sparse_indices"),
        ({"query": torch.zeros(3, HEADS, 512).bfloat16()}, r"^query\.shape .* without cum_seq_lens_q"),
        ({"cum_seq_lens_q": torch.zeros(2).int(), "query": torch.zeros(3, 8, 512).bfloat16()}, "^max_q_len is None"),
        ({"sparse_indices": torch.zeros(3, 100).int()}, r"^sparse_indices\.shape .* at least 128"),
        ({"sparse_topk_lens": torch.zeros(2).int()}, r"^sparse_topk_lens\.shape is \(2,\); .* \(3,\)"),
        ({"seq_lens": torch.zeros(3).int()}, r"^seq_lens\.shape is \(3,\); allowed: \[B\] = \(1,\)"),
        ({"kv_layout": "NHD"}, r"^swa_kv_cache\.shape .* kv_layout='NHD'"),
        ({"kv_layout": "HDN"}, r"^kv_layout is 'HDN'"),
        ({"swa_kv_cache": torch.zeros(2, 6, 512)}, r"^swa_kv_cache\.dtype"),
        ({"sinks": torch.zeros(3)}, r"^sinks\.shape"),
        ({"bmm1_scale": 0.0}, r"^bmm1_scale is 0\.0"),
        ({"out": torch.zeros(3, 1, HEADS, 512).bfloat16()}, r"^out\.shape"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_errors(wrong: dict[str, Any], said: str) -> None:
    right = arguments(3) | {"seq_lens": torch.tensor([200], dtype=torch.int32)}
    right["query"] = right["query"][None]
    with pytest.raises(ArgumentError if "seq_lens" not in wrong else ValueError, match=said):
        trtllm_batch_decode_sparse_mla_dsv4(**(right | wrong))
