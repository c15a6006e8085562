"""Instruction families: the dotted spellings that are families of their own.

The family of every other instruction is its first part.
"""

from functools import cache
from typing import Final

FAMILIES: Final[frozenset[str]] = frozenset(
    f"{first}.{rest}"
    for first, rests in {
        "cp": (
            "async",
            "async.commit_group",
            "async.wait_group",
            "async.wait_all",
            "async.mbarrier.arrive",
            "async.bulk",
            "async.bulk.tensor",
            "async.bulk.commit_group",
            "async.bulk.wait_group",
            "async.bulk.prefetch",
            "async.bulk.prefetch.tensor",
            "reduce.async.bulk",
            "reduce.async.bulk.tensor",
        ),
        "fence": ("proxy", "mbarrier_init"),
        "bar": ("sync", "arrive", "red", "warp.sync"),
        "barrier": ("sync", "arrive", "red", "cluster"),
        "shfl": ("sync",),
        "vote": ("sync",),
        "elect": ("sync",),
        "match": ("sync", "any.sync", "all.sync"),
        "redux": ("sync",),
        "st": ("async", "bulk"),
        "red": ("async",),
        "griddepcontrol": ("wait", "launch_dependents"),
        "tensormap": ("replace", "cp_fenceproxy"),
        "clusterlaunchcontrol": ("try_cancel", "query_cancel"),
        "multimem": ("ld_reduce", "st", "red"),
    }.items()
    for rest in rests
)
TWO_WORDS: Final[frozenset[str]] = frozenset({"mbarrier", "tcgen05", "wgmma"})


@cache
def split(spelling: str) -> tuple[str, tuple[str, ...]]:
    """Split an instruction's dotted spelling into (family, modifiers).

    The first two parts of mbarrier, tcgen05 and wgmma instructions are the family. Otherwise the longest entry of
    `FAMILIES` wins. The qualifier `.cta` of a barrier is dropped: it is the default.
    """
    parts = spelling.split(".")
    if parts[0] in ("bar", "barrier") and "cta" in parts[1:2]:
        del parts[1]
    if parts[0] in TWO_WORDS:
        return ".".join(parts[:2]), tuple(parts[2:])
    for n in range(min(len(parts), 5), 1, -1):
        family = ".".join(parts[:n])
        if family in FAMILIES:
            return family, tuple(parts[n:])
    return parts[0], tuple(parts[1:])
