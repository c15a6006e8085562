"""Keys split over the CTAs of a cluster: how many, the same result whatever the split, broken merges caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import emulator
import kernel
from kernel import plan, reference
from kernel.compiled import _compiled
from kernel.device.tiles import Branches, KvTiles, VisibleKeys
from kernel.problem import SPLITS, Problem
from kernel.sm100.choice import configuration
from kernel.sm100.combine import Merge
from kernel.sm100.hardware import CLUSTERS_AT_ONCE

LAYER: dict[str, Any] = {
    "head_dim": 512,
    "mask": "causal",
    "shared_kv": True,
    "partials": False,
    "compressed": "topk",
}


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def attend(splits: int, keys: int = 500) -> kernel.Attention:
    q, k = normal(1, 1, 1, 16, 64), normal(2, 1, keys, 64)
    with emulator.emulate(completion="random", seed=5):
        return kernel.fmha(q, k, splits=splits)


def cosine(got: kernel.Attention, keys: int = 500) -> float:
    want = reference.branch(normal(1, 1, 1, 16, 64), normal(2, 1, keys, 64)).o
    return float(torch.nn.functional.cosine_similarity(got.o.double().flatten(), want.flatten(), dim=0))


@pytest.mark.parametrize("splits", [n if n == 16 else pytest.param(n, marks=pytest.mark.long) for n in SPLITS])
def test_every_split_counts_once(splits: int) -> None:
    """500 keys are four tiles: of sixteen splits most have none."""
    assert cosine(attend(splits)) > 0.999996


@pytest.mark.parametrize("splits", SPLITS)
@pytest.mark.parametrize("keys", [0, 1, 64, 65, 640])
def test_splits_are_all_tiles_in_order(splits: int, keys: int) -> None:
    tiles = KvTiles(VisibleKeys("none", keys, keys, 1, 2**30), 64, 0, 0)
    parts = [Branches(tiles, None, splits, s) for s in range(splits)]
    assert [tiles.start(i) for each in parts for i in range(each.begin, each.end)] == list(range(0, keys, 64))
    counts = [each.count for each in parts]
    assert max(counts) - min(counts) <= 1


def without_last(merged: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, parts, weights: merged(self, parts[:-1], weights[:-1])


def backwards(merged: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, parts, weights: merged(self, parts[::-1], weights)


@pytest.mark.long
@pytest.mark.parametrize("breaks", [without_last, backwards], ids=["split dropped", "other weights"])
def test_a_wrong_merge_is_seen(breaks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Merge, "merged", breaks(Merge.merged))
    monkeypatch.setattr(plan, "compile", _compiled)
    assert cosine(attend(4)) < 0.99


def test_a_merge_that_does_not_wait_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing orders a peer's stores before the reads of them."""
    monkeypatch.setattr("kernel.device.combine.sync_ctas", lambda config: None)
    monkeypatch.setattr(plan, "compile", _compiled)
    with pytest.raises(emulator.EmulatorError, match=r"ld\.shared::cluster[\s\S]*combine\.py"):
        attend(4)


@pytest.mark.parametrize(
    ("heads", "shape", "clusters"),
    [
        (128, (2, 1, 128, 1024), (1, 8, 16)),
        (128, (16, 1, 128, 1024), (1, 4, 64)),
        (128, (2, 1, 128, 128), (1, 4, 16)),
        (128, (64, 1, 128, 1024), (2, 1, 64)),
        (128, (1, 1024, 1151, 1024), (2, 1, 64)),
        (64, (64, 1, 128, 512), (1, 2, 64)),
        (64, (64, 1, 128, 128), (1, 2, 64)),
        (16, (64, 1, 128, 128), (1, 2, 16)),
        (64, (256, 1, 128, 512), (1, 1, 64)),
        (8, (2, 1, 128, 512), (1, 16, 16)),
    ],
)
def test_few_rows_have_their_keys_split(
    heads: int, shape: tuple[int, int, int, int], clusters: tuple[int, int, int]
) -> None:
    """shape: sequences, tokens, keys of the window, top-k indices."""
    batch, tokens, keys, topk = shape
    problem = Problem(**LAYER, heads=heads, batch=batch, tokens=tokens, keys=keys, compressed_keys=topk)
    config = configuration(problem)
    assert (config.mma_ctas, config.splits, config.block_m) == clusters
    assert config.cluster_ctas in CLUSTERS_AT_ONCE


@pytest.mark.parametrize(("heads", "tokens"), [(64, 2), (32, 3)])
def test_a_cta_of_few_rows_sees_the_window_of_its_own_tokens(heads: int, tokens: int) -> None:
    """One token sees two tiles of 64 keys; all tokens together see three."""
    keys = 128 + tokens - 1
    size: dict[str, Any] = {"batch": 2, "tokens": tokens, "keys": keys, "compressed_keys": 128, "window": 128}
    config = configuration(Problem(**LAYER | {"compressed": "blocks"}, heads=heads, **size))
    assert (config.splits, config.block_m) == (4, 16)


@pytest.mark.parametrize("splits", [0, 3, 32])
def test_refuses_what_no_cluster_holds(splits: int) -> None:
    with pytest.raises(kernel.ArgumentError, match="splits"):
        kernel.FmhaConfig(head_dim=512, p_path="smem", splits=splits)


@pytest.mark.long
@pytest.mark.parametrize("heads", [24, 128])
def test_ctas_may_have_fewer_rows_than_a_row_tile(heads: int) -> None:
    """And more CTAs, each of which merges less."""
    problem = Problem(head_dim=512, heads=heads, tokens=2, keys=300, shared_kv=True, partials=False)
    assert configuration(problem).block_m == 16
    q, k = normal(1, 1, 2, heads, 512), normal(2, 1, 300, 512)
    with emulator.emulate(completion="random", seed=5):
        got = kernel.fmha(q, k, partials=False)
    want = reference.branch(q, k)
    assert (got.o.double() - want.o).abs().max() < 4e-3 and (got.lse.double() - want.lse).abs().max() < 1e-5
