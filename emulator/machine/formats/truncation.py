"""Sums with the tensor core's rounding: aligned to the largest term, cut to 25 fractional bits, rounded toward zero.

This is the model of tcgen05.mma for f16, bf16, tf32 and smaller floats that arXiv 2511.10909 derives from outputs. It
excludes kinds with scale factors or integers. An H200 gives the same bits (docs/explanation/silicon.md), except
that with 8-bit floats it keeps 13 fractional bits of terms and of a float32 result. The paper alone says that tcgen05
keeps 25.
"""

from __future__ import annotations

import numpy as np

from .descriptors import BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, TF32, ElementType

FRACTION_BITS = 25
"""Fractional bits of a term, counted from the binary point of the term with the largest exponent."""
LOWEST = {F16: -14, BF16: -126, TF32: -126, E4M3: -6, E5M2: -14, E2M3: 0, E3M2: -2, E2M1: 0}
"""The exponent of each type's subnormals. A product's exponent is the sum of its factors', not normalised."""
LOWEST_F32 = -126
SIGNIFICAND_BITS = 23
NAN = np.uint32(0x7FFF_FFFF)


def truncated_sum(
    b: np.ndarray,
    a: np.ndarray,
    types: tuple[ElementType, ElementType],
    c: np.ndarray | None,
    step: int,
    half: bool,
    fraction_bits: int = FRACTION_BITS,
) -> np.ndarray:
    """Return C + B A as float32[N, M], rounded toward zero after each `step` elements of K.

    b: float32[N, K], a: float32[K, M], of values that their `types` hold. c: float32[N, M], None for zeros. half:
    round to the nearest f16 instead. fraction_bits: the bits kept of each term, and at most of a float32 result.
    """
    total = np.zeros((b.shape[0], a.shape[1]), np.float32) if c is None else c
    exponents_b, exponents_a = (_exponents(x, LOWEST[t]) for x, t in zip((b, a), types, strict=True))
    for first in range(0, b.shape[1], step):
        k = slice(first, first + step)
        exponents = exponents_b[:, k, None] + exponents_a[None, k]
        with np.errstate(invalid="ignore"):
            terms = b[:, k, None].astype(np.float64) * a[None, k]
        total = _one_step(terms, exponents, total, half, fraction_bits)
    return total


def _one_step(terms: np.ndarray, exponents: np.ndarray, c: np.ndarray, half: bool, fraction_bits: int) -> np.ndarray:
    """Return C plus the sum of terms float64[N, step, M] with their exponents, as float32[N, M]."""
    with np.errstate(invalid="ignore", over="ignore"):
        plain = terms.sum(1) + c
        largest = np.where(terms == 0, LOWEST_F32, exponents).max(1)
        largest = np.maximum(largest, _exponents(c, LOWEST_F32))
        shift = fraction_bits - largest
        units = np.trunc(np.ldexp(terms, shift[:, None])).sum(1) + np.trunc(np.ldexp(c.astype(np.float64), shift))
        exact = np.ldexp(units, -shift)
        rounded = exact.astype(np.float16).astype(np.float32) if half else toward_zero(exact, fraction_bits)
    return np.where(np.isfinite(plain), rounded, _special(plain))


def _exponents(values: np.ndarray, lowest: int) -> np.ndarray:
    """Return int32 exponents of significands in [1, 2), not below `lowest`."""
    return np.where(values == 0, lowest, np.maximum(np.frexp(values)[1] - 1, lowest)).astype(np.int32)


def toward_zero(exact: np.ndarray, fraction_bits: int = SIGNIFICAND_BITS) -> np.ndarray:
    """Round float64 toward zero to float32 with at most `fraction_bits` fractional bits, or infinity from 2^128 on."""
    unit = min(SIGNIFICAND_BITS, fraction_bits) - _exponents(exact, LOWEST_F32)
    rounded: np.ndarray = np.ldexp(np.trunc(np.ldexp(exact, unit)), -unit)
    return rounded.astype(np.float32)


def _special(plain: np.ndarray) -> np.ndarray:
    """Return infinities unchanged, NaN with the tensor core's bits."""
    nan = np.full(plain.shape, NAN, np.uint32).view(np.float32)
    return np.where(np.isnan(plain), nan, np.copysign(np.float32(np.inf), plain).astype(np.float32))
