"""Loads that find their bytes in L2, because a cluster loaded them some time ago."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

Box = tuple[int, ...]
Boxes = Mapping[int, Sequence[Box]]
"""The coordinates of the boxes that a cluster loads in order, by tensor address."""


@dataclass(frozen=True)
class Loads:
    """A cluster's loads. wave: the clusters of a wave begin when those of the wave before have ended."""

    wave: int
    boxes: Boxes


@dataclass(frozen=True)
class Reuse:
    """Shares of a tensor's loads. held: of bytes that L2 holds; fetched: of bytes that no cluster is fetching."""

    held: float
    fetched: float


def reused(
    before: Sequence[Loads],
    asked: Sequence[Loads],
    loaded: Mapping[int, float],
    stored: float,
    in_flight: float,
    capacity: float = inf,
) -> dict[int, Reuse]:
    """Return the hits in L2 of the loads of `asked`, by tensor address, if it keeps the last `capacity` bytes.

    loaded: the bytes of each tensor that a cluster loads; stored: the bytes that it stores. in_flight: the bytes that
    it loads at a time at most: what it loads while another cluster still does, both wait for. Below an infinite
    capacity, `before` and `asked` together are all clusters of some waves.
    """
    clusters, lag = [*before, *asked], in_flight / max(sum(loaded.values()), 1.0)

    def timed(some: Sequence[Loads], tensor: int) -> Sequence[tuple[Box, float]]:
        most = max(len(each.boxes.get(tensor, ())) for each in clusters)
        return [(box, each.wave + i / most) for each in some for i, box in enumerate(each.boxes.get(tensor, ()))]

    tensors = {tensor for each in asked for tensor in each.boxes}
    groups = {tensor: _groups(timed(clusters, tensor), lag) for tensor in tensors}
    waves = 1 + max(each.wave for each in clusters) - min(each.wave for each in clusters) if clusters else 1
    a_wave = len(clusters) * stored / waves
    for tensor, times in groups.items():
        sharers = fmean(number for starts in times.values() for _, number in starts)
        a_wave += len(clusters) * loaded[tensor] / sharers / waves
    found = {}
    for tensor, times in groups.items():
        held, fetched, loads = 0.0, 0.0, timed(asked, tensor)
        for box, time in loads:
            starts = [start for start, _ in times[box]]
            now = bisect_left(starts, time + 1e-9) - 1
            if now and (starts[now] - starts[now - 1]) * a_wave <= capacity:
                held += 1
            else:
                fetched += 1 / times[box][now][1]
        found[tensor] = Reuse(held / len(loads), fetched / len(loads))
    return found


def _groups(loads: Sequence[tuple[Box, float]], lag: float) -> Mapping[Box, Sequence[tuple[float, int]]]:
    """Return (time, number) of the loads of each box, those of a wave at once as one, in the order of time."""
    found = defaultdict[Box, list[tuple[float, int]]](list)
    for box, time in sorted(loads, key=lambda load: load[1]):
        first, count = found[box][-1] if found[box] else (-inf, 0)
        if time - first <= lag and int(time) == int(first):
            found[box][-1] = first, count + 1
        else:
            found[box].append((time, 1))
    return found
