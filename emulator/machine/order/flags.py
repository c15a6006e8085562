"""Releases attached to locations of ordinary memory, for warps that acquire by reading them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .access import CLUSTER, CTA, GPU, Issuer
from .clocks import Clock


def in_global_memory(address: int) -> Any:
    """Return the key of a location of global memory."""
    return id("global"), address


Released = dict[Any, "Clock"]
"""The clocks released at a location, by the CTA, cluster or device that may observe them."""


class Flags:
    """The clocks released at each location (any key), by the CTA, cluster or device that may observe them.

    A release synchronises with an acquire if each is within the scope of the other. A read-modify-write continues the
    release sequence; a plain write of another warp ends it.
    """

    def __init__(self) -> None:
        self._released: dict[Any, Released] = {}
        self._by: dict[Any, Issuer | None] = {}

    def overwrite(self, places: Iterable[Any], warp: Issuer) -> None:
        """Record a strong write that is no read-modify-write. The warp's own earlier releases there stay."""
        for place in places:
            # Release pattern: a read-modify-write continues the release sequence, a plain store of another warp ends it
            # (test_a_read_modify_write_hands_a_release_on_and_a_store_does_not).
            if place in self._released and self._by[place] is not warp:
                del self._released[place], self._by[place]

    def release(self, places: Iterable[Any], warp: Issuer, clock: Clock, scope: int) -> None:
        """Attach `clock` of the warp to the values at `places`."""
        released = [(key, clock.for_other_clusters() if key == GPU else clock) for _, key in within(warp, scope)]
        for place in places:
            clocks = self._released.setdefault(place, {})
            self._by.setdefault(place, warp)
            for key, mine in released:
                if key in clocks:
                    clocks[key].merge(mine)
                else:
                    clocks[key] = mine.copy()

    def seed(self, places: Iterable[Any], clock: Clock) -> None:
        """Attach a clock to values that another launch released to the whole device."""
        for place in places:
            self._by[place] = None
            clocks = self._released.setdefault(place, {})
            if GPU in clocks:
                clocks[GPU].merge(clock)
            else:
                clocks[GPU] = clock.copy()

    def of_the_device(self) -> list[Any]:
        """Return the locations with a release to the whole device."""
        return [place for place, clocks in self._released.items() if GPU in clocks]

    def released(self, place: Any) -> Released | None:
        """Return what is released at a location, for `observed`."""
        return self._released.get(place)

    def __bool__(self) -> bool:
        return bool(self._released)


def observed(released: Released | None, warp: Issuer, scope: int) -> Iterator[tuple[int, Clock]]:
    """Yield the clocks that a strong read of the warp observes of a released value, each with its scope."""
    for reach, key in within(warp, scope):
        if released is not None and key in released:
            yield reach, released[key]


def within(warp: Issuer, scope: int) -> Iterator[tuple[int, Any]]:
    """Return the scopes up to this one, each with a key for the warps in it."""
    keys = ((CTA, warp.cta.ctaid), (CLUSTER, (warp.cta.cluster_id,)), (GPU, GPU))
    # Morally strong: each of the two must be within the scope of the other (test_a_flag_that_lacks_something).
    return (pair for pair in keys if pair[0] <= scope)
