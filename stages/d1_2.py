"""D1.2: many KV tiles at hd=64. Tile indexing of K and V, online softmax, O rescaled, any number of keys and rows."""

import pytest

from stages.case import Case
from stages.device import Device
from stages.hold import Book, hold, refuse_mutants

KEYS = (256, 384, 512, 1000, 1024, 1, 129, 0, 127)
CASES = (
    *(Case("D1.2", head_dim=64, keys=keys) for keys in KEYS),
    Case("D1.2", head_dim=64, keys=129, heads=70),
    *(Case("D1.2", head_dim=64, keys=512, trend=trend) for trend in ("growing", "falling", "constant")),
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
