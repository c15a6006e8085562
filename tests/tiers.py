"""Parameters of tests that run only partly in `make test`."""

import math
from collections.abc import Iterable
from typing import Any

import pytest


def tier(every_run: bool, in_ci: bool = False) -> list[pytest.MarkDecorator]:
    """Return the marks of a parameter: for `make test`, else for `make test-all`, else for `make test-thorough`."""
    return [] if every_run else [pytest.mark.long] if in_ci else [pytest.mark.thorough]


def shortened(count: int, rows: Iterable[Any], in_ci: float = math.inf) -> list[Any]:
    """Leave rows of parameters behind the first `count` to `make test-all`, behind the first `in_ci` to a thorough run.

    A tuple has one value per parameter.
    """
    return [
        pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=tier(at < count, at < in_ci))
        for at, row in enumerate(rows)
    ]
