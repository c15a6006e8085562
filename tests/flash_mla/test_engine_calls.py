"""Calls of flash_mla as engines make them: their views of pools, padded heads and rows, schedules and buffers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import emulator
from flash_mla.flash_mla_interface import (
    FlashMLASchedMeta,
    flash_mla_sparse_fwd,
    flash_mla_with_kvcache,
    get_mla_metadata,
)
from kernel.reference import selection
from stages.cache_layouts import V4, V41Fp4PageScales, V41PageScales

SCALE = 512**-0.5


def pool(pages: int, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes of pages of V4 as engines allocate them, [pages, X], and the keys in them.

    X is rounded up to a multiple of 576, as the TMA loads of FlashMLA need it. What pads a page is NaN.
    """
    random = torch.Generator().manual_seed(seed)
    rows, kv = V4().encode(torch.randn(pages * size, 512, generator=random) / 8, random)
    gap = -size * 584 % 576
    packed = V4().pages(rows, torch.ones(len(rows), dtype=torch.bool), size, gap, math.nan)
    whole = torch.full((pages, size * 584 + gap), 0xFF, dtype=torch.uint8)
    whole[:, : size * 584] = packed.as_strided((pages, size * 584), (packed.stride(0), 1))
    return whole, kv


def queries(*shape: int, seed: int = 1) -> torch.Tensor:
    return (torch.randn(*shape, 512, generator=torch.Generator().manual_seed(seed)) * 4).bfloat16()


