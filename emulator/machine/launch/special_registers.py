"""Values of the special registers that describe a thread's place in the grid."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from ...chip import LANES, RESERVED_SHARED_BYTES, SMS
from .launch import Dim3, Launch

LANE = np.arange(LANES, dtype=np.uint32)
_EQUAL = np.uint32(1) << LANE
_BELOW = _EQUAL - np.uint32(1)
OF_LANE: Final = {
    "%laneid": LANE,
    "%lanemask_eq": _EQUAL,
    "%lanemask_lt": _BELOW,
    "%lanemask_le": _BELOW | _EQUAL,
    "%lanemask_ge": ~_BELOW,
    "%lanemask_gt": ~(_BELOW | _EQUAL),
}
CLOCKS: Final = frozenset({"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})


def of_cta(launch: Launch, cluster: Dim3, ctaid: Dim3, rank: int) -> dict[str, int]:
    """Return the registers that are uniform over a CTA. cluster: the cluster's index; rank: the CTA's rank in it.

    %smid counts CTAs as if each had an SM of its own, modulo the number of SMs: programs index global memory by it.
    """
    wide, high, _ = launch.grid
    x, y, z = (i % c for i, c in zip(ctaid, launch.cluster, strict=True))
    triples = {
        "ntid": launch.block,
        "ctaid": ctaid,
        "nctaid": launch.grid,
        "clusterid": cluster,
        "nclusterid": launch.grid_of_clusters,
        "cluster_ctaid": (x, y, z),
        "cluster_nctaid": launch.cluster,
    }
    values = {f"%{name}.{axis}": t[i] for name, t in triples.items() for i, axis in enumerate("xyz")}
    size = prod(launch.cluster)
    workspace = 0 if launch.workspace is None else ctypes.addressof(launch.workspace)
    return values | {
        "%nwarpid": launch.warps,
        "%cluster_ctarank": rank,
        "%cluster_nctarank": size,
        "%is_explicit_cluster": int(size > 1),
        "%smid": (ctaid[0] + wide * (ctaid[1] + high * ctaid[2])) % SMS,
        "%nsmid": SMS,
        "%gridid": 1,
        "%dynamic_smem_size": launch.dynamic_shared_bytes,
        "%total_smem_size": launch.shared_bytes - RESERVED_SHARED_BYTES,
        "%aggr_smem_size": launch.shared_bytes,
        "%envreg1": workspace >> 32,  # cooperative_groups' this_grid() reads the address there
        "%envreg2": workspace & 0xFFFF_FFFF,
    }


def of_warp(name: str, block: Dim3, index: int, executed: int) -> Any:
    """Return a register that differs between warps: int if uniform, else uint32[32]. Raises KeyError for others.

    executed: the warp-instructions of the warp so far, which serve as its clock.
    """
    if name.startswith("%tid"):
        return _tid(name, block, index)
    if name in CLOCKS:
        return executed
    return index if name == "%warpid" else OF_LANE[name]


@lru_cache(maxsize=1024)
def _tid(name: str, block: Dim3, index: int) -> Any:
    x, y, _ = block
    linear = LANE + np.uint32(index * LANES)
    value = {"x": linear % x, "y": linear // x % y, "z": linear // (x * y)}[name[-1]]
    value = value.astype(np.uint32)
    return int(value[0]) if (value == value[0]).all() else value
