"""What the instructions of a skeleton do in modelled time, by the part of the machine that does it."""

from . import copies, in_memory, mbarriers, tensor_core, warp_barriers, wgmma
from .registry import ENTRIES, KEPT, LOADED, STRETCH, find, is_global_store, is_waited_for_later

__all__ = [
    "ENTRIES", "KEPT", "LOADED", "STRETCH",
    "copies", "find", "in_memory", "is_global_store",
    "is_waited_for_later", "mbarriers", "tensor_core", "warp_barriers", "wgmma",
]  # fmt: skip