def listed(*shape: int, keys: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(-1, keys, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def close(
    found: tuple[torch.Tensor, torch.Tensor],
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    sink: torch.Tensor | None = None,
) -> None:
    """Compare out and lse with the reference over a flat tensor of keys."""
    want = selection(q, kv.expand(len(q), -1, -1), topk_indices=indices)
    o = want.o if sink is None else want.o * (want.lse - sink).nan_to_num().sigmoid()[..., None]
    lse = want.lse.masked_fill(want.lse == -math.inf, math.inf)
    torch.testing.assert_close(found[0].double(), o, atol=2e-3, rtol=2e-2)
    torch.testing.assert_close(found[1].double(), lse.transpose(1, 2), atol=4e-6, rtol=1e-6)


@pytest.mark.long
def test_rows_of_a_captured_batch_with_padded_heads() -> None:
    """vLLM: a row per token, eight heads of 64, a schedule for two layers, and stale lists where lengths are 0."""
    window, kv = pool(4, 64, 3)
    blocks, kv_blocks = pool(9, 2, 4)
    q = queries(3, 64)
    sink = torch.full((64,), -math.inf)
    sink[:8] = torch.linspace(-2, 4, 8)
    lists, lens = listed(3, 1, 128, keys=256), torch.tensor([128, 5, 0], dtype=torch.int32)
    blocks_listed, blocks_lens = listed(3, 1, 18, keys=18), torch.tensor([18, 0, 0], dtype=torch.int32)
    schedule = get_mla_metadata()[0]
    out = torch.full((2, 3, 64, 512), math.nan).bfloat16()
    with emulator.emulate():
        for layer in range(2):
            found, lse = flash_mla_with_kvcache(
                q=q.unsqueeze(1),
                k_cache=window[:, : 64 * 584].view(4, 64, 584).unsqueeze(-2),
                block_table=None,
                head_dim_v=512,
                tile_scheduler_metadata=schedule,
                cache_seqlens=None,
                is_fp8_kvcache=True,
                indices=lists,
                topk_length=lens,
                softmax_scale=SCALE,
                attn_sink=sink,
                extra_k_cache=blocks[:, : 2 * 584].view(9, 2, 584).unsqueeze(-2),
                extra_indices_in_kvcache=blocks_listed,
                extra_topk_length=blocks_lens,
                out=out[layer].unsqueeze(1),
            )
            assert found.data_ptr() == out[layer].data_ptr()
    counted = lists.masked_fill(torch.arange(128) >= lens[:, None, None], -1)
    blocks_counted = blocks_listed.masked_fill(torch.arange(18) >= blocks_lens[:, None, None], -1)
    indices = torch.cat([counted, torch.where(blocks_counted < 0, -1, blocks_counted + 256)], 2)
    close((found, lse), q[:, None], torch.cat([kv, kv_blocks])[None], indices, sink)
    assert torch.equal(out[0], out[1]) and not out[0, 2].any() and (lse[2] == math.inf).all()


@pytest.mark.long
def test_a_slice_of_a_pool_and_a_schedule_that_the_engine_made() -> None:
    """SGLang: pages of 128 keys whose bytes are rounded up, lists padded with -1, and tensors set in the schedule."""
    window, kv = pool(5, 128, 5)
    assert window.stride(0) == 74_880
    q, lists = queries(2, 1, 8), torch.nn.functional.pad(listed(2, 1, 70, keys=640), (0, 58), value=-1)
    schedule, nothing = get_mla_metadata(torch.zeros(2), 8, 1, num_heads_q=64)
    assert nothing is None and isinstance(schedule, FlashMLASchedMeta)
    schedule.tile_scheduler_metadata = torch.zeros(148, 8, dtype=torch.int32)
    schedule.num_splits = torch.zeros(3, dtype=torch.int32)
    with emulator.emulate():
        found = flash_mla_with_kvcache(
            q=q,
            k_cache=window[:, : 128 * 584].view(5, 128, 1, 584),
            head_dim_v=512,
            block_table=None,
            cache_seqlens=None,
            tile_scheduler_metadata=schedule,
            softmax_scale=SCALE,
            is_fp8_kvcache=True,
            indices=lists,
            topk_length=torch.tensor([70, 128], dtype=torch.int32),
            attn_sink=torch.zeros(8),
        )
    close(found, q, kv[None], lists, torch.zeros(8))
    assert schedule.config == FlashMLASchedMeta.Config(2, 1, 8, 128, 1, False, True, 128, None, None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.float8_e4m3fn])
def test_expanded_and_sliced_arguments(dtype: torch.dtype) -> None:
    """Queries and lists that are the same for all tokens, heads and columns of bigger tensors."""
    pages, kv = pool(4, 5, 6)
    cache = pages[:, : 5 * 584].view(4, 5, 1, 584).view(dtype)
    many, wide = queries(2, 3, 24), listed(2, 3, 9, keys=20)
    same_q, same_list = queries(2, 1, 8).expand(2, 3, 8, 512), listed(2, 1, 7, keys=20).expand(2, 3, 7)
    for q, lists in ((many[:, :, 8:16], wide[:, :, 1:8]), (same_q, wide[:, :, 1:8]), (many[:, :, :8], same_list)):
        with emulator.emulate():
            found = flash_mla_with_kvcache(q, cache, None, None, 512, get_mla_metadata()[0], indices=lists)
        close(found, q, kv[None], lists)


def test_pages_of_v41_with_all_codes_before_the_scales() -> None:
    """vLLM: pages of both caches rounded up to 512 bytes, whose codes come first."""
    random = torch.Generator().manual_seed(8)
    given: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    for layout, pages, size in ((V41PageScales(), 3, 5), (V41Fp4PageScales(), 4, 2)):
        rows, kv = layout.encode(torch.randn(pages * size, 512, generator=random) / 8, random)
        seen = torch.ones(len(rows), dtype=torch.bool)
        given.append(layout.pages(rows, seen, size, -size * layout.bytes % 512, math.nan))
        values.append(kv)
    assert [each.stride(0) % 512 for each in given] == [0, 0]
    q, lists, blocks = queries(2, 1, 16), listed(2, 1, 9, keys=15), listed(2, 1, 6, keys=8)
    with emulator.emulate():
        found = flash_mla_with_kvcache(
            q,
            given[0],
            None,
            None,
            512,
            get_mla_metadata()[0],
            indices=lists,
            extra_k_cache=given[1],
            extra_indices_in_kvcache=blocks,
            page_scales=True,
        )
    indices = torch.cat([lists, torch.where(blocks < 0, -1, blocks + 15)], 2)
    close(found, q, torch.cat(values)[None], indices)


def test_nothing_to_compute() -> None:
    """A batch of no requests, requests without tokens, and a prefill of no tokens."""
    cache = pool(4, 5, 6)[0][:, : 5 * 584].view(4, 5, 1, 584)
    for b, s_q in ((0, 1), (2, 0)):
        lists = listed(b, s_q, 7, keys=20)
        meta = get_mla_metadata()[0]
        out, lse = flash_mla_with_kvcache(queries(b, s_q, 64), cache, None, None, 512, meta, indices=lists)
        assert out.shape == (b, s_q, 64, 512) and lse.shape == (b, 64, s_q)
    kv = torch.zeros(20, 1, 512).bfloat16()
    out, maxima, lse = flash_mla_sparse_fwd(queries(0, 64), kv, listed(0, 1, 7, keys=20), SCALE)
    assert out.shape == (0, 64, 512) and maxima.shape == lse.shape == (0, 64)


DECODE: dict[str, Any] = {
    "q": queries(2, 1, 8),
    "k_cache": torch.zeros(4, 16, 1, 584).byte(),
    "block_table": None,
    "cache_seqlens": None,
    "head_dim_v": 512,
    "tile_scheduler_metadata": FlashMLASchedMeta(),
    "indices": listed(2, 1, 7, keys=64),
}
EXTRA = {"extra_k_cache": DECODE["k_cache"], "extra_indices_in_kvcache": DECODE["indices"]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"k_cache": None}, "k_cache is NoneType"),
        ({"q": queries(2, 1, 0)}, r"^q\.shape\[2\] is 0; .* at least one"),
        ({"q": queries(2, 1, 129)}, r"^q\.shape\[2\] is 129"),
        ({"indices": DECODE["indices"].long()}, r"^indices\.dtype is torch\.int64"),
        ({"indices": DECODE["indices"][:, :, :0]}, r"^indices\.shape\[2\] is 0"),
        ({"topk_length": torch.zeros(2).long()}, r"^topk_length\.dtype is torch\.int64"),
        ({"attn_sink": torch.zeros(8).bfloat16()}, r"^attn_sink\.dtype is torch\.bfloat16"),
        ({"softmax_scale": math.nan}, r"^softmax_scale is nan"),
        ({"extra_topk_length": torch.zeros(2).int()}, "^extra_k_cache is None; .* with extra_topk_length"),
        (EXTRA | {"extra_topk_length": torch.zeros(2)}, r"^extra_topk_length\.dtype is torch\.float32"),
        (
            EXTRA | {"extra_k_cache": torch.zeros(4, 16, 1, 528).byte()},
            r"^the layout of k_cache and extra_k_cache is v4 and v41; allowed: one layout in both",
        ),
        (EXTRA | {"extra_indices_in_kvcache": None}, "^extra_indices_in_kvcache is NoneType; .* with extra_k_cache"),
        ({"k_cache": torch.zeros(4, 16, 1, 512).bfloat16(), "page_scales": True}, r"^page_scales is True; .* 512 bf16"),
        ({"out": torch.zeros(2, 1, 8, 512)}, r"^out\.dtype is torch\.float32"),
    ],
)
def test_errors_of_decode(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        flash_mla_with_kvcache(**(DECODE | wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kv": torch.zeros(20, 512).bfloat16()}, r"^kv\.shape is \(20, 512\)"),
        ({"kv": torch.zeros(20, 1, 576).bfloat16()}, r"^kv\.shape"),
        ({"kv": torch.zeros(20, 1, 512)}, r"^kv\.dtype"),
        ({"indices": DECODE["indices"].long()}, r"^indices\.dtype"),
        ({"sm_scale": math.inf}, r"^sm_scale is inf"),
        ({"d_v": 256}, "d_v is 256"),
        ({"topk_length": torch.zeros(3).int()}, r"^topk_length\.shape"),
    ],
)
def test_errors_of_prefill(wrong: dict[str, Any], said: str) -> None:
    right = {"q": queries(2, 8), "kv": torch.zeros(20, 1, 512).bfloat16(), "indices": DECODE["indices"], "sm_scale": 1}
    with pytest.raises(RuntimeError, match=said):
        flash_mla_sparse_fwd(**(right | wrong))


def test_scales_as_engines_compute_them() -> None:
    q, kv, lists = queries(2, 8), torch.ones(20, 1, 512).bfloat16(), listed(2, 1, 9, keys=20)
    found = []
    with emulator.emulate():
        for scale in (0.125, np.float32(0.125), torch.tensor(0.125), torch.tensor(0.125, dtype=torch.float64)):
            found.append(flash_mla_sparse_fwd(q, kv, lists, scale))  # type: ignore[arg-type]
    assert all(torch.equal(one, other) for each in found for one, other in zip(each, found[0], strict=True))


def test_prefill_without_keys() -> None:
    with emulator.emulate():
        o, m, lse = flash_mla_sparse_fwd(
            queries(3, 8), torch.zeros(0, 1, 512).bfloat16(), listed(3, 1, 9, keys=20), 1.0
        )
    assert o.shape == (3, 8, 512) and not o.any() and (m == -math.inf).all() and (lse == math.inf).all()


def test_a_schedule_is_for_calls_that_are_batch_invariant_or_not() -> None:
    schedule, arguments = get_mla_metadata()[0], {"indices": listed(2, 1, 9, keys=20), "head_dim_v": 512}
    call = partial(flash_mla_with_kvcache, queries(2, 1, 8), torch.zeros(5, 4, 1, 512).bfloat16(), None, None)
    with emulator.emulate():
        call(tile_scheduler_metadata=schedule, **arguments)  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="enable_batch_invariant=True"):
            call(tile_scheduler_metadata=schedule, enable_batch_invariant=True, **arguments)  # type: ignore[arg-type]
