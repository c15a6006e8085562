"""What the instructions of a skeleton do in modelled time, by the part of the machine that does it."""

from . import copies, in_memory, mbarriers, tensor_core, warp_barriers, wgmma
from .registry import ENTRIES, KEPT, LOADED, STRETCH, find, is_global_store

__all__ = [
    "ENTRIES", "KEPT", "LOADED", "STRETCH",
    "copies", "find", "in_memory", "is_global_store", "mbarriers", "tensor_core", "warp_barriers", "wgmma",
]  # fmt: skip
