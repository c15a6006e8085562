"""Operand values as handlers receive them: one value for all lanes, or one per lane."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..chip import LANES

ALL_LANES: Final = tuple(range(LANES))


def active_lanes(mask: np.ndarray | None) -> Sequence[int]:
    """Return the active lanes. The result is shared and must not be modified."""
    return ALL_LANES if mask is None else _set_lanes(mask.tobytes())


@lru_cache(maxsize=1024)
def _set_lanes(mask: bytes) -> Sequence[int]:
    return tuple(lane for lane, active in enumerate(mask) if active)


def same(value: int | np.ndarray, mask: np.ndarray | None) -> int | None:
    """Return the common value of all active lanes as an int, or None if they differ."""
    if not isinstance(value, np.ndarray):
        return int(value)
    chosen = value if mask is None else value[mask]
    raw, width = chosen.tobytes(), chosen.itemsize
    return int(chosen[0]) if raw == raw[:width] * chosen.size else None  # ten times faster than numpy's all()


def of_lane(value: int | np.ndarray, lane: int) -> int:
    """Return the value of one lane as an int."""
    if type(value) is int:  # the common case
        return value
    return int(value[lane]) if isinstance(value, np.ndarray) else int(value)


def per_lane(value: Any, dtype: Any) -> np.ndarray:
    """Return a value as an array [32] of the unsigned `dtype`. A single int (also negative) is broadcast."""
    if isinstance(value, np.ndarray):
        return value
    return np.full(LANES, value & np.iinfo(dtype).max, dtype)


def lane_rows(value: Any, count: int, dtype: np.dtype) -> np.ndarray:
    """Return a value or vector of values as unsigned[32, count]."""
    if isinstance(value, np.ndarray):
        return value.reshape(count, 32).T.astype(dtype, copy=False)
    items = value if isinstance(value, tuple) else (value,)
    low = (1 << 8 * dtype.itemsize) - 1
    return np.broadcast_to(np.array([v & low for v in items], dtype), (32, count))


def matrix(source: Any) -> np.ndarray:
    """Return a vector operand as uint32[registers, 32]."""
    if isinstance(source, np.ndarray):
        return source.reshape(-1, 32)
    values = np.array(source if isinstance(source, tuple) else (source,), np.uint32)
    return np.broadcast_to(values[:, None], (values.size, 32))
