"""D3: keys past a sequence's length are masked, and whatever lies there (NaN, Inf) never reaches the result."""

import pytest

from stages.case import Case
from stages.device import Device
from stages.hold import Book, hold, refuse_mutants

KEYS = 200
LENS = (KEYS, 129, 128, 127, 1, 0)
CASES = (
    Case("D3", head_dim=64, keys=KEYS, heads=16, tokens=3, batch=6, lens=LENS),
    Case("D3", head_dim=128, keys=KEYS, heads=64, batch=6, lens=LENS, p_path="smem"),
    Case("D3", head_dim=256, keys=KEYS, heads=16, batch=6, lens=LENS),
    Case("D3", head_dim=512, keys=KEYS, heads=16, tokens=2, batch=6, lens=LENS, shared_kv=True),
)
SEEDS = (1,)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_holds(case: Case, seed: int, device: Device, book: Book) -> None:
    """The kernel lies within every pin, with the same bits in whatever order asynchronous work completes."""
    hold(case, seed, device, book)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refuses_mutants(case: Case, book: Book) -> None:
    """The same comparison refuses every wrong output."""
    refuse_mutants(case, SEEDS[0], book)
