"""The table of kernel arguments, and the one decision which configuration a call launches."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import kernel
from kernel.arguments import Arguments, Operands, fakes
from kernel.plan import Plan
from kernel.problem import SPLITS, CacheKind, Problem
from kernel.serving.host import MAX_HEADS
from kernel.sm100 import choice
from kernel.sm100.variants import VariantName, variant
from stages.case import Case
from stages.catalog import CATALOG
from stages.inputs import draw
from stages.launch import launch

CASES: list[Case] = [case for milestone in CATALOG for case in milestone.load().CASES]
V4_KEYS: Any = {"head_dim": 512, "shared_kv": True, "partials": False, "caches": (CacheKind("v4", lens=True),)}


def test_a_configuration_has_the_arguments_that_it_needs() -> None:
    plain = kernel.FmhaConfig(head_dim=64, partials=False)
    options: Any = {"shared_kv": True, "compressed": "topk", "sink": True}
    full = kernel.FmhaConfig(
        head_dim=512, p_path="smem", mask="causal", **options, variant=variant("CTA pair at 512", 512)
    )
    absent = {"u", "m", "sink", "lens", "compressed", "positions", "topk_indices", "topk_lens"}
    fields = ("", "_indices", "_lens", "_lens_step", "_lens_tokens", "_keys", "_page", "_row")
    caches = {f"{name}{field}" for name in ("main", "extra") for field in fields}
    caches |= {"main_table", "empty_lse"}
    assert missing(plain) == absent | caches
    assert missing(full) == {"positions", "v"} | caches


def missing(config: kernel.FmhaConfig) -> set[str]:
    tables = fakes(Operands, config), fakes(Arguments, config)
    return {name for table in tables for name, value in table._asdict().items() if value is None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.milestone} {case.name}")
def test_what_is_compiled_for_a_case_is_what_it_launches(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness compiles `case.config` apart from the launch: another one would be judged uncompiled."""
    launched: list[kernel.FmhaConfig] = []
    monkeypatch.setattr(Plan, "set_launch", lambda plan, config, values, stand_ins: launched.append(config))
    launch(case, draw(case, 1), "cpu")
    assert launched[-1] == case.config


@pytest.mark.parametrize("splits", ["auto", *SPLITS])
def test_operands_are_swapped_for_keys_of_v4_unless_heads_fill_a_pair(splits: Any) -> None:
    for heads, batch in product(range(1, MAX_HEADS + 1), (1, 64, 256)):
        problem = Problem(**V4_KEYS, heads=heads, batch=batch, keys=0, compressed_keys=640, splits=splits)
        pairs = heads == 128 and (splits == 1 or (splits == "auto" and batch > 1))
        chosen = choice.configuration(problem)
        assert (chosen.converts_in_pair, chosen.variant.swapped) == (pairs, not pairs), problem


@pytest.mark.parametrize("heads", [8, 64, 128])
def test_the_variant_of_unsplit_keys_depends_on_heads_alone(heads: int) -> None:
    """A token's bits do not depend on the batch if keys are not split, as with batch_invariant."""
    problems = product((1, 2, 64, 256), (64, 1152))
    chosen = {
        choice.configuration(
            Problem(**V4_KEYS, heads=heads, batch=batch, keys=0, compressed_keys=keys, splits=1)
        ).variant.name
        for batch, keys in problems
    }
    assert chosen == {{8: "16 heads", 64: "64 heads", 128: "converting CTA pair"}[heads]}


def test_a_pair_that_converts_needs_quantised_keys() -> None:
    pair = variant("converting CTA pair", 512)
    for facts in ({"head_dim": 512}, V4_KEYS | {"caches": (CacheKind("bf16"),)}):
        with pytest.raises(kernel.ArgumentError, match="variant is 'converting CTA pair'"):
            kernel.FmhaConfig(**facts, p_path="smem", variant=pair)


@pytest.mark.parametrize("name", ["one Q tile", "CTA pair at 512"])
def test_a_variant_that_cannot_convert_keys_of_v4_is_named(name: VariantName) -> None:
    with pytest.raises(kernel.ArgumentError, match=f"variant is '{name}'; allowed: one with operands swapped"):
        kernel.FmhaConfig(**V4_KEYS, p_path="smem", variant=variant(name, 512))
