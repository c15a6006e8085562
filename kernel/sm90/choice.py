"""The choice of the configuration that computes a problem on sm_90a: the only place where it is made."""

from __future__ import annotations

from typing import get_args

from kernel.errors import ArgumentError
from kernel.problem import FEW_TOKENS, SPLITS, PPath, Problem
from kernel.sm90.config import HopperConfig

SMS = 132
KV_TILE = 64  # keys of a KV tile at most, where tokens have keys of their own
TWO_ROWS = 128  # rows of a CTA with two consumer warpgroups
THREE_ROWS = 192  # rows of a CTA with three
SAME_KEYS_HEADS = 16  # from this number on, adjacent row tiles have tokens that see nearly the same keys
#: Clusters that run at a time on an H200, by CTAs per cluster: its GPCs have 16 or 18 SMs.
CLUSTERS_AT_ONCE = {1: 132, 2: 66, 4: 32, 8: 15, 16: 7}
#: Cycles by the clock of the emulated H200, by head dim: of a launch without KV tiles, of 64 keys, and added if keys
#: are split.
LAUNCH = {64: 4_000, 128: 4_900, 256: 6_200, 512: 5_600}
KEYS_64 = {64: 950, 128: 1_150, 256: 2_200, 512: 3_250}
SPLIT = {64: 3_000, 128: 3_600, 256: 4_600, 512: 7_500}
#: The same at head_dim 512 by parts of a Q tile's rows: an H200 merges 10 bytes a cycle of each CTA.
SPLIT_PARTS = {1: SPLIT[512], 2: 3_500, 4: 2_000}


def configuration(problem: Problem) -> HopperConfig:
    """Return the configuration with which a problem is computed. Raises ArgumentError.

    Keys are split as the problem says, or as the estimate says. P waits in registers, or at head_dim 512 also in shared
    memory, whichever allowed `p_path` is given.
    """
    if problem.p_path not in ("auto", *get_args(PPath)):
        raise ArgumentError("p_path", repr(problem.p_path), "'tmem' or 'smem'")
    splits = SPLITS if problem.splits == "auto" else (problem.splits,)
    options = [with_splits(problem, n, parts) for n in splits for parts in row_parts(problem, n)]
    return min(options, key=lambda each: estimate(each, problem))


def row_parts(problem: Problem, splits: int) -> tuple[int, ...]:
    """Return the numbers of parts that a Q tile's rows may have: more than one if the keys of a full tile are split."""
    full = problem.by_token and problem.head_dim == 512 and problem.heads >= TWO_ROWS // 2
    return tuple(SPLIT_PARTS) if full and splits > 1 else (1,)


def with_splits(problem: Problem, splits: int, parts: int = 1) -> HopperConfig:
    """Return the configuration with a number of splits of the keys, and of parts of a Q tile's rows."""
    return HopperConfig(
        **problem.features,
        splits=splits,
        warpgroups=warpgroups(problem, splits),
        adjacent_ctas=adjacent_ctas(problem, splits),
        small_tiles=small_tiles(problem),
        row_parts=parts,
        loads_pages=loads_pages(problem),
    )


def loads_pages(problem: Problem) -> bool:
    """Return whether TMA loads the keys: those of pages that hold whole KV tiles."""
    return problem.page > 0 and problem.page % KV_TILE == 0 and not problem.quantised


def small_tiles(problem: Problem) -> bool:
    """Return whether KV tiles have 32 keys: for few tokens of one row tile each, which wait for bf16 keys from HBM."""
    copied = problem.head_dim == 512 and problem.by_token and not problem.quantised and not loads_pages(problem)
    return copied and problem.heads <= TWO_ROWS // 2 and problem.tokens <= FEW_TOKENS


def warpgroups(problem: Problem, splits: int) -> int:
    """Return the consumer warpgroups: three at head_dim 64, where products are short, if row tiles fill the SMs."""
    fits = problem.head_dim == 64 and splits == 1 and not problem.by_token
    return 3 if fits and problem.rows * problem.groups >= (problem.sms or SMS) * THREE_ROWS else 2


def adjacent_ctas(problem: Problem, splits: int) -> int:
    """Return the number of CTAs that share KV tiles, with adjacent row tiles: two if that adds little work.

    DRAM then reads the keys once: TMA multicasts them, or they are in L2 when the second CTA reads them.
    """
    if problem.head_dim == 512:
        together = problem.shared_kv and problem.heads % TWO_ROWS == 0  # row tiles of one token
    else:
        nearly_same = problem.mask != "causal" or problem.heads >= SAME_KEYS_HEADS
        together = nearly_same and problem.compressed == "none" and splits == 1 and problem.rows > TWO_ROWS
    return 2 if together and (problem.sms or SMS) % 2 == 0 else 1


def estimate(config: HopperConfig, problem: Problem) -> float:
    """Return the estimated cycles of a launch. With split keys a CTA has one row tile and starts anew for the next."""
    clusters = -(-problem.rows // (config.loading_ctas * config.block_m)) * problem.groups
    waves = -(-clusters // CLUSTERS_AT_ONCE[config.cluster_ctas])
    tokens = -(-min(problem.rows, config.block_m) // max(problem.heads, 1))
    kv_tiles = -(-problem.window_keys(tokens) // config.block_n) - (-problem.compressed_keys // config.block_n)
    computing = -(-kv_tiles // config.splits) * config.block_n / 64 * KEYS_64[config.head_dim]
    if config.splits > 1:
        merge = SPLIT_PARTS[config.row_parts] if config.head_dim == 512 else SPLIT[config.head_dim]
        return waves * (LAUNCH[config.head_dim] + merge + computing)
    return LAUNCH[config.head_dim] + waves * computing
