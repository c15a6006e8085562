"""A single BLAS thread during a launch: its products are too small for more, and spinning threads cost milliseconds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return getter and setter of the threads of the OpenBLAS that numpy loaded; None for another BLAS."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "openblas" in line}
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for get, put in NAMES:
            if hasattr(library, get) and hasattr(library, put):
                return getattr(library, get), getattr(library, put)
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the body with one BLAS thread."""
    known = _openblas()
    if known is None:
        yield
        return
    get, put = known
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)
