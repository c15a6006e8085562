"""Pauses of Python's garbage collector, which is slow when torch and CuTeDSL are loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector while long-lived objects are created: it would traverse all of them repeatedly."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
