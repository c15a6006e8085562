"""Loads that find their bytes in L2, because a cluster loaded them some time ago."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 0.02
"""The share of a cluster's loads by which one of two concurrent clusters may lag behind the other: bytes that one of
them is fetching from HBM, the other waits for as well."""
Box = tuple[int, ...]
Boxes = Mapping[int, Sequence[Box]]
"""The coordinates of the boxes that a cluster loads in order, by tensor address."""


@dataclass(frozen=True)
class Loads:
    """A cluster's loads. wave: the clusters of a wave begin when those of the wave before have ended."""

    wave: int
    boxes: Boxes

    def first(self, tensor: int) -> Mapping[Box, float]:
        """Return the time of the cluster's first load of each box, in waves from the start of the launch."""
        boxes = self.boxes[tensor]
        return {box: self.wave + i / len(boxes) for i, box in reversed([*enumerate(boxes)])}


def held_before(clusters: Sequence[Loads], asked: Sequence[Loads]) -> dict[int, float]:
    """Return the share of the loads of `asked` whose bytes `clusters` loaded before, by tensor address."""
    shares: dict[int, float] = {}
    for tensor in {tensor for each in asked for tensor in each.boxes}:
        earliest: dict[Box, float] = {}
        for each in clusters:
            for box, time in each.first(tensor).items() if tensor in each.boxes else ():
                earliest[box] = min(time, earliest.get(box, time))
        times = [
            earliest[box] < each.wave + i / len(boxes) - AT_ONCE
            for each in asked
            if (boxes := each.boxes.get(tensor))
            for i, box in enumerate(boxes)
            if box in earliest
        ]
        count = sum(len(each.boxes.get(tensor, ())) for each in asked)
        shares[tensor] = sum(times) / count
    return shares
