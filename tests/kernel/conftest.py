"""Tests of the kernel compile each configuration once between them."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kept(kept_kernels: None) -> None:
    """For all tests here."""


@pytest.fixture(autouse=True)
def _new_plans() -> Iterator[None]:
    """Every test chooses its configurations and compiles them itself: some replace what does."""
    yield
    from kernel import plan

    plan.clear()
