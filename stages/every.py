"""What is asked of every milestone, with the cases and seeds of its module; that module has what is asked beside it."""

from stages.case import Case
from stages.device import Device
from stages.verify import Recorder, refuse_negative_controls, verify


def test_holds(case: Case, seed: int, device: Device, recorder: Recorder) -> None:
    """The kernel lies within every pin, with the same bits in whatever order, and writes nothing beside its outputs."""
    verify(case, seed, device, recorder)


def test_refuses_negative_controls(case: Case, seeds: tuple[int, ...], recorder: Recorder) -> None:
    """The same comparison refuses every wrong output."""
    refuse_negative_controls(case, seeds[0], recorder)
