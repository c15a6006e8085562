"""Parameters of tests that run only partly in `make test`."""

from collections.abc import Iterable
from typing import Any

import pytest


def shortened(count: int, rows: Iterable[Any]) -> list[Any]:
    """Mark all but the first `count` rows of parameters long. A tuple has one value per parameter."""
    marks = pytest.mark.long
    return [
        row if number < count else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=marks)
        for number, row in enumerate(rows)
    ]
