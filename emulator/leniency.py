"""Rules of what the emulator tolerates by default, each with a name, a level, its reason and its evidence.

leniency.toml has the reasons. tests/emulator/finds.toml lists the tests.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from typing import Final

TEXTS: Final = Path(__file__).with_name("leniency.toml")


class Level(IntEnum):
    """The severity of a fault. A launch treats faults of its own level and of the levels above it as errors.

    FAULT: some legal timing gives a wrong result, a crash or a hang. FORMAL: PTX forbids it, and no known hardware
    shows it. PEDANTIC: PTX asks for it, and NVIDIA's own programs omit it.
    """

    FAULT = 0
    FORMAL = 1
    PEDANTIC = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Reason:
    """Why a rule has its level.

    check: what is tolerated, or at level pedantic required. evidence: of "silicon", "machine code", "programs",
    "PTX alone".
    """

    check: str
    because: str
    evidence: tuple[str, ...]


class Leniency(Enum):
    """A rule that puts a finding below the level `fault`. Its value is its name in leniency.toml."""

    TENSORMAP_LANES = "tensormap_lanes", Level.FORMAL
    MAP_OF_EARLIER_WORK = "map_of_earlier_work", Level.FORMAL
    ENDED_CTA = "ended_cta", Level.FORMAL
    OWN_COPIES_AT_END = "own_copies_at_end", Level.FORMAL
    SECOND_CLUSTER_ARRIVE = "second_cluster_arrive", Level.FORMAL
    PAIR_STARTED = "pair_started", Level.FORMAL
    FREED_WHILE_COPIED = "freed_while_copied", Level.FORMAL
    LOAD_WITHOUT_USE = "load_without_use", Level.FORMAL
    CONVERGED_LANES = "converged_lanes", Level.FORMAL
    STRONG_LANES = "strong_lanes", Level.FORMAL
    WAITED_TOGETHER = "waited_together", Level.FORMAL
    ONE_SUM = "one_sum", Level.FORMAL
    UNUSED_LOAD = "unused_load", Level.FORMAL
    UNUSED_BEFORE_STORE = "unused_before_store", Level.FORMAL
    EQUAL_BITS = "equal_bits", Level.FORMAL
    PUT_BACK = "put_back", Level.FORMAL
    INIT_WITHOUT_FENCE = "init_without_fence", Level.FORMAL
    WORD_OF_ALLOC = "word_of_alloc", Level.FORMAL
    RELAXED = "relaxed", Level.FORMAL
    NEGATIVE_FIRST = "negative_first", Level.FORMAL
    WAIT_IN_CTA = "wait_in_cta", Level.FORMAL
    STRONG_IN_CTA = "strong_in_cta", Level.FORMAL
    STORES_BESIDE_COPIES = "stores_beside_copies", Level.FORMAL
    TENSOR_LOAD_USED_EARLY = "tensor_load_used_early", Level.FORMAL
    PRODUCT_USED_EARLY = "product_used_early", Level.FORMAL
    PRODUCT_WITHOUT_FENCE = "product_without_fence", Level.FORMAL
    FENCE_OF_FOUR_WARPS = "fence_of_four_warps", Level.FORMAL
    UNNAMED_LANE = "unnamed_lane", Level.FORMAL
    UNDEFINED_SHUFFLE = "undefined_shuffle", Level.FORMAL
    ENDED_THREADS = "ended_threads", Level.FORMAL
    SETMAXNREG = "setmaxnreg", Level.FORMAL
    RELINQUISH_OTHER_GROUP = "relinquish_other_group", Level.FORMAL
    LOCAL_UNWRITTEN = "local_unwritten", Level.FORMAL
    REGISTER_UNWRITTEN = "register_unwritten", Level.FORMAL
    TCGEN05_FENCE = "tcgen05_fence", Level.PEDANTIC
    CP_ASYNC_FENCE = "cp_async_fence", Level.PEDANTIC
    TENSOR_ADDRESS = "tensor_address", Level.PEDANTIC
    TENSOR_LANE_BITS = "tensor_lane_bits", Level.PEDANTIC
    SAME_INIT = "same_init", Level.PEDANTIC
    PREFETCH_OUTSIDE = "prefetch_outside", Level.PEDANTIC
    LAST_WORK = "last_work", Level.PEDANTIC
    LAST_BYTES = "last_bytes", Level.PEDANTIC

    def __init__(self, title: str, level: Level) -> None:
        self.title, self.level = title, level

    @property
    def reason(self) -> Reason:
        """The reason for the level."""
        return _reasons()[self.title]


@cache
def _reasons() -> dict[str, Reason]:
    found = tomllib.loads(TEXTS.read_text())
    return {name: Reason(each["check"], each["because"], tuple(each["evidence"])) for name, each in found.items()}


Grade = Level | Leniency
"""The level of a finding, or the rule that puts it below `fault`."""
