"""One BLAS thread while the emulator runs: its matrix products are small, two threads only get in their way."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy's own OpenBLAS use one thread inside. Where numpy came with another BLAS, nothing is done."""
    library = _openblas()
    if library is None:
        yield
        return
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(1)
    try:
        yield
    finally:
        library.scipy_openblas_set_num_threads64_(before)


@cache
def _openblas() -> Any:
    """The OpenBLAS that numpy's wheels bring along, if this is one."""
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    for path in folder.glob("libscipy_openblas64_*"):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "scipy_openblas_set_num_threads64_"):
            return library
    return None
