"""What a launch was and did, for whoever made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import Fault
from ..machine.launch.launch import Dim3
from ..machine.launch.statistics import Stats

if TYPE_CHECKING:
    from ..clock.prediction import Prediction


@dataclass(frozen=True)
class LaunchResult:
    """One launch that ran to its end.

    grid, block, cluster: in CTAs, threads and CTAs. seconds: of this machine. stats: counts that are the same on every
    machine, see emulator.Stats for their units.
    findings: what it went on after, once for each cause: under diagnostics "report", and what is formal. ptx: the
    module that was launched. test: the one that launched it, under pytest. prediction: under a clock, what the launch
    would take; its outputs were not computed then, and stats are empty.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared_bytes: int
    seconds: float
    stats: Stats
    findings: tuple[Fault, ...]
    ptx: str = field(repr=False)
    test: str = ""
    prediction: Prediction | None = None

    @property
    def instructions(self) -> int:
        """Warp-instructions executed."""
        return self.stats.instructions

    @property
    def by_warp(self) -> dict[int, int]:
        """Warp-instructions by the warp's index in its CTA, over all CTAs."""
        return self.stats.by_warp
