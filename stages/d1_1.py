"""D1.1: hd=64, one KV tile, P staged in tensor memory. The regression gate: every change must keep it."""

import pytest

from stages.case import Case
from stages.device import Device
from stages.hold import Book, hold, refuse_mutants

CASES = (Case("D1.1", head_dim=64, keys=128),)
SEEDS = (1, 2, 3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_holds(case: Case, seed: int, device: Device, book: Book) -> None:
    """The kernel lies within every pin, with the same bits in whatever order asynchronous work completes."""
    hold(case, seed, device, book)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refuses_mutants(case: Case, book: Book) -> None:
    """The same comparison refuses every wrong output."""
    refuse_mutants(case, SEEDS[0], book)
