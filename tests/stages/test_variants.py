"""Every variant of the kernel that a public call can choose is judged by some milestone, with every feature."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from typing import get_args

import pytest

import kernel
from kernel.errors import ArgumentError
from kernel.problem import HEAD_DIMS, SPLITS, CacheKind, Compressed, Layout, Mask, PPath
from kernel.sm100 import choice
from kernel.sm100.config import FmhaConfig
from kernel.sm100.variants import VARIANTS
from stages.case import Case
from stages.catalog import CATALOG

CASES = [case for milestone in CATALOG for case in milestone.load().CASES]
HEADS, TOKENS, BATCHES, KEYS = (8, 16, 64, 128, 144), (1, 4), (1, 16, 256), (128, 4096)


def features(config: FmhaConfig) -> set[str]:
    """Return the features of a configuration, each of which its variant has to be judged with."""
    if config.variant.swapped or config.converts_in_pair:
        return {
            *(f"keys: {each.layout}" for each in config.caches),
            "window" if config.caches[0].table else "top-k indices",
            "sink" if config.sink else "no sink",
            "maxima" if config.maxima else "O and lse",
            "whole keys" if config.splits == 1 else "split keys",
        }
    return {
        f"head dim {config.head_dim}",
        "V = K" if config.shared_kv else "V beside K",
        f"compressed keys: {config.compressed}",
        f"mask: {config.mask}",
        f"P in {config.p_path}",
        "sink" if config.sink else "no sink",
        "partials" if config.partials else "O and lse",
        f"splits={config.splits}",
        f"{config.tile_m // (config.block_rows or config.tile_m)} of a row tile's rows",
    }


def data(case: Case) -> set[str]:
    """Return what the inputs of a case make the kernel do."""
    config = case.config
    tiles = sum(-(-count // config.block_n) for count in key_counts(case))
    clusters = -(-case.tokens * case.heads // (config.mma_ctas * config.block_m)) * case.batch
    made = {
        "peak=32": case.peak == 32,
        "peak=128": case.peak == 128,
        "growing maxima": case.trend == "growing",
        "more KV tiles than a ring holds": tiles > config.smem.depth,
        "row tile after row tile": config.splits > 1
        or (case.sms is not None and clusters * config.mma_ctas > case.sms),
    }
    return {name for name, holds in made.items() if holds}


def key_counts(case: Case) -> list[int]:
    """Return the number of keys that a token sees at most, in each cache if there are caches."""
    return [case.keys] if case.served is None else [each.listed for each in case.served.caches]


def chosen() -> Iterator[FmhaConfig]:
    """Yield the configurations of public calls of many shapes, without the features that no choice depends on."""
    shapes = product(HEAD_DIMS, HEADS, TOKENS, BATCHES, KEYS, get_args(Compressed))
    for head_dim, heads, tokens, batch, keys, compressed in shapes:
        problem = kernel.Problem(
            head_dim=head_dim,
            heads=heads,
            tokens=tokens,
            batch=batch,
            keys=keys,
            shared_kv=compressed != "none",
            compressed=compressed,
            compressed_keys=0 if compressed == "none" else keys,
        )
        yield choice.configuration(problem)
        for splits, path in product(SPLITS, get_args(PPath)):
            with suppress(ArgumentError):
                yield choice.configuration(replace(problem, splits=splits, p_path=path))


def served() -> Iterator[FmhaConfig]:
    """Yield the configurations with operands swapped, or that convert, of public calls with caches of many shapes."""
    shapes = product(
        (1, 16, 32, 64, 128), (1, 256), (64, 1024), get_args(Layout), *[(False, True)] * 3, ("auto", *SPLITS)
    )
    for heads, batch, keys, layout, table, sink, maxima, splits in shapes:
        config = choice.configuration(
            kernel.Problem(
                head_dim=512,
                rope_dim=64 * (layout == "v32"),
                heads=heads,
                batch=batch,
                keys=0,
                shared_kv=True,
                partials=False,
                caches=(CacheKind(layout, table=table),),
                compressed_keys=keys,
                sink=sink,
                maxima=maxima,
                splits=splits,
            )
        )
        if config.variant.swapped or config.converts_in_pair:
            yield config


#: Choice does not depend on these, but for what `test_features_that_choose_nothing` holds.
FREE = {"V = K", "mask: none", "mask: length", "mask: causal", "sink", "no sink", "partials", "O and lse"}
DATA = {"peak=32", "peak=128", "growing maxima", "more KV tiles than a ring holds", "row tile after row tile"}


@cache
def needed() -> dict[str, set[str]]:
    """Return the features of each variant that a public call can ask for."""
    found: dict[str, set[str]] = {}
    for config in chosen():
        found.setdefault(config.variant.name, set()).update(features(config) | FREE | DATA)
    for config in served():
        found.setdefault(config.variant.name, set()).update(features(config) | DATA - {"growing maxima"})
    return found


@cache
def judged() -> dict[str, set[str]]:
    """Return the features of each variant that some case has."""
    found: dict[str, set[str]] = {}
    for case in CASES:
        found.setdefault(case.config.variant.name, set()).update(features(case.config) | data(case))
    return found


@pytest.mark.parametrize("name", [each.name for each in VARIANTS])
def test_every_variant_is_judged_with_every_feature(name: str) -> None:
    missing = needed()[name] - judged().get(name, set())
    assert not missing, f"no case of a milestone judges {name} with {', '.join(sorted(missing))}"


def test_the_variants_are_these() -> None:
    """Calls can choose every row of the kernel's table."""
    assert set(needed()) == {each.name for each in VARIANTS} and len(needed()) == 9


def test_features_that_choose_nothing() -> None:
    """Mask, sink, partials and V = K change the configuration by themselves only: the variant stays."""
    for head_dim, heads in product(HEAD_DIMS, (16, 128)):
        plain = kernel.Problem(head_dim=head_dim, heads=heads, tokens=2, batch=4, keys=1024)
        other = choice.configuration(plain)
        flags = (False, True)
        for mask, shared_kv, sink, partials in product(get_args(Mask), flags, flags, flags):
            one = choice.configuration(replace(plain, mask=mask, shared_kv=shared_kv, sink=sink, partials=partials))
            assert (one.variant, one.splits, one.block_rows) == (other.variant, other.splits, other.block_rows)
