"""What goes along with the values of ordinary memory places: releases, for whoever acquires by reading them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .access import CLUSTER, CTA, GPU

if TYPE_CHECKING:
    from .access import Issuer
    from .clocks import Clock


class Flags:
    """Of each place (any key) what was released there, by who may see it: a CTA, a cluster, all.

    A release and an acquire meet where each is within the scope of the other. A read-modify-write hands on what was
    there; a plain write of another warp does not.
    """

    def __init__(self) -> None:
        self._released: dict[Any, dict[Any, Clock]] = {}
        self._by: dict[Any, Issuer] = {}

    def overwrite(self, place: Any, warp: Issuer) -> None:
        """A strong write by a warp that is no read-modify-write. What it released there before still goes along."""
        if place in self._released and self._by[place] is not warp:
            del self._released[place], self._by[place]

    def release(self, place: Any, warp: Issuer, clock: Clock, scope: int) -> None:
        """What `clock`, of the warp, has seen goes along with what stands at `place`."""
        told = self._released.setdefault(place, {})
        self._by.setdefault(place, warp)
        for _, key in _within(warp, scope):
            mine = clock.for_other_clusters() if key == GPU else clock
            if key in told:
                told[key].merge(mine)
            else:
                told[key] = mine.copy()

    def at(self, place: Any, warp: Issuer, scope: int) -> Iterator[tuple[int, Clock]]:
        """What a strong read of the warp sees at `place`, each with its scope."""
        told = self._released.get(place)
        if told is not None:
            for reach, key in _within(warp, scope):
                if key in told:
                    yield reach, told[key]

    def __bool__(self) -> bool:
        return bool(self._released)


def _within(warp: Issuer, scope: int) -> Iterator[tuple[int, Any]]:
    """The scopes up to this one, each with a name of who is in it."""
    keys = ((CTA, warp.cta.ctaid), (CLUSTER, (warp.cta.cluster_id,)), (GPU, GPU))
    return (pair for pair in keys if pair[0] <= scope)
