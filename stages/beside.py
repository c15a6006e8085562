"""The test of cases that a milestone's run has from other milestones: accepted ones, or the one that it needs."""

from stages.case import Case
from stages.device import Device
from stages.verify import Recorder, verify


def test_still_holds(other: Case, seed: int, device: Device, recorder: Recorder) -> None:
    """Every metric is within its pin in one launch, for the fresh seed."""
    verify(other, seed, device, recorder, once=True)
