"""The result of a launch."""

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
    """The result of a launch that ran to its end.

    grid, block, cluster: in CTAs, threads and CTAs.
    seconds: the emulator's running time.
    stats: counts that do not depend on the machine; `emulator.Stats` has their units.
    findings: errors that the launch continued after, one per cause (diagnostics "report"), and formal findings.
    ptx: the launched module.
    test: the test that launched it, under pytest.
    prediction: the predicted time, under a clock. The outputs are then not computed, and stats are empty.
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
        """Number of warp-instructions executed."""
        return self.stats.instructions

    @property
    def by_warp(self) -> dict[int, int]:
        """Number of warp-instructions by warp index in the CTA, summed over all CTAs."""
        return self.stats.by_warp
