"""Configurations of the Hopper kernel: every feature fits the chip, and the choice splits keys if rows are few."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import kernel
from kernel.hardware import SMEM_BYTES, WARP, WARPGROUP
from kernel.problem import HEAD_DIMS, CacheKind
from kernel.sm90.choice import configuration
from kernel.sm90.config import HopperConfig

REGISTERS_AN_SM, STEP = 64 * 1024, 8


SERVED: dict[str, Any] = {"shared_kv": True, "partials": False}


def every() -> list[HopperConfig]:
    """Return a configuration for each combination of features."""
    kinds = [(False, "none"), (True, "none"), (True, "blocks"), (True, "topk")]
    return [
        HopperConfig(head_dim=hd, shared_kv=shared, compressed=compressed, splits=splits)  # type: ignore[arg-type]
        for hd, (shared, compressed), splits in product(HEAD_DIMS, kinds, (1, 16))
    ] + [
        HopperConfig(head_dim=64, warpgroups=3),
        *adjacent(),
        converting(),
        HopperConfig(head_dim=512, **SERVED, caches=(CacheKind("v41"), CacheKind("v41_fp4")), adjacent_ctas=2),
        *(replace(served(4), row_parts=parts) for parts in (2, 4)),
        *(served(*each) for each in product((1, 16), (0, 64))),
    ]


def adjacent() -> list[HopperConfig]:
    """Return configurations whose adjacent CTAs have the same KV tiles."""
    plain = [HopperConfig(head_dim=hd, adjacent_ctas=2) for hd in HEAD_DIMS]
    shared = [
        HopperConfig(head_dim=512, shared_kv=True, mask="causal", compressed=each, adjacent_ctas=2)  # type: ignore[arg-type]
        for each in ("none", "blocks", "topk")
    ]
    return [*plain, *shared, HopperConfig(head_dim=64, warpgroups=3, adjacent_ctas=2)]


def converting() -> HopperConfig:
    """Return the configuration with two producer warpgroups."""
    return HopperConfig(head_dim=512, rope_dim=64, **SERVED, caches=(CacheKind("v32"),), adjacent_ctas=2)


def served(splits: int, rope_dim: int = 0) -> HopperConfig:
    """Return a configuration for two caches."""
    features: dict[str, Any] = {"head_dim": 512, "rope_dim": rope_dim, **SERVED}
    caches = CacheKind("bf16", table=True, lens=True), CacheKind("bf16")
    return HopperConfig(**features, caches=caches, maxima=True, splits=splits)


@pytest.mark.parametrize("config", every(), ids=lambda config: config.name)
def test_every_configuration_fits_the_chip(config: HopperConfig) -> None:
    assert config.smem.total_bytes <= SMEM_BYTES and config.smem.depth >= 2
    producer, consumer = config.variant.registers
    moved = WARP * (config.producers * WARPGROUP * producer + len(config.roles.consumers) * consumer)
    launched = REGISTERS_AN_SM // config.threads // STEP * STEP * config.threads
    assert moved <= launched, "setmaxnreg.inc would wait for registers that the CTA does not have"
    assert set(config.roles.load + config.roles.values) <= set(range(config.producers * WARPGROUP))
    assert config.head_dim % config.slices == 0 and config.k_slice[1] * 2 % 128 == 0
    assert len({*config.mbarriers.values()}) == config.barrier_count


def test_unknown_values_are_rejected() -> None:
    for wrong in ({"head_dim": 96}, {"splits": 3}, {"compressed": "topk"}):
        with pytest.raises(kernel.ArgumentError):
            HopperConfig(**({"head_dim": 64} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize(("heads", "keys", "batch", "split"), [(16, 4096, 1, True), (128, 4096, 132, False)])
def test_keys_are_split_if_row_tiles_are_fewer_than_sms(heads: int, keys: int, batch: int, split: bool) -> None:
    features: dict[str, Any] = {"head_dim": 512, "shared_kv": True, "mask": "causal"}
    chosen = configuration(kernel.Problem(heads=heads, keys=keys, batch=batch, **features))
    assert (chosen.splits > 1) == split


@pytest.mark.parametrize(
    ("features", "adjacent", "loading"),
    [
        ({"head_dim": 128, "heads": 16, "tokens": 4096, "mask": "causal"}, 2, 2),
        ({"head_dim": 128, "heads": 8, "tokens": 4096, "mask": "causal"}, 1, 1),
        ({"head_dim": 128, "heads": 8, "tokens": 4096}, 2, 2),
        ({"head_dim": 128, "heads": 16, "tokens": 4096, "sms": 131}, 1, 1),
        ({"head_dim": 64, "heads": 1, "tokens": 64, "splits": 1}, 1, 1),
        ({"head_dim": 512, "heads": 128, "tokens": 1024, "shared_kv": True, "mask": "causal"}, 2, 1),
        ({"head_dim": 512, "heads": 64, "tokens": 1024, "shared_kv": True, "mask": "causal"}, 1, 1),
        ({"head_dim": 512, "heads": 128, "batch": 64, **SERVED, "caches": (CacheKind("v4"),)}, 2, 2),
        ({"head_dim": 512, "heads": 128, "batch": 64, **SERVED, "caches": (CacheKind("bf16"),)}, 2, 1),
    ],
)
def test_adjacent_ctas_have_the_same_keys(features: dict[str, Any], adjacent: int, loading: int) -> None:
    chosen = configuration(kernel.Problem(keys=4096, **features))
    assert (chosen.splits, chosen.adjacent_ctas, chosen.loading_ctas) == (1, adjacent, loading)


@pytest.mark.parametrize(("splits", "loading", "cluster"), [(1, 2, 2), (8, 2, 16), (16, 1, 16)])
def test_adjacent_ctas_share_conversions_of_split_keys_in_a_cluster(splits: int, loading: int, cluster: int) -> None:
    problem = kernel.Problem(head_dim=512, heads=128, keys=4096, caches=(CacheKind("v4"),), splits=splits, **SERVED)
    chosen = configuration(problem)
    assert (chosen.loading_ctas, chosen.cluster_ctas) == (loading, cluster)


@pytest.mark.parametrize(
    ("heads", "keys", "splits", "rows"), [(128, 256, 4, 16), (128, 1152, 8, 32), (64, 640, 16, 32), (16, 1152, 16, 64)]
)
def test_ctas_of_split_keys_have_few_rows_if_that_fills_idle_sms(heads: int, keys: int, splits: int, rows: int) -> None:
    caches = CacheKind("v4"), CacheKind("v4")
    features: dict[str, Any] = {"head_dim": 512, **SERVED, "caches": caches}
    chosen = configuration(kernel.Problem(heads=heads, batch=2, keys=0, compressed_keys=keys, **features))
    assert (chosen.splits, chosen.block_m) == (splits, rows)


@pytest.mark.parametrize(("heads", "tokens", "keys"), [(64, 1, 32), (128, 1, 64), (64, 1024, 64)])
def test_kv_tiles_are_small_where_few_tokens_wait_for_keys(heads: int, tokens: int, keys: int) -> None:
    features: dict[str, Any] = {"head_dim": 512, "shared_kv": True, "mask": "causal", "compressed": "topk"}
    problem = kernel.Problem(heads=heads, tokens=tokens, batch=256, keys=128, compressed_keys=512, **features)
    assert configuration(problem).block_n == keys


def test_rejects_an_unknown_memory_of_p() -> None:
    problem = kernel.Problem(head_dim=64, heads=4, keys=8, p_path="gmem")  # type: ignore[arg-type]
    with pytest.raises(kernel.ArgumentError, match="p_path is 'gmem'; allowed: 'tmem' or 'smem'"):
        configuration(problem)
