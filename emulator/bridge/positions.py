"""Source positions of CuTeDSL's operations, found once for each instruction of a Python function.

CuTeDSL finds the position anew for every operation that it builds: that takes 15% of a compile.
"""

from __future__ import annotations

from functools import lru_cache, wraps
from types import CodeType, FrameType, ModuleType
from typing import Any


def remember_positions(_cutlass: ModuleType) -> None:
    """Make CuTeDSL remember the position and module of a frame. Versions with other internals are left alone."""
    from cutlass._mlir_helpers import op

    if hasattr(op, "_fast_frameinfo"):
        op._fast_frameinfo = _remembered(op._fast_frameinfo)
    if hasattr(op, "_is_framework_module"):
        op._is_framework_module = lru_cache(maxsize=None)(op._is_framework_module)


def _remembered(find: Any) -> Any:
    """Return a function that gives the same as `find`, which depends on a frame's code and instruction alone."""
    known: dict[tuple[int, int], tuple[CodeType, Any]] = {}

    @wraps(find)
    def remembered(frame: FrameType) -> Any:
        key = id(frame.f_code), frame.f_lasti
        if key not in known:
            known[key] = frame.f_code, find(frame)  # a code that is kept alive shares its id with no other
        return known[key][1]

    return remembered
