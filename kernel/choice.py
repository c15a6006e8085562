"""The choice of the configuration that computes a problem: the only place where it is made."""

from __future__ import annotations

from typing import Any

from kernel.config import FmhaConfig
from kernel.hardware import CLUSTERS_AT_ONCE
from kernel.problem import PPath, Problem
from kernel.variants import SPLITS, Variant, VariantName, variant

SMEM_P_FROM = 512  # P stays in tensor memory below this head dim
#: Cycles at head_dim 512 by the clock of the emulated B200. LAUNCH: a launch. ROW_TILE: a row tile beside its KV tiles.
#: KV_TILE: a KV tile of 64 keys. PAIR_KV_TILE: one of 128 keys in a CTA pair. SPLIT: a launch with split keys beside
#: its KV tiles. EXCHANGE: added if a whole row tile crosses the cluster.
LAUNCH = 10_500
ROW_TILE = 2_800
KV_TILE = 2_100
PAIR_KV_TILE = 2_700
SPLIT = 12_000
EXCHANGE = 9_000


def configuration(problem: Problem) -> FmhaConfig:
    """Return the configuration with which a problem is computed. Raises ArgumentError.

    Keys are split as the problem says, or as the estimate says.
    """
    if swapped_variant(problem) is not None:
        return _swapped(problem)
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

    Up to head_dim 128 a CTA has two Q tiles in flight if a group has more rows than one. At 256 it is one of a pair
    then. At 512 it is one of a pair if heads fill pairs, unless V lacks K's rotary columns: a pair has no shared memory
    for those.
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


def swapped_variant(problem: Problem) -> Variant | None:
    """Return the variant with operands swapped that computes a problem, None if another one does.

    Up to 32 heads it is faster for keys of any layout, up to 64 for those that have to be converted.
    """
    if not problem.caches or problem.rope_dim or problem.heads > (64 if problem.quantised else 32):
        return None
    name: VariantName = "16 heads" if problem.heads <= 16 else "32 heads" if problem.heads <= 32 else "64 heads"
    return variant(name, problem.head_dim)


def _swapped(problem: Problem) -> FmhaConfig:
    """Return the configuration with operands swapped, with keys split as the problem or the estimate says."""
    facts: dict[str, Any] = problem.features | {"p_path": "smem", "variant": swapped_variant(problem)}
    splits = SPLITS if problem.splits == "auto" else (problem.splits,)
    return min((FmhaConfig(**facts, splits=n) for n in splits), key=lambda each: estimate(each, problem))


def estimate(config: FmhaConfig, problem: Problem) -> float:
    """Return the estimated cycles of a launch. With split keys a CTA has one row tile and starts anew for the next."""
    row = config.variant
    rows_of_mma = row.mma_ctas * config.block_m
    clusters = -(-problem.rows // rows_of_mma) * problem.groups
    waves = -(-clusters // CLUSTERS_AT_ONCE[config.cluster_ctas])
    tokens = -(-min(problem.rows, rows_of_mma) // max(problem.heads, 1))
    kv_tiles = -(-problem.window_keys(tokens) // row.block_n) - (-problem.compressed_keys // row.block_n)
    if config.splits > 1:
        received = (config.splits - 1) / config.splits  # of the partial results, those of other CTAs
        exchange = min(problem.rows, rows_of_mma) / row.tile_m * received
        return waves * (SPLIT + EXCHANGE * exchange + KV_TILE * -(-kv_tiles // config.splits))
    return LAUNCH + waves * (ROW_TILE + kv_tiles * (PAIR_KV_TILE if row.mma_ctas == 2 else KV_TILE))
