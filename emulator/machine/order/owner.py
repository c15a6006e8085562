"""A CTA and its cluster as their memories and barriers see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from .access import Issuer, IssuerCta
from .completion import Wait
from .history import History


class ClusterOwner(Protocol):
    """The cluster: its history, its warps, and those of them that wait."""

    history: History
    lookups: dict[Any, Any]
    """Results of mbarrier lookups by address. They hold until an mbarrier is invalidated."""
    unchanged: int
    """Consecutive reads that found an unchanged value, with no other progress in between."""
    running: int
    """The number of warps that have not ended."""

    @property
    def warps(self) -> Sequence[Issuer]:
        """The warps of all its CTAs."""

    def suspend(self, warp: Any, wait: Wait) -> None:
        """Let a warp wait."""

    def wake(self, warps: Iterable[Any]) -> None:
        """Make warps runnable again whose wait has ended."""


class CtaOwner(IssuerCta, Protocol):
    """The CTA that holds a memory or a barrier. smem: its shared memory."""

    rank: int
    smem: Any
    window: int
    running: int
    """The number of warps that have not ended."""

    @property
    def cluster(self) -> ClusterOwner:
        """The cluster of the CTA."""
