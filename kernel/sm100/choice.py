"""The choice of the configuration that computes a problem: the only place where it is made."""

from __future__ import annotations

from typing import Any

from kernel.problem import SPLITS, PPath, Problem
from kernel.sm100.config import FmhaConfig
from kernel.sm100.hardware import CLUSTERS_AT_ONCE
from kernel.sm100.variants import Variant, VariantName, variant

SMEM_P_FROM = 512  # P stays in tensor memory below this head dim
#: Cycles at head_dim 512 by the clock of the emulated B200. LAUNCH: a launch. ROW_TILE: a row tile without KV tiles.
#: KV_TILE: a KV tile of 64 keys. PAIR_KV_TILE: one of 128 keys in a CTA pair. SPLIT: a launch with split keys without
#: KV tiles. EXCHANGE: added if a whole row tile is exchanged through DSMEM.
LAUNCH = 10_500
ROW_TILE = 2_800
KV_TILE = 2_100
PAIR_KV_TILE = 2_700
SPLIT = 12_000
#: The same of a CTA pair that converts keys.
CONVERTING_LAUNCH = 3_500
CONVERTING_ROW_TILE = 4_500
CONVERTING_KV_TILE = 3_200
EXCHANGE = 9_000
#: The same with operands swapped: a constant, and an amount for each row of a row tile. SWAPPED_EXCHANGE: for each row.
SWAPPED_LAUNCH = 2_000
SWAPPED_ROW_TILE = 3_000, 80
SWAPPED_KV_TILE = 1_000, 25
SWAPPED_SPLIT = 6_800, 45
SWAPPED_EXCHANGE = 90


def configuration(problem: Problem) -> FmhaConfig:
    """Return the configuration with which a problem is computed. Raises ArgumentError.

    Keys are split as the problem says, or as the estimate says.
    """
    if variants := swapped_variants(problem):
        return min(_swapped(problem, variants), key=lambda each: estimate(each, problem))
    auto: PPath = "tmem" if problem.head_dim < SMEM_P_FROM else "smem"
    facts: dict[str, Any] = problem.features | {"p_path": auto if problem.p_path == "auto" else problem.p_path}
    whole = FmhaConfig(**facts, variant=_whole_variant(problem, facts["p_path"]))
    if problem.splits == 1:
        return whole
    if problem.splits != "auto":
        return FmhaConfig(**facts, splits=problem.splits)
    rows = (*variant("split keys", problem.head_dim).short_block_rows, None)
    split = (FmhaConfig(**facts, splits=n, block_rows=each) for n in SPLITS if n > 1 for each in rows)
    return min((whole, *split), key=lambda each: estimate(each, problem))


def _whole_variant(problem: Problem, p_path: PPath) -> Variant:
    """Return the variant for a problem whose keys are not split.

    If a group has more rows than a Q tile, a CTA has two Q tiles in flight up to head_dim 128, and is one of a pair
    at 256. At 512 it is one of a pair if heads fill pairs, unless V lacks K's rotary columns: a pair has no shared
    memory for these.
    """
    one = variant("one Q tile", problem.head_dim)
    if problem.head_dim == 512:
        pairs = problem.heads % (2 * one.tile_m) == 0 and problem.rope_dim == 0
        return variant("CTA pair at 512", 512) if pairs else one
    if problem.rows <= one.tile_m:
        return one
    if problem.head_dim == 256:
        return variant("CTA pair at 256", 256)
    return one if p_path == "smem" or problem.by_token else variant("two Q tiles", problem.head_dim)


def swapped_variants(problem: Problem) -> list[Variant]:
    """Return the swapped variants (`Variant.swapped`) that may compute a problem, the one with most heads last.

    Quantised keys need one, unless a CTA pair converts them. For bf16 keys they have up to 32 heads. Keys with separate
    rotary columns have none.
    """
    if not problem.caches or problem.rope_dim or not (problem.quantised or problem.heads <= 32):
        return []
    names: tuple[VariantName, ...] = ("16 heads", "32 heads", "64 heads")
    found = [variant(name, problem.head_dim) for name in names]
    return [each for each in found if each is found[0] or each.tile_m < 2 * problem.heads]


def _swapped(problem: Problem, variants: list[Variant]) -> list[FmhaConfig]:
    """Return the configurations with operands swapped, and the CTA pair that converts keys if heads fill pairs.

    There are several if the estimate decides whether keys are split. Else there is one, and its variant depends on the
    number of heads alone, not on the batch.
    """
    facts: dict[str, Any] = problem.features | {"p_path": "smem"}
    pair = variant("converting CTA pair", problem.head_dim)
    fills_pairs = problem.quantised and problem.heads % (2 * pair.tile_m) == 0
    if problem.splits == 1 and fills_pairs:
        return [FmhaConfig(**facts, variant=pair)]
    if problem.splits != "auto":
        return [FmhaConfig(**facts, splits=problem.splits, variant=variants[-1])]
    pairs = [FmhaConfig(**facts, variant=pair)] if fills_pairs else []
    return [FmhaConfig(**facts, splits=n, variant=each) for each in variants for n in SPLITS] + pairs


def estimate(config: FmhaConfig, problem: Problem) -> float:
    """Return the estimated cycles of a launch. With split keys a CTA has one row tile and starts anew for the next."""
    row = config.variant
    rows_of_mma = row.mma_ctas * config.block_m
    clusters = -(-problem.rows // rows_of_mma) * problem.groups
    waves = -(-clusters // CLUSTERS_AT_ONCE[config.cluster_ctas])
    tokens = -(-min(problem.rows, rows_of_mma) // max(problem.heads, 1))
    kv_tiles = -(-problem.window_keys(tokens) // row.block_n) - (-problem.compressed_keys // row.block_n)
    received = (config.splits - 1) / config.splits  # the part of the partial results that comes from other CTAs
    kv_tiles = -(-kv_tiles // config.splits)
    if row.swapped:
        row_tile, kv_tile, split = (
            each + of_head * row.tile_m for each, of_head in (SWAPPED_ROW_TILE, SWAPPED_KV_TILE, SWAPPED_SPLIT)
        )
        if config.splits == 1:
            return SWAPPED_LAUNCH + waves * (row_tile + kv_tiles * kv_tile)
        return waves * (split + SWAPPED_EXCHANGE * min(problem.rows, row.tile_m) * received + kv_tiles * kv_tile)
    if config.splits > 1:
        exchange = min(problem.rows, rows_of_mma) / row.tile_m * received
        return waves * (SPLIT + EXCHANGE * exchange + KV_TILE * kv_tiles)
    if config.converts_in_pair:
        return CONVERTING_LAUNCH + waves * (CONVERTING_ROW_TILE + kv_tiles * CONVERTING_KV_TILE)
    return LAUNCH + waves * (ROW_TILE + kv_tiles * (PAIR_KV_TILE if row.mma_ctas == 2 else KV_TILE))
