"""A CTA and its cluster, as their memories and barriers know them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .access import Issuer, IssuerCta

if TYPE_CHECKING:
    from .history import History


class ClusterOwner(Protocol):
    """What orders the accesses of a cluster, and who waits in it."""

    history: History
    lookups: dict[Any, Any]
    """What was found by the addresses of mbarriers, and holds until one is taken away."""
    unchanged: int
    """Reads that found what they had found, since something else happened."""

    @property
    def warps(self) -> Sequence[Issuer]:
        """Of all its CTAs."""

    @property
    def running(self) -> int:
        """How many of them have not ended."""

    def wake(self, warps: Iterable[Any]) -> None:
        """Let warps run again whose wait has ended."""


class CtaOwner(IssuerCta, Protocol):
    """Where a memory or a barrier is, and whom it wakes."""

    rank: int
    window: int
    running: int
    """Warps that have not ended."""

    @property
    def cluster(self) -> ClusterOwner:
        """The cluster of the CTA."""
