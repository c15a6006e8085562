"""Cells of tensor memory's shadow: the runs for compiled code name those of the index for numpy."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.chip import TMEM_COLUMNS
from emulator.machine.memory.tmem import GROUPS, rectangle

GROUPS_OF_ACCESSES = [slice(None), slice(0, None, 2), slice(1, None, 2), slice(2, 4), slice(0, 4), slice(5, 6)]


@pytest.mark.parametrize("groups", GROUPS_OF_ACCESSES, ids=str)
def test_runs_are_the_index(groups: slice) -> None:
    cells = rectangle(24, 8, groups)
    ((first, _, stride, runs, length, _),) = cells._kept[0].tolist()
    of_runs = first + stride * np.arange(runs)[:, None] + np.arange(length)
    number = np.arange(TMEM_COLUMNS * GROUPS).reshape(TMEM_COLUMNS, GROUPS)
    np.testing.assert_array_equal(np.sort(of_runs.reshape(-1)), np.sort(number[cells.index].reshape(-1)))
