"""What is known of special registers before a warp runs: PTX's own, and those that only the emulator has (`@`)."""

from __future__ import annotations

from typing import Final

from ..ptx.syntax import Special

PARAMS: Final = Special("@params")
"""The address of the launch's parameters."""
MEMORY: Final = Special("@memory")
"""Where the accesses that are machine code find what they may touch: `machine.compiled.accesses`."""
SHARED_SYMBOL: Final = "@shared+"
"""And an offset: the address of a shared variable."""
_UNIFORM: Final = (
    *("%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"),
    *("%warpid", "%nwarpid", "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster", "%smid", "%nsmid"),
    *("%gridid", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%clock", "%globaltimer"),
    *(PARAMS.name, SHARED_SYMBOL),
)
_CHANGING: Final = ("%clock", "%globaltimer")
_WIDE: Final = frozenset({PARAMS.name, MEMORY.name, "%gridid"})


def varies(special: Special) -> bool:
    """Whether it may differ between the lanes of a warp."""
    return not special.name.startswith(_UNIFORM)


def changes(special: Special) -> bool:
    """Whether it may differ each time that a warp reads it."""
    return special.name.startswith(_CHANGING)


def register_type(special: Special) -> str:
    """The type of the register that holds it."""
    return "b64" if special.name in _WIDE else "b32"
