"""A small product of matrices on the tensor core, and its operands in their shared-memory layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np

GEMM = (Path(__file__).parent / "pairs/gemm.ptx").read_text()


def bf16(values: np.ndarray) -> np.ndarray:
    """Return the bits of numbers that bf16 holds exactly."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def core_matrices(values: np.ndarray) -> np.ndarray:
    """Return [rows, K] as the core matrices of `GEMM`: [rows / 8, K / 8, 8, 8]."""
    rows, k = values.shape
    return np.ascontiguousarray(values.reshape(rows // 8, 8, k // 8, 8).transpose(0, 2, 1, 3))


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Return A [128, 16] and B [32, 16], small integers."""
    rng = np.random.default_rng(0)
    return rng.integers(-4, 5, (128, 16)).astype(np.float32), rng.integers(-4, 5, (32, 16)).astype(np.float32)
