"""Attention over caches beyond what milestones can launch: strides, addresses of 64 bits, and CUDA graphs."""

from __future__ import annotations

import math
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
import torch

import emulator
import kernel
from emulator.bridge.patches import ORIGINAL_ENVIRONMENT
from flash_mla import FlashMLASchedMeta, flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata
from kernel.reference import selection
from kernel.serving import IndexedCache, TableCache, attention, sparse_attention
from stages import bad_arguments
from stages.cache_layouts import V4, V32, V41, V41Fp4

HEADS = 8
ROOT = Path(__file__).parents[2]


def keys(count: int, seed: int = 0) -> torch.Tensor:
    return (torch.randn(count, 512, generator=torch.Generator().manual_seed(seed)) / 8).bfloat16()


def queries(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape, 512, generator=torch.Generator().manual_seed(9)) * 4).bfloat16()


def lists(*values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def close(found: kernel.Attention, q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> None:
    """Compare o and lse with the reference over a flat tensor of keys."""
    want = selection(q, kv.expand(len(q), -1, -1), topk_indices=indices)
    torch.testing.assert_close(found.o.double(), want.o, atol=2e-3, rtol=2e-2)
    torch.testing.assert_close(found.lse.double(), want.lse, atol=4e-6, rtol=1e-6)


def test_a_pool_may_be_larger_than_4_gib() -> None:
    """Pages that lie 3 GiB apart, in memory that is not there until it is touched."""
    stride = 3 << 30
    pool = torch.frombuffer(mmap.mmap(-1, 2 * stride + 4096), dtype=torch.bfloat16)
    pages, kv = pool.as_strided((3, 2, 512), (stride // 2, 512, 1)), keys(6)
    pages.copy_(kv.view(3, 2, 512))
    q, indices = queries(1, 1, HEADS), lists([5, 0, 3, 6])[None]
    with emulator.emulate():
        close(attention(q, IndexedCache(pages, indices)), q, kv, indices)


@pytest.mark.parametrize("splits", [pytest.param(1, marks=pytest.mark.long), 2])
def test_batch_and_tokens_have_strides_of_their_own(splits: Literal[1, 2]) -> None:
    q, o = (x.transpose(0, 1) for x in (queries(3, 2, HEADS), torch.zeros(3, 2, HEADS, 512).bfloat16()))
    lse = torch.zeros(3, 2, HEADS).transpose(0, 1)
    indices, kv = torch.randint(-1, 20, (3, 2, 70)).int().transpose(0, 1), keys(20)
    with emulator.emulate():
        found = attention(q, IndexedCache(kv[:, None], indices), splits=splits, out=kernel.Attention(o, lse))
    close(found, q, kv, indices)
    assert found.o is o


def test_a_block_table_without_a_window_shows_all_keys() -> None:
    kv, table, lens = keys(12), lists([3, 0, 1], [2, 9, -1]), torch.tensor([7, 2], dtype=torch.int32)
    indices = torch.full((2, 1, 7), -1, dtype=torch.int32)
    indices[0, 0], indices[1, 0, :2] = lists([9, 10, 11, 0, 1, 2, 3])[0], lists([6, 7])[0]
    q = queries(2, 1, HEADS)
    with emulator.emulate():
        close(attention(q, TableCache(kv.view(4, 3, 512), table, lens), debug=True), q, kv, indices)


def test_debug_looks_at_what_counts() -> None:
    """Indices behind a length, and pages outside the window, may hold anything."""
    kv, q, indices = keys(6), queries(1, 1, HEADS), lists([5, -1, 77])[None]
    table, seq_lens = lists([99, 2, -1]), torch.tensor([4], dtype=torch.int32)
    with emulator.emulate():
        attention(q, IndexedCache(kv[:, None], indices, torch.tensor([2], dtype=torch.int32)), debug=True)
        attention(q, TableCache(kv.view(3, 2, 512), table, seq_lens, window=2), debug=True)
    with pytest.raises(kernel.ArgumentError, match=r"main\.indices is 77; allowed: -1 to 5"):
        attention(q, IndexedCache(kv[:, None], indices), debug=True)
    with pytest.raises(kernel.ArgumentError, match=r"main\.table is 99; allowed: 0 to 2"):
        attention(q, TableCache(kv.view(3, 2, 512), table, seq_lens, window=3), debug=True)


def test_results_of_flash_mla() -> None:
    """Shapes, strides and the values of rows that see no key."""
    q, kv, indices = queries(2, HEADS), keys(20), lists([3, 4, -1], [-1, 20, -5])
    with emulator.emulate():
        out, maxima, lse = flash_mla_sparse_fwd(q, kv[:, None], indices[:, None], 0.04)
        *_, first = flash_mla_sparse_fwd(q, kv[:, None], indices[:, None], 0.04, indexer_topk=1)
        again, again_lse = flash_mla_with_kvcache(
            q[:, None],
            kv.view(4, 5, 1, 512),
            None,
            None,
            512,
            get_mla_metadata()[0],
            None,
            0.04,
            indices=indices[:, None],
        )
    scores = 0.04 * q[0].double() @ kv[[3, 4]].double().T
    torch.testing.assert_close(maxima[0].double(), scores.amax(1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(lse[0].double(), scores.logsumexp(1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(first[0].double(), scores[:, 0], atol=1e-6, rtol=1e-5)
    assert (maxima[1] == -math.inf).all() and (lse[1] == math.inf).all() and not out[1].any()
    assert (
        torch.equal(again[:, 0], out) and again_lse.shape == (2, HEADS, 1) and again_lse.stride() == (HEADS, 1, HEADS)
    )
    assert torch.equal(again_lse[:, :, 0], lse)


def test_flash_mla_over_keys_of_576_columns() -> None:
    """656 bytes a key, scales that are no powers of two, pages a key apart: values are the first 512 columns."""
    random = torch.Generator().manual_seed(2)
    rows, kv = V32().encode(torch.randn(20, 576, generator=random) / 8, random)
    pages = V32().pages(rows, torch.ones(20, dtype=torch.bool), 5, V32.bytes, math.nan)
    q = (torch.randn(1, 1, HEADS, 576, generator=random) * 4).bfloat16()
    indices = lists([3, 19, -1, 20, 0, 3])[None]
    with emulator.emulate():
        metadata, _ = get_mla_metadata()
        out, lse = flash_mla_with_kvcache(q, pages, None, None, 512, metadata, is_fp8_kvcache=True, indices=indices)
    want = selection(q, kv[None], kv[None, :, :512], topk_indices=indices)
    torch.testing.assert_close(out.double(), want.o, atol=2e-3, rtol=2e-2)
    torch.testing.assert_close(lse.double(), want.lse.transpose(1, 2), atol=4e-6, rtol=1e-6)


@pytest.mark.long
def test_flash_mla_over_keys_of_528_and_288_bytes() -> None:
    """Pages of five keys in FP8, and of one key in FP4: both are the values, too."""
    random = torch.Generator().manual_seed(3)
    rows, kv = V41().encode(torch.randn(20, 512, generator=random) / 8, random)
    rows_fp4, kv_fp4 = V41Fp4().encode(torch.randn(9, 512, generator=random) / 8, random)
    q, first, second = queries(1, 1, HEADS), lists([3, 19, -1, 0])[None], lists([8, 9, 0])[None]
    with emulator.emulate():
        out, lse = flash_mla_with_kvcache(
            q,
            rows.view(4, 5, 1, 528),
            None,
            None,
            512,
            get_mla_metadata()[0],
            is_fp8_kvcache=True,
            indices=first,
            extra_k_cache=rows_fp4.view(9, 1, 1, 288),
            extra_indices_in_kvcache=second,
        )
    indices = torch.cat([first, torch.where(second < 9, second + 20, -1)], 2)
    want = selection(q, torch.cat([kv, kv_fp4])[None], topk_indices=indices)
    torch.testing.assert_close(out.double(), want.o, atol=2e-3, rtol=2e-2)
    torch.testing.assert_close(lse.double(), want.lse.transpose(1, 2), atol=4e-6, rtol=1e-6)


def v4_pages(kv: torch.Tensor, size: int) -> torch.Tensor:
    rows, _ = V4().encode(kv.float(), torch.Generator().manual_seed(1))
    return V4().pages(rows, torch.ones(len(kv), dtype=torch.bool), size, 0, math.nan)


TABLE = {"indices": None, "block_table": torch.zeros(1, 2).int(), "cache_seqlens": torch.zeros(1).int()}


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"num_splits": torch.zeros(3)}, AssertionError, "num_splits"),
        ({"tile_scheduler_metadata": None}, AssertionError, "FlashMLASchedMeta"),
        ({"causal": True}, AssertionError, "causal"),
        ({"is_fp8_kvcache": False}, AssertionError, "is_fp8_kvcache"),
        ({"head_dim_v": 256}, RuntimeError, "head_dim_v is 256"),
        ({"extra_k_cache": torch.zeros(1)}, RuntimeError, "extra_k_cache"),
        ({"indices": None}, AssertionError, "block_table is None; allowed: a tensor if indices is None"),
        (TABLE | {"topk_length": torch.zeros(1).int()}, AssertionError, "topk_length is Tensor; allowed: None if"),
        (TABLE | {"extra_k_cache": torch.zeros(1)}, AssertionError, "extra_k_cache is Tensor; allowed: None if"),
        (TABLE | {"extra_topk_length": torch.zeros(1)}, AssertionError, "extra_topk_length is Tensor; allowed: None"),
        (
            TABLE | {"cache_seqlens": None},
            AssertionError,
            "cache_seqlens is None; allowed: a tensor if indices is None",
        ),
        ({"indices": torch.zeros(1, 1, 4)}, RuntimeError, r"^indices\.dtype is torch\.float32"),
        ({"topk_length": torch.zeros(3).int()}, RuntimeError, r"^topk_length\.shape is \(3,\)"),
        ({"attn_sink": torch.zeros(3)}, RuntimeError, r"^attn_sink\.shape"),
        ({"q": torch.zeros(1, 1, HEADS, 640).bfloat16()}, RuntimeError, r"^q\.shape .* one of \(512, 576\)"),
        ({"q": torch.zeros(1, 1, HEADS, 576).bfloat16()}, RuntimeError, r"^k_cache\.shape .* 656 bytes for 576"),
        ({"k_cache": torch.zeros(2, 64, 1, 656).byte()}, RuntimeError, r"^k_cache\.shape .* 288 bytes for 512 columns"),
        ({"k_cache": torch.zeros(2, 64, 1, 352).byte()}, RuntimeError, r"^k_cache\.shape .* no other is built"),
        ({"k_cache": torch.zeros(2, 64, 1, 288).byte()}, RuntimeError, "288; allowed: in extra_k_cache alone"),
    ],
)
def test_errors_of_flash_mla(wrong: dict[str, object], error: type[Exception], said: str) -> None:
    right = {
        "q": queries(1, 1, HEADS),
        "k_cache": v4_pages(keys(4), 2),
        "block_table": None,
        "cache_seqlens": None,
        "head_dim_v": 512,
        "tile_scheduler_metadata": FlashMLASchedMeta(),
        "is_fp8_kvcache": True,
        "indices": lists([0, 1])[None],
    }
    with pytest.raises(error, match=said):
        flash_mla_with_kvcache(**(right | wrong))  # type: ignore[arg-type]


def test_a_schedule_is_for_one_shape() -> None:
    meta, _ = get_mla_metadata()
    arguments = queries(1, 1, HEADS), v4_pages(keys(4), 2), None, None, 512, meta
    with emulator.emulate():
        flash_mla_with_kvcache(*arguments, is_fp8_kvcache=True, indices=lists([0, 1])[None])
        with pytest.raises(AssertionError, match=r"^tile_scheduler_metadata is for topk=2; allowed: one for topk=3,"):
            flash_mla_with_kvcache(*arguments, is_fp8_kvcache=True, indices=lists([0, 1, 2])[None])


@pytest.mark.long
def test_a_graph_is_replayed_with_other_lengths_and_lists() -> None:
    """The example captures a layer of each kind in one graph, and compares replays with a float64 softmax."""
    command = [sys.executable, "-m", "emulator", "run", "examples/dsv4_decode.py"]
    done = subprocess.run(command, cwd=ROOT, env=ORIGINAL_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("largest errors") == 9


def test_the_flat_call_rejects_other_ranks() -> None:
    with pytest.raises(kernel.ArgumentError, match=r"^kv\.shape is \(20, 1, 512\); allowed: rank 2, \[S, D\]"):
        sparse_attention(queries(2, HEADS), keys(20)[:, None], lists([0]))


@pytest.mark.parametrize("bad", bad_arguments.SERVING, ids=str)
def test_bad_arguments_are_refused_before_anything_is_compiled(
    bad: bad_arguments.BadCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("kernel.plan.compile")
    assert not bad.accepted_by(kernel.serving.attention, bad_arguments.serving() | {"debug": True})
