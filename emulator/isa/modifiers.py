"""Reading an instruction that acts on the machine: its modifiers, and operands that differ by lane or do not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from emulator.errors import UnknownInstruction
from emulator.ptx.syntax import Instr

SEMANTICS: Final = frozenset({"relaxed", "acquire", "release", "acq_rel", "sc", "weak", "volatile"})
SCOPE: Final = frozenset({"cta", "cluster", "gpu", "sys"})
SHARED: Final = frozenset({"shared", "shared::cta", "shared::cluster"})
ALIGNED: Final = frozenset({"aligned"})
CACHE_HINT: Final = frozenset({"L2::cache_hint"})
CTA_GROUP: Final = frozenset({"cta_group::1", "cta_group::2"})


def pick(ins: Instr, *groups: Collection[str]) -> tuple[str | None, ...]:
    """The modifier of each group, or None.

    Raises UnknownInstruction for a modifier that no group claims, or a second one of a group.
    """
    picked: list[str | None] = [None] * len(groups)
    for modifier in ins.modifiers:
        for i, group in enumerate(groups):
            if modifier in group and picked[i] is None:
                picked[i] = modifier
                break
        else:
            raise UnknownInstruction(ins, f"modifier '.{modifier}'")
    return tuple(picked)


def active(mask: np.ndarray | None) -> list[int]:
    """The active lanes."""
    return list(range(32)) if mask is None else np.flatnonzero(mask).tolist()


def same(value: int | np.ndarray, mask: np.ndarray | None) -> int | None:
    """The value of all active lanes as an int, or None if they differ."""
    if not isinstance(value, np.ndarray):
        return int(value)
    chosen = value if mask is None else value[mask]
    first = chosen[0]
    return int(first) if chosen.size == 1 or (chosen == first).all() else None


def of_lane(value: int | np.ndarray, lane: int) -> int:
    """The value of one lane as an int."""
    return int(value[lane]) if isinstance(value, np.ndarray) else int(value)
