"""A reference for PTX's reductions of arrays, written independently of the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

KINDS: dict[str, type[np.number[Any]]] = {
    "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32, "b64": np.uint64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16,
}  # fmt: skip
"""The numpy type that holds each PTX type's bits."""
BF16 = np.arange(0x7F80, dtype=np.uint32)
BF16_VALUES = (BF16 << 16).view(np.float32).astype(np.float64)


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Round to bf16, ties to even."""
    above = np.searchsorted(BF16_VALUES, np.abs(values)).clip(1)
    low, high = np.abs(values) - BF16_VALUES[above - 1], BF16_VALUES[above] - np.abs(values)
    code = np.where((high < low) | ((high == low) & (above % 2 == 0)), above, above - 1)
    return (code | (np.signbit(values) << 15)).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def draw(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw numbers of a type, many of them equal or near the ends of its range."""
    dtype: Any = KINDS[kind]
    if np.issubdtype(dtype, np.integer) and kind != "bf16":
        info = np.iinfo(dtype)
        ends = np.array([0, 1, 5, info.max, info.min, info.max - 2], dtype)
        return np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), rng.integers(0, 9, shape).astype(dtype))
    values = rng.integers(-999, 999, shape) / 64
    return bf16_bits(values) if kind == "bf16" else values.astype(dtype)


def reduced(operation: str, kind: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return `old` (the value in memory) reduced with `new`."""
    if kind == "bf16":
        return bf16_bits(reduced(operation, "f64", bf16_values(old), bf16_values(new)))
    match operation:
        case "inc":
            return np.where(old >= new, 0, old + np.uint32(1)).astype(old.dtype)
        case "dec":
            return np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(old.dtype)
        case "add" if kind == "f16":
            return (old.astype(np.float64) + new.astype(np.float64)).astype(np.float16)
    folds: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b, "min": np.minimum, "max": np.maximum,
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    }  # fmt: skip
    result: np.ndarray = folds[operation](old, new)
    return result
