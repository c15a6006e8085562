"""The roles of a CTA's warps."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.errors import ArgumentError
from kernel.hardware import WARPGROUP

SLICES = 4  # of a KV tile if it is loaded in slices


@dataclass(frozen=True)
class Roles:
    """The warps of each role. Every participant count is the length of one of these tuples.

    softmax: four consecutive warps from a multiple of four per Q tile in flight, because a warp reaches only the
    quarter of tensor memory's lanes with its number modulo four. mma: one warp. load: the warps that load K, one per
    slice of a KV tile. values: as many for V. If V is read as K they are idle, except that the first one loads rotary
    columns that V lacks. queries: the warp that loads Q; if there is none, the load warp does.
    Raises ArgumentError for other roles.
    """

    softmax: tuple[int, ...] = (0, 1, 2, 3)
    mma: tuple[int, ...] = (4,)
    load: tuple[int, ...] = (5,)
    values: tuple[int, ...] = (6,)
    queries: tuple[int, ...] = (7,)

    def __post_init__(self) -> None:
        first = self.softmax[0] if self.softmax else 0
        if first % WARPGROUP or self.softmax not in (
            tuple(range(first, first + n)) for n in (WARPGROUP, 2 * WARPGROUP)
        ):
            raise ArgumentError("softmax", self.softmax, "four or eight consecutive warps from a multiple of four")
        if len(self.mma) != 1:
            raise ArgumentError("mma", self.mma, "one warp")
        if len(self.load) != len(self.values) or len(self.load) not in (1, SLICES):
            raise ArgumentError("load", self.load + self.values, f"one warp for K and one for V, or {SLICES} for each")
        if len(self.queries) > 1 or len(self.queries) < len(self.load) // SLICES:
            raise ArgumentError("queries", self.queries, f"one warp, or none unless {SLICES} warps load K")
        if len({*self.warps}) < len(self.warps):
            raise ArgumentError("roles", self.warps, "one role per warp")

    @property
    def warps(self) -> tuple[int, ...]:
        """All warps with a role."""
        return self.softmax + self.mma + self.load + self.values + self.queries
