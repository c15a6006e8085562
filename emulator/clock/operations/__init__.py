"""Handlers of the skeleton's operations in modelled time, by the part of the machine that performs them."""

from . import copies, in_memory, mbarriers, tensor_core, warp_barriers, wgmma
from .registry import AWAIT_LOAD, SPIN, STRETCH, find, is_global_store, operation, waits_at_first_use

__all__ = [
    "AWAIT_LOAD",
    "SPIN",
    "STRETCH",
    "copies",
    "find",
    "in_memory",
    "is_global_store",
    "mbarriers",
    "operation",
    "tensor_core",
    "waits_at_first_use",
    "warp_barriers",
    "wgmma",
]  # fmt: skip
