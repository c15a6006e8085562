"""Tests that every milestone runs with the cases and seeds of its module. The module has the tests of its own."""

from stages.case import Case
from stages.device import Device
from stages.verify import Recorder, reject_negative_controls, verify


def test_holds(case: Case, seed: int, seeds: tuple[int, ...], device: Device, recorder: Recorder) -> None:
    """Every metric is within its pin, all completion modes give the same bits, and no guard element is overwritten.

    A seed of the milestone's own is launched once: it shows figures that can be compared between runs. The modes are
    for the fresh seed, which nobody knew.
    """
    verify(case, seed, device, recorder, once=seed in seeds)


def test_rejects_negative_controls(case: Case, seeds: tuple[int, ...], device: Device, recorder: Recorder) -> None:
    """The same comparison rejects every wrong output."""
    reject_negative_controls(case, seeds[0], device, recorder)
