"""Loads that find their bytes in L2, because a cluster loaded them some time ago."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
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

    def times(self, tensor: int) -> Sequence[tuple[Box, float]]:
        """Return each load of a tensor with its time, in waves from the start of the launch."""
        boxes = self.boxes.get(tensor, ())
        return [(box, self.wave + i / len(boxes)) for i, box in enumerate(boxes)]


@dataclass(frozen=True)
class Reuse:
    """Shares of a tensor's loads. held: of bytes that L2 holds; fetched: of bytes that no cluster is fetching."""

    held: float
    fetched: float


def reused(
    before: Sequence[Loads], asked: Sequence[Loads], loaded: Mapping[int, float], stored: float, capacity: float = inf
) -> dict[int, Reuse]:
    """Return the hits in L2 of the loads of `asked`, by tensor address, if it keeps the last `capacity` bytes.

    loaded: the bytes of each tensor that a cluster loads; stored: the bytes that it stores. Below an infinite capacity,
    `before` and `asked` together are all clusters of some waves.
    """
    clusters = [*before, *asked]
    groups = {tensor: _groups(clusters, tensor) for tensor in {tensor for each in asked for tensor in each.boxes}}
    waves = 1 + max(each.wave for each in clusters) - min(each.wave for each in clusters) if clusters else 1
    a_wave = len(clusters) * stored / waves
    for tensor, times in groups.items():
        entries = sum(len(each.boxes.get(tensor, ())) for each in clusters)
        sharers = entries / sum(map(len, times.values()))
        a_wave += len(clusters) * loaded[tensor] / sharers / waves
    found = {}
    for tensor, times in groups.items():
        loads = [load for each in asked for load in each.times(tensor)]
        held = fetched = 0.0
        for box, time in loads:
            starts = [start for start, _ in times[box]]
            now = bisect_left(starts, time + 1e-9) - 1
            if now and (starts[now] - starts[now - 1]) * a_wave <= capacity:
                held += 1
            else:
                fetched += 1 / times[box][now][1]
        found[tensor] = Reuse(held / len(loads), fetched / len(loads))
    return found


def _groups(clusters: Sequence[Loads], tensor: int) -> Mapping[Box, Sequence[tuple[float, int]]]:
    """Return (time, number) of the loads of each box, those at once as one, in the order of time."""
    times = defaultdict[Box, list[float]](list)
    for each in clusters:
        for box, time in each.times(tensor):
            times[box].append(time)
    found: dict[Box, list[tuple[float, int]]] = {}
    for box, loads in times.items():
        together = found.setdefault(box, [])
        for time in sorted(loads):
            if together and time - together[-1][0] <= AT_ONCE:
                together[-1] = together[-1][0], together[-1][1] + 1
            else:
                together.append((time, 1))
    return found
