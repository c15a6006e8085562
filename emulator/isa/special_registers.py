"""Static properties of special registers: PTX's own, and the emulator's implicit ones, whose names begin with `@`."""

from __future__ import annotations

from typing import Final

from ..ptx.syntax import Special

PARAMS: Final = Special("@params")
"""The address of the launch's parameters."""
MEMORY: Final = Special("@memory")
"""The table of the memory that JIT-compiled accesses may touch (`machine.compiled.accesses`)."""
SHARED_SYMBOL: Final = "@shared+"
"""Prefix of the registers that hold the address of a shared variable; the offset follows."""
_UNIFORM: Final = (
    *("%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"),
    *("%warpid", "%nwarpid", "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster", "%smid", "%nsmid"),
    *("%gridid", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%clock", "%globaltimer", "%envreg"),
    *(PARAMS.name, SHARED_SYMBOL),
)
_CHANGING: Final = ("%clock", "%globaltimer")
_WIDE: Final = frozenset({PARAMS.name, MEMORY.name, "%gridid"})


def varies(special: Special) -> bool:
    """Return True if the register may differ between the lanes of a warp."""
    return not special.name.startswith(_UNIFORM)


def changes(special: Special) -> bool:
    """Return True if the register may differ each time that a warp reads it."""
    return special.name.startswith(_CHANGING)


def register_type(special: Special) -> str:
    """Return the type of the register."""
    return "b64" if special.name in _WIDE else "b32"
