"""Every variant of the kernel that a public call can choose is judged by some milestone, with every feature."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any, get_args

import pytest

import kernel
from kernel.config import HEAD_DIMS, SPLITS, Compressed, FmhaConfig, PPath, Size
from kernel.errors import ArgumentError
from stages.case import Case
from stages.catalog import CATALOG

CASES = [case for milestone in CATALOG for case in milestone.load().CASES]
HEADS, TOKENS, BATCHES, KEYS = (8, 16, 64, 128, 144), (1, 4), (1, 16, 256), (128, 4096)


def variant(config: FmhaConfig) -> str:
    """Return the row of the configuration's table."""
    if config.splits > 1:
        return "split keys"
    if config.mma_ctas == 2:
        return f"CTA pair at {config.head_dim}"
    return "two Q tiles" if config.q_tiles == 2 else "one Q tile"


def features(config: FmhaConfig) -> set[str]:
    """Return the features of a configuration, each of which its variant has to be judged with."""
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
    tiles = -(-case.keys // config.block_n)
    clusters = -(-case.tokens * case.heads // (config.mma_ctas * config.block_m)) * case.batch
    made = {
        "peak=32": case.peak == 32,
        "peak=128": case.peak == 128,
        "growing maxima": case.trend == "growing",
        "more KV tiles than a ring holds": tiles > config.depth,
        "row tile after row tile": config.splits > 1
        or (case.sms is not None and clusters * config.mma_ctas > case.sms),
    }
    return {name for name, holds in made.items() if holds}


def chosen() -> Iterator[FmhaConfig]:
    """Yield the configurations of public calls of many shapes, without the features that no choice depends on."""
    shapes = product(HEAD_DIMS, HEADS, TOKENS, BATCHES, KEYS, get_args(Compressed))
    for head_dim, heads, tokens, batch, keys, compressed in shapes:
        given: dict[str, Any] = {"shared_kv": compressed != "none", "compressed": compressed}
        size = Size(batch, tokens, keys, 0 if compressed == "none" else keys)
        yield kernel.configuration(head_dim, heads, tokens, size=size, **given)
        paths: tuple[PPath, ...] = get_args(PPath)
        for splits, path in product(SPLITS, paths):
            with suppress(ArgumentError):
                yield kernel.configuration(head_dim, heads, tokens, splits=splits, p_path=path, **given)


#: Choice does not depend on these, but for what `test_features_that_choose_nothing` holds.
FREE = {"V = K", "mask: none", "mask: length", "mask: causal", "sink", "no sink", "partials", "O and lse"}
DATA = {"peak=32", "peak=128", "growing maxima", "more KV tiles than a ring holds", "row tile after row tile"}


def needed() -> dict[str, set[str]]:
    """Return the features of each variant that a public call can ask for."""
    found: dict[str, set[str]] = {}
    for config in chosen():
        found.setdefault(variant(config), set()).update(features(config) | FREE | DATA)
    return found


def judged() -> dict[str, set[str]]:
    """Return the features of each variant that some case has."""
    found: dict[str, set[str]] = {}
    for case in CASES:
        found.setdefault(variant(case.config), set()).update(features(case.config) | data(case))
    return found


NEEDED = needed()


@pytest.mark.parametrize("name", NEEDED)
def test_every_variant_is_judged_with_every_feature(name: str) -> None:
    missing = NEEDED[name] - judged().get(name, set())
    assert not missing, f"no case of a milestone judges {name} with {', '.join(sorted(missing))}"


def test_the_variants_are_these() -> None:
    assert set(NEEDED) == {"one Q tile", "two Q tiles", "CTA pair at 256", "CTA pair at 512", "split keys"}


def test_features_that_choose_nothing() -> None:
    """Mask, sink, partials and V = K change the configuration by themselves only: the variant stays."""
    size = Size(4, 2, 1024)
    for head_dim, heads in product(HEAD_DIMS, (16, 128)):
        given = {"has_lens": (False, True), "causal": (False, True), "shared_kv": (False, True)}
        given |= {"sink": (False, True), "partials": (False, True)}
        for values in product(*given.values()):
            options: dict[str, Any] = dict(zip(given, values, strict=True))
            one = kernel.configuration(head_dim, heads, 2, size=size, **options)
            other = kernel.configuration(head_dim, heads, 2, size=size)
            assert (variant(one), one.splits, one.block_rows) == (variant(other), other.splits, other.block_rows)
