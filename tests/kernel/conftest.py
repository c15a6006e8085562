"""Tests of the kernel compile each configuration once between them."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kept(kept_kernels: None) -> None:
    """For all tests here."""
